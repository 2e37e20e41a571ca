//go:build linux

package server

import (
	"bufio"
	"encoding/binary"
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// Commands cannot look at each other's descriptors, so the guest, which can, says
// which program listens at which port.

const (
	// maxPortLooks bounds the lists that are made at a time.
	maxPortLooks = 4
	// maxPortFiles bounds the descriptors that are looked at for one list, and
	// with them the time that it takes.
	maxPortFiles = 1 << 17
)

// ownSockets are the listening sockets that the guest has made for its clients, by
// inode. No program inside listens there.
type ownSockets struct {
	mu     sync.Mutex
	inodes map[uint64]int
}

// add counts the socket file until the returned function is called.
func (o *ownSockets) add(file *os.File) (remove func()) {
	inode, ok := inodeOf(file)
	if !ok {
		return func() {}
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.inodes == nil {
		o.inodes = map[uint64]int{}
	}
	o.inodes[inode]++
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		if o.inodes[inode]--; o.inodes[inode] <= 0 {
			delete(o.inodes, inode)
		}
	}
}

func inodeOf(file *os.File) (inode uint64, ok bool) {
	raw, err := file.SyscallConn()
	if err != nil {
		return 0, false
	}
	var st unix.Stat_t
	if raw.Control(func(fd uintptr) { err = unix.Fstat(int(fd), &st) }) != nil || err != nil {
		return 0, false
	}
	return st.Ino, true
}

func (o *ownSockets) has(inode uint64) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.inodes[inode] > 0
}

// A portsRequest is a request for the ports at which programs listen.
type portsRequest struct {
	c      *conn
	stream uint32
}

// ports begins to answer a request for ports.
func (c *conn) ports(f wire.Frame) error {
	if len(f.Payload) > 0 {
		return wire.Violation("malformed request for ports")
	}
	select {
	case c.srv.portLooks <- struct{}{}:
	default:
		return c.refuse(f.Stream, wire.KindResource, "ports are listed for too many requests at once")
	}
	r := portsRequest{c, f.Stream}
	c.begin(f.Stream, r, false)
	go r.answer()
	return nil
}

func (r portsRequest) answer() {
	defer func() { <-r.c.srv.portLooks }()
	payload := wire.EncodePorts(r.c.srv.listening())
	// A failed write is the connection's end, which its reader sees too.
	_ = r.c.w.Write(wire.Frame{Type: wire.TypePortList, Stream: r.stream, Payload: payload})
	r.c.finished(r.stream, false)
}

// event implements stream: nothing belongs to such a request.
func (portsRequest) event(wire.Frame) error { return wire.Violation("frame for a request for ports") }

// disconnect implements stream. The list ends by itself.
func (portsRequest) disconnect() {}

// listening returns the sockets that listen, in the order of the kernel.
func (s *Server) listening() []wire.Port {
	var list []wire.Port
	at := map[uint64][]int{} // places in list, by inode
	calls := s.calls()
	eachListener(func(end wire.Endpoint, inode uint64) bool {
		if s.own.has(inode) || calls != nil && !calls.ours(inode) {
			return true
		}
		at[inode] = append(at[inode], len(list))
		list = append(list, wire.Port{At: end})
		return len(list) < wire.MaxPorts
	})
	if len(at) > 0 {
		findHolders(list, at)
	}
	return list
}

// eachListener calls f with each TCP socket of our network namespace that listens, in
// the order of the kernel, until it returns false.
func eachListener(f func(at wire.Endpoint, inode uint64) bool) {
	for _, name := range []string{"tcp", "tcp6"} {
		file, err := os.Open("/proc/self/net/" + name)
		if err != nil {
			continue // the kernel has no such family
		}
		more := true
		for lines := bufio.NewScanner(file); more && lines.Scan(); {
			fields := strings.Fields(lines.Text())
			if len(fields) < 10 || fields[3] != "0A" {
				continue
			}
			inode, err := strconv.ParseUint(fields[9], 10, 64)
			end, ok := listenEndpoint(fields[1])
			if err != nil || !ok {
				continue
			}
			more = f(end, inode)
		}
		file.Close()
		if !more {
			return
		}
	}
}

// calls returns what makes calls for commands, nil where nothing does.
func (s *Server) calls() *callServer {
	if s.callNotifier == nil {
		return nil
	}
	return s.callNotifier.observer.calls
}

// listenEndpoint reads an address of /proc/net/tcp: words of four bytes in the order
// of the machine.
func listenEndpoint(s string) (wire.Endpoint, bool) {
	host, port, _ := strings.Cut(s, ":")
	data, err := hex.DecodeString(host)
	number, bad := strconv.ParseUint(port, 16, 16)
	if err != nil || bad != nil || number == 0 {
		return wire.Endpoint{}, false
	}
	for i := 0; i+4 <= len(data); i += 4 {
		binary.NativeEndian.PutUint32(data[i:], binary.BigEndian.Uint32(data[i:]))
	}
	e := wire.Endpoint{Family: wire.FamilyIPv4, Port: uint16(number), Host: string(data)}
	if len(data) == 16 {
		e.Family = wire.FamilyIPv6
	}
	return e, len(data) == 4 || len(data) == 16
}

// findHolders fills in, for sockets of which at has the places by inode, the process
// that has opened each: of several the one with the lowest number.
func findHolders(list []wire.Port, at map[uint64][]int) {
	self, looked := os.Getpid(), 0
	for _, pid := range pidsOf("/proc") {
		if pid == self {
			continue
		}
		fds := "/proc/" + strconv.Itoa(pid) + "/fd"
		for _, fd := range pidsOf(fds) {
			if looked++; looked > maxPortFiles {
				return
			}
			target, err := os.Readlink(fds + "/" + strconv.Itoa(fd))
			number, isSocket := strings.CutPrefix(target, "socket:[")
			if err != nil || !isSocket {
				continue // it is closed meanwhile, or no socket
			}
			inode, err := strconv.ParseUint(strings.TrimSuffix(number, "]"), 10, 64)
			if err != nil {
				continue
			}
			for _, i := range at[inode] {
				if list[i].PID == 0 || list[i].PID > uint32(pid) {
					list[i].PID, list[i].Command = uint32(pid), argumentsOf(pid)
				}
			}
		}
	}
}

// pidsOf returns the names of a folder that are numbers.
func pidsOf(dir string) (numbers []int) {
	f, err := os.Open(dir)
	if err != nil {
		return nil // it has ended, or is not to be looked at
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1) // what was read before an error counts
	for _, name := range names {
		if n, err := strconv.Atoi(name); err == nil && n >= 0 {
			numbers = append(numbers, n)
		}
	}
	return numbers
}

// argumentsOf returns the beginning of the arguments of a process.
func argumentsOf(pid int) string {
	f, err := os.Open("/proc/" + strconv.Itoa(pid) + "/cmdline")
	if err != nil {
		return ""
	}
	defer f.Close()
	data := make([]byte, wire.MaxPortCommand)
	n, _ := f.Read(data)
	return string(data[:n])
}
