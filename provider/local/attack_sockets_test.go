//go:build linux

package local_test

import (
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

func socketTries() map[string]func([]string) error {
	return map[string]func([]string) error{
		"dial":          dial,
		"connect-at":    connectAt,
		"send-datagram": sendDatagram,
		"pair-connect":  pairConnect,
		"swap-connect":  swapConnect,
		"pass-connect":  passConnect,
		"add-address":   addAddress,
		"host-key":      hostKey,
		"add-host-key":  addHostKey,
		"tiocsti":       typeInto,
		"tioclinux":     func([]string) error { return worked(call(unix.SYS_IOCTL, 0, 0x541C, uintptr(0))) },
		"terminal":      openTerminal,
		"personality":   func([]string) error { return worked(call(unix.SYS_PERSONALITY, 0x0400000)) },
	}
}

// dial connects and says a word: whether anybody hears is seen on the host.
func dial(a []string) error {
	c, err := net.DialTimeout(a[0], a[1], 2*time.Second)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.Write([]byte("hello"))
	return err
}

// connectAt connects to a socket by a descriptor of its file, as a long or
// an odd path would be.
func connectAt(a []string) error {
	fd, err := unix.Open(a[0], unix.O_PATH, 0)
	if err != nil {
		return err
	}
	return dial([]string{"unix", "/proc/self/fd/" + strconv.Itoa(fd)})
}

func sendDatagram(a []string) error {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_DGRAM, 0)
	if err != nil {
		return err
	}
	return unix.Sendto(fd, []byte("hello"), 0, &unix.SockaddrUnix{Name: a[0]})
}

// pairConnect uses an end of a pair, for which no socket has to be made.
func pairConnect(a []string) error {
	var err error
	for _, kind := range []int{unix.SOCK_DGRAM, unix.SOCK_SEQPACKET, unix.SOCK_STREAM} {
		var pair [2]int
		if pair, err = unix.Socketpair(unix.AF_UNIX, kind, 0); err != nil {
			fmt.Println("pair:", err)
			continue
		}
		for _, path := range a {
			if err = unix.Connect(pair[0], &unix.SockaddrUnix{Name: path}); err == nil {
				_, err = unix.Write(pair[0], []byte("hello"))
			}
			if err != nil {
				fmt.Println(path, err)
			}
		}
	}
	return err
}

// swapConnect connects over and over to a socket of its own while other threads
// exchange all that says which: the file at the path, the path in memory, and
// the socket at the number.
func swapConnect(a []string) error {
	own, err := net.Listen("unix", "own.sock")
	if err != nil {
		return err
	}
	go func() {
		for {
			c, err := own.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	host := a[0]
	if err := errors.Join(os.Symlink("own.sock", "way"), os.Symlink(host, "other")); err != nil {
		return err
	}
	address := make([]byte, 2+len(host)+len("own.sock")+1)
	put := func(name string) {
		address[0] = unix.AF_UNIX
		copy(address[2:], name+"\x00")
	}
	put("way")
	tcp, err := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	over := time.Now().Add(2 * time.Second)
	swap := func(do func(i int)) {
		go func() {
			runtime.LockOSThread()
			for i := 0; time.Now().Before(over); i++ {
				do(i)
			}
		}()
	}
	swap(func(int) { _ = unix.Renameat2(unix.AT_FDCWD, "way", unix.AT_FDCWD, "other", unix.RENAME_EXCHANGE) })
	swap(func(i int) { put([]string{"way", host, "own.sock"}[i%3]) })
	const number = 200
	swap(func(int) { _ = unix.Dup3(tcp, number, 0) })
	connected := 0
	for time.Now().Before(over) {
		fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
		if err != nil {
			return err
		}
		_ = unix.Dup3(fd, number, 0)
		for _, to := range []int{fd, number} {
			if _, _, errno := unix.Syscall(unix.SYS_CONNECT, uintptr(to), uintptr(unsafe.Pointer(&address[0])), uintptr(len(address))); errno == 0 {
				connected++
			}
		}
		_, _ = unix.Write(fd, []byte("hello"))
		unix.Close(fd)
	}
	if connected == 0 {
		fmt.Println("never connected")
	}
	return errors.New("who was reached is seen on the host")
}

// passConnect connects a socket that another process has made, and one by a
// relative path from the folder of the socket.
func passConnect(a []string) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err != nil {
		return err
	}
	if err := unix.Sendmsg(pair[0], []byte("x"), unix.UnixRights(fd), nil, 0); err != nil {
		return err
	}
	oob := make([]byte, 64)
	_, n, _, _, err := unix.Recvmsg(pair[1], make([]byte, 1), oob, 0)
	if err != nil {
		return err
	}
	list, err := unix.ParseSocketControlMessage(oob[:n])
	if err != nil {
		return err
	}
	fds, err := unix.ParseUnixRights(&list[0])
	if err != nil {
		return err
	}
	if err := os.Chdir(filepath.Dir(a[0])); err != nil {
		return err
	}
	if err = unix.Connect(fds[0], &unix.SockaddrUnix{Name: "./" + filepath.Base(a[0])}); err == nil {
		_, err = unix.Write(fds[0], []byte("hello"))
	}
	return err
}

// addAddress changes an interface by netlink.
func addAddress([]string) error {
	fd, err := unix.Socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	// RTM_NEWLINK on interface 1 with IFF_UP cleared, acknowledged.
	m := make([]byte, 32)
	m[0], m[4], m[6] = 32, unix.RTM_NEWLINK, unix.NLM_F_REQUEST|unix.NLM_F_ACK
	m[20], m[28] = 1, unix.IFF_UP
	if err := unix.Sendto(fd, m, 0, &unix.SockaddrNetlink{Family: unix.AF_NETLINK}); err != nil {
		return err
	}
	b := make([]byte, 256)
	n, _, err := unix.Recvfrom(fd, b, 0)
	if err != nil || n < 20 {
		return err
	}
	if code := int32(uint32(b[16]) | uint32(b[17])<<8 | uint32(b[18])<<16 | uint32(b[19])<<24); code != 0 {
		return unix.Errno(-code)
	}
	return worked(nil)
}

// hostKey reads a key from the user's keyring, which no namespace divides.
func hostKey(a []string) error {
	id, err := unix.KeyctlSearch(unix.KEY_SPEC_USER_KEYRING, "user", a[0], 0)
	if err != nil {
		if id, err = unix.RequestKey("user", a[0], "", 0); err != nil {
			return err
		}
	}
	b := make([]byte, 256)
	n, err := unix.KeyctlBuffer(unix.KEYCTL_READ, id, b, 0)
	if err != nil {
		return err
	}
	_, err = os.Stdout.Write(b[:n])
	return err
}

// addHostKey is the host's part.
func addHostKey(a []string) error {
	_, err := unix.AddKey("user", a[0], []byte(a[1]), unix.KEY_SPEC_USER_KEYRING)
	return err
}

// typeInto types into the terminal that the command runs on.
func typeInto([]string) error {
	c := byte('x')
	return worked(ioctlByte(0, unix.TIOCSTI, &c))
}

func openTerminal([]string) error {
	for _, p := range []string{"/dev/tty", "/dev/tty0", "/dev/console", "/dev/pts/0", "/dev/vcs", "/dev/ttyS0"} {
		fd, err := unix.Open(p, unix.O_RDWR|unix.O_NOCTTY, 0)
		if err != nil {
			fmt.Println(p, err)
			continue
		}
		c := byte('x')
		if err := worked(ioctlByte(fd, unix.TIOCSTI, &c), p); err != nil {
			fmt.Println(p, err)
		}
	}
	return nil
}
