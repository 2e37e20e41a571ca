package token

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestAdopt holds that the secret of a token of another store becomes one of this
// store with claims of its own, until it is revoked, and that what is no secret is
// refused without a word of it.
func TestAdopt(t *testing.T) {
	elsewhere, s := open(t, t.TempDir()), open(t, t.TempDir())
	secret, _ := make1(t, elsewhere, acme())
	wantRefused(t, s, secret, unknown)
	for range 2 { // as often as a daemon starts
		id, err := s.Adopt(secret, Claims{Role: Admin, Note: "of a file"})
		must(t, err)
		got := wantGood(t, s, secret)
		if got.ID != id || got.Role != Admin || got.Tenant != "" || !got.Expires.IsZero() {
			t.Errorf("got %+v", got)
		}
	}
	_, err := s.Revoke(wantGood(t, s, secret).ID)
	must(t, err)
	wantRefused(t, s, secret, unknown)
	for _, bad := range []string{"", "password", secret[1:], secret + "x"} {
		if _, err := s.Adopt(bad, Claims{Role: Admin}); sandbox.CodeOf(err) != sandbox.CodeValidation || bad != "" && strings.Contains(err.Error(), bad) {
			t.Errorf("Adopt(%q): %v", bad, err)
		}
	}
	if _, err := s.Adopt(secret, Claims{Role: Admin, Tenant: "acme"}); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("claims that mean nothing: %v", err)
	}
}
