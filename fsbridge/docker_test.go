package fsbridge_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fstests"
	"github.com/bulkhead-dev/sandbox/internal/testenv/wall"
)

// TestDocker runs the suite on the script transport in a real container.
func TestDocker(t *testing.T) {
	fstests.Run(t, fstests.Harness{Rounds: 500, New: func(t testing.TB) fstests.Rig {
		w := wall.New(t)
		s := w.Spec("files")
		ro := t.TempDir()
		for _, err := range []error{os.Chmod(ro, 0o755), os.WriteFile(filepath.Join(ro, "file"), []byte("read-only\n"), 0o644)} {
			if err != nil {
				t.Fatal(err)
			}
		}
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: ro, Target: "/ro", ReadOnly: true, Role: sandbox.RoleBind})
		s.Tmpfs = append(s.Tmpfs, sandbox.Tmpfs{Target: "/small", Size: 4 << 20, Mode: 0o700, Owned: true})
		// The suite writes files of 64 MiB into the workspace.
		s.Resources.Memory, s.Resources.MemorySwap = 512<<20, 512<<20
		sb := w.Create(s)
		b, err := fsbridge.Open(context.Background(), sb, s.Mounts, s.Tmpfs)
		if err != nil {
			t.Fatal(err)
		}
		var workspace string
		for _, m := range s.Mounts {
			if m.Role == sandbox.RoleWorkspace {
				workspace = m.Source
			}
		}
		return fstests.Rig{
			Sandbox: sb, Files: b, Dir: sandbox.WorkspaceDir, Outside: "/var/tmp", ReadOnly: "/ro", Small: "/small",
			Swap: func(t testing.TB, a, b string) func() { return swap(inHost(workspace, a), inHost(workspace, b)) },
		}
	}})
}

// inHost is where a path of the workspace lies outside.
func inHost(workspace, path string) string {
	return filepath.Join(workspace, strings.TrimPrefix(path, sandbox.WorkspaceDir))
}

// swap exchanges a and b until it is told to stop.
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
