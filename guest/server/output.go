//go:build linux

package server

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// buffersPerConn bounds the frames of output that one connection holds
// ready while its socket is full.
const buffersPerConn = 8

// buffers hands out frame-sized buffers. A pump holds one only between a
// successful read and the end of the write, so that a thousand silent
// commands hold none.
type buffers struct {
	slots chan struct{}
	free  *sync.Pool
}

func newBuffers(free *sync.Pool) *buffers {
	return &buffers{slots: make(chan struct{}, buffersPerConn), free: free}
}

func (b *buffers) get() *[]byte {
	b.slots <- struct{}{}
	return b.free.Get().(*[]byte)
}

func (b *buffers) put(p *[]byte) {
	b.free.Put(p)
	<-b.slots
}

// An output carries what a command writes on one channel to the client.
type output struct {
	file    *os.File
	channel uint8
	endless bool // of a line: its pipe may be opened again, and serve the next line
	credits *wire.Credits
	bufs    *buffers
	send    func(f wire.Frame, buf []byte) error // the payload lies behind the header
	end     func(f wire.Frame) error             // sends the end, which is in no hurry: that of the command tells it too

	finishing atomic.Bool
	settled   atomic.Bool   // settle was called
	left      atomic.Int64  // bytes to be sent yet, once settled
	ended     chan struct{} // closed when pump has returned
}

// States after one read.
const (
	more    = iota // there may be more
	drained        // nothing there now, and finishing
	ended          // end of file
)

// pump reads and sends until the end of the file, or, once finish was called,
// until nothing is there any more. Where the client wants no more it ends,
// unless o is endless: then it reads on and sends nothing, so that no other
// goroutine reads from a pipe that serves the next line.
func (o *output) pump() {
	defer close(o.ended)
	conn, err := o.file.SyscallConn()
	if err != nil {
		return
	}
	for {
		n, err := o.credits.Take(wire.MaxData)
		unwanted := err != nil
		switch {
		case unwanted && o.endless:
			n, err = wire.MaxData, nil
		case unwanted:
			return
		}
		// A read that settle did not wait for is not counted, so that at
		// most a pipe's content too much is sent, never too little.
		want, settled := n, o.settled.Load()
		if settled {
			want = min(n, int(o.left.Load()))
		}
		if want == 0 {
			o.credits.Return(n)
			return
		}
		buf, got, state := o.read(conn.Read, want)
		o.credits.Return(n - got)
		if settled {
			o.left.Add(int64(-got))
		}
		if buf != nil {
			if !unwanted {
				err = o.send(wire.Frame{Type: wire.TypeData, Flags: o.channel}, (*buf)[:wire.HeaderLen+got])
			}
			o.bufs.put(buf)
		}
		if state == ended && !o.endless && !o.finishing.Load() {
			err = o.end(wire.Frame{Type: wire.TypeData, Flags: o.channel | wire.FlagEOF})
		}
		if err != nil || state != more {
			return
		}
	}
}

// read waits for bytes, at most n, and returns the buffer that holds them.
func (o *output) read(rawRead func(func(uintptr) bool) error, n int) (buf *[]byte, got int, state int) {
	err := rawRead(func(fd uintptr) bool {
		// Before the read: what is written while we look must not be missed.
		finishing := o.finishing.Load()
		p := o.bufs.get()
		var err error
		for {
			if got, err = unix.Read(int(fd), (*p)[wire.HeaderLen:wire.HeaderLen+n]); err != unix.EINTR {
				break
			}
		}
		if err == nil && got > 0 {
			buf = p
			return true
		}
		o.bufs.put(p)
		got = 0
		switch {
		case err == unix.EAGAIN && !finishing, err == nil && o.endless && !finishing:
			return false
		case err == unix.EAGAIN:
			state = drained
		default:
			state = ended // also EIO, which is how a terminal ends
		}
		return true
	})
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		// finish woke us up; from now on the callback does not wait.
		if o.file.SetReadDeadline(time.Time{}) != nil {
			return nil, 0, ended
		}
		return nil, 0, more
	case err != nil:
		return nil, 0, ended
	}
	return buf, got, state
}

// finish makes pump return when it has sent what is there now. It is called
// when no process is left that could write more.
func (o *output) finish() {
	o.finishing.Store(true)
	select {
	case <-o.ended: // the usual end of a command is that of its output
		return
	default:
	}
	// A file that is closed already has no pump that waits.
	_ = o.file.SetReadDeadline(time.Now())
}

// settle is finish while there may be processes that go on writing: what is
// there now is sent, and little of what comes later.
func (o *output) settle() {
	n, err := pending(o.file)
	if err != nil {
		n = 0 // closed
	}
	o.left.Store(int64(n))
	o.settled.Store(true)
	o.finish()
}

// pending returns how many bytes a pipe holds; either end can be asked.
func pending(f *os.File) (n int, err error) {
	conn, err := f.SyscallConn()
	if err != nil {
		return 0, err
	}
	cerr := conn.Control(func(fd uintptr) { n, err = unix.IoctlGetInt(int(fd), unix.TIOCINQ) })
	if cerr != nil {
		return 0, cerr
	}
	return n, err
}

// dropRest drops what comes once pump has returned.
func (o *output) dropRest() {
	if <-o.ended; o.endless {
		return // pump has dropped it
	}
	o.drop()
}

// drop reads and forgets until the end of the file. A detached command goes
// on writing after its client has gone, and must not die of it.
func (o *output) drop() {
	_ = o.file.SetReadDeadline(time.Time{})
	b := make([]byte, 4<<10)
	for {
		if _, err := o.file.Read(b); err != nil {
			return
		}
	}
}
