//go:build linux

package attack

import (
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

func socketTries() map[string]func([]string) error {
	return map[string]func([]string) error{
		"dial":          dial,
		"connect-at":    connectAt,
		"send-datagram": sendDatagram,
		"pair-connect":  pairConnect,
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
