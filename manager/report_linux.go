package manager

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// changedAt is when the status of a file changed last.
func changedAt(st *syscall.Stat_t) unix.Timespec {
	return unix.Timespec{Sec: st.Ctim.Sec, Nsec: st.Ctim.Nsec}
}
