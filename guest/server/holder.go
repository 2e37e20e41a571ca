//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"
)

// holdWithin bounds how long a descriptor store may take for anything: that is
// two starts of a program at most. To end the tree of a shell takes no longer
// for it, because that ends the store too, which ends the wait.
const holdWithin = time.Minute

// errFdstore means that the descriptor store does not do its work.
var errFdstore = errors.New("the shell's holder does not answer as it should")

// A fdstoreClient is the guest's end of the socket to the process that holds
// descriptors for a shell. One goroutine uses it.
type fdstoreClient struct {
	sock *os.File
	owed int // Puts that were not acknowledged
}

// newFdstoreClient returns a holder and the other end of its socket.
func newFdstoreClient() (h *fdstoreClient, theirs int, err error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, -1, err
	}
	if err := unix.SetNonblock(pair[0], true); err != nil {
		unix.Close(pair[0])
		unix.Close(pair[1])
		return nil, -1, err
	}
	return &fdstoreClient{sock: os.NewFile(uintptr(pair[0]), "holder")}, pair[1], nil
}

// greet waits for the process number of the descriptor store and the name of
// the shell, which come in any order. A shell that could not be started is an
// unix.Errno.
func (h *fdstoreClient) greet() (pid int, program string, err error) {
	if err := h.sock.SetReadDeadline(time.Now().Add(holdWithin)); err != nil {
		return 0, "", err
	}
	for pid == 0 || program == "" {
		m, err := h.receive()
		if err != nil {
			return 0, "", err
		}
		n, ok := numberFdstore(m)
		switch {
		case m[0] == fdstoreReady && ok:
			pid = n
		case m[0] == fdstoreFailed && ok:
			return 0, "", unix.Errno(n)
		case m[0] == fdstoreProgram:
			program = string(m[1:])
		default:
			return 0, "", errFdstore
		}
	}
	return pid, program, nil
}

// receive returns the next message, which has at least one byte. The end of the
// socket is io.EOF, also where something was left unread.
func (h *fdstoreClient) receive() ([]byte, error) {
	b := make([]byte, maxMessage)
	n, err := h.sock.Read(b)
	if err == nil && n == 0 || errors.Is(err, unix.ECONNRESET) {
		err = io.EOF
	}
	return b[:n], err
}

// A put is a descriptor and the slot that it goes to.
type put struct {
	slot byte
	fd   int
}

// put sends descriptors to their slots. They may be closed afterwards; they
// are there once settle has returned.
func (h *fdstoreClient) put(puts ...put) error {
	message := []byte{fdstorePut}
	var fds []int
	for _, p := range puts {
		message = append(message, p.slot)
		fds = append(fds, p.fd)
	}
	h.owed++
	return h.send(message, fds)
}

// tell gives what will be the shell its standard output, before anything
// else is sent.
func (h *fdstoreClient) tell(fd int) error { return h.send([]byte{fdstoreTell}, []int{fd}) }

// drain has the descriptor store read and discard what comes from fd, for as
// long as a process can write there.
func (h *fdstoreClient) drain(fd int) error { return h.send([]byte{fdstoreDrain}, []int{fd}) }

func (h *fdstoreClient) send(message []byte, fds []int) error {
	conn, err := h.sock.SyscallConn()
	if err != nil {
		return err
	}
	if err := h.sock.SetWriteDeadline(time.Now().Add(holdWithin)); err != nil {
		return err
	}
	var sendErr error
	err = conn.Write(func(fd uintptr) bool {
		_, sendErr = unix.SendmsgN(int(fd), message, unix.UnixRights(fds...), nil, unix.MSG_NOSIGNAL)
		return sendErr != unix.EAGAIN
	})
	if err == nil {
		err = sendErr
	}
	return err
}

// settle waits until everything is in its slot.
func (h *fdstoreClient) settle() error {
	if h.owed == 0 {
		return nil
	}
	if err := h.sock.SetReadDeadline(time.Now().Add(holdWithin)); err != nil {
		return err
	}
	for ; h.owed > 0; h.owed-- {
		m, err := h.receive()
		if err != nil {
			return err
		}
		if len(m) != 1 || m[0] != fdstoreDone {
			return errFdstore
		}
	}
	return nil
}

// close closes the socket, which ends the descriptor store.
func (h *fdstoreClient) close() { h.sock.Close() }
