//go:build linux

package local_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local"
)

// A rig is a state folder of a test's own.
type rig struct {
	testing.TB
	state *statedir.Dir
	guest sandbox.GuestRef
	home  string

	mu    sync.Mutex
	specs map[string]sandbox.Spec // by name
}

func newRig(t testing.TB) *rig {
	t.Helper()
	testenv.Require(t, "local")
	base := t.TempDir()
	st, err := statedir.Open(filepath.Join(base, "state"))
	must(t, err)
	g, err := st.InstallGuest(testenv.Guest(t))
	must(t, err)
	home := filepath.Join(base, "home")
	must(t, os.Mkdir(home, 0o755))
	return &rig{TB: t, state: st, guest: g, home: home, specs: map[string]sandbox.Spec{}}
}

func (r *rig) world() hardening.World {
	return hardening.World{
		Canonical: hostpath.Canonical, Sensitive: []string{r.state.Path()}, Workspaces: []string{r.state.Workspaces()}, Home: r.home,
	}
}

// provider returns a provider on the rig's state folder, as any process makes one.
func (r *rig) provider(t testing.TB) *local.Provider {
	t.Helper()
	p := local.New(local.Options{State: r.state.Path(), World: r.world})
	t.Cleanup(func() { p.Close() })
	return p
}

// spec is the hardened Spec for key with a workspace of its own.
func (r *rig) spec(key string) sandbox.Spec {
	r.Helper()
	sum := sha256.Sum256([]byte(r.state.Instance() + key))
	name := "sbx-t-" + hex.EncodeToString(sum[:8])
	uid, gid := os.Geteuid(), os.Getegid()
	if uid == 0 {
		uid = 0x70000000 + int(sum[0])<<8 + int(sum[1])
		gid = uid
	}
	ws := filepath.Join(r.state.Workspaces(), name)
	must(r, os.MkdirAll(ws, 0o700))
	must(r, os.Chown(ws, uid, gid))
	passwd, group, err := r.state.Identity(uid, gid)
	must(r, err)
	s := sandbox.Spec{
		Format: sandbox.SpecFormat, Name: name, Kind: sandbox.KindSandbox, Provider: "local",
		Owner:   sandbox.Owner{Instance: r.state.Instance(), Tenant: "t", Agent: "main", Session: key, Scope: sandbox.ScopeSession, ScopeKey: key},
		Workdir: sandbox.WorkspaceDir, UID: uid, GID: gid,
		Env: map[string]string{"LANG": "C.UTF-8", "HOME": sandbox.HomeDir},
		Mounts: []sandbox.Mount{
			{Source: r.guest.Dir, Target: sandbox.GuestDir + "/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: passwd, Target: "/etc/passwd", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: group, Target: "/etc/group", ReadOnly: true, Role: sandbox.RoleIdentity},
			{Source: ws, Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace},
		},
		Tmpfs: []sandbox.Tmpfs{
			{Target: "/tmp", Size: 64 << 20, Exec: true, Mode: 0o1777},
			{Target: sandbox.HomeDir, Size: 32 << 20, Exec: true, Mode: 0o700, Owned: true},
			{Target: "/var/tmp", Size: 16 << 20, Mode: 0o1777},
			{Target: "/run", Size: 8 << 20, Mode: 0o755, Owned: true},
		},
		ReadOnlyRoot: true, Network: "none",
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Resources: sandbox.Resources{PIDs: 512, ShmSize: 8 << 20, Ulimits: []sandbox.Ulimit{{Name: "core"}, {Name: "nofile", Soft: 4096, Hard: 8192}}},
		Guest:     r.guest,
		Filesystem: sandbox.FilesystemRules{
			DenyRead:  []string{filepath.Join(r.home, ".ssh"), "/etc/shadow", "**/.env"},
			DenyWrite: []string{filepath.Join(r.home, ".ssh"), "/etc/shadow", "**/.env"},
		},
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.specs[name] = s
	return s
}

// open creates the sandbox of s and opens it.
func (r *rig) open(p *local.Provider, s sandbox.Spec) sandbox.Sandbox {
	r.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	_, err := p.Create(ctx, s)
	must(r, err)
	return r.reopen(p, s)
}

func (r *rig) reopen(p *local.Provider, s sandbox.Spec) sandbox.Sandbox {
	r.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	sb, err := p.Open(ctx, s)
	must(r, err)
	r.Cleanup(func() { sb.Close() })
	return sb
}

// sh runs a shell line and returns its output, both streams joined, and its code.
func sh(t testing.TB, sb sandbox.Sandbox, line string) (string, int) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return strings.TrimSpace(out.String()), exit.Code
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
