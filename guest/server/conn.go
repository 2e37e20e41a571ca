//go:build linux

package server

import (
	"errors"
	"io"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// handshakeWithin bounds how long a peer may take for its Hello.
	handshakeWithin = 10 * time.Second
	// maxStreams bounds the open streams of one connection.
	maxStreams = 8192
	// lastWordWithin bounds how long a GoAway may take.
	lastWordWithin = time.Second
	// maxPing bounds what a Pong repeats.
	maxPing = 64
)

// A conn is one client's connection.
type conn struct {
	srv   *Server
	f     transport
	w     *wire.Writer
	held  *holdback // for answers to many commands at once
	ends  *holdback // for the ends of outputs
	bufs  *buffers
	queue queue      // of commands that wait for their turn
	side  *side      // nil where there is none
	first *firstRead // nil where none can be offered
	// byPort says that the client has come over the guest's TCP port.
	byPort bool
	// Content of files has buffers of its own: one that is taken while a disk
	// hangs must not hold up the output of commands.
	fileBufs  *buffers
	fileSlots chan struct{} // holds a token for each file that is open, see maxConnFiles

	wg sync.WaitGroup // streams that end with the connection

	mu      sync.Mutex
	streams map[uint32]stream
	last    uint32 // highest stream number seen
	opened  uint32 // streams that the guest has opened
	over    bool   // disconnect was called
}

// A transport is what carries a connection.
type transport interface {
	io.ReadWriteCloser
	SetReadDeadline(t time.Time) error
	SetWriteDeadline(t time.Time) error
}

// A stream is what an open request has become.
type stream interface {
	// event handles a frame of the stream. It must not wait. An error ends
	// the connection.
	event(f wire.Frame) error
	// disconnect is called once when the client has gone, on a goroutine
	// of its own.
	disconnect()
}

// serve speaks with one client until the connection ends, and returns when
// every command of it that is not detached has ended.
func (s *Server) serve(f transport, beside *side, first *firstRead) {
	c := &conn{
		srv: s, f: f, w: wire.NewWriter(f), bufs: newBuffers(&s.frames), streams: map[uint32]stream{},
		fileBufs: newBuffers(&s.frames), fileSlots: make(chan struct{}, maxConnFiles),
		side: beside, first: first,
	}
	_, local := f.(*os.File)
	c.byPort = !local
	defer func() { c.side.close() }()
	c.held, c.ends = newHoldback(c.w, answersHeld), newHoldback(c.w, endsHeld)
	defer f.Close()
	if !s.enter(c) {
		return
	}
	defer s.leave(c)
	r := wire.NewReader(c.bytes(), wire.MaxRequest)
	err := c.handshake(r)
	if err != nil {
		c.goAway(err)
		return
	}
	<-s.furnished
	go c.side.serve(c)
	bye := false
	for err == nil && !bye {
		var frame wire.Frame
		if frame, err = r.Next(); err == nil {
			bye = frame.Type == wire.TypeBye
			err = c.dispatch(frame)
		}
	}
	c.goAway(err)
	if !bye {
		f.Close() // so that no pump waits for a client that has gone
	}
	c.disconnect()
	c.wg.Wait()
	_ = c.w.Flush() // for the last answers; without a client they are lost
}

// goAway tells a client that broke the rules which one it was.
func (c *conn) goAway(err error) {
	var violation *wire.ProtocolError
	if errors.As(err, &violation) {
		c.lastWord(wire.GoAway{Min: wire.MinVersion, Max: wire.Version, Reason: violation.Reason})
	}
}

// lastWord sends m. If the client does not read, m is lost.
func (c *conn) lastWord(m wire.GoAway) {
	_ = c.f.SetWriteDeadline(time.Now().Add(lastWordWithin))
	_ = c.w.Write(wire.Frame{Type: wire.TypeGoAway, Payload: m.Encode()})
}

func (c *conn) handshake(r *wire.Reader) error {
	if err := c.f.SetReadDeadline(time.Now().Add(handshakeWithin)); err != nil {
		return err
	}
	f, err := r.Next()
	if c.first != nil {
		c.side = c.first.side // also of who breaks the rules: it is closed in the end
	}
	if err != nil {
		return err
	}
	if f.Type != wire.TypeHello || f.Stream != 0 {
		return wire.Violation("the first frame is not a Hello")
	}
	m, err := wire.DecodeClientHello(f.Payload)
	if err != nil {
		return err
	}
	version, ok := m.Negotiate()
	if !ok {
		return wire.Violation("no common protocol version")
	}
	if err := c.f.SetReadDeadline(time.Time{}); err != nil {
		return err
	}
	return c.w.Write(wire.Frame{Type: wire.TypeHello, Payload: c.srv.hello(version, c.side != nil).Encode()})
}

// dispatch handles one frame. It never waits for a command.
func (c *conn) dispatch(f wire.Frame) error {
	switch {
	case f.Type.IsRequest():
		return c.request(f)
	case f.Type == wire.TypePing:
		if f.Stream != 0 || len(f.Payload) > maxPing {
			return wire.Violation("malformed ping")
		}
		return c.w.Write(wire.Frame{Type: wire.TypePong, Payload: f.Payload})
	case f.Type == wire.TypeBye:
		return nil
	case f.Type >= wire.TypeStarted && f.Type <= wire.TypeKill, f.Type == wire.TypeUse, f.Type == wire.TypeRemounted:
		return c.event(f)
	case f.Type.IsHint():
		return nil
	}
	return wire.Violation("unexpected frame type")
}

// request opens a stream.
func (c *conn) request(f wire.Frame) error {
	c.mu.Lock()
	if f.Stream <= c.last || f.Stream >= wire.FirstAccepted {
		c.mu.Unlock()
		return wire.Violation("stream number out of order")
	}
	c.last = f.Stream
	full := len(c.streams) >= maxStreams
	c.mu.Unlock()
	if full {
		return c.refuse(f.Stream, wire.KindResource, "too many open requests on one connection")
	}
	switch f.Type {
	case wire.TypeSetReady:
		m, err := wire.DecodeSetReady(f.Payload)
		if err != nil {
			return err
		}
		c.srv.setReady(m.Tag)
		return c.w.Write(wire.Frame{Type: wire.TypeDone, Stream: f.Stream})
	case wire.TypeStart:
		return c.start(f)
	case wire.TypeProof:
		return c.prove(f)
	case wire.TypeEnroll:
		return c.enroll(f)
	case wire.TypeDial:
		return c.dial(f)
	case wire.TypeListen:
		return c.listen(f)
	case wire.TypePass:
		return c.pass(f)
	case wire.TypePassDial:
		return c.passDial(f)
	case wire.TypePorts:
		return c.ports(f)
	case wire.TypeSnapshot:
		return c.snapshot(f)
	case wire.TypeShellFrom:
		return c.openFrom(f)
	case wire.TypeRemount:
		return c.remount(f)
	case wire.TypeFile:
		return c.file(f)
	case wire.TypeShell:
		return c.openShell(f)
	case wire.TypeKeptShell:
		return c.openKept(f)
	case wire.TypeLine:
		return c.line(f)
	}
	return c.refuse(f.Stream, wire.KindUnsupported, "the guest does not know this request")
}

func (c *conn) refuse(stream uint32, kind wire.Kind, text string) error {
	return c.w.Write(wire.Frame{Type: wire.TypeFailed, Stream: stream, Payload: wire.Failed{Kind: kind, Text: text}.Encode()})
}

// begin registers the stream id. The end of a connection waits for the end
// of its streams, except of those that are detached.
func (c *conn) begin(id uint32, s stream, detached bool) {
	c.mu.Lock()
	c.streams[id] = s
	c.mu.Unlock()
	if !detached {
		c.wg.Add(1)
	}
}

// beginAccepted gives l the next number of the guest's own streams and
// registers it, unless the client has gone or there are too many.
func (c *conn) beginAccepted(l *link) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over || len(c.streams) >= maxStreams || c.opened == wire.FirstAccepted {
		return false
	}
	l.id = wire.FirstAccepted + c.opened
	c.opened++
	c.streams[l.id] = l
	c.wg.Add(1) // the listener counts too, so wg.Wait has not returned yet
	return true
}

// finished forgets a stream that has sent its last answer.
func (c *conn) finished(id uint32, detached bool) {
	c.mu.Lock()
	delete(c.streams, id)
	c.mu.Unlock()
	if !detached {
		c.wg.Done()
	}
}

// event handles a frame of an open stream.
func (c *conn) event(f wire.Frame) error {
	c.mu.Lock()
	s, last := c.streams[f.Stream], c.last
	if f.Stream >= wire.FirstAccepted {
		last = wire.FirstAccepted - 1 + c.opened
	}
	c.mu.Unlock()
	if s == nil {
		if f.Stream == 0 || f.Stream > last {
			return wire.Violation("frame for a stream that was never opened")
		}
		return nil // it has ended while the frame was under way
	}
	return s.event(f)
}

// disconnect tells every stream. They end side by side.
func (c *conn) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.over = true
	for _, s := range c.streams {
		go s.disconnect()
	}
}
