//go:build linux

package server

import (
	"encoding/binary"
	"errors"
	"os"
	"runtime"
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// A Confinement is what holds commands beside what lies between them. Its
// zero value is nothing more.
type shimConfinement struct {
	// Landlock leaves commands only what is below Readable (reading and
	// executing) and Writable (everything), the usual devices, /proc, and the
	// names in folders: a rule for a folder holds for all below it, and without
	// the names commands could not list the root. NewMaker fails where the
	// kernel cannot do that.
	Landlock           bool
	Readable, Writable []string
	// Shared leaves out what is the host's where there are no namespaces: the
	// names in folders, terminals, shared memory, writing to /proc, and TCP.
	Shared bool
	// Filter is a program for seccomp(2), as it lies in memory. Shims get it
	// at birth, and make none of the calls that a filter of commands is about.
	Filter []byte
	// Observe makes a listener for the Filter of each shim.
	Observe bool
	// Processes is the limit of processes and threads of our user, from each
	// shim on; 0 leaves the one that there is.
	Processes uint64
}

// Rights of Landlock.
const (
	ofFiles = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	toRead = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	toList = unix.LANDLOCK_ACCESS_FS_READ_DIR // to the names in folders
	// procfs knows by itself whom its files are for.
	toProc  = toList | unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	firstFS = 1<<13 - 1 // all that the first version knew
)

// allRights are the rights to files that a version of Landlock knows, of
// those that we know.
func allRights(abi int) uint64 {
	all := uint64(firstFS)
	if abi >= abiRefer {
		all |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if abi >= abiTruncate {
		all |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if abi >= abiIoctl {
		all |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	return all
}

// devices are what every program may expect below /dev.
func devices() []string {
	return []string{
		"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom",
		"/dev/tty", "/dev/ptmx", "/dev/pts", "/dev/shm",
	}
}

// ruleset makes the rule set that commands enter.
func (c shimConfinement) ruleset() (int, error) {
	abi := landlockABI()
	if !c.Landlock {
		return scopes(abi), nil
	}
	if abi < abiRefer {
		return -1, errors.New("the kernel has no Landlock of version 2 or later, which the sandbox is to have as its second layer")
	}
	all := allRights(abi)
	if c.Shared && abi < abiTruncate {
		return -1, errors.New("the kernel has no Landlock of version 3 or later, without which files cannot be protected from truncation")
	}
	fd, err := newRuleset(abi, all)
	if err != nil {
		return -1, os.NewSyscallError("landlock_create_ruleset", err)
	}
	allow := func(access uint64, paths ...string) {
		for _, path := range paths {
			// Nothing is allowed at what is not there, or not ours to see.
			if e := allowBeneath(fd, path, access&all); e != nil && e != unix.ENOENT && e != unix.ENOTDIR && e != unix.EACCES && err == nil {
				err = &os.PathError{Op: "allow by Landlock", Path: path, Err: e}
			}
		}
	}
	allow(toRead, c.Readable...)
	allow(toRead, "/proc/self/exe") // shells are started through it
	allow(all, c.Writable...)
	if c.Shared {
		allow(all, slices.DeleteFunc(devices(), func(d string) bool { return d == "/dev/pts" || d == "/dev/shm" })...)
		allow(toList|unix.LANDLOCK_ACCESS_FS_READ_FILE, "/proc")
	} else {
		allow(all, devices()...)
		allow(toProc, "/proc")
		allow(toList, "/")
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// setFilter puts the filter where shims find it.
func (m *shimMaker) setFilter(c shimConfinement) error {
	const room = countingAt - filterAt
	if len(c.Filter)%8 != 0 || len(c.Filter) > room {
		return errors.New("the filter of system calls is malformed")
	}
	if notifies(c.Filter) != c.Observe {
		return errors.New("the filter of system calls is not the one for this observer")
	}
	m.birth.filterFrom, m.birth.filter = filterAt, uintptr(copy(m.memory[filterAt:], c.Filter))/8
	if c.Observe {
		m.birth.observe = 1
	}
	if canListen() {
		counting := countsForks(c.Filter)
		if len(counting) > sharedAt-countingAt {
			return errors.New("the filter of system calls is too large")
		}
		m.counting = uintptr(copy(m.memory[countingAt:], counting)) / 8
	}
	return nil
}

// notifies reports whether a filter hands calls to a listener. Without one
// they would fail.
func notifies(filter []byte) bool {
	for i := range slices.Chunk(filter, 8) {
		if gives(i) {
			return true
		}
	}
	return false
}

// gives reports whether an instruction hands the call to a listener.
func gives(instruction []byte) bool {
	const give = 0x06 // BPF_RET | BPF_K
	return binary.NativeEndian.Uint16(instruction) == give &&
		binary.NativeEndian.Uint32(instruction[4:])&unix.SECCOMP_RET_ACTION_FULL == unix.SECCOMP_RET_USER_NOTIF
}

// Hold puts on the calling thread, for good, what holds every command: the
// filter and the Landlock rule set. Calls that the filter hands to a listener
// go on, as the guest lets them for commands.
func (m *shimMaker) Hold() error {
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return os.NewSyscallError("prctl", err)
	}
	if n := m.birth.filter; n != 0 {
		own := unlistened(m.memory[filterAt : filterAt+8*n])
		p := program{size: uint16(n), instructions: uintptr(unsafe.Pointer(&own[0]))}
		_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&p)))
		runtime.KeepAlive(own)
		if errno != 0 {
			return os.NewSyscallError("seccomp", errno)
		}
	}
	if fd := m.birth.fds[rulesetFD]; fd >= 0 {
		if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(fd), 0, 0); errno != 0 {
			return os.NewSyscallError("landlock_restrict_self", errno)
		}
	}
	return nil
}

// unlistened returns a copy of a filter that lets go on what it would hand to
// a listener.
func unlistened(filter []byte) []byte {
	own := slices.Clone(filter)
	for i := range slices.Chunk(own, 8) {
		if gives(i) {
			binary.NativeEndian.PutUint32(i[4:], unix.SECCOMP_RET_ALLOW)
		}
	}
	return own
}

// Filters reports whether shims get a filter. Those that count do.
func (m *shimMaker) Filters() bool { return m.birth.filter != 0 }

// AwaitFilter waits, as long as the socket allows, until a new shim has set
// its filter, and returns the listener of that, or -1 where none is made.
// control is the guest's end of the socket of a shim that gets a filter, and
// counts is as it was for Fork.
func (m *shimMaker) AwaitFilter(control int, counts bool) (listener int, err error) {
	var one [1]byte
	oob := make([]byte, unix.CmsgSpace(int(unsafe.Sizeof(int32(0)))))
	n, oobn, _, _, err := unix.Recvmsg(control, one[:], oob, unix.MSG_CMSG_CLOEXEC)
	for err == unix.EINTR {
		n, oobn, _, _, err = unix.Recvmsg(control, one[:], oob, unix.MSG_CMSG_CLOEXEC)
	}
	switch {
	case err != nil:
		return -1, os.NewSyscallError("recvmsg", err)
	case n == 0:
		return -1, errors.New("a stage could not set the filter of system calls")
	case m.birth.observe == 0 && !counts:
		return -1, nil
	}
	list, err := unix.ParseSocketControlMessage(oob[:oobn])
	if err != nil || len(list) != 1 {
		return -1, errors.New("a stage has sent no listener")
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil || len(fds) != 1 {
		return -1, errors.New("a stage has sent no listener")
	}
	return fds[0], nil
}
