//go:build linux

package server

import (
	"errors"
	"io"
	"os"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// pumpOutward sends what the program inside writes until it writes no more
// or the client reads no more. An error says that the connection broke.
func (l *link) pumpOutward(file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	defer func() { _ = shutdown(file, unix.SHUT_RD) }() // the peer of a Unix socket notices
	for {
		n, err := l.credits.Take(wire.MaxData)
		if err != nil {
			return nil
		}
		buf, got, err := l.read(raw.Read, n)
		l.credits.Return(n - got)
		switch {
		case err == nil:
			err = l.sendOutward(0, (*buf)[:wire.HeaderLen+got])
			l.conn.bufs.put(buf)
			if err != nil {
				return nil // the client has gone
			}
		case errors.Is(err, io.EOF):
			_ = l.sendOutward(wire.FlagEOF, make([]byte, wire.HeaderLen))
			return nil
		case errors.Is(err, os.ErrDeadlineExceeded), errors.Is(err, os.ErrClosed):
			return nil // dropped, or not read any more
		default:
			return err
		}
	}
}

func (l *link) sendOutward(eof uint8, b []byte) error {
	return l.conn.w.WriteInPlace(wire.Frame{Type: wire.TypeData, Flags: wire.Outward | eof, Stream: l.id}, b)
}

// read waits for bytes, at most n, and returns the buffer that holds them
// behind room for a header. It holds no buffer while it waits.
func (l *link) read(rawRead func(func(uintptr) bool) error, n int) (buf *[]byte, got int, err error) {
	waitErr := rawRead(func(fd uintptr) bool {
		p := l.conn.bufs.get()
		for {
			if got, err = unix.Read(int(fd), (*p)[wire.HeaderLen:wire.HeaderLen+n]); err != unix.EINTR {
				break
			}
		}
		if err == nil && got > 0 {
			buf = p
			return true
		}
		l.conn.bufs.put(p)
		got = 0
		if err == nil {
			err = io.EOF
		}
		return err != unix.EAGAIN
	})
	if waitErr != nil {
		return nil, 0, waitErr
	}
	return buf, got, err
}

// pumpInward writes what the client sends until the client ends the channel or
// the process inside stops reading. Bytes that are not read are dropped, and
// the guest sends Stop.
func (l *link) pumpInward(file *os.File) {
	for {
		chunk, err := l.inbox.Take()
		if err != nil {
			break
		}
		for len(chunk) > 0 {
			piece := chunk[:min(len(chunk), wire.MaxData)]
			chunk = chunk[len(piece):]
			if _, err := file.Write(piece); err != nil {
				l.inbox.Discard()
				if !l.isDropped() {
					_ = l.conn.w.Write(wire.Frame{Type: wire.TypeStop, Flags: wire.Inward, Stream: l.id})
				}
				return
			}
			if n := l.inbox.Consumed(len(piece)); n > 0 {
				// A failed write is the connection's end, which ends the channel too.
				_ = l.conn.w.Write(wire.Frame{
					Type: wire.TypeCredit, Flags: wire.Inward, Stream: l.id, Payload: wire.Credit{N: n}.Encode(),
				})
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.dropped {
		_ = shutdown(file, unix.SHUT_WR) // the other end may be gone
	}
}
