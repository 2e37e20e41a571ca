//go:build !linux

package client

import (
	"errors"
	"net"
	"os"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// Descriptors cannot be passed into a sandbox on this system.

func (c *Client) offer(*net.UnixConn, []byte) (sent bool, err error) { return false, nil }

func tellsNetworks() bool { return false }

func openListening(fd int, _ wire.Endpoint) (*net.TCPListener, error) {
	os.NewFile(uintptr(fd), "").Close()
	return nil, errors.ErrUnsupported
}

func closeListening(l *net.TCPListener) { l.Close() }

// A passedConn is a connection by a socket that was handed over.
type passedConn struct {
	net.Conn
	socket *net.TCPConn
}

func openConnected(fd int, _ wire.Endpoint) (*net.TCPConn, error) {
	os.NewFile(uintptr(fd), "").Close()
	return nil, errors.ErrUnsupported
}

func newPassedConn(*Client, *net.TCPConn, net.Addr, net.Addr) (*passedConn, error) {
	return nil, errors.ErrUnsupported
}
