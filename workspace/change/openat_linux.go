package change

import (
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// beneath opens the folder rel below the folder dir in one step. It passes
// through no link, and with one through no mount point (EXDEV).
func beneath(dir int, rel string, one bool) (int, error) {
	resolve := uint64(unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS)
	if one {
		resolve |= unix.RESOLVE_NO_XDEV
	}
	fd := -1
	err := hostpath.Retry(func() (err error) {
		fd, err = unix.Openat2(dir, rel, &unix.OpenHow{
			Flags: unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC, Resolve: resolve,
		})
		return err
	})
	return fd, err
}
