package operation

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// Inside is where the proxy listens for the requests of an [Executor]: an
// in-process listener without a port or a file that another process could open.
// An egress session is opened with it in place of a sandbox. The zero value is
// ready to use. It is safe for concurrent use.
type Inside struct {
	mu sync.Mutex
	l  *listener // the last one
}

var _ sandbox.Listener = (*Inside)(nil)

// Listen implements [sandbox.Listener]. There is one listener at a time, whatever
// the address, which names nothing here; while it is open a second one is
// [sandbox.CodeBusy].
func (i *Inside) Listen(ctx context.Context, network, _ string) (net.Listener, error) {
	if network != "tcp" {
		return nil, sandbox.Errorf(sandbox.CodeUnsupported, "listen", "only streams are carried, not %s", network)
	}
	if ctx.Err() != nil {
		return nil, fetchEnded(ctx)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.l != nil && !i.l.done() {
		return nil, sandbox.Errorf(sandbox.CodeBusy, "listen", "a way out is open here already")
	}
	i.l = &listener{conns: make(chan net.Conn), closed: make(chan struct{})}
	return i.l, nil
}

// dial connects to the listener. Connections do not queue: each waits, with its
// caller, until it is accepted.
func (i *Inside) dial(ctx context.Context) (net.Conn, error) {
	i.mu.Lock()
	l := i.l
	i.mu.Unlock()
	if l == nil || l.done() {
		return nil, closedWay()
	}
	ours, theirs, err := pair()
	if err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: fetchOp, Message: "no connection to the way out can be made", Retryable: true, Err: err}
	}
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-l.closed:
		err = closedWay()
	case <-ctx.Done():
		err = fetchEnded(ctx)
	}
	ours.Close()
	theirs.Close()
	return nil, err
}

func closedWay() error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: fetchOp, Message: "the way out is closed", Retryable: true}
}

// A listener hands over connections one by one.
type listener struct {
	conns  chan net.Conn // without room: nothing lies in it when the listener ends
	closed chan struct{}
	once   sync.Once
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	if l.done() {
		return nil, net.ErrClosed
	}
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *listener) Close() error {
	err := net.ErrClosed
	l.once.Do(func() { close(l.closed); err = nil })
	return err
}

// Addr implements net.Listener.
func (l *listener) Addr() net.Addr { return address{} }

func (l *listener) done() bool {
	select {
	case <-l.closed:
		return true
	default:
		return false
	}
}

// An address is that of a listener, which has none.
type address struct{}

// Network implements net.Addr.
func (address) Network() string { return "inside" }

// String implements net.Addr.
func (address) String() string { return "inside" }

// pair returns two connected sockets. Kernel sockets provide what the proxy
// relies on and in-memory pipes lack: room for a response that is sent before
// the request was read, and closing one direction alone.
func pair() (a, b net.Conn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	a, errA := connOf(fds[0])
	b, errB := connOf(fds[1])
	if err := errors.Join(errA, errB); err != nil {
		for _, c := range []net.Conn{a, b} {
			if c != nil {
				c.Close()
			}
		}
		return nil, nil, err
	}
	return a, b, nil
}

// connOf makes a connection of a socket, which it owns.
func connOf(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "inside")
	defer f.Close() // the connection has a descriptor of its own
	return net.FileConn(f)
}
