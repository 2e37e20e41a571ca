//go:build linux

package manager_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	walls "github.com/bulkhead-dev/sandbox/provider/local"
)

// A walled machine has no engine: its manager puts up real local sandboxes.
type sandboxed struct {
	*manager.Manager
	t       *testing.T
	outside string // a folder that no rule shows, with a file "note"
	asked   []sandbox.PermissionRequest
	answer  sandbox.Permission
	mu      sync.Mutex
}

// outsideFolder makes a folder of which nothing is there inside. The usual
// temporary folders will not do: a sandbox has some of its own, in memory.
func outsideFolder(t *testing.T) string {
	t.Helper()
	here, err := filepath.Abs(".")
	must(t, err)
	home, err := os.UserHomeDir()
	must(t, err)
	for _, parent := range []string{here, "/srv", home} {
		if strings.HasPrefix(parent+"/", "/tmp/") || strings.HasPrefix(parent+"/", "/var/tmp/") || strings.HasPrefix(parent+"/", "/run/") {
			continue
		}
		if dir, err := os.MkdirTemp(parent, "sbx-t-"); err == nil {
			t.Cleanup(func() { os.RemoveAll(dir) })
			return dir
		}
	}
	t.Fatal("there is no folder that a sandbox does not show")
	return ""
}

func newSandboxed(t *testing.T, change ...func(*manager.Options, *statedir.Dir)) *sandboxed {
	t.Helper()
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	return newSandboxedIn(t, state, change...)
}

// newSandboxedIn is newSandboxed for a state folder that there is.
func newSandboxedIn(t *testing.T, state *statedir.Dir, change ...func(*manager.Options, *statedir.Dir)) *sandboxed {
	t.Helper()
	testenv.Require(t, "local")
	outside := outsideFolder(t)
	must(t, os.Chmod(outside, 0o755))
	must(t, os.WriteFile(filepath.Join(outside, "note"), []byte("text"), 0o644))
	w := &sandboxed{t: t, outside: outside, answer: sandbox.Deny}
	parsed, err := config.Parse("test", []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`))
	must(t, err)
	made := walls.New(walls.Options{State: state.Path(), World: func() hardening.World {
		return hardening.World{Canonical: hostpath.Canonical, Sensitive: []string{state.Path()}, Workspaces: []string{state.Workspaces()}}
	}})
	t.Cleanup(func() { made.Close() })
	set, err := provider.New(made)
	must(t, err)
	log := logrus.New()
	log.SetOutput(&logBuffer{})
	o := manager.Options{
		Settings: parsed, State: state, Providers: set, Images: nowhere{}, Log: log, Approver: w,
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Sensitive: []string{state.Path()},
			Guest: sync.OnceValues(func() (sandbox.GuestRef, error) { return state.InstallGuest(testenv.Guest(t)) })},
	}
	for _, c := range change {
		c(&o, state)
	}
	w.Manager, err = manager.New(o)
	must(t, err)
	t.Cleanup(func() { w.Manager.Close() })
	return w
}

// Approve implements sandbox.Approver.
func (w *sandboxed) Approve(_ context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.asked = append(w.asked, r)
	return w.answer, nil
}

// capture runs a shell line for an agent's session.
func (w *sandboxed) capture(who config.Who, ask bool, line string) sandbox.Result {
	w.t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	r, err := w.Capture(ctx, manager.Request{Who: who, Ask: ask, Command: sandbox.Command{Args: []string{"sh", "-c", line}}})
	must(w.t, err)
	return r
}

// withSandbox hands the sandbox of a session to fn.
func (w *sandboxed) withSandbox(who config.Who, fn func(sandbox.Sandbox)) {
	w.t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	must(w.t, w.WithSandbox(ctx, manager.Request{Who: who}, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		fn(sb)
		return nil
	}))
}

// kill ends the sandbox in which the sandbox's next command would run.
func (w *sandboxed) kill(sb sandbox.Sandbox) {
	w.t.Helper()
	pid := sb.Info().PID
	if pid <= 1 {
		w.t.Fatalf("the sandbox's first process is %d", pid)
	}
	must(w.t, syscall.Kill(pid, syscall.SIGKILL))
	pinger := sb.(interface{ Ping(context.Context) error })
	testenv.Until(w.t, "the sandbox dies", func() bool { return pinger.Ping(context.Background()) != nil })
}

// said runs a line of a shell.
func said(t *testing.T, s sandbox.Shell, line string) (string, sandbox.Exit) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	var out bytes.Buffer
	p, err := s.Run(ctx, line, sandbox.Command{Stdout: &out, Stderr: &out})
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return strings.TrimSpace(out.String()), exit
}
