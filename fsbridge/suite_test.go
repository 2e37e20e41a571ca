package fsbridge_test

import (
	"os"
	"path/filepath"
	"sync"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/fsbridge/fstests"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestScriptTransport runs the suite over each shell that is installed.
func TestScriptTransport(t *testing.T) {
	for _, shell := range []string{"dash", "busybox", "bash"} {
		t.Run(shell, func(t *testing.T) {
			if shell != "dash" {
				testenv.Exhaustive(t, "the scripts with a further shell")
			}
			h := fstests.Harness{Rounds: testenv.Rounds(100, 100, 2000), New: func(t testing.TB) fstests.Rig { return localRig(t, toolbox(t, shell)) }}
			if os.Geteuid() != 0 {
				h.Without = map[string]string{
					"a full mount is an exceeded budget, and the old content stays": "mounting needs root",
					"a read-only mount refuses every change":                        "mounting needs root",
				}
			}
			fstests.Run(t, h)
		})
	}
}

// localRig has its mounts at host paths, which are paths inside as well.
func localRig(t testing.TB, bin string) fstests.Rig {
	t.Helper()
	base := openFolder(t)
	folder := func(name string) string {
		dir := filepath.Join(base, name)
		must(t, os.Mkdir(dir, 0o755))
		if os.Geteuid() == 0 {
			must(t, os.Chown(dir, unprivileged, unprivileged))
		}
		return dir
	}
	work, outside, readOnly, small := folder("work"), folder("outside"), folder("ro"), folder("small")
	must(t, os.WriteFile(filepath.Join(readOnly, "file"), []byte("read-only\n"), 0o666))
	if os.Geteuid() == 0 {
		must(t, os.Chown(filepath.Join(readOnly, "file"), unprivileged, unprivileged))
		mount(t, readOnly, readOnly, "", syscall.MS_BIND, "")
		must(t, syscall.Mount("", readOnly, "", syscall.MS_REMOUNT|syscall.MS_BIND|syscall.MS_RDONLY, ""))
		mount(t, "tmpfs", small, "tmpfs", 0, "size=1m,mode=0777")
	}
	mounts := []sandbox.Mount{
		{Source: work, Target: work, Role: sandbox.RoleBind},
		// Writable as far as the bridge knows: the kernel has to refuse.
		{Source: readOnly, Target: readOnly, Role: sandbox.RoleBind},
	}
	sb := &local{bin: bin}
	b, err := fsbridge.Open(t.Context(), sb, mounts, []sandbox.Tmpfs{{Target: small}})
	must(t, err)
	if got := b.Transport(); got.Name != fsbridge.TransportScript || !got.Durable {
		t.Fatalf("transport %+v, want durable scripts", got)
	}
	return fstests.Rig{Sandbox: sb, Files: b, Dir: work, Outside: outside, ReadOnly: readOnly, Small: small, Swap: exchange}
}

// exchange swaps two names with one system call after the other.
func exchange(_ testing.TB, a, b string) (stop func()) {
	end, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case <-end:
				return
			default:
				unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) // missing names come back
			}
		}
	}()
	return sync.OnceFunc(func() { close(end); <-ended })
}

func mount(t testing.TB, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	must(t, syscall.Mount(source, target, kind, flags, data))
	t.Cleanup(func() {
		if err := syscall.Unmount(target, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}
