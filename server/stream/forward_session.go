package stream

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

// forwardWindow is how many bytes may be under way in one direction of a
// connection.
const forwardWindow = Window

// A session is the part that both sides share: the WebSocket, and the
// connections that it carries. Its reader never blocks on a connection.
type session struct {
	ws    *websocket.Conn
	o     Options
	heard atomic.Bool // since the last beat

	mu    sync.Mutex
	conns map[uint32]*conn // that our side has not closed
	last  uint32           // number that was given away; those below were
	err   error            // why it is over

	over chan struct{} // closed with err
	idle func()        // called when a connection was dropped; nil is nothing
}

func newSession(ws *websocket.Conn, o Options) *session {
	ws.SetReadLimit(maxFrame)
	return &session{ws: ws, o: o.OrDefaults(), conns: map[uint32]*conn{}, over: make(chan struct{})}
}

// A side has the parts in which the two sides differ.
type side interface {
	reported(forwardControl) error
	opened(forwardFrame) error
}

// read handles frames until the WebSocket ends, and then ends everything.
func (s *session) read(to side) {
	buf := make([]byte, maxFrame+1) // never full, so that the end of a frame is seen
	for {
		err := s.next(buf, to)
		if err != nil {
			if _, ok := errors.AsType[*sandbox.Error](err); !ok {
				err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Message: "the connection to the other side ended", Err: err}
			}
			s.finish(err)
			_ = s.ws.CloseNow() // it has ended, or is to
			return
		}
	}
}

func (s *session) next(buf []byte, to side) error {
	kind, r, err := s.ws.Reader(context.Background())
	if err != nil {
		return err
	}
	n, err := io.ReadFull(r, buf)
	switch {
	case err == nil:
		return violation("a frame that is too long")
	case err != io.ErrUnexpectedEOF && err != io.EOF: // one of the two is the end of the frame
		return err
	}
	s.heard.Store(true)
	if kind == websocket.MessageText {
		var c forwardControl
		if json.Unmarshal(buf[:n], &c) != nil {
			return violation("a text that is no JSON")
		}
		return to.reported(c)
	}
	f, err := decodeForward(buf[:n])
	if err != nil {
		return err
	}
	if f.kind == kindOpen {
		return to.opened(f)
	}
	s.mu.Lock()
	c, last := s.conns[f.number], s.last
	s.mu.Unlock()
	switch {
	case c != nil:
		return c.take(f)
	case f.number == 0 || f.number > last:
		return violation("a frame for a connection that never was")
	}
	return nil // our side has closed it
}

// take handles a frame of a connection.
func (c *conn) take(f forwardFrame) error {
	switch f.kind {
	case kindData:
		return c.In.Put(f.content)
	case kindEnd:
		c.In.End(io.EOF)
	case kindCredit:
		return c.Out.Grant(binary.BigEndian.Uint32(f.content))
	case kindClose:
		c.left()
	case kindReset:
		c.broke(errReset)
		c.s.drop(c)
	}
	return nil
}

// send sends a frame. An error ends the session.
func (s *session) send(kind websocket.MessageType, b []byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), s.o.SendWithin)
	defer cancel()
	err := s.ws.Write(ctx, kind, b)
	if err != nil {
		_ = s.ws.CloseNow() // the reader returns the error
	}
	return err
}

func (s *session) tell(c forwardControl) error {
	b, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return s.send(websocket.MessageText, b)
}

// beat sends pings while nothing is received, until the session ends.
func (s *session) beat() {
	t := time.NewTicker(s.o.Beat)
	defer t.Stop()
	for {
		select {
		case <-s.over:
			return
		case <-t.C:
		}
		if s.heard.Swap(false) {
			continue
		}
		ctx, cancel := context.WithTimeout(context.Background(), s.o.Beat)
		err := s.ws.Ping(ctx)
		cancel()
		if err != nil && !s.heard.Load() {
			_ = s.ws.CloseNow() // the reader returns the error
			return
		}
	}
}

// add registers c under its number, unless the session is over.
func (s *session) add(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		return s.err
	}
	s.last = c.number
	s.conns[c.number] = c
	return nil
}

// drop removes c: later frames for it are dropped.
func (s *session) drop(c *conn) {
	s.mu.Lock()
	delete(s.conns, c.number)
	s.mu.Unlock()
	if s.idle != nil {
		s.idle()
	}
}

// finish ends all connections; it is called once, by the reader.
func (s *session) finish(err error) {
	s.mu.Lock()
	s.err = err
	conns := s.conns
	s.conns = map[uint32]*conn{}
	s.mu.Unlock()
	close(s.over)
	for _, c := range conns {
		c.broke(err)
	}
}

// failure returns why the session is over, or nil.
func (s *session) failure() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.err
}
