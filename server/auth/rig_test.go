package auth

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

func openStore(t testing.TB) *token.Store {
	t.Helper()
	s, err := token.Open(filepath.Join(t.TempDir(), "tokens"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func mint(t testing.TB, s *token.Store, c token.Claims) (secret, id string) {
	t.Helper()
	secret, id, err := s.Create(c)
	if err != nil {
		t.Fatal(err)
	}
	return secret, id
}

// An answer is the result of Identify for a request over a socket.
type answer struct {
	caller Caller
	err    error
}

// served starts a server on l that answers with the result of Identify, and
// returns a function that sends one request.
func served(t *testing.T, store *token.Store, l net.Listener) func(change func(*http.Request)) answer {
	t.Helper()
	answers := make(chan answer, 1)
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		c, err := Identify(store, r)
		answers <- answer{c, err}
	}))
	srv.Listener.Close()
	srv.Listener = l
	srv.Config.ConnContext = ConnContext
	srv.Start()
	t.Cleanup(srv.Close)
	client := &http.Client{Transport: &http.Transport{
		DisableKeepAlives: true,
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			var d net.Dialer
			return d.DialContext(ctx, l.Addr().Network(), l.Addr().String())
		},
	}}
	return func(change func(*http.Request)) answer {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/v1/sandboxes", nil)
		if err != nil {
			t.Fatal(err)
		}
		if change != nil {
			change(r)
		}
		res, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		select {
		case a := <-answers:
			return a
		case <-time.After(time.Minute):
			t.Fatal("the handler was not asked")
			return answer{}
		}
	}
}

func overUnix(t *testing.T, store *token.Store) func(func(*http.Request)) answer {
	t.Helper()
	l, err := net.Listen("unix", filepath.Join(t.TempDir(), "d.sock"))
	if err != nil {
		t.Fatal(err)
	}
	return served(t, store, l)
}

func overTCP(t *testing.T, store *token.Store) func(func(*http.Request)) answer {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return served(t, store, l)
}

func bearing(secret string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set("Authorization", "Bearer "+secret) }
}

// wantRefusal holds that the answer is a 401 that contains says and does not
// contain secret.
func wantRefusal(t *testing.T, a answer, says, secret string) {
	t.Helper()
	challenge, ok := Challenge(a.err)
	if !ok || !strings.HasPrefix(challenge, "Bearer ") || !strings.Contains(a.err.Error(), says) {
		t.Errorf("got %+v and %v (challenge %q), want a refusal that says %q", a.caller, a.err, challenge, says)
	}
	if a.caller != (Caller{}) {
		t.Errorf("a refused caller is %+v", a.caller)
	}
	if a.err != nil && secret != "" && strings.Contains(a.err.Error(), secret[4:12]) {
		t.Errorf("the error tells of the secret: %v", a.err)
	}
}

func wantCode(t *testing.T, err error, code sandbox.Code, field string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		t.Errorf("got %v, want code %s and field %q", err, code, field)
	}
}
