package fsbridge_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fstests"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// A scripted sandbox hides that it serves files itself.
type scripted struct{ sandbox.Sandbox }

// TestDocker runs the suite in a real container, on every transport. Each
// script is an exec of the engine, which takes tens of milliseconds: of the checks
// over scripts "make test" runs those that [sameInAnyShell] leaves. The races
// of the guest are run more often without a container, by the tests of
// guest/client.
func TestDocker(t *testing.T) {
	for _, tt := range []struct {
		name   string
		rounds int    // of races
		want   string // the transport
		by     sandbox.FSTransport
		reopen func(w *dockertest.Rig, sb sandbox.Sandbox, s sandbox.Spec) sandbox.Sandbox
	}{
		{"scripts", testenv.Rounds(20, 40, 2000), fsbridge.TransportScript, sandbox.FSAuto, func(_ *dockertest.Rig, sb sandbox.Sandbox, _ sandbox.Spec) sandbox.Sandbox {
			return scripted{sb}
		}},
		{"socket", testenv.Rounds(100, 100, 2000), fsbridge.TransportGuest, sandbox.FSGuest, func(_ *dockertest.Rig, sb sandbox.Sandbox, _ sandbox.Spec) sandbox.Sandbox {
			return sb
		}},
		{"relay", testenv.Rounds(100, 100, 2000), fsbridge.TransportGuest, sandbox.FSAuto, func(w *dockertest.Rig, _ sandbox.Sandbox, s sandbox.Spec) sandbox.Sandbox {
			s.Mounts = slices.DeleteFunc(slices.Clone(s.Mounts), func(m sandbox.Mount) bool { return m.Role == sandbox.RoleSocket })
			return w.Reopen(s)
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if tt.name == "relay" {
				testenv.Exhaustive(t, "another connection to the guest of the test before")
			}
			var without map[string]string
			if tt.want == fsbridge.TransportScript && !testenv.All() {
				without = sameInAnyShell(t)
			}
			fstests.Run(t, fstests.Harness{Rounds: tt.rounds, Without: without, New: func(t testing.TB) fstests.Rig {
				w := dockertest.New(t)
				s := spec(t, w)
				sb := tt.reopen(w, w.Create(s), s)
				b, err := fsbridge.OpenBy(context.Background(), tt.by, sb, s.Mounts, s.Tmpfs)
				must(t, err)
				if got := b.Transport(); got.Name != tt.want || !got.Durable || tt.want == fsbridge.TransportGuest && got.Note != "" {
					t.Fatalf("transport %+v", got)
				}
				workspace := source(s, sandbox.WorkspaceDir)
				return fstests.Rig{
					Sandbox: sb, Files: b, Dir: sandbox.WorkspaceDir, Outside: "/var/tmp", ReadOnly: "/ro", Small: "/small",
					Swap: func(t testing.TB, a, b string) func() { return swap(inHost(workspace, a), inHost(workspace, b)) },
				}
			}})
		})
	}
}

// sameInAnyShell are the checks whose result depends on the text of the scripts and
// on what the kernel does, which are the same wherever a shell is started:
// [TestScriptTransport] holds them. The others depend on what the engine does
// with a script too: its arguments, what it reads and writes, its end, and the
// mounts that it sees.
func sameInAnyShell(t *testing.T) map[string]string {
	t.Helper()
	const why = "held by TestScriptTransport; here only with SANDBOX_TEST_ALL=1 (make test-all)"
	same := map[string]string{}
	for _, c := range fstests.Checks() {
		same[c.Name] = why
	}
	for _, name := range []string{
		"read returns what was written, byte for byte",
		"a big file goes through",
		"read honours offset and limit",
		"a reader may be closed early",
		"files and commands see the same",
		"stat describes files, folders and the mount itself",
		"thousands of entries are listed",
		"any name is only a name",
		"what is not there is not found, and so is a missing parent",
		"an ended context does nothing",
		"a source that fails leaves the old content",
		"a write that is called off leaves the old content and no debris",
		"a read that is called off ends",
		"concurrent writers leave one whole content and no debris",
		"links are described, read and made",
		"remove and rename act on a link itself",
		"a folder swapped for a link changes nothing beyond the mount",
		"a file swapped for a link changes and reveals nothing beyond the mount",
		"a full mount is an exceeded budget, and the old content stays",
		"a read-only mount refuses every change",
	} {
		if same[name] == "" {
			t.Fatalf("%q is no check", name)
		}
		delete(same, name)
	}
	return same
}

// spec is a sandbox with the places that the suite needs.
func spec(t testing.TB, w *dockertest.Rig) sandbox.Spec {
	t.Helper()
	s := w.Spec("files")
	ro := t.TempDir()
	must(t, os.Chmod(ro, 0o755))
	must(t, os.WriteFile(filepath.Join(ro, "file"), []byte("read-only\n"), 0o644))
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: ro, Target: "/ro", ReadOnly: true, Role: sandbox.RoleBind})
	s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: "/small", Size: 4 << 20, Mode: 0o700, Owned: true})
	// The suite writes files of up to 64 MiB into the workspace.
	s.Resources.Memory, s.Resources.MemorySwap = 512<<20, 512<<20
	return s
}

// source is the host folder that is mounted at target.
func source(s sandbox.Spec, target string) string {
	for _, m := range s.Mounts {
		if m.Target == target {
			return m.Source
		}
	}
	return ""
}

// inHost is where a path of the workspace lies outside.
func inHost(workspace, path string) string {
	return filepath.Join(workspace, strings.TrimPrefix(path, sandbox.WorkspaceDir))
}

// swap exchanges a and b until stop is called.
func swap(a, b string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				_ = unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE)
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}
