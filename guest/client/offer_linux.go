package client

import (
	"net"
	"os"

	"golang.org/x/sys/unix"
)

// offer reports whether any of the bytes was sent.
func (c *Client) offer(conn *net.UnixConn, hello []byte) (sent bool, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_NONBLOCK|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return false, err
	}
	defer unix.Close(pair[1])
	beside, err := openSide(os.NewFile(uintptr(pair[0]), "descriptors"))
	if err != nil {
		return false, err
	}
	n, _, err := conn.WriteMsgUnix(hello, unix.UnixRights(pair[1]), nil)
	if n == 0 {
		beside.close()
		return false, err
	}
	c.side = beside
	for n < len(hello) && err == nil {
		var more int
		more, err = conn.Write(hello[n:])
		n += more
	}
	return true, err
}
