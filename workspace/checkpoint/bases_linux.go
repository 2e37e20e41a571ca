package checkpoint

import "golang.org/x/sys/unix"

// bornAt returns when a file was made, in nanoseconds since the epoch, or when
// its attributes changed last where the file system does not keep that.
func bornAt(dir int, name string, st *unix.Stat_t) int64 {
	var x unix.Statx_t
	err := unix.Statx(dir, name, unix.AT_SYMLINK_NOFOLLOW, unix.STATX_BTIME, &x)
	if err != nil || x.Mask&unix.STATX_BTIME == 0 {
		return nanos(st.Ctim)
	}
	return x.Btime.Sec*1e9 + int64(x.Btime.Nsec)
}
