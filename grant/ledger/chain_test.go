package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

func TestChain(t *testing.T) {
	now := time.Now()
	soon, far := now.Add(time.Hour), now.Add(2*KeepSession)
	b := Bounds{Session: call(30), Agents: map[string]budget.Amount{"main": call(20), "helper": call(19), "a/b": call(18)}, Tenant: call(10)}
	p := grant.Grant{ID: "p", Tenant: "t", Agent: "main", Session: "chat/1", Budget: call(5), Expires: soon}
	c := grant.Grant{ID: "c", Parent: "p", Tenant: "t", Agent: "helper", Session: "x", Budget: call(4), Expires: soon}
	with := func(g grant.Grant, change func(*grant.Grant)) grant.Grant { change(&g); return g }
	for _, tt := range []struct {
		name string
		line []grant.Grant
		want string // ids and calls
		code sandbox.Code
	}{
		{"plain", []grant.Grant{p}, "grant:p 5, session:chat/1 30, agent:main 20, tenant:t 10", ""},
		{"derived", []grant.Grant{c, p}, "grant:c 4, grant:p 5, session:chat/1 30, agent:helper 19, agent:main 20, tenant:t 10", ""},
		{"derived for the same", []grant.Grant{with(c, func(g *grant.Grant) { g.Agent = "main" }), p}, "grant:c 4, grant:p 5, session:chat/1 30, agent:main 20, tenant:t 10", ""},
		{"unknown agent", []grant.Grant{with(p, func(g *grant.Grant) { g.Agent = "other" })}, "", sandbox.CodeInternal},
		{"only a tenant", []grant.Grant{{ID: "g", Expires: soon}}, "grant:g 0, tenant: 10", ""},
		{"odd agent", []grant.Grant{{ID: "g", Agent: "a/b", Session: "c", Expires: far}}, "grant:g 0, session:agent:a/b:session:c 30, agent:a/b 18, tenant: 10", ""},
		{"nothing", nil, "", sandbox.CodeValidation},
		{"without its parent", []grant.Grant{c}, "", sandbox.CodePermissionDeny},
		{"another parent", []grant.Grant{c, with(p, func(g *grant.Grant) { g.ID = "q" })}, "", sandbox.CodePermissionDeny},
		{"a parent that is none", []grant.Grant{p, with(p, func(g *grant.Grant) { g.ID = "q" })}, "", sandbox.CodePermissionDeny},
		{"another tenant", []grant.Grant{c, with(p, func(g *grant.Grant) { g.Tenant = "u" })}, "", sandbox.CodePermissionDeny},
		{"no id", []grant.Grant{with(p, func(g *grant.Grant) { g.ID = "" })}, "", sandbox.CodeValidation},
		{"no expiry", []grant.Grant{with(p, func(g *grant.Grant) { g.Expires = time.Time{} })}, "", sandbox.CodeValidation},
		{"too many", make([]grant.Grant, MaxDepth-2), "", sandbox.CodeValidation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			chain, err := Chain(tt.line, b, now)
			var got []string
			for _, c := range chain {
				got = append(got, fmt.Sprint(c.ID, " ", c.Bound.Calls))
				kind, _, _ := strings.Cut(c.ID, ":")
				if c.Expires.IsZero() != (kind == "agent" || kind == "tenant") || kind == "session" && c.Expires.Before(tt.line[0].Expires) {
					t.Errorf("%s expires %v", c.ID, c.Expires)
				}
			}
			if strings.Join(got, ", ") != tt.want || sandbox.CodeOf(err) != tt.code {
				t.Errorf("got %v, %v", got, err)
			}
			if err == nil {
				account(t, open(t, t.TempDir(), Options{}), chain...)
			}
		})
	}
}

// TestChainsMeet checks that agents pay from the session that their grants come
// from, not from one of the same name of another agent, and each for what it was
// handed.
func TestChainsMeet(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	soon := time.Now().Add(time.Hour)
	b := Bounds{Session: call(100), Agents: map[string]budget.Amount{"main": call(100), "helper": call(5)}, Tenant: call(100)}
	p := grant.Grant{ID: "p", Tenant: "t", Agent: "main", Session: "s", Budget: call(50), Expires: soon}
	c := grant.Grant{ID: "c", Parent: "p", Tenant: "t", Agent: "helper", Session: "s", Budget: call(50), Expires: soon}
	d := grant.Grant{ID: "d", Tenant: "t", Agent: "helper", Session: "s", Budget: call(50), Expires: soon}
	chains := map[string]*Account{}
	for name, line := range map[string][]grant.Grant{"p": {p}, "c": {c, p}, "d": {d}} {
		chain, err := Chain(line, b, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		chains[name] = account(t, l, chain...)
	}
	spend(t, chains["p"], 10)
	spend(t, chains["c"], 3)
	spend(t, chains["d"], 2)
	for name, want := range map[string][]int64{"p": {13, 13, 13, 15}, "c": {3, 13, 13, 5, 13, 15}, "d": {2, 2, 5, 15}} {
		wantUsed(t, chains[name], want...)
	}
	for _, name := range []string{"c", "d"} {
		_, err := chains[name].Reserve(bg(), call(1))
		wantCode(t, err, sandbox.CodeBudgetExceeded, "agent:helper")
	}
}

// TestLongIDs checks that keys of any length make ids that differ when they do.
func TestLongIDs(t *testing.T) {
	seen := map[string]bool{}
	for _, key := range []string{"", "x", strings.Repeat("y", 300), strings.Repeat("y", 301), strings.Repeat("y", 300) + "z"} {
		chain, err := Chain([]grant.Grant{{ID: "g", Session: key + "!", Expires: time.Now().Add(time.Hour)}}, Bounds{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		id := chain[1].ID
		if len(id) > MaxID || seen[id] {
			t.Errorf("%d bytes of key: %q", len(key), id)
		}
		seen[id] = true
	}
}

func TestEntries(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	soon := time.Now().Add(time.Hour).Truncate(time.Millisecond)
	spend(t, account(t, l, expiring("grant:g", soon), calls("tenant:t", 10)), 3)
	account(t, l, calls("tenant:u", 10))
	want := map[string]Entry{
		"grant:g":  {ID: "grant:g", Used: call(3), Expires: soon.Round(0)},
		"tenant:t": {ID: "tenant:t", Root: true, Used: call(3)},
		"tenant:u": {ID: "tenant:u", Root: true},
	}
	n := 0
	err := l.Entries(bg(), func(e Entry) bool {
		n++
		w := want[e.ID]
		if e.Used != w.Used || e.Root != w.Root || !e.Expires.Equal(w.Expires) || w.ID == "" {
			t.Errorf("%+v, want %+v", e, w)
		}
		return true
	})
	if err != nil || n != len(want) {
		t.Errorf("%d entries, %v", n, err)
	}
	n = 0
	if err := l.Entries(bg(), func(Entry) bool { n++; return false }); err != nil || n != 1 {
		t.Errorf("went on: %d, %v", n, err)
	}
}
