//go:build linux

package server

import (
	"errors"
	"os"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

const (
	// handshakeWithin bounds how long a peer may take for its Hello.
	handshakeWithin = 10 * time.Second
	// maxCommands bounds the commands of one connection.
	maxCommands = 8192
	// lastWordWithin bounds how long a GoAway may take.
	lastWordWithin = time.Second
	// maxPing bounds what a Pong repeats.
	maxPing = 64
)

// A conn is one client's connection.
type conn struct {
	srv  *Server
	f    *os.File
	w    *wire.Writer
	bufs *buffers
	wg   sync.WaitGroup // commands that are not detached

	mu       sync.Mutex
	commands map[uint32]*command
	last     uint32 // highest stream number seen
}

// serve speaks with one client until the connection ends, and returns when
// every command of it that is not detached has ended.
func (s *Server) serve(f *os.File) {
	c := &conn{
		srv: s, f: f, w: wire.NewWriter(f), bufs: newBuffers(&s.frames), commands: map[uint32]*command{},
	}
	defer f.Close()
	if !s.enter(c) {
		return
	}
	defer s.leave(c)
	r := wire.NewReader(f, wire.MaxRequest)
	err := c.handshake(r)
	if err != nil {
		c.goAway(err)
		return
	}
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
}

// goAway tells a client that broke the rules which one it was.
func (c *conn) goAway(err error) {
	var violation *wire.ProtocolError
	if errors.As(err, &violation) {
		c.lastWord(wire.GoAway{Min: wire.MinVersion, Max: wire.Version, Reason: violation.Reason})
	}
}

// lastWord sends m. The client may not take it in; then there is nobody to
// tell.
func (c *conn) lastWord(m wire.GoAway) {
	_ = c.f.SetWriteDeadline(time.Now().Add(lastWordWithin))
	_ = c.w.Write(wire.Frame{Type: wire.TypeGoAway, Payload: m.Encode()})
}

func (c *conn) handshake(r *wire.Reader) error {
	if err := c.f.SetReadDeadline(time.Now().Add(handshakeWithin)); err != nil {
		return err
	}
	f, err := r.Next()
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
	return c.w.Write(wire.Frame{Type: wire.TypeHello, Payload: c.srv.hello(version).Encode()})
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
	case f.Type >= wire.TypeStarted && f.Type <= wire.TypeKill:
		return c.event(f)
	case f.Type.IsHint():
		return nil
	}
	return wire.Violation("unexpected frame type")
}

// request opens a stream.
func (c *conn) request(f wire.Frame) error {
	c.mu.Lock()
	if f.Stream <= c.last || f.Stream >= 1<<31 {
		c.mu.Unlock()
		return wire.Violation("stream number out of order")
	}
	c.last = f.Stream
	full := len(c.commands) >= maxCommands
	c.mu.Unlock()
	switch {
	case f.Type == wire.TypeSetReady:
		m, err := wire.DecodeSetReady(f.Payload)
		if err != nil {
			return err
		}
		c.srv.setReady(m.Tag)
		return c.w.Write(wire.Frame{Type: wire.TypeDone, Stream: f.Stream})
	case f.Type != wire.TypeStart:
		return c.refuse(f.Stream, wire.KindUnsupported, "the guest does not know this request")
	case full:
		return c.refuse(f.Stream, wire.KindResource, "too many commands on one connection")
	}
	m, err := wire.DecodeStart(f.Payload)
	if err != nil {
		return err
	}
	c.start(newCommand(c, f.Stream, m), append([]byte(nil), f.Payload...))
	return nil
}

func (c *conn) refuse(stream uint32, kind wire.Kind, text string) error {
	return c.w.Write(wire.Frame{Type: wire.TypeFailed, Stream: stream, Payload: wire.Failed{Kind: kind, Text: text}.Encode()})
}

func (c *conn) start(m *command, body []byte) {
	c.mu.Lock()
	c.commands[m.id] = m
	c.mu.Unlock()
	c.srv.running.Add(1)
	if !m.detach {
		c.wg.Add(1)
	}
	go m.run(body)
}

// remove forgets a command that has sent its last answer.
func (c *conn) remove(m *command) {
	c.mu.Lock()
	delete(c.commands, m.id)
	c.mu.Unlock()
	if c.srv.running.Add(-1) == 0 {
		c.srv.sweepStrays() // for what a detached command left
	}
	if !m.detach {
		c.wg.Done()
	}
}

// event handles a frame of an open stream.
func (c *conn) event(f wire.Frame) error {
	c.mu.Lock()
	m, last := c.commands[f.Stream], c.last
	c.mu.Unlock()
	if m == nil {
		if f.Stream == 0 || f.Stream > last {
			return wire.Violation("frame for a stream that was never opened")
		}
		return nil // it has ended while the frame was under way
	}
	switch f.Type {
	case wire.TypeData:
		return m.data(f)
	case wire.TypeCredit:
		return m.credit(f)
	case wire.TypeStop:
		return m.stop(f)
	}
	return m.control(f)
}

// disconnect ends what is not detached. The kills run side by side.
func (c *conn) disconnect() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, m := range c.commands {
		go m.disconnect()
	}
}

// data takes bytes for standard input.
func (m *command) data(f wire.Frame) error {
	if f.Channel() != wire.Stdin || m.inbox == nil {
		return wire.Violation("data on a channel that is not open")
	}
	if len(f.Payload) > 0 {
		if err := m.inbox.Put(f.Payload); err != nil {
			select {
			case <-m.gone: // the channel ended with the command
				return nil
			default:
				return err
			}
		}
	}
	if f.EOF() {
		m.inbox.Close(nil)
	}
	return nil
}

func (m *command) credit(f wire.Frame) error {
	ch := f.Channel()
	if ch >= 3 || m.credits[ch] == nil {
		return wire.Violation("credit for a channel that is not open")
	}
	g, err := wire.DecodeCredit(f.Payload)
	if err != nil {
		return err
	}
	return m.credits[ch].Grant(g.N)
}

// stop ends an output that the client does not want any more. Its pipe
// stays open and is drained, as with a detached command.
func (m *command) stop(f wire.Frame) error {
	ch := f.Channel()
	if ch >= 3 || m.credits[ch] == nil {
		return wire.Violation("stop of a channel that is not open")
	}
	m.credits[ch].Close(errDetached)
	go func() {
		<-m.launched
		if o := m.outputs[ch]; o != nil {
			<-o.ended
			o.drop()
		}
	}()
	return nil
}

// control handles the frames that act on the processes of the command.
func (m *command) control(f wire.Frame) error {
	switch f.Type {
	case wire.TypeSignal:
		s, err := wire.DecodeSignal(f.Payload)
		if err == nil {
			go func() {
				<-m.launched
				m.signalGroup(unix.Signal(s.Number))
			}()
		}
		return err
	case wire.TypeResize:
		s, err := wire.DecodeResize(f.Payload)
		if err == nil {
			go func() {
				<-m.launched
				_ = m.streams.resize(s.Rows, s.Cols) // closed already is fine
			}()
		}
		return err
	case wire.TypeKill:
		s, err := wire.DecodeKill(f.Payload)
		if err == nil {
			go m.kill(time.Duration(s.GraceMillis) * time.Millisecond)
		}
		return err
	}
	return wire.Violation("unexpected frame type on a stream")
}
