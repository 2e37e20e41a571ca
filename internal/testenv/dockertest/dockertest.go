// Package dockertest makes hardened sandboxes on the real engine, local ones, and
// browsers in containers, for tests.
package dockertest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/docker"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// Image is the project's own image; the Makefile makes it before tests.
const Image = "sandbox:bookworm-slim"

// A Sandbox is a provider on the real engine with its own state folder. Whatever
// carries the state folder's instance label is removed at the end.
type Rig struct {
	T      testing.TB
	Engine *container.Engine
	State  *statedir.Dir
	P      *docker.Provider
	Guest  sandbox.GuestRef

	// Posture is that of Engine. Without root the limits that it cannot enforce
	// may be missing from Specs.
	Posture container.Posture
}

// New skips or fails the test where there is no engine, or where it has root and the
// test has none.
func New(t testing.TB) *Rig {
	t.Helper()
	return in(t, t.TempDir())
}

// OnDisk is New with workspaces on a disk, see [testenv.DiskDir].
func OnDisk(t testing.TB) *Rig {
	t.Helper()
	return in(t, testenv.DiskDir(t))
}

func in(t testing.TB, dir string) *Rig {
	t.Helper()
	w := At(t, filepath.Join(dir, "state"))
	e, st := w.Engine, w.State
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), 10*time.Minute)
		defer done()
		infos, err := e.List(ctx, sandbox.Filter{Instance: st.Instance()})
		if err != nil {
			t.Error(err)
		}
		for _, info := range infos {
			if err := e.Remove(ctx, info.ID); err != nil {
				t.Error(err)
			}
		}
		removeNetworks(ctx, t, e, st.Instance())
	})
	return w
}

// At is for a test that is one of several programs with the same state folder:
// the test that made the folder with New removes what is left.
func At(t testing.TB, dir string) *Rig {
	t.Helper()
	testenv.Require(t, "docker")
	api, err := container.Dial()
	must(t, err)
	w := &Rig{T: t, Engine: container.New(api, testenv.Patient())}
	t.Cleanup(func() { w.Engine.Close() })
	w.Posture, err = w.Engine.Known(t.Context())
	must(t, err)
	if !w.Posture.Rootless { // such an engine is used by its own user
		testenv.Require(t, "root")
	}
	st, err := statedir.Open(dir)
	must(t, err)
	w.State = st
	w.Guest, err = st.InstallGuest(testenv.Guest(t))
	must(t, err)
	w.P = docker.New(w.Engine, docker.Options{Sockets: st, Instance: st.Instance(), World: w.World, Protection: filepath.Join(st.Path(), "docker"), Images: testenv.Images()})
	return w
}

// removeNetworks removes the sandboxes' own networks of the instance.
func removeNetworks(ctx context.Context, t testing.TB, e *container.Engine, instance string) {
	networks, err := e.Networks(ctx)
	if err != nil {
		t.Error(err)
	}
	for _, n := range networks {
		if n.Labels.Owner.Instance != instance {
			continue
		}
		if err := e.RemoveNetwork(ctx, n.ID); err != nil {
			t.Error(err)
		}
	}
}

// World returns the facts about this host that the hardening rules need.
func (w *Rig) World() hardening.World {
	return hardening.World{
		Canonical:  hostpath.Canonical,
		Sensitive:  []string{w.State.Path(), "/run/docker.sock"},
		Workspaces: []string{w.State.Workspaces()},
	}
}

// Spec is the hardened Spec for key with a workspace of its own.
func (w *Rig) Spec(key string) sandbox.Spec {
	w.T.Helper()
	sum := sha256.Sum256([]byte(w.State.Instance() + key))
	name := "sbx-t-" + hex.EncodeToString(sum[:8])
	uid := 0x70000000 + int(sum[0])<<8 + int(sum[1])
	if w.Posture.Rootless {
		uid = os.Geteuid() // as an orchestrator that is not root
	}
	var dangerous []string
	if w.Posture.Rootless && len(w.Posture.Missing()) > 0 {
		dangerous = []string{hardening.SwitchMissingLimits}
	}
	ws := filepath.Join(w.State.Workspaces(), name)
	must(w.T, os.MkdirAll(ws, 0o700))
	must(w.T, os.Chown(ws, uid, uid))
	sock, err := w.State.SocketDir(name, uid, uid)
	must(w.T, err)
	passwd, group, err := w.State.Identity(uid, uid)
	must(w.T, err)
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: name, Kind: sandbox.KindSandbox, Provider: "docker",
		Owner: sandbox.Owner{Instance: w.State.Instance(), Tenant: "t", Agent: "main", Session: key, Scope: sandbox.ScopeSession, ScopeKey: key},
		Image: Image, ImageID: Image,
		Workdir: sandbox.WorkspaceDir, UID: uid, GID: uid,
		Env: map[string]string{"LANG": "C.UTF-8", "HOME": sandbox.HomeDir},
		Mounts: []sandbox.Mount{
			{Source: w.Guest.Dir, Target: sandbox.GuestDir + "/bin", ReadOnly: true, Role: sandbox.RoleGuest},
			{Source: sock, Target: sandbox.GuestDir + "/run", Role: sandbox.RoleSocket},
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
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true, Seccomp: seccomp.Profile(), Dangerous: dangerous},
		Resources: sandbox.Resources{Memory: 256 << 20, MemorySwap: 256 << 20, NanoCPUs: 1e9, PIDs: 128, ShmSize: 8 << 20, Ulimits: []sandbox.Ulimit{{Name: "core"}, {Name: "nofile", Soft: 4096, Hard: 8192}}},
		Guest:     w.Guest,
	}
}

// Open creates the sandbox for key and opens it.
func (w *Rig) Open(key string) (sandbox.Sandbox, sandbox.Spec) {
	w.T.Helper()
	s := w.Spec(key)
	return w.Create(s), s
}

// Create creates the sandbox of s and opens it.
func (w *Rig) Create(s sandbox.Spec) sandbox.Sandbox {
	w.T.Helper()
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	_, err := w.P.Create(ctx, s)
	must(w.T, err)
	return w.Reopen(s)
}

// Reopen opens the sandbox of s, which exists, once more.
func (w *Rig) Reopen(s sandbox.Spec) sandbox.Sandbox {
	w.T.Helper()
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	sb, err := w.P.Open(ctx, s)
	must(w.T, err)
	w.T.Cleanup(func() { sb.Close() })
	return sb
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
