package manager_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fstests"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestScriptTransport runs the suite for files over the files that a session gets
// when its settings choose scripts: in a container, with docker exec, behind the
// rules of the session. Without "make test-all" fsbridge.TestScriptTransport runs the
// suite over the same scripts, fsbridge.TestDocker what an engine has a part in, and
// TestTransportSetting uses them in a session.
func TestScriptTransport(t *testing.T) {
	testenv.Exhaustive(t, "the suite for files over docker exec")
	r := newRig(t)
	execs := r.counted()
	ro := t.TempDir()
	must(t, os.Chmod(ro, 0o755))
	must(t, os.WriteFile(filepath.Join(ro, "file"), []byte("read-only\n"), 0o644))
	m := r.manager(`{"agents": {"defaults": {"sandbox": {"fsTransport": "script",
		"docker": {"binds": ["` + ro + `:/ro"], "tmpfs": ["/tmp:size=64m", "/var/tmp:size=64m", "/run:size=8m", "/small:size=4m,mode=1777"]}}}}}`)
	var at int64
	fstests.Run(t, fstests.Harness{
		// Each operation is an exec, which takes the engine 50 ms and more; the
		// races with many rounds are run over the same scripts in fsbridge.
		Rounds: 8,
		Settle: func() {
			for _, closeIdle := range r.idle {
				closeIdle()
			}
		},
		New: func(t testing.TB) fstests.Rig {
			s, err := m.Open(context.Background(), manager.Request{Who: who("suite")})
			must(t, err)
			t.Cleanup(func() { s.Close() })
			if got := s.Files.Transport(); got.Name != fsbridge.TransportScript || !got.Durable || got.Reason != "fsTransport is script" || got.Note != "" {
				t.Fatalf("transport %+v", got)
			}
			at = execs.Load()
			return fstests.Rig{
				Sandbox: s.Sandbox, Files: s.Files, Dir: sandbox.WorkspaceDir, Outside: "/var/tmp", ReadOnly: "/ro", Small: "/small",
				Swap: func(_ testing.TB, a, b string) func() { return swapIn(s.Workspace, a, b) },
			}
		},
	})
	if n := execs.Load() - at; n < int64(len(fstests.Checks())) {
		t.Errorf("%d execs served %d checks", n, len(fstests.Checks()))
	}
}

// swapIn exchanges two paths of the workspace, again and again, until stop.
func swapIn(workspace, a, b string) (stop func()) {
	host := func(p string) string { return filepath.Join(workspace, strings.TrimPrefix(p, sandbox.WorkspaceDir)) }
	var over atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for !over.Load() {
			_ = unix.Renameat2(unix.AT_FDCWD, host(a), unix.AT_FDCWD, host(b), unix.RENAME_EXCHANGE)
		}
	}()
	return func() { over.Store(true); <-ended }
}
