package config

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// grain is how far apart two changes of a file may be by [fileClock] and
	// still carry the same time: file systems that keep steps of their own keep
	// such of 10 ms (FAT, exFAT), or seconds.
	grain = 20 * time.Millisecond

	// coarseGrain is the same where times are kept in seconds.
	coarseGrain = 2 * time.Second
)

// A stamp tells one state of a file from every other one. The time of change
// is among it, which no program can set.
type stamp struct {
	errno        syscall.Errno // why there is none; ENOENT is that there is no file
	dev, ino     uint64
	size         int64
	mtime, ctime time.Duration // since the epoch
}

// stampAt is the stamp of the file at path, through every link.
func stampAt(path string) stamp {
	for {
		var st unix.Stat_t
		err := unix.Stat(path, &st)
		if err == nil {
			return stampOf(&st)
		}
		errno, ok := err.(syscall.Errno)
		switch {
		case !ok:
			return stamp{errno: unix.EIO}
		case errno != unix.EINTR:
			return stamp{errno: errno}
		}
	}
}

// fresh reports whether a file with this stamp, examined at the time at of
// [fileClock], may change once more and keep the stamp. A file with a time in
// the future may, because the clock can be set.
func (s stamp) fresh(at time.Time) bool {
	if s.errno != 0 {
		return false
	}
	within := grain
	if s.mtime%time.Second == 0 && s.ctime%time.Second == 0 {
		within = coarseGrain
	}
	return time.Duration(at.UnixNano())-s.ctime < within
}

func stampOf(st *unix.Stat_t) stamp {
	return stamp{
		dev: uint64(st.Dev), ino: st.Ino, size: st.Size,
		mtime: time.Duration(st.Mtim.Nano()), ctime: time.Duration(st.Ctim.Nano()),
	}
}
