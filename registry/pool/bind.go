package pool

import (
	"maps"
	"path"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
)

// CanBindLate reports whether the started sandbox that pooled describes can
// become the one that wanted does without being made anew, and else why not:
// the settings that differ, in their words and without values that are
// secret.
//
// What binds late is what belongs to a handle or to the orchestrator's side:
//
//   - the owner's tenant, agent, session, scope and scope key, which the
//     registry notes in the claim; and the kind, since labels say pool;
//   - variables, which commands get from the handle;
//   - secrets and all rules for hosts that the proxy outside applies, as long
//     as the sandbox has no network of another kind;
//   - Limits, which hold for each command; and Grants.
//
// Everything else was built in: image, user, mounts, the workspace's apart,
// network, hardening, resources, tmpfs, runtime, guest, path rules, options.
// The workspace of a slot is a folder of its own, so only that there is one,
// and how it is mounted, must agree. A slot is made for no tenant: its Spec
// names none, and nothing of any tenant has been in it, so it can become the
// sandbox of each of them. One that was made for a tenant, as older versions
// do, becomes nothing, and no slot serves two instances.
//
// One thing cannot be undone and makes a cold start: OnStart lines, which ran
// without the session's variables.
func CanBindLate(pooled, wanted sandbox.Spec) (ok bool, why []string) {
	if wanted.Kind != sandbox.KindSandbox || pooled.Kind != sandbox.KindPool {
		return false, []string{"kind"}
	}
	if len(wanted.OnStart) > 0 && !maps.Equal(pooled.Env, wanted.Env) {
		why = append(why, "docker.onStart")
	}
	for _, c := range confighash.Diff(late(pooled), late(wanted)) {
		why = append(why, c.Field)
	}
	return len(why) == 0, why
}

// Shape returns the hash of what cannot bind late, so that slots can be kept
// by it: two Specs of which one can become the other have the same. The error
// is that of [confighash.Sum].
func Shape(s sandbox.Spec) (string, error) { return confighash.Sum(late(s)) }

// firstOwn is where the user ids begin that scopes get one each of, see
// package workspace. A slot has one too, so the two count as the same: what
// was asked for is a user of one's own. A user that settings name is another
// matter, and must agree.
const firstOwn = 0x70000000

// late returns s without what binds late.
func late(s sandbox.Spec) sandbox.Spec {
	made := "" // the tenant that a slot was made for
	if s.Kind == sandbox.KindPool {
		made = s.Owner.Tenant
	}
	s.Kind = sandbox.KindPool
	s.Owner = sandbox.Owner{Instance: s.Owner.Instance, Tenant: made}
	s.Env, s.Limits, s.Grants = nil, sandbox.Limits{}, nil
	s.Egress = sandbox.EgressRules{}
	if s.UID >= firstOwn && s.GID == s.UID {
		s.UID, s.GID = firstOwn, firstOwn
	}
	mounts := make([]sandbox.Mount, len(s.Mounts))
	for i, m := range s.Mounts {
		if ofSlot(m, s.Name) {
			m.Source = ""
		}
		mounts[i] = m
	}
	s.Mounts = mounts
	return s
}

// ofSlot reports whether m shows what the sandbox name has for itself: the
// guest's socket, its identity, its home, and its scratch workspace, which is named as
// the sandbox is. The folder of an agent is not, wherever it is mounted.
func ofSlot(m sandbox.Mount, name string) bool {
	switch m.Role {
	case sandbox.RoleSocket, sandbox.RoleIdentity, sandbox.RoleHome:
		return true
	case sandbox.RoleWorkspace:
		return name != "" && path.Base(m.Source) == name
	}
	return false
}
