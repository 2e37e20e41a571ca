//go:build linux

package server

import (
	"errors"
	"io"
	"maps"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const (
	// maxUnclaimed bounds the descriptors that lie here for requests that
	// are to come, or were refused. The oldest ones go.
	maxUnclaimed = 16
	// sideWithin bounds how long the client may take to make room for a
	// message.
	sideWithin = 5 * time.Second
	// claimWithin bounds how long our own reader may take to find one that lies
	// there. On a busy machine it stands still for seconds.
	claimWithin = 15 * time.Second
)

// errUnclaimed means that the descriptors which a request names are not there.
var errUnclaimed = errors.New("what the request needs was not handed over")

// A side is our end of the channel for descriptors beside a connection. A
// nil one is none.
type side struct {
	pass *wire.Conn

	mu    sync.Mutex
	given map[uint32]int // what was received and not claimed yet, by ticket
	news  chan struct{}  // closed, and made anew, when something has come
	over  bool
}

// openSide returns the side on the inherited descriptor fd.
func openSide(fd int) (*side, error) {
	unix.CloseOnExec(fd)
	p, err := wire.NewConn(os.NewFile(uintptr(fd), "descriptors"))
	if err != nil {
		return nil, err
	}
	return &side{pass: p, given: map[uint32]int{}, news: make(chan struct{})}, nil
}

// serve takes what the client hands over until the channel ends, and ends
// the connection of a client that breaks the rules.
func (d *side) serve(c *conn) {
	if d == nil {
		return
	}
	var err error
	for err == nil {
		var m wire.Message
		if m, err = d.pass.Receive(); err == nil {
			err = d.take(m)
		}
	}
	d.close()
	if err != io.EOF {
		c.goAway(err)
		c.f.Close()
	}
}

// take keeps what a request will ask for.
func (d *side) take(m wire.Message) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	_, twice := d.given[m.Ticket]
	if d.over || twice || m.Kind != wire.KindRestore || len(m.FDs) != 1 {
		m.Discard()
		return wire.Violation("descriptors that no request can ask for")
	}
	if len(d.given) == maxUnclaimed {
		oldest := slices.Min(slices.Collect(maps.Keys(d.given)))
		unix.Close(d.given[oldest])
		delete(d.given, oldest)
	}
	d.given[m.Ticket] = m.FDs[0]
	d.tell()
	return nil
}

func (d *side) tell() {
	close(d.news)
	d.news = make(chan struct{})
}

// claim returns the file with a state that came with the ticket. The client has
// sent it before the request in which it names the ticket, so claim waits only
// for our own reader.
func (d *side) claim(ticket uint32) (*os.File, error) {
	timer := time.NewTimer(claimWithin)
	defer timer.Stop()
	for {
		d.mu.Lock()
		fd, ok := d.given[ticket]
		delete(d.given, ticket)
		news, over := d.news, d.over
		d.mu.Unlock()
		switch {
		case ok:
			f, err := wire.Open(fd, maxState)
			if err != nil {
				unix.Close(fd)
			}
			return f, err
		case over:
			return nil, errUnclaimed
		}
		select {
		case <-news:
		case <-timer.C:
			return nil, errUnclaimed
		}
	}
}

// show hands the files of a state to the client. They stay ours too.
func (d *side) show(ticket uint32, s *shellState) error {
	return d.pass.Send(wire.KindState, ticket, []*os.File{s.index, s.files[0], s.files[1]}, sideWithin)
}

// close ends the channel. It may be called twice.
func (d *side) close() {
	if d == nil {
		return
	}
	d.pass.Close()
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.over {
		return
	}
	d.over = true
	for _, fd := range d.given {
		unix.Close(fd)
	}
	clear(d.given)
	d.tell()
}
