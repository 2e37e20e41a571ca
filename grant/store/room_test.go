package store

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

// TestRevocationsAreBounded checks that one agent's revocations of invented grants use
// up neither the tenant's nor another agent's, and that a refused one holds nowhere.
func TestRevocationsAreBounded(t *testing.T) {
	dir := t.TempDir()
	f := open(t, dir)
	must(t, f.recount())
	expires := time.Now().Add(time.Hour)
	key := f.dir + "\x00t\x00a"
	f.counts[key] = maxAgentMarks - 1
	must(t, f.Revoke(Scoped("t", "a", "last"), expires))
	must(t, f.Revoke(Scoped("t", "a", "last"), expires)) // is there already
	wantCode(t, f.Revoke(Scoped("t", "a", "more"), expires), sandbox.CodeBudgetExceeded, "too many")
	wantRevoked(t, f, Scoped("t", "a", "more"), false)
	for _, name := range []string{Scoped("t", "b", "more"), Name("t", "more"), Scoped("u", "a", "more"), Name("", "more")} {
		must(t, f.Revoke(name, expires))
	}
	f.counts[f.dir+"\x00t"] = maxMarks
	wantCode(t, f.Revoke(Name("t", "again"), expires), sandbox.CodeBudgetExceeded, "too many")
	f.counts[f.dir+"/"+linksDir+"\x00t"] = maxLinks
	wantCode(t, f.Derived(Name("t", "c"), Name("t", "p"), expires), sandbox.CodeBudgetExceeded, "too many")
	f.counted = time.Now().Add(-2 * recounting) // the count of the disk says otherwise
	must(t, f.Revoke(Scoped("t", "a", "more"), expires))
	again := open(t, dir)
	must(t, again.Revoke(Name("t", "x"), expires))
	if got := again.counts[key]; got != 2 {
		t.Errorf("another program counts %d revocations of the agent", got)
	}
}

// TestScopedRevocation checks that a revocation for one agent ends that agent's grants
// alone, those that were derived from it with it, while they are held.
func TestScopedRevocation(t *testing.T) {
	both(t, func(t *testing.T, s store) {
		expires := time.Now().Add(time.Hour)
		parent := grant.Grant{ID: "p", Tenant: "t", Expires: expires} // of main
		child := grant.Grant{ID: "c", Parent: "p", Tenant: "t", Agent: "helper", Expires: expires}
		must(t, Note(s, child, parent))
		held, done := Context(t.Context(), s, child)
		defer done()
		for i, name := range []string{Scoped("t", "other", "p"), Scoped("t", "other", "c"), Scoped("t", "main", "c"), Scoped("u", "main", "p")} {
			must(t, s.Revoke(name, expires))
			if err := Check(s, child, time.Now()); err != nil || held.Err() != nil {
				t.Fatalf("%d: %v, %v", i, err, held.Err())
			}
		}
		must(t, s.Revoke(Scoped("t", "", "p"), expires))
		wantEnd(t, held, sandbox.CodePermissionDeny, "revoked")
		for _, g := range []grant.Grant{parent, child} {
			wantCode(t, Check(s, g, time.Now()), sandbox.CodePermissionDeny, "revoked")
		}
		if g := (grant.Grant{ID: "p", Tenant: "t", Agent: "other2", Expires: expires}); Check(s, g, time.Now()) != nil {
			t.Error("another agent's grant of that id is revoked")
		}
	})
	long := make([]byte, MaxID)
	for i := range long {
		long[i] = 'x'
	}
	if err := checkID(Scoped("t", "a", string(long))); err != nil {
		t.Error(err)
	}
	if err := checkID(Scoped("t", "a", "")); err == nil {
		t.Error("a grant without an id has a name")
	}
}
