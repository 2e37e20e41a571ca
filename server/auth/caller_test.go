package auth

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

func TestSocketPeerIsAdmin(t *testing.T) {
	send := overUnix(t, openStore(t))
	a := send(nil)
	if a.err != nil || a.caller.Role != token.Admin || !a.caller.Local || a.caller.Token != nil {
		t.Errorf("got %+v and %v, want a local admin", a.caller, a.err)
	}
}

func TestSocketPeerOfOthersIsNobody(t *testing.T) {
	tests := []struct {
		name string
		peer peer
		own  int
		want bool
	}{
		{"our own user", peer{uid: 1000, known: true}, 1000, true},
		{"root", peer{known: true}, 1000, true},
		{"another user", peer{uid: 1001, known: true}, 1000, false},
		{"another user, and we are root", peer{uid: 1001, known: true}, 0, false},
		{"nobody knows", peer{}, 0, false},
		{"our own user in another namespace", peer{uid: 1000, known: true, alien: true}, 1000, false},
		{"root in another namespace", peer{known: true, alien: true}, 0, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.peer.trusted(tt.own); got != tt.want {
				t.Errorf("trusted is %v, want %v", got, tt.want)
			}
		})
	}
}

func TestTokenCountsOnEverySocket(t *testing.T) {
	store := openStore(t)
	claims := token.Claims{Role: token.Session, Tenant: "acme", Agent: "main", Session: "chat-1", Expires: time.Now().Add(time.Hour)}
	secret, id := mint(t, store, claims)
	for name, send := range map[string]func(func(*http.Request)) answer{"unix": overUnix(t, store), "tcp": overTCP(t, store)} {
		t.Run(name, func(t *testing.T) {
			a := send(bearing(secret))
			c := a.caller
			if a.err != nil || c.Role != token.Session || c.Tenant != "acme" || c.Agent != "main" || c.Session != "chat-1" || c.Token.ID != id || c.Local != (name == "unix") {
				t.Errorf("got %+v and %v, want the token's session", c, a.err)
			}
		})
	}
}

func TestRefusals(t *testing.T) {
	store := openStore(t)
	secret, _ := mint(t, store, token.Claims{Role: token.Tenant, Tenant: "acme"})
	lost, lostID := mint(t, store, token.Claims{Role: token.Admin})
	if _, err := store.Revoke(lostID); err != nil {
		t.Fatal(err)
	}
	header := func(values ...string) func(*http.Request) {
		return func(r *http.Request) { r.Header["Authorization"] = values }
	}
	query := func(q string) func(*http.Request) {
		return func(r *http.Request) { bearing(secret)(r); r.URL.RawQuery = q }
	}
	cookie := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { bearing(secret)(r); r.AddCookie(&http.Cookie{Name: name, Value: value}) }
	}
	both := []struct {
		name   string
		change func(*http.Request)
		says   string
	}{
		{"not known", bearing(lost), "not known"},
		{"mistyped", bearing(secret[:len(secret)-1] + "!"), "mistyped"},
		{"two headers", header("Bearer "+secret, "Bearer "+secret), "more than one"},
		{"two headers, one empty", header("Bearer "+secret, ""), "more than one"},
		{"empty header", header(""), "no bearer token"},
		{"only the scheme", header("Bearer"), "no bearer token"},
		{"no token after the scheme", header("Bearer "), "no bearer token"},
		{"another scheme", header("Basic " + secret), "no bearer token"},
		{"no scheme", header(secret), "no bearer token"},
		{"two tokens in one header", header("Bearer " + secret + ", Bearer " + secret), "mistyped"},
		{"more after the token", header("Bearer " + secret + " x"), "mistyped"},
		{"two spaces", header("Bearer  " + secret), "mistyped"},
		{"in the query", query("access_token=" + secret), "query"},
		{"in the query under any name", query("x=" + secret), "query"},
		{"in the query as a name", query(secret + "=1"), "query"},
		{"in the query with escapes", query("x=%73bx%5f" + secret[4:]), "query"},
		{"in a query that does not parse", query("x=%zz;" + secret), "query"},
		{"not one of ours in the query", query("Access-Token=abc"), "query"},
		{"in a cookie", cookie("sid", secret), "cookie"},
		{"not one of ours in a cookie", cookie("token", "abc"), "cookie"},
	}
	for name, send := range map[string]func(func(*http.Request)) answer{"unix": overUnix(t, store), "tcp": overTCP(t, store)} {
		for _, tt := range both {
			t.Run(name+"/"+tt.name, func(t *testing.T) { wantRefusal(t, send(tt.change), tt.says, secret) })
		}
	}
	t.Run("tcp/no token", func(t *testing.T) { wantRefusal(t, overTCP(t, store)(nil), "no token", "") })
	t.Run("tcp/no token from the command line", func(t *testing.T) { wantRefusal(t, overTCP(t, store)(nil), "--token-file or $SANDBOX_TOKEN", "") })
	for _, name := range []string{"Forwarded", "X-Forwarded-For", "X-Real-IP", "Via"} {
		t.Run("unix/no token behind a proxy/"+name, func(t *testing.T) {
			wantRefusal(t, overUnix(t, store)(func(r *http.Request) { r.Header.Set(name, "192.0.2.1") }), "proxy", "")
		})
	}
	t.Run("control", func(t *testing.T) {
		a := overTCP(t, store)(func(r *http.Request) {
			r.Header.Set("Authorization", "bearer "+secret)
			r.URL.RawQuery = "limit=5&cursor=sbx_x"
			r.AddCookie(&http.Cookie{Name: "theme", Value: "dark"})
			r.Header.Set("X-Forwarded-For", "192.0.2.1")
		})
		if a.err != nil || a.caller.Tenant != "acme" {
			t.Errorf("got %+v and %v, want the tenant", a.caller, a.err)
		}
	})
}

// Where the server does not record peers, a unix socket gives no rights.
func TestNoPeerIsNobody(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://localhost/", nil)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Identify(openStore(t), r)
	wantRefusal(t, answer{c, err}, "no token", "")
}

func TestStoreThatCannotTellIsNoRefusal(t *testing.T) {
	if _, ok := Challenge(&sandbox.Error{Code: sandbox.CodeUnavailable}); ok {
		t.Error("an error of the disk is answered as if the token were wrong")
	}
	if _, ok := Challenge(nil); ok {
		t.Error("no error is a refusal")
	}
}

func TestReaches(t *testing.T) {
	roles := []token.Role{token.Session, token.Tenant, token.Admin}
	for i, have := range roles {
		for j, least := range roles {
			if got := (Caller{Role: have}).Reaches(least); got != (i >= j) {
				t.Errorf("%s reaches what is for %s: %v", have, least, got)
			}
		}
	}
	if (Caller{}).Reaches(token.Session) || (Caller{}).Reaches("") || (Caller{Role: token.Admin}).Reaches("") {
		t.Error("what has no role reaches, or is reached")
	}
}

func TestAccounts(t *testing.T) {
	store := openStore(t)
	few := tenant.NoLimits().With(tenant.Commands, 2)
	_, parent := mint(t, store, token.Claims{Role: token.Tenant, Tenant: "acme", Quota: &few})
	secret, id := mint(t, store, token.Claims{Role: token.Session, Session: "s", Parent: parent, Expires: time.Now().Add(time.Hour)})
	got := overTCP(t, store)(bearing(secret)).caller.Accounts("acme", tenant.NoLimits())
	want := []string{"tenant acme", "token " + id, "token " + parent}
	if len(got) != 3 || got[0].Name != want[0] || got[1].Name != want[1] || got[2].Name != want[2] {
		t.Errorf("accounts %+v, want %v", got, want)
	}
	local := Caller{Role: token.Admin, Local: true}.Accounts("acme", few)
	if len(local) != 1 || local[0] != (tenant.Account{Name: "tenant acme", Limits: few}) {
		t.Errorf("a local admin takes from %+v, want the tenant alone", local)
	}
}

// TestBudgeted holds that a caller with a token is charged to the budgets of the
// token and of its ancestors, in that order.
func TestBudgeted(t *testing.T) {
	store := openStore(t)
	bound := budget.One(budget.Calls, 3)
	_, top := mint(t, store, token.Claims{Role: token.Tenant, Tenant: "acme"})
	mine, id := mint(t, store, token.Claims{Role: token.Tenant, Parent: top, Budget: &bound})
	child, below := mint(t, store, token.Claims{Role: token.Session, Session: "s", Parent: id, Expires: time.Now().Add(time.Hour)})
	for secret, want := range map[string][]string{mine: {id}, child: {below, id}} {
		a := overTCP(t, store)(bearing(secret))
		var got []string
		for _, one := range a.caller.Budgeted() {
			got = append(got, one.ID)
		}
		if a.err != nil || !slices.Equal(got, want) {
			t.Errorf("budgets of %v, want %v; %v", got, want, a.err)
		}
	}
	if got := (Caller{Role: token.Admin, Local: true}).Budgeted(); len(got) != 0 {
		t.Errorf("a user of this machine has %v", got)
	}
}
