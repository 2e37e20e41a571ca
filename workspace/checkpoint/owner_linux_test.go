package checkpoint

import (
	"os"
	"runtime"
	"testing"

	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// asOwner runs fn on a thread with the ids of o, which ends afterwards. The
// folder is opened before, as those above let nobody else through.
func asOwner(t testing.TB, o workspace.Owner, dir string, fn func(*os.Root) error) {
	t.Helper()
	root, err := os.OpenRoot(dir)
	must(t, err)
	defer root.Close()
	if os.Geteuid() != 0 {
		must(t, fn(root))
		return
	}
	done := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread is not used again
		done <- func() error {
			if _, _, e := unix.RawSyscall(unix.SYS_SETFSGID, uintptr(o.GID), 0, 0); e != 0 {
				return e
			}
			if _, _, e := unix.RawSyscall(unix.SYS_SETFSUID, uintptr(o.UID), 0, 0); e != 0 {
				return e
			}
			return fn(root)
		}()
	}()
	must(t, <-done)
}
