package wire

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// A Conn is one end of a channel. Send and Receive may each be called by one
// goroutine at a time, Close by anybody.
type Conn struct {
	f    *os.File
	send sync.Mutex
}

// NewConn returns a Conn on the socket f, which it owns from here on, also
// when it fails. Anything but a SOCK_SEQPACKET Unix socket is refused.
func NewConn(f *os.File) (*Conn, error) {
	defer f.Close()
	raw, err := f.SyscallConn()
	if err != nil {
		return nil, err
	}
	own := -1
	cerr := raw.Control(func(fd uintptr) {
		// One that was made as a blocking file is not polled: a new one is.
		if err = check(int(fd)); err == nil {
			own, err = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3)
		}
	})
	if err = errors.Join(cerr, err); err != nil {
		return nil, err
	}
	if err := unix.SetNonblock(own, true); err != nil {
		unix.Close(own)
		return nil, err
	}
	return &Conn{f: os.NewFile(uintptr(own), "descriptors")}, nil
}

func check(fd int) error {
	for option, want := range map[int]int{unix.SO_DOMAIN: unix.AF_UNIX, unix.SO_TYPE: unix.SOCK_SEQPACKET} {
		if got, err := unix.GetsockoptInt(fd, unix.SOL_SOCKET, option); err != nil || got != want {
			return errors.New("the channel for descriptors is no SOCK_SEQPACKET Unix socket")
		}
	}
	return nil
}

// Close ends the channel. A Receive that waits returns.
func (c *Conn) Close() error { return c.f.Close() }

// Send sends files, which stay open here, and returns when they lie in the
// socket of the other side. That takes longer than within only when the other
// side does not read: the error is os.ErrDeadlineExceeded then.
func (c *Conn) Send(kind handoverKind, ticket uint32, files []*os.File, within time.Duration) error {
	c.send.Lock()
	defer c.send.Unlock()
	if err := c.f.SetWriteDeadline(time.Now().Add(within)); err != nil {
		return err
	}
	return withDescriptors(files, nil, func(fds []int) error {
		raw, err := c.f.SyscallConn()
		if err != nil {
			return err
		}
		b := header{kind, uint8(len(fds)), ticket}.encode()
		var sent error
		err = raw.Write(func(fd uintptr) bool {
			for {
				_, sent = unix.SendmsgN(int(fd), b, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
				if sent != unix.EINTR {
					return sent != unix.EAGAIN
				}
			}
		})
		return errors.Join(err, sent)
	})
}

// withDescriptors calls do while none of the files can be closed.
func withDescriptors(files []*os.File, fds []int, do func([]int) error) (err error) {
	if len(files) == 0 {
		return do(fds)
	}
	raw, err := files[0].SyscallConn()
	if err != nil {
		return err
	}
	cerr := raw.Control(func(fd uintptr) { err = withDescriptors(files[1:], append(fds, int(fd)), do) })
	return errors.Join(cerr, err)
}

// Receive returns the next message, io.EOF at the end, and for what breaks
// the rules a *wire.ProtocolError; no descriptor of such a message stays
// open. Nothing is to be received after an error.
func (c *Conn) Receive() (Message, error) {
	raw, err := c.f.SyscallConn()
	if err != nil {
		return Message{}, err
	}
	b := make([]byte, messageLen+1)
	oob := make([]byte, unix.CmsgSpace(maxFiles*4))
	var n, oobn, flags int
	var got error
	err = raw.Read(func(fd uintptr) bool {
		for {
			n, oobn, flags, _, got = unix.Recvmsg(int(fd), b, oob, unix.MSG_CMSG_CLOEXEC|unix.MSG_DONTWAIT)
			if got != unix.EINTR {
				return got != unix.EAGAIN
			}
		}
	})
	if got == unix.ECONNRESET { // an end with messages that it had not read
		got = io.EOF
	}
	if err == nil {
		err = got
	}
	if err != nil {
		return Message{}, err
	}
	return understand(b[:n], oob[:oobn], flags)
}

// understand makes a message of what was received, and closes descriptors
// that belong to none.
func understand(b, oob []byte, flags int) (Message, error) {
	m, err := received(oob)
	var h header
	switch {
	case err != nil:
	case flags&unix.MSG_CTRUNC != 0:
		err = Violation("more descriptors than there is room for")
	case len(b) == 0 && len(m.FDs) == 0:
		err = io.EOF
	default:
		h, err = decodeHandover(b, len(m.FDs))
	}
	if err != nil {
		m.Discard()
		return Message{}, err
	}
	m.Kind, m.Ticket = h.kind, h.ticket
	return m, nil
}

// Discard closes the descriptors and does not wait for it.
func (m Message) Discard() {
	for _, fd := range m.FDs {
		go unix.Close(fd)
	}
}

// received takes descriptors out of control messages, as the kernel writes
// them. With an error it returns those that there are all the same.
func received(oob []byte) (m Message, err error) {
	all, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return m, Violation("malformed control message")
	}
	for _, one := range all {
		fds, rightsErr := unix.ParseUnixRights(&one)
		if rightsErr != nil {
			err = Violation("another control message than descriptors")
		}
		m.FDs = append(m.FDs, fds...)
	}
	return m, err
}
