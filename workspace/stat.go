package workspace

import (
	"io/fs"
	"syscall"
)

// statOf returns the 512-byte blocks, the identity and the number of names of
// a file, and one name and no blocks where the system does not tell.
func statOf(fi fs.FileInfo) (blocks int64, dev, ino, links uint64) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0, 0, 1
	}
	return st.Blocks, uint64(st.Dev), st.Ino, uint64(st.Nlink)
}

// ownerOf returns the numeric owner of a file.
func ownerOf(fi fs.FileInfo) (uid, gid int) {
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, 0
	}
	return int(st.Uid), int(st.Gid)
}
