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
