package cli

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// An input reads a file whose Read cannot be interrupted, such as a
// terminal, without ever being stuck in it: it waits until there is
// something to read or until it is closed. So a command that ends does not
// wait for a key, and no byte is taken that the next program should get.
type input struct {
	fd   int
	wake *os.File // the read end; readable once closed

	once sync.Once
	end  *os.File // the write end

	mu     sync.Mutex // held while reading
	closed bool       // under mu
}

// newInput returns an input on f, which stays the caller's.
func newInput(f *os.File) (*input, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &input{fd: int(f.Fd()), wake: r, end: w}, nil
}

// Read implements io.Reader. After Close it returns io.EOF.
func (in *input) Read(p []byte) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if len(p) == 0 {
		return 0, nil
	}
	for !in.closed {
		fds := []unix.PollFd{{Fd: int32(in.fd), Events: unix.POLLIN}, {Fd: int32(in.wake.Fd()), Events: unix.POLLIN}}
		if _, err := unix.Poll(fds, -1); err != nil {
			if errors.Is(err, unix.EINTR) {
				continue
			}
			return 0, err
		}
		if fds[1].Revents != 0 {
			return 0, io.EOF
		}
		n, err := unix.Read(in.fd, p)
		switch {
		case errors.Is(err, unix.EINTR), errors.Is(err, unix.EAGAIN):
		case err != nil:
			return 0, err
		case n == 0:
			return 0, io.EOF
		default:
			return n, nil
		}
	}
	return 0, io.EOF
}

// Close makes a waiting Read return and waits for it. It may be called many
// times and does not close the file.
func (in *input) Close() error {
	in.once.Do(func() {
		in.end.Close() // the read end is at its end now, which wakes the poll
		in.mu.Lock()
		defer in.mu.Unlock()
		in.closed = true
		in.wake.Close()
	})
	return nil
}
