package client

import (
	"io"
	"math"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// sideWithin bounds how long the guest may take to make room for a message
// about descriptors, and our own reader to find one that lies there.
const sideWithin = 10 * time.Second

// A side is our end of the channel for descriptors beside a connection. A nil
// one is none. What the guest hands over is taken only where it was asked
// for, and closed otherwise.
type side struct {
	conn *wire.Conn

	mu    sync.Mutex
	last  uint32 // ticket
	asked map[uint32]taker
	over  bool
}

// A taker waits for what is handed over with a ticket. One of its methods is
// called, once; neither blocks.
type taker interface {
	// take takes descriptors, which are the taker's from here on, whatever it
	// returns. An error ends the connection.
	take(m wire.Message) error
	// none says that nothing comes.
	none()
}

// openSide returns the side on f, nil for nil. It owns f.
func openSide(f *os.File) (*side, error) {
	if f == nil {
		return nil, nil
	}
	conn, err := wire.NewConn(f)
	if err != nil {
		return nil, err
	}
	return &side{conn: conn, asked: map[uint32]taker{}}, nil
}

// read takes what the guest hands over until the channel ends. The end of the
// channel alone does not end the connection; the takers that still wait get an
// error.
func (d *side) read(end func(error)) {
	var err error
	for err == nil {
		var m wire.Message
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
func (d *side) take(m wire.Message) error {
	d.mu.Lock()
	t := d.asked[m.Ticket]
	delete(d.asked, m.Ticket)
	d.mu.Unlock()
	if t == nil {
		m.Discard()
		return wire.Violation("descriptors that were not asked for")
	}
	return t.take(m)
}

// ask draws a ticket for what the guest will hand over to t.
func (d *side) ask(t taker) (uint32, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over || d.last == math.MaxUint32 {
		return 0, closedError()
	}
	d.last++
	d.asked[d.last] = t
	return d.last, nil
}

// stands reports whether the channel is there and has not ended.
func (d *side) stands() bool {
	if d == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.over
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
	return d.conn.Send(wire.KindRestore, ticket, []*os.File{f}, sideWithin)
}

// close ends the channel, and the wait of its takers. It may be called twice.
func (d *side) close() {
	if d == nil {
		return
	}
	d.conn.Close()
	d.mu.Lock()
	asked := d.asked
	d.asked, d.over = map[uint32]taker{}, true
	d.mu.Unlock()
	for _, t := range asked {
		t.none()
	}
}

func closeAll(files []*os.File) {
	for _, f := range files {
		f.Close()
	}
}
