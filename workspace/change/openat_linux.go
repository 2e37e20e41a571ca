package change

import (
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// beneath opens the folder rel below the folder dir in one step. It passes
// through no link and no mount point (EXDEV).
func beneath(dir int, rel string) (int, error) {
	fd := -1
	err := hostpath.Retry(func() (err error) {
		fd, err = unix.Openat2(dir, rel, &unix.OpenHow{
			Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_CLOEXEC,
			Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
		})
		return err
	})
	return fd, err
}
