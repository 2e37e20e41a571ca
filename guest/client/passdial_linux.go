package client

import (
	"errors"
	"io"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// openConnected makes a connection of a descriptor that the guest says is a
// socket connected to an endpoint, and owns it. What it is not is a violation;
// other errors are ours.
func openConnected(fd int, to wire.Endpoint) (*net.TCPConn, error) {
	ours, err := ourNetwork()
	if err == nil {
		err = isConnected(fd, to, ours)
	}
	if err != nil {
		wire.Message{FDs: []int{fd}}.Discard()
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "connection")
	defer f.Close() // FileConn has its own copy
	conn, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil // what isConnected has held
}

// isConnected holds that fd is a TCP socket of another network than ours that is
// connected to an endpoint, or was. A process with a copy of it can connect it
// anew, within its network alone, which the program that was dialled could pass
// bytes on to as well.
func isConnected(fd int, to wire.Endpoint, ours uint64) error {
	if err := isSocket(fd, to.Family, 0, ours); err != nil {
		return err
	}
	name, err := unix.Getpeername(fd)
	if err == unix.ENOTCONN {
		return nil // it has broken already, which its first use says
	}
	if err != nil || endpointOf(name) != to {
		return wire.Violation("the socket that was handed over is connected to another address than was asked for")
	}
	return nil
}

// A passedConn is a connection by a socket that the guest has handed over. A
// process inside with a copy of the socket can make it block: so each system call
// says by itself that it is not to.
type passedConn struct {
	c             *Client
	socket        *net.TCPConn
	raw           syscall.RawConn
	local, remote net.Addr
}

var _ net.Conn = (*passedConn)(nil)

func newPassedConn(c *Client, socket *net.TCPConn, local, remote net.Addr) (*passedConn, error) {
	raw, err := socket.SyscallConn()
	if err != nil {
		breakOff(socket)
		return nil, err
	}
	return &passedConn{c: c, socket: socket, raw: raw, local: local, remote: remote}, nil
}

// Read implements net.Conn.
func (p *passedConn) Read(b []byte) (n int, err error) {
	if len(b) == 0 {
		return 0, nil
	}
	var failed error
	err = p.raw.Read(func(fd uintptr) bool {
		for {
			n, _, failed = unix.Recvfrom(int(fd), b, unix.MSG_DONTWAIT)
			if failed != unix.EINTR {
				return failed != unix.EAGAIN
			}
		}
	})
	if err == nil {
		err = failed
	}
	if err != nil {
		return 0, p.fail("read", err)
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn.
func (p *passedConn) Write(b []byte) (int, error) {
	done := 0
	for done < len(b) {
		var n int
		var failed error
		err := p.raw.Write(func(fd uintptr) bool {
			for {
				n, failed = unix.SendmsgN(int(fd), b[done:], nil, nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
				if failed != unix.EINTR {
					return failed != unix.EAGAIN
				}
			}
		})
		if err == nil {
			err = failed
		}
		if err != nil {
			return done, p.fail("write", err)
		}
		done += n
	}
	return done, nil
}

// CloseWrite ends what is sent: the other end reads end of file after it.
func (p *passedConn) CloseWrite() error { return p.shutdown(unix.SHUT_WR) }

// CloseRead drops what was received and what is still to come.
func (p *passedConn) CloseRead() error { return p.shutdown(unix.SHUT_RD) }

func (p *passedConn) shutdown(how int) error {
	var failed error
	err := p.raw.Control(func(fd uintptr) { failed = unix.Shutdown(int(fd), how) })
	if err == nil {
		err = failed
	}
	if err != nil {
		return p.fail("close", err)
	}
	return nil
}

// SyscallConn implements syscall.Conn. A system call on the socket may block, unless
// it says by itself that it is not to.
func (p *passedConn) SyscallConn() (syscall.RawConn, error) { return p.raw, nil }

// Close implements net.Conn. What was written is still delivered, by the kernel.
func (p *passedConn) Close() error {
	_ = p.socket.SetLinger(-1) // a process inside could make the close wait
	if err := p.socket.Close(); err != nil {
		return p.fail("close", err)
	}
	return nil
}

// LocalAddr implements net.Conn: the address inside.
func (p *passedConn) LocalAddr() net.Addr { return p.local }

// RemoteAddr implements net.Conn: the address inside.
func (p *passedConn) RemoteAddr() net.Addr { return p.remote }

// SetDeadline implements net.Conn.
func (p *passedConn) SetDeadline(t time.Time) error { return p.socket.SetDeadline(t) }

// SetReadDeadline implements net.Conn.
func (p *passedConn) SetReadDeadline(t time.Time) error { return p.socket.SetReadDeadline(t) }

// SetWriteDeadline implements net.Conn.
func (p *passedConn) SetWriteDeadline(t time.Time) error { return p.socket.SetWriteDeadline(t) }

// fail makes an error one of package net, in the client's words. Where the client
// has lost the guest, that is why the socket is closed.
func (p *passedConn) fail(op string, err error) error {
	var of *net.OpError
	if errors.As(err, &of) {
		err = of.Err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		err = brokenError(errno)
	} else if lost := p.c.lost(); lost != nil && errors.Is(err, net.ErrClosed) {
		err = lost
	}
	return &net.OpError{Op: op, Net: "tcp", Source: p.local, Addr: p.remote, Err: err}
}
