//go:build linux || darwin

package sandboxexec

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strconv"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// Listen implements [sandbox.Listener]: commands that are started from now on may
// connect to what it returns, at a port of 127.0.0.1. The loopback interface is
// that of the host, so other programs of this machine may connect to it too. A
// profile names a port and not an address, so the port of ::1 is taken along,
// where nothing answers: whatever listens there would be open to code inside.
func (h *handle) Listen(ctx context.Context, network, addr string) (net.Listener, error) {
	refuse := func(code sandbox.Code, message string) error {
		return &sandbox.Error{Code: code, Op: "listen", Resource: addr, Message: message}
	}
	if err := ended(ctx, "listen"); err != nil {
		return nil, err
	}
	if network != "tcp" && network != "tcp4" {
		return nil, refuse(sandbox.CodeUnsupported, "a local sandbox of macOS has listeners for TCP alone")
	}
	at, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, refuse(sandbox.CodeValidation, "the address is not an IP address with a port")
	}
	if at.Addr() != netip.AddrFrom4([4]byte{127, 0, 0, 1}) {
		return nil, refuse(sandbox.CodeUnsupported, "the loopback interface of macOS has the address 127.0.0.1 alone")
	}
	h.mu.Lock()
	over := h.over
	h.mu.Unlock()
	if over {
		return nil, h.closed("listen")
	}
	l, err := both(at.Port())
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, refuse(sandbox.CodeBusy, "another program of this machine listens there")
	case err != nil:
		return nil, sandbox.Errorf(sandbox.CodeExecution, "listen", "%w", err)
	}
	l.h = h
	h.mu.Lock()
	h.ports[l.port]++
	h.mu.Unlock()
	return l, nil
}

// attempts bounds how often a free port is looked for that ::1 has too.
const attempts = 16

// both listens at a port of 127.0.0.1 and holds that of ::1.
func both(port uint16) (*listener, error) {
	for i := 1; ; i++ {
		l, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(int(port))))
		if err != nil {
			return nil, err
		}
		out := &listener{Listener: l, port: l.Addr().(*net.TCPAddr).Port}
		six, err := net.Listen("tcp6", net.JoinHostPort("::1", strconv.Itoa(out.port)))
		if err == nil {
			out.six = six
			go turnAway(six)
			return out, nil
		}
		if errors.Is(err, syscall.EADDRNOTAVAIL) || errors.Is(err, syscall.EAFNOSUPPORT) {
			return out, nil // there is no ::1, and so nothing listens there
		}
		l.Close()
		if port != 0 || i == attempts {
			return nil, err
		}
	}
}

// turnAway closes what comes.
func turnAway(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		c.Close()
	}
}

// A listener is one whose port commands may connect to.
type listener struct {
	net.Listener
	h    *handle
	six  net.Listener // or nil
	port int
	once sync.Once
}

// Close implements [net.Listener].
func (l *listener) Close() error {
	err := l.Listener.Close()
	l.once.Do(func() {
		if l.six != nil {
			l.six.Close()
		}
		l.h.mu.Lock()
		if l.h.ports[l.port]--; l.h.ports[l.port] == 0 {
			delete(l.h.ports, l.port)
		}
		l.h.mu.Unlock()
	})
	return err
}
