package hostscan_test

import (
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// TestOurOwnIsNeverShown verifies that neither settings nor grants show this
// program's state and settings, from which it executes a program on the host.
func TestOurOwnIsNeverShown(t *testing.T) {
	const state = "/home/me/state"
	inside := []string{state, state + "/guest", state + "/guest/x", state + "/workspaces", state + "/workspaces/sbx-other", "/home/me/.config/sandbox"}
	for _, p := range inside {
		s := spec(func(s *sandbox.Spec) { s.Filesystem.AllowWrite = []string{p} })
		if _, err := hostscan.Of(s, worldPlace(), nil, nil); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("allowWrite %s: %v", p, err)
		}
		s = spec(func(s *sandbox.Spec) { s.Grants = []sandbox.Grant{{Operation: sandbox.OpWrite, Path: p}} })
		if _, err := hostscan.Of(s, worldPlace(), nil, nil); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
			t.Errorf("a grant of %s: %v", p, err)
		}
	}
}

// TestOurOwnIsCovered verifies that a view above this program's state leaves
// the state out, whatever rule shows it and whatever else is there.
func TestOurOwnIsCovered(t *testing.T) {
	grant := func(op sandbox.Operation) func(*sandbox.Spec) {
		return func(s *sandbox.Spec) { s.Grants = []sandbox.Grant{{Operation: op, Path: "/home/me"}} }
	}
	for name, change := range map[string]func(*sandbox.Spec){
		"allowRead":  func(s *sandbox.Spec) { s.Filesystem.AllowRead = []string{"/home/me"} },
		"allowWrite": func(s *sandbox.Spec) { s.Filesystem.AllowWrite = []string{"/home"} },
		"grant r":    grant(sandbox.OpRead), "grant w": grant(sandbox.OpWrite),
		"in memory of the sandbox": func(s *sandbox.Spec) {
			s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: "/home", Size: 1, Mode: 0o755})
			s.Filesystem.AllowWrite = []string{"/home/me"}
		},
	} {
		p := of(t, spec(change))
		if !slices.ContainsFunc(p.World.Tmpfs, func(m sandbox.Tmpfs) bool { return m.Target == "/home/me/state" && m.Mode&0o222 == 0 }) {
			t.Errorf("%s: only %+v", name, p.World.Tmpfs)
		}
		if !slices.ContainsFunc(p.World.Denies, func(d plan.Deny) bool {
			return d.Path == "/home/me/.config/sandbox" && d.Read
		}) {
			t.Errorf("%s: the settings are open", name)
		}
	}
}
