//go:build linux

package server

import (
	"encoding/binary"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A callServer makes calls for the commands of a sandbox that has the namespaces
// of the host. The filter of commands hands it each of them, and the kernel makes
// none of them for the command itself: what is checked here is what is done,
// whatever a program changes in its memory or its descriptors meanwhile.
//
// Commands reach no address but the loopback interface, and there only what
// listens for them: the listeners that the guest has made for its client, such as
// that of the egress proxy, and those of the sandbox. A socket of a command is
// bound to 127.0.0.1 from its start on, so that nothing outside of the machine
// can connect to it. Modes, owners and times change below writable folders only.
type callServer struct {
	writable []string // clean
	sockets  []string
	own      *ownSockets // of the guest

	mu    sync.Mutex
	bound map[uint64]bool // inodes of sockets that commands have bound
	order []uint64        // the oldest first
}

// maxBound bounds the sockets that are remembered.
const maxBound = 1 << 14

func newCallServer(c wire.Config, own *ownSockets) *callServer {
	s := &callServer{sockets: c.Sockets, own: own, bound: map[uint64]bool{}}
	for _, w := range c.Writable {
		s.writable = append(s.writable, path.Clean(w))
	}
	return s
}

// serves reports whether it makes the calls of a number.
func (s *callServer) serves(number int32) bool {
	switch number {
	case unix.SYS_SOCKET, unix.SYS_CONNECT, unix.SYS_BIND:
		return true
	}
	_, ok := metadataOf(number)
	return ok
}

// serve makes a call and answers it.
func (s *callServer) serve(listener int, n *notice) {
	var errno unix.Errno
	switch n.number {
	case unix.SYS_SOCKET:
		s.socket(listener, n)
		return
	case unix.SYS_CONNECT:
		errno = s.connect(listener, n)
	case unix.SYS_BIND:
		errno = s.bind(listener, n)
	default:
		errno = s.metadata(listener, n)
	}
	answer(listener, n.id, errno)
}

// socket gives a command a TCP socket that is bound to the loopback interface.
func (s *callServer) socket(listener int, n *notice) {
	family, kind, protocol := int(int32(n.args[0])), int(int32(n.args[1])), int(int32(n.args[2]))
	flags := kind & (unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC)
	if kind&^flags != unix.SOCK_STREAM || protocol != 0 && protocol != unix.IPPROTO_TCP || family != unix.AF_INET && family != unix.AF_INET6 {
		answer(listener, n.id, unix.EPERM)
		return
	}
	fd, errno := loopbackSocket(family, 0, flags)
	if errno != 0 {
		answer(listener, n.id, errno)
		return
	}
	defer unix.Close(fd)
	add := addFD{id: n.id, flags: addSend, from: uint32(fd)}
	if flags&unix.SOCK_CLOEXEC != 0 {
		add.fdFlags = unix.O_CLOEXEC
	}
	if _, errno := add.give(listener); errno != 0 {
		answer(listener, n.id, errno) // without effect where the process has gone
	}
}

// loopbackSocket makes a TCP socket of a family that is bound to 127.0.0.1, by its
// mapped form for IPv6: the machine may have no other loopback address. Port 0 is
// chosen by the kernel when it is needed.
func loopbackSocket(family int, port int, flags int) (int, unix.Errno) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags&unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, notifierErrnoOf(err)
	}
	if port == 0 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IP, unix.IP_BIND_ADDRESS_NO_PORT, 1)
	} else {
		err = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_REUSEADDR, 1)
	}
	if err == nil && family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, loopbackAddress(family, port))
	}
	if err != nil {
		unix.Close(fd)
		return -1, notifierErrnoOf(err)
	}
	return fd, 0
}

func loopbackAddress(family, port int) unix.Sockaddr {
	if family == unix.AF_INET6 {
		return &unix.SockaddrInet6{Port: port, Addr: [16]byte{10: 0xff, 11: 0xff, 12: 127, 15: 1}}
	}
	return &unix.SockaddrInet4{Port: port, Addr: [4]byte{127, 0, 0, 1}}
}

// An addressed is an address of the internet families as a program has it.
type addressed struct {
	family int
	port   int
	ip     []byte // 4 or 16
}

// address reads the address of a call.
func address(n *notice) ([]byte, unix.Errno) {
	size := int32(n.args[2])
	if size < 2 || size > maxAddress {
		return nil, unix.EINVAL
	}
	b := make([]byte, size)
	if got, ok := readNotifier(int(n.pid), n.args[1], b); !ok || got != len(b) {
		return nil, unix.EFAULT
	}
	return b, 0
}

// internet reads an address of the internet families.
func internet(b []byte) (addressed, bool) {
	a := addressed{family: int(binary.NativeEndian.Uint16(b))}
	switch {
	case a.family == unix.AF_INET && len(b) >= 8:
		a.ip = b[4:8]
	case a.family == unix.AF_INET6 && len(b) >= 24:
		a.ip = b[8:24]
	default:
		return a, false
	}
	a.port = int(binary.BigEndian.Uint16(b[2:]))
	return a, true
}

// local reports whether an address is one of this machine's loopback interface, or
// any address, which means it.
func (a addressed) local() bool {
	ip := a.ip
	if len(ip) == 16 {
		mapped := [12]byte{10: 0xff, 11: 0xff}
		var one [16]byte
		one[15] = 1
		switch {
		case allZero(ip), [16]byte(ip) == one:
			return true
		case [12]byte(ip[:12]) != mapped:
			return false
		}
		ip = ip[12:]
	}
	return allZero(ip) || ip[0] == 127
}

func allZero(b []byte) bool { return !slices.ContainsFunc(b, func(x byte) bool { return x != 0 }) }

// bind puts a socket in the place of a command's that is bound to the port it
// asks for, of the loopback interface.
func (s *callServer) bind(listener int, n *notice) unix.Errno {
	flags, errno := socketFlags(n)
	if errno != 0 {
		return errno
	}
	b, errno := address(n)
	if errno != 0 {
		return errno
	}
	if !waits(listener, n.id) {
		return unix.EPERM // what was read may be another process's
	}
	a, ok := internet(b)
	switch {
	case !ok:
		return unix.EPERM // a Unix socket would be the host's to see
	case !a.local():
		return unix.EADDRNOTAVAIL
	}
	// Port 0 means one that is free now: programs ask for it before they listen.
	fd, errno := loopbackSocket(a.family, a.port, flags)
	if errno == 0 && a.port == 0 {
		unix.Close(fd)
		fd, errno = freePort(a.family, flags)
	}
	if errno != 0 {
		return errno
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return notifierErrnoOf(err)
	}
	s.remember(st.Ino)
	return replace(listener, n, fd, flags)
}

// freePort makes a socket with a port that the kernel chooses.
func freePort(family, flags int) (int, unix.Errno) {
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|flags&unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, notifierErrnoOf(err)
	}
	if family == unix.AF_INET6 {
		err = unix.SetsockoptInt(fd, unix.IPPROTO_IPV6, unix.IPV6_V6ONLY, 0)
	}
	if err == nil {
		err = unix.Bind(fd, loopbackAddress(family, 0))
	}
	if err != nil {
		unix.Close(fd)
		return -1, notifierErrnoOf(err)
	}
	return fd, 0
}

func (s *callServer) remember(inode uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bound[inode] = true
	s.order = append(s.order, inode)
	if len(s.order) > maxBound {
		delete(s.bound, s.order[0])
		s.order = slices.Clone(s.order[1:])
	}
}

func (s *callServer) ours(inode uint64) bool {
	s.mu.Lock()
	bound := s.bound[inode]
	s.mu.Unlock()
	return bound || s.own.has(inode)
}

// connect connects a socket of the guest's making and puts it in the place of the
// command's.
func (s *callServer) connect(listener int, n *notice) unix.Errno {
	flags, errno := socketFlags(n)
	if errno != 0 {
		return errno
	}
	b, errno := address(n)
	if errno != 0 {
		return errno
	}
	if !waits(listener, n.id) {
		return unix.EPERM
	}
	if binary.NativeEndian.Uint16(b) == unix.AF_UNIX {
		return s.connectUnix(listener, n, flags, b)
	}
	a, ok := internet(b)
	switch {
	case !ok:
		return unix.EAFNOSUPPORT
	case !a.local():
		return unix.ENETUNREACH // as in a network namespace that has nothing but lo
	}
	to, ok := s.listensAt(a.port)
	if !ok {
		return unix.ECONNREFUSED
	}
	fd, errno := s.reach(to, func() bool { return waits(listener, n.id) })
	if errno != 0 {
		return errno
	}
	defer unix.Close(fd)
	return replace(listener, n, fd, flags)
}

// reach connects to a listener of the sandbox. It looks at it again after that: a
// port that has changed its owner meanwhile is not ours.
func (s *callServer) reach(to wire.Endpoint, waits func() bool) (int, unix.Errno) {
	sa, family := sockaddr(to)
	fd, err := unix.Socket(family, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return -1, notifierErrnoOf(err)
	}
	atOnce(fd, family)
	errno := dial(fd, rawAddress(sa), waits)
	if errno == 0 {
		if again, ok := s.listensAt(int(to.Port)); !ok || again != to {
			errno = unix.ECONNREFUSED
		}
	}
	if errno != 0 {
		unix.Close(fd)
		return -1, errno
	}
	return fd, 0
}

// listensAt returns the address at which a socket of the sandbox, or one that the
// guest has made for its client, listens at a port of the loopback interface.
func (s *callServer) listensAt(port int) (wire.Endpoint, bool) {
	var found wire.Endpoint
	ok := false
	eachListener(func(at wire.Endpoint, inode uint64) bool {
		a := addressed{ip: []byte(at.Host)}
		if int(at.Port) != port || !a.local() || allZero(a.ip) || !s.ours(inode) {
			return true
		}
		found, ok = at, true
		return false
	})
	return found, ok
}

// within returns the address at which the sandbox listens for what a client of the
// guest connects to. All others are the host's.
func (s *callServer) within(to wire.Endpoint) (wire.Endpoint, error) {
	if to.Family == wire.FamilyUnix {
		return to, unix.EPERM
	}
	if !(addressed{ip: []byte(to.Host)}).local() {
		return to, unix.ENETUNREACH
	}
	at, ok := s.listensAt(int(to.Port))
	if !ok {
		return to, unix.ECONNREFUSED
	}
	return at, nil
}

// rawAddress is an address as the kernel takes it.
func rawAddress(sa unix.Sockaddr) []byte {
	switch sa := sa.(type) {
	case *unix.SockaddrInet4:
		b := make([]byte, 16)
		binary.NativeEndian.PutUint16(b, unix.AF_INET)
		binary.BigEndian.PutUint16(b[2:], uint16(sa.Port))
		copy(b[4:], sa.Addr[:])
		return b
	case *unix.SockaddrInet6:
		b := make([]byte, 28)
		binary.NativeEndian.PutUint16(b, unix.AF_INET6)
		binary.BigEndian.PutUint16(b[2:], uint16(sa.Port))
		copy(b[8:], sa.Addr[:])
		return b
	}
	return nil
}

// connectUnix connects to a socket file that settings grant, by the file that is
// there now.
func (s *callServer) connectUnix(listener int, n *notice, flags int, b []byte) unix.Errno {
	name, _, _ := strings.Cut(string(b[2:]), "\x00")
	if name == "" {
		return unix.EPERM // an abstract one
	}
	if name[0] != '/' {
		folder, ok := readlink("/proc/" + strconv.Itoa(int(n.pid)) + "/cwd")
		if !ok || folder[0] != '/' {
			return unix.EPERM
		}
		name = join(folder, name)
	}
	file, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return notifierErrnoOf(err)
	}
	defer unix.Close(file)
	at, ok := readlink("/proc/self/fd/" + strconv.Itoa(file))
	if !ok || !slices.Contains(s.sockets, at) {
		return unix.EPERM
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return notifierErrnoOf(err)
	}
	defer unix.Close(fd)
	address := append([]byte{0, 0}, "/proc/self/fd/"+strconv.Itoa(file)+"\x00"...)
	binary.NativeEndian.PutUint16(address, unix.AF_UNIX)
	if errno := dial(fd, address, func() bool { return waits(listener, n.id) }); errno != 0 {
		return errno
	}
	return replace(listener, n, fd, flags)
}

// socketFlags returns the flags of the descriptor that a call names, which must be
// a socket: SOCK_NONBLOCK and SOCK_CLOEXEC.
func socketFlags(n *notice) (int, unix.Errno) {
	number := strconv.Itoa(int(int32(n.args[0])))
	own := "/proc/" + strconv.Itoa(int(n.pid))
	target, ok := readlink(own + "/fd/" + number)
	switch {
	case !ok:
		return 0, unix.EBADF
	case !strings.HasPrefix(target, "socket:["):
		return 0, unix.ENOTSOCK
	}
	info, err := os.ReadFile(own + "/fdinfo/" + number)
	if err != nil {
		return 0, unix.EBADF
	}
	for line := range strings.Lines(string(info)) {
		if text, ok := strings.CutPrefix(line, "flags:"); ok {
			flags, err := strconv.ParseUint(strings.TrimSpace(text), 8, 32)
			if err != nil {
				break
			}
			return int(flags) & (unix.SOCK_NONBLOCK | unix.SOCK_CLOEXEC), 0
		}
	}
	return 0, unix.EBADF
}

// replace puts fd in the place of the descriptor that a call names.
func replace(listener int, n *notice, fd, flags int) unix.Errno {
	if err := unix.SetNonblock(fd, flags&unix.SOCK_NONBLOCK != 0); err != nil {
		return notifierErrnoOf(err)
	}
	add := addFD{id: n.id, flags: addSet, from: uint32(fd), to: uint32(n.args[0])}
	if flags&unix.SOCK_CLOEXEC != 0 {
		add.fdFlags = unix.O_CLOEXEC
	}
	_, errno := add.give(listener)
	return errno
}

// An addFD is the kernel's seccomp_notif_addfd.
type addFD struct {
	id      uint64
	flags   uint32
	from    uint32
	to      uint32
	fdFlags uint32
}

const (
	addSet  = 1 // SECCOMP_ADDFD_FLAG_SETFD
	addSend = 2 // SECCOMP_ADDFD_FLAG_SEND
)

// give gives the waiting process a descriptor, and returns its number there.
func (a *addFD) give(listener int) (number int, errno unix.Errno) {
	for {
		r, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(listener), unix.SECCOMP_IOCTL_NOTIF_ADDFD, uintptr(unsafe.Pointer(a)))
		if errno != unix.EINTR && errno != unix.EINPROGRESS {
			return int(r), errno
		}
	}
}
