package client

import (
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/guest/wire/handover"
	"github.com/bulkhead-dev/sandbox/guest/wire/snapshot"
)

// sideWithin bounds how long the guest may take to make room for a message
// about descriptors, and our own reader to find one that lies there.
const sideWithin = 10 * time.Second

// A side is our end of the channel for descriptors beside a connection. A nil
// one is none. What the guest hands over is taken only where it was asked
// for, and closed otherwise.
type side struct {
	conn *handover.Conn

	mu    sync.Mutex
	last  uint32 // ticket
	asked map[uint32]*keeping
	over  bool
}

// openSide returns the side on f, nil for nil. It owns f.
func openSide(f *os.File) (*side, error) {
	if f == nil {
		return nil, nil
	}
	conn, err := handover.NewConn(f)
	if err != nil {
		return nil, err
	}
	return &side{conn: conn, asked: map[uint32]*keeping{}}, nil
}

// read takes what the guest hands over until the channel ends. The end by
// itself is none of the connection: whoever still waits hears of it.
func (d *side) read(end func(error)) {
	var err error
	for err == nil {
		var m handover.Message
		if m, err = d.conn.Receive(); err == nil {
			err = d.take(m)
		}
	}
	d.close()
	if err != io.EOF {
		end(err)
	}
}

// take gives descriptors to whom they are for.
func (d *side) take(m handover.Message) error {
	d.mu.Lock()
	k := d.asked[m.Ticket]
	delete(d.asked, m.Ticket)
	d.mu.Unlock()
	if k == nil || m.Kind != handover.KindState || len(m.FDs) != 3 {
		m.Discard()
		if k != nil {
			k.fill(nil)
		}
		return wire.Violation("descriptors that were not asked for")
	}
	files := make([]*os.File, 0, len(m.FDs))
	for i, fd := range m.FDs {
		f, err := snapshot.Open(fd, snapshot.MaxSize)
		if err != nil {
			handover.Message{FDs: m.FDs[i:]}.Discard()
			closeAll(files)
			k.fill(nil)
			return wire.Violation("what was handed over is no state of a shell")
		}
		files = append(files, f)
	}
	k.fill(files)
	return nil
}

// ask draws a ticket for a state that the guest will hand over.
func (d *side) ask() (uint32, *keeping, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over || d.last == math.MaxUint32 {
		return 0, nil, closedError()
	}
	d.last++
	k := &keeping{came: make(chan struct{})}
	d.asked[d.last] = k
	return d.last, k, nil
}

// forget takes back a ticket: nothing will come any more.
func (d *side) forget(ticket uint32) {
	if d == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.asked, ticket)
}

// give hands f over for the request that will name the ticket.
func (d *side) give(ticket uint32, f *os.File) error {
	return d.conn.Send(handover.KindRestore, ticket, []*os.File{f}, sideWithin)
}

// close ends the channel, and the wait of those who asked. It may be called
// twice.
func (d *side) close() {
	if d == nil {
		return
	}
	d.conn.Close()
	d.mu.Lock()
	asked := d.asked
	d.asked, d.over = map[uint32]*keeping{}, true
	d.mu.Unlock()
	for _, k := range asked {
		k.fill(nil)
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
