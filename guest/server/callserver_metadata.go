//go:build linux

package server

import (
	"encoding/binary"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// A metadata is how a call that changes the mode, the owner or the times of a file
// names the file and the change, by the numbers of its arguments.
type metadata struct {
	change   uint8
	file     int8 // descriptor of the file itself; absent: path names it
	dir      int8 // as of [target]
	path     int8
	flags    int8
	nofollow uint32
	value    int8 // the first argument of the change
}

// Kinds of changes.
const (
	changeMode     uint8 = iota
	changeOwner          // user, then group
	changeTimes          // two of struct timespec
	changeTimevals       // two of struct timeval
	changeSeconds        // two of time_t
)

// metadataOf returns the meaning of a call, by its number.
func metadataOf(number int32) (metadata, bool) {
	switch number {
	case unix.SYS_FCHMOD:
		return metadata{changeMode, 0, absent, absent, absent, 0, 1}, true
	case unix.SYS_FCHMODAT:
		return metadata{changeMode, absent, 0, 1, absent, 0, 2}, true
	case unix.SYS_FCHMODAT2:
		return metadata{changeMode, absent, 0, 1, 3, noLink, 2}, true
	case unix.SYS_FCHOWN:
		return metadata{changeOwner, 0, absent, absent, absent, 0, 1}, true
	case unix.SYS_FCHOWNAT:
		return metadata{changeOwner, absent, 0, 1, 4, noLink, 2}, true
	case unix.SYS_UTIMENSAT:
		return metadata{changeTimes, absent, 0, 1, 3, noLink, 2}, true
	}
	return olderMetadataOf(number)
}

// metadata makes a change of a file below a writable folder.
func (s *callServer) metadata(listener int, n *notice) unix.Errno {
	m, _ := metadataOf(n.number)
	fd, errno := m.open(n)
	if errno != 0 {
		return errno
	}
	defer unix.Close(fd)
	times, errno := m.times(n)
	if errno != 0 {
		return errno
	}
	if !waits(listener, n.id) {
		return unix.EPERM // what was read may be another process's
	}
	self := "/proc/self/fd/" + strconv.Itoa(fd)
	at, ok := readlink(self)
	if !ok || !s.changes(at) {
		return unix.EPERM
	}
	var err error
	switch m.change {
	case changeMode:
		var st unix.Stat_t
		if err = unix.Fstat(fd, &st); err == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return unix.EOPNOTSUPP
		}
		if err == nil {
			err = unix.Chmod(self, uint32(n.args[m.value])&^0o6000)
		}
	case changeOwner:
		err = unix.Fchownat(fd, "", int(int32(n.args[m.value])), int(int32(n.args[m.value+1])), unix.AT_EMPTY_PATH)
	default:
		err = unix.UtimesNanoAt(fd, "", times, unix.AT_EMPTY_PATH)
	}
	if err != nil {
		return notifierErrnoOf(err)
	}
	return 0
}

// changes reports whether commands may change what is at a place, as the kernel
// names it.
func (s *callServer) changes(at string) bool {
	for _, w := range s.writable {
		if below(at, w) {
			return true
		}
	}
	return strings.HasPrefix(at, "/memfd:") || !strings.HasPrefix(at, "/")
}

// open opens what the call names, to look at it and no more.
func (m metadata) open(n *notice) (int, unix.Errno) {
	own := "/proc/" + strconv.Itoa(int(n.pid))
	descriptor := func(number uint64) (int, unix.Errno) {
		fd, err := unix.Open(own+"/fd/"+strconv.Itoa(int(int32(number))), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err == unix.ENOENT {
			return -1, unix.EBADF
		}
		if err != nil {
			return -1, notifierErrnoOf(err)
		}
		return fd, 0
	}
	if m.file != absent {
		return descriptor(n.args[m.file])
	}
	name := ""
	if n.args[m.path] != 0 {
		var ok bool
		if name, ok = text(int(n.pid), n.args[m.path]); !ok {
			return -1, unix.EFAULT
		}
	}
	flags := uint64(0)
	if m.flags != absent {
		flags = n.args[m.flags]
	}
	if name == "" {
		if m.dir == absent || n.args[m.path] != 0 && flags&unix.AT_EMPTY_PATH == 0 || int32(n.args[m.dir]) == unix.AT_FDCWD {
			return -1, unix.ENOENT
		}
		return descriptor(n.args[m.dir])
	}
	switch {
	case strings.HasPrefix(name, "/proc/self/"), strings.HasPrefix(name, "/proc/thread-self/"):
		_, rest, _ := strings.Cut(name[1:], "/")
		_, rest, _ = strings.Cut(rest, "/")
		name = own + "/" + rest
	case strings.HasPrefix(name, "/dev/fd/"):
		name = own + "/fd/" + strings.TrimPrefix(name, "/dev/fd/")
	case name[0] != '/' && m.dir != absent && int32(n.args[m.dir]) != unix.AT_FDCWD:
		name = own + "/fd/" + strconv.Itoa(int(int32(n.args[m.dir]))) + "/" + name
	case name[0] != '/':
		name = own + "/cwd/" + name
	}
	how := unix.O_PATH | unix.O_CLOEXEC
	if m.nofollow == never || uint32(flags)&m.nofollow != 0 {
		how |= unix.O_NOFOLLOW
	}
	fd, err := unix.Open(name, how, 0)
	if err != nil {
		return -1, notifierErrnoOf(err)
	}
	return fd, 0
}

// times reads the times of a call; nil is now.
func (m metadata) times(n *notice) ([]unix.Timespec, unix.Errno) {
	if m.change < changeTimes || n.args[m.value] == 0 {
		return nil, 0
	}
	word := 8
	size := 4 * word
	if m.change == changeSeconds {
		size = 2 * word
	}
	b := make([]byte, size)
	if got, ok := readNotifier(int(n.pid), n.args[m.value], b); !ok || got != size {
		return nil, unix.EFAULT
	}
	at := func(i int) int64 { return int64(binary.NativeEndian.Uint64(b[i*word:])) }
	switch m.change {
	case changeSeconds:
		return []unix.Timespec{{Sec: at(0)}, {Sec: at(1)}}, 0
	case changeTimevals:
		for _, i := range []int{1, 3} {
			if at(i) < 0 || at(i) >= 1e6 {
				return nil, unix.EINVAL
			}
		}
		return []unix.Timespec{{Sec: at(0), Nsec: at(1) * 1000}, {Sec: at(2), Nsec: at(3) * 1000}}, 0
	}
	return []unix.Timespec{{Sec: at(0), Nsec: at(1)}, {Sec: at(2), Nsec: at(3)}}, 0
}
