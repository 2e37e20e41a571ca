package resource

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A shared sandbox belongs only to a caller that acts for all of its sessions.
func TestOwns(t *testing.T) {
	t.Parallel()
	admin := auth.Caller{Role: token.Admin}
	all := auth.Caller{Role: token.Tenant, Tenant: "acme"}
	agent := auth.Caller{Role: token.Tenant, Tenant: "acme", Agent: "main"}
	session := auth.Caller{Role: token.Session, Tenant: "acme", Session: "s"}
	for _, tt := range []struct {
		scope                        sandbox.Scope
		admin, all, agent, session   bool
		tenant, ofAgent, madeSession string
	}{
		{sandbox.ScopeSession, true, true, true, true, "acme", "main", "s"},
		{sandbox.ScopeSession, true, true, true, false, "acme", "main", "other"},
		{sandbox.ScopeSession, true, true, false, false, "acme", "other", "s"},
		{sandbox.ScopeAgent, true, true, true, false, "acme", "main", "s"},
		{sandbox.ScopeAgent, true, true, false, false, "acme", "other", "s"},
		{sandbox.ScopeShared, true, true, false, false, "acme", "main", "s"},
		{sandbox.ScopeShared, true, false, false, false, "rival", "main", "s"},
	} {
		for who, want := range map[*auth.Caller]bool{&admin: tt.admin, &all: tt.all, &agent: tt.agent, &session: tt.session} {
			if got := Owns(*who, tt.tenant, tt.ofAgent, tt.madeSession, tt.scope); got != want {
				t.Errorf("%s of agent %q: %+v owns %+v: %v", who.Role, who.Agent, *who, tt, got)
			}
		}
	}
	if Owns(auth.Caller{}, "", "", "", sandbox.ScopeSession) {
		t.Error("nobody owns something")
	}
}
