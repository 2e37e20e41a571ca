package checkpoint

import (
	"io/fs"
	"os"
	"syscall"

	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

func deviceOf(fi fs.FileInfo) uint64 {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return uint64(st.Dev) //nolint:unconvert // it is an int32 elsewhere
	}
	return 0
}

func ownerOf(fi fs.FileInfo) workspace.Owner {
	if st, ok := fi.Sys().(*syscall.Stat_t); ok {
		return workspace.Owner{UID: int(st.Uid), GID: int(st.Gid)}
	}
	return workspace.Owner{}
}

// openFolder opens a folder that is no link.
func openFolder(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
}
