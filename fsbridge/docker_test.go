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
// script is an exec of the engine, which takes tens of milliseconds. The races
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
			fstests.Run(t, fstests.Harness{Rounds: tt.rounds, New: func(t testing.TB) fstests.Rig {
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

// spec is a sandbox with the places that the suite needs.
func spec(t testing.TB, w *dockertest.Rig) sandbox.Spec {
	t.Helper()
	s := w.Spec("files")
	ro := t.TempDir()
	must(t, os.Chmod(ro, 0o755))
	must(t, os.WriteFile(filepath.Join(ro, "file"), []byte("read-only\n"), 0o644))
	s.Mounts = append(s.Mounts, sandbox.Mount{Source: ro, Target: "/ro", ReadOnly: true, Role: sandbox.RoleBind})
	s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: "/small", Size: 4 << 20, Mode: 0o700, Owned: true})
	// The suite writes files of 64 MiB into the workspace.
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
