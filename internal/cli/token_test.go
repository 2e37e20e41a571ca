package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// fakeTokens returns what a test sets and notes what it is asked.
type fakeTokens struct {
	listing  token.Listing
	parent   token.Token // of every id
	made     token.Claims
	revoked  []string
	err      error // of the second token to be revoked
	released bool
}

const (
	fakeSecret = "sbx_secret"
	fakeID     = "00112233445566778899"
)

func (f *fakeTokens) Create(_ context.Context, c token.Claims) (string, token.Token, error) {
	f.made = c
	return fakeSecret, token.Token{ID: fakeID, Claims: c, Created: time.Date(2026, 11, 21, 3, 0, 0, 0, time.UTC)}, nil
}

func (f *fakeTokens) Get(context.Context, string) (token.Token, error) { return f.parent, nil }

func (f *fakeTokens) List(context.Context) (token.Listing, error) { return f.listing, nil }

func (f *fakeTokens) Revoke(_ context.Context, id string) ([]string, error) {
	if len(f.revoked) > 0 && f.err != nil {
		return nil, f.err
	}
	f.revoked = append(f.revoked, id)
	return []string{id, "child-of-" + id}, nil
}

func withTokens() *fake {
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	f := &fake{}
	f.tokens.listing.Tokens = []token.Listed{
		{Token: token.Token{ID: "aa", Claims: token.Claims{Role: token.Session, Tenant: "acme", Agent: "main", Session: "chat-42", Expires: at.Add(time.Hour), Parent: "bb"}, Created: at}},
		{Token: token.Token{ID: "bb", Claims: token.Claims{Role: token.Tenant, Tenant: "acme", Note: "the web shop"}, Created: at.Add(-time.Hour)}},
		{Token: token.Token{ID: "cc", Claims: token.Claims{Role: token.Admin, Expires: at}, Created: at.Add(-2 * time.Hour)}, Refused: "it has expired"},
	}
	return f
}

func TestTokenList(t *testing.T) {
	r := call(t, withTokens(), "token", "list")
	if r.status != 0 || r.stderr != "" {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	golden(t, "token_list", r.stdout)
	f := withTokens()
	r = call(t, f, "token", "list", "--tenant", "acme", "-o", "json")
	var got struct {
		Tokens []map[string]any `json:"tokens"`
	}
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Tokens) != 2 || got.Tokens[0]["parent"] != "bb" || !f.tokens.released {
		t.Errorf("%v: %s", err, r.stdout)
	}
}

func TestTokenListTellsOfDamage(t *testing.T) {
	f := withTokens()
	f.tokens.listing.Damaged = []string{"/state/tokens/" + hostile}
	r := call(t, f, "token", "list")
	if r.status != 1 || !strings.Contains(r.stdout, "the web shop") || !strings.Contains(r.stderr, "is damaged or no token") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

func TestTokensAreSafeToShow(t *testing.T) {
	f := withTokens()
	one := &f.tokens.listing.Tokens[0]
	one.ID, one.Tenant, one.Agent, one.Session, one.Parent, one.Note, one.Refused, one.Role = hostile, hostile, hostile, hostile, hostile, hostile, hostile, token.Role(hostile)
	f.tokens.listing.Damaged = []string{hostile}
	for _, format := range []string{"table", "json"} {
		got := call(t, f, "token", "list", "-o", format)
		for _, c := range got.stdout + got.stderr {
			if c != '\n' && !termsafe.Safe(c) {
				t.Errorf("%s holds %U", format, c)
			}
		}
	}
}

func TestTokenCreate(t *testing.T) {
	some := tenant.NoLimits().With(tenant.Memory, 2<<30).With(tenant.NanoCPUs, 15e8).With(tenant.RequestsPerSecond, 5)
	below := tenant.Limits{Sandboxes: 1, Commands: 7}
	once, less := budget.NoBound(), budget.Amount{Calls: 3, BytesIn: 9}
	once.Calls, once.BytesIn = 1000, 2<<30
	for _, tt := range []struct {
		args string
		want token.Claims
		ends time.Duration // 0: none is said
	}{
		{"--tenant acme", token.Claims{Role: token.Tenant, Tenant: "acme"}, 0},
		{"--role admin --expires never", token.Claims{Role: token.Admin, Endless: true}, 0},
		{"--tenant acme --agent main --expires 8h --note shop", token.Claims{Role: token.Tenant, Tenant: "acme", Agent: "main", Note: "shop"}, 8 * time.Hour},
		{"--tenant acme --role session --session s", token.Claims{Role: token.Session, Tenant: "acme", Session: "s"}, 0},
		{"--parent 0a", token.Claims{Role: token.Tenant, Parent: "0a"}, 0},
		{"--tenant a --expires never --quota memory=2g --quota cpus=1.5 --quota requestsPerSecond=5", token.Claims{Role: token.Tenant, Tenant: "a", Endless: true, Quota: &some}, 0},
		{"--tenant a --expires never --budget calls=1000 --budget bytesIn=2g", token.Claims{Role: token.Tenant, Tenant: "a", Endless: true, Budget: &once}, 0},
		{"--parent 0a --budget calls=3", token.Claims{Role: token.Tenant, Parent: "0a", Budget: &less}, 0},
		{"--parent 0a --role session --session s --quota sandboxes=1", token.Claims{Role: token.Session, Session: "s", Parent: "0a", Quota: &below}, 0},
	} {
		f := &fake{}
		f.tokens.parent.Quota = &tenant.Limits{Sandboxes: 3, Commands: 7}
		f.tokens.parent.Budget = &budget.Amount{Calls: 5, BytesIn: 9}
		began := time.Now()
		r := call(t, f, append([]string{"token", "create"}, strings.Fields(tt.args)...)...)
		if r.status != 0 || r.stdout != fakeSecret+"\n" || !strings.Contains(r.stderr, fakeID) || strings.Contains(r.stderr, fakeSecret) {
			t.Errorf("%s: status %d: %q %q", tt.args, r.status, r.stdout, r.stderr)
		}
		got := f.tokens.made
		if from := got.Expires.Sub(began); tt.ends == 0 != got.Expires.IsZero() || tt.ends > 0 && (from < tt.ends || from > tt.ends+time.Minute) {
			t.Errorf("%s: it expires %v", tt.args, got.Expires)
		}
		got.Expires = time.Time{}
		if d := cmp.Diff(tt.want, got, cmp.AllowUnexported(budget.Amount{})); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, d)
		}
	}
	r := call(t, &fake{}, "token", "create", "--tenant", "acme", "-o", "json")
	var got map[string]any
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || got["token"] != fakeSecret || got["id"] != fakeID || got["tenant"] != "acme" || r.stderr != "" {
		t.Errorf("%v: %s%s", err, r.stdout, r.stderr)
	}
}

func TestTokenRevoke(t *testing.T) {
	f := &fake{}
	r := call(t, f, "token", "revoke", "0a", "0b")
	if r.status != 0 || r.stdout != "revoked 4 tokens: 0a child-of-0a 0b child-of-0b\n" || r.stderr != "" {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	f = &fake{}
	f.tokens.err = &sandbox.Error{Code: sandbox.CodeNotFound, Message: "there is no token 0b"}
	r = call(t, f, "token", "revoke", "0a", "0b")
	if r.status == 0 || r.stdout != "revoked 2 tokens: 0a child-of-0a\n" || !strings.Contains(r.stderr, "no token 0b") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestTokensThroughADaemon checks that a token which a daemon derives from the
// token of the request takes its owner and its lifetime from that token.
func TestTokensThroughADaemon(t *testing.T) {
	t.Setenv("SANDBOX_HOST", "unix:/run/daemon.sock")
	f := withTokens()
	if r := call(t, f, "token", "create"); r.status != 2 || !strings.Contains(r.stderr, "--tenant") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	if r := call(t, f, "token", "create", "--tenant", "acme"); r.status != 0 || f.tokens.made.Tenant != "acme" || !f.options.Host.Remote() {
		t.Errorf("without a token: status %d: %s, %+v", r.status, r.stderr, f.tokens.made)
	}
	t.Setenv("SANDBOX_TOKEN", "sbx_mine")
	if r := call(t, f, "token", "create"); r.status != 0 || !f.tokens.made.Expires.IsZero() || f.tokens.made.Tenant != "" || f.options.Host.Token != "sbx_mine" {
		t.Errorf("with a token: status %d: %s, %+v", r.status, r.stderr, f.tokens.made)
	}
	if r := call(t, f, "token", "create", "--expires", "never"); r.status != 0 || !f.tokens.made.Endless {
		t.Errorf("for ever: status %d: %s", r.status, r.stderr)
	}
	for _, args := range [][]string{{"token", "list"}, {"token", "revoke", "aa"}, {"violations", "list"}, {"evidence", "list"}, {"evidence", "verify"}} {
		f := withTokens()
		if r := call(t, f, args...); r.status != 0 || !f.options.Host.Remote() {
			t.Errorf("%v: status %d: %s, host %+v", args, r.status, r.stderr, f.options.Host)
		}
	}
	if r := call(t, withTokens(), "evidence", "replay"); r.status != 125 || !strings.Contains(r.stderr, "SANDBOX.UNSUPPORTED") || !strings.Contains(r.stderr, "settings") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
}
