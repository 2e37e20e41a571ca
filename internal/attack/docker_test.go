package attack_test

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/attack"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/docker"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// TestHardened runs the whole self-test against a sandbox as the defaults
// make it.
func TestHardened(t *testing.T) {
	// A workspace in memory would rightly be found: it takes memory without a bound.
	w := dockertest.OnDisk(t)
	s := w.Spec("victim")
	sb, neighbour := w.Create(s), w.Create(w.Spec("neighbour"))
	rep := attack.Run(t.Context(), sb, s, attack.Options{
		Neighbour: neighbour,
		Reopen:    func(ctx context.Context) (sandbox.Sandbox, error) { return w.P.Open(ctx, s) },
		Disks:     []string{w.State.Path(), "/var/lib/docker"},
		Progress: func(r attack.Result) {
			t.Logf("%-9s %-20s %s", r.Outcome, r.Name, r.Seen)
		},
	})
	for _, r := range rep.Results {
		if r.Outcome == attack.Escaped || r.Outcome == attack.Unproven {
			t.Errorf("%s (%s): %s: %s", r.Name, r.What, r.Outcome, r.Seen)
		}
	}
	if n := rep.Count(attack.Contained); n < 60 {
		t.Errorf("only %d attempts were made and contained", n)
	}
}

// TestLeaky takes one protection after the other away and holds that the
// self-test notices: a test that cannot fail proves nothing.
func TestLeaky(t *testing.T) {
	w := dockertest.New(t)
	s := w.Spec("leaky")
	s.Security = sandbox.Security{Seccomp: opened(t, "io_uring_setup", "add_key", "keyctl", "request_key", "userfaultfd", "unshare", "socket")}
	s.Mounts = slices.DeleteFunc(s.Mounts, func(m sandbox.Mount) bool { return m.Role == sandbox.RoleIdentity })
	bound := openDir(t)
	engine := listen(t, filepath.Join(openDir(t), "docker.sock"))
	logDir := openDir(t)
	s.Mounts = append(s.Mounts,
		sandbox.Mount{Source: bound, Target: bound, Role: sandbox.RoleBind},
		sandbox.Mount{Source: filepath.Dir(engine), Target: "/var/run", Role: sandbox.RoleBind},
		sandbox.Mount{Source: logDir, Target: "/srv", Role: sandbox.RoleAgent},
		sandbox.Mount{Source: "/dev/kmsg", Target: "/dev/kmsg", Role: sandbox.RoleBind},
		sandbox.Mount{Source: openDir(t), Target: sandbox.HomeDir, Role: sandbox.RoleHome, Size: 4 << 30},
	)
	s.Tmpfs = slices.DeleteFunc(s.Tmpfs, func(m sandbox.Tmpfs) bool { return m.Target == "/run" || m.Target == sandbox.HomeDir })
	leaky := *w
	leaky.P = docker.New(w.Engine, docker.Options{Sockets: w.State}) // without World nothing is refused
	sb := leaky.Create(s)
	rep := attack.Run(t.Context(), sb, s, attack.Options{CanaryDir: bound, WorkspaceQuota: 32 << 20, Disks: []string{w.State.Path()}})
	got := map[string]attack.Result{}
	for _, r := range rep.Results {
		got[r.Name] = r
		t.Logf("%-9s %-20s %s", r.Outcome, r.Name, r.Seen)
	}
	for _, name := range []string{
		"capabilities", "io-uring", "keyring", "userfaultfd",
		"canary", "engine-socket", "other-sockets", "fill-disk", "fill-home", "fill-workspace", "dev-listing",
	} {
		if r := got[name]; r.Outcome != attack.Escaped {
			t.Errorf("%s was not noticed: %s: %s", name, r.Outcome, r.Seen)
		}
	}
	if !rep.Failed() {
		t.Error("the report did not fail")
	}
}

// opened is our filter with more calls allowed.
func opened(t *testing.T, calls ...string) string {
	t.Helper()
	var profile map[string]any
	must(t, json.Unmarshal([]byte(seccomp.Profile()), &profile))
	profile["syscalls"] = append(profile["syscalls"].([]any), map[string]any{"names": calls, "action": "SCMP_ACT_ALLOW"})
	text, err := json.Marshal(profile)
	must(t, err)
	return string(text)
}

// openDir is a folder that every user may write to.
func openDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sandbox-attack-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o777))
	return dir
}

// listen answers on a socket that every user may connect to.
func listen(t *testing.T, path string) string {
	t.Helper()
	l, err := net.Listen("unix", path)
	must(t, err)
	must(t, os.Chmod(path, 0o777))
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	return path
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
