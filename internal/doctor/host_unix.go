//go:build unix

package doctor

import (
	"io/fs"
	"os"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// RealHost returns this machine.
func RealHost() Host {
	return Host{
		OS: runtime.GOOS, UID: os.Geteuid(),
		ReadFile: os.ReadFile, Lstat: os.Lstat, Owner: owner,
		Writable: func(path string) error { return unix.Access(path, unix.W_OK|unix.X_OK) },
		Disk:     disk,
		Output:   output, Now: time.Now,
	}
}

func owner(fi fs.FileInfo) (uid int, known bool) {
	st, known := fi.Sys().(*syscall.Stat_t)
	if !known {
		return 0, false
	}
	return int(st.Uid), true
}

func disk(path string) (Disk, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return Disk{}, err
	}
	size := int64(st.Bsize)
	return Disk{
		Type: diskType(&st), ReadOnly: readOnly(&st),
		Free: int64(st.Bavail) * size, Total: int64(st.Blocks) * size,
		FreeInodes: int64(st.Ffree), Inodes: int64(st.Files),
	}, nil
}
