package dockertest

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local"
)

// A Local is a local provider with a state folder of its own, which goes with
// the test.
type Local struct {
	T     testing.TB
	State *statedir.Dir
	P     *local.Provider
	Guest sandbox.GuestRef
}

// NewLocal skips or fails the test where the local provider does not work.
func NewLocal(t testing.TB) *Local {
	t.Helper()
	testenv.Require(t, "local")
	st, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	g, err := st.InstallGuest(testenv.Guest(t))
	must(t, err)
	w := &Local{T: t, State: st, Guest: g}
	home := t.TempDir()
	w.P = local.New(local.Options{State: st.Path(), World: func() hardening.World {
		return hardening.World{
			Canonical: hostpath.Canonical, Sensitive: []string{st.Path()}, Workspaces: []string{st.Workspaces()}, Home: home,
		}
	}})
	t.Cleanup(func() { w.P.Close() })
	return w
}

// Spec is the hardened Spec for key with a workspace of its own, and room for
// the caches of tools in its home.
func (w *Local) Spec(key string) sandbox.Spec {
	w.T.Helper()
	sum := sha256.Sum256([]byte(w.State.Instance() + key))
	name := "sbx-t-" + hex.EncodeToString(sum[:8])
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid = 0x70000000 + int(sum[0])<<8 + int(sum[1])
		gid = uid
	}
	ws := filepath.Join(w.State.Workspaces(), name)
	must(w.T, os.MkdirAll(ws, 0o700))
	must(w.T, os.Chown(ws, uid, gid))
	passwd, group, err := w.State.Identity(uid, gid)
	must(w.T, err)
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: name, Kind: sandbox.KindSandbox, Provider: "local",
		Owner:   sandbox.Owner{Instance: w.State.Instance(), Tenant: "t", Agent: "main", Session: key, Scope: sandbox.ScopeSession, ScopeKey: key},
		Workdir: sandbox.WorkspaceDir, UID: uid, GID: gid,
		Env: map[string]string{"LANG": "C.UTF-8", "HOME": sandbox.HomeDir},
		Mounts: []sandbox.Mount{
			{Source: w.Guest.Dir, Target: sandbox.GuestDir + "/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: passwd, Target: "/etc/passwd", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: group, Target: "/etc/group", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: ws, Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace},
		},
		Tmpfs: []sandbox.Tmpfs{
			{Target: "/tmp", Size: 256 << 20, Exec: true, Mode: 0o1777},
			{Target: sandbox.HomeDir, Size: 256 << 20, Exec: true, Mode: 0o700, Owned: true},
			{Target: "/run", Size: 8 << 20, Mode: 0o755, Owned: true},
		},
		ReadOnlyRoot: true, Network: "none",
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Resources: sandbox.Resources{PIDs: 512, ShmSize: 8 << 20, Ulimits: []sandbox.Ulimit{{Name: "core"}, {Name: "nofile", Soft: 4096, Hard: 8192}}},
		Guest:     w.Guest,
	}
}

// Workspace is the host's folder of the workspace of s.
func Workspace(s sandbox.Spec) string {
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleWorkspace {
			return m.Source
		}
	}
	return ""
}
