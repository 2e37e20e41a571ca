package token

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestMain, as the process that revokeElsewhere starts, revokes and ends.
func TestMain(m *testing.M) {
	if dir := os.Getenv("REVOKE_IN"); dir != "" {
		s, err := Open(dir)
		if err == nil {
			_, err = s.Revoke(os.Getenv("REVOKE_ID"))
		}
		if err != nil {
			os.Stderr.WriteString(err.Error())
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

func open(t testing.TB, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func make1(t testing.TB, s *Store, c Claims) (secret, id string) {
	t.Helper()
	secret, id, err := s.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	return secret, id
}

func wantGood(t testing.TB, s *Store, secret string) Token {
	t.Helper()
	got, err := s.Verify(secret)
	if err != nil {
		t.Errorf("a good token: %v", err)
	}
	return got
}

// wantRefused checks that the secret is not valid, and that the error does not
// contain it.
func wantRefused(t testing.TB, s *Store, secret, says string) {
	t.Helper()
	got, err := s.Verify(secret)
	if !Refused(err) || !strings.Contains(err.Error(), says) || got.ID != "" || got.Role != "" {
		t.Errorf("got %+v and %v, want a refusal that says %q", got, err, says)
	}
	wantNoPart(t, err, secret)
}

// wantNoPart holds that an error holds nothing of a secret.
func wantNoPart(t testing.TB, err error, secret string) {
	t.Helper()
	for n := len(prefix); n+8 <= len(secret); n++ {
		if err != nil && strings.Contains(err.Error(), secret[n:n+8]) {
			t.Fatalf("the error holds a part of the secret: %v", err)
		}
	}
}

func wantCode(t testing.TB, err error, code sandbox.Code, field string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		t.Errorf("got %v, want %s of %q", err, code, field)
	}
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// files returns the names in the folder of the tokens.
func files(t testing.TB, s *Store) []string {
	t.Helper()
	entries, err := os.ReadDir(s.dir)
	must(t, err)
	var out []string
	for _, e := range entries {
		if e.Name() != statedir.FileName {
			out = append(out, e.Name())
		}
	}
	return out
}

// contents returns the contents of all files of the folder, with their names.
func contents(t testing.TB, s *Store) string {
	t.Helper()
	var out strings.Builder
	for _, name := range files(t, s) {
		data, err := os.ReadFile(filepath.Join(s.dir, name))
		must(t, err)
		out.WriteString(name + "\n" + string(data))
	}
	return out.String()
}

func soon() time.Time { return time.Now().Add(time.Hour) }

// acme is the claims of a token that most tests start from.
func acme() Claims { return Claims{Role: Tenant, Tenant: "acme"} }

// chat is the claims of a token for one session.
func chat(parent string) Claims {
	return Claims{Role: Session, Tenant: "acme", Session: "chat-42", Expires: soon(), Parent: parent}
}
