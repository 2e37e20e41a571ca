package stream

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/jsonschema"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Start starts the command of r, and returns as soon as it runs: its output
// waits for that. c is the command of r with the streams of the socket; when
// r.Line is set c.Args is empty. The end of ctx must end the command: the socket
// has gone, or the client has cancelled.
type Start func(ctx context.Context, r Request, c sandbox.Command) (sandbox.Process, error)

// An Outcomer is a sandbox.Process with more to report at its end than an exit.
type Outcomer interface {
	// Outcome is called once, after Wait has returned without an error; its
	// result is sent as JSON.
	Outcome() any
}

// Serve reads a request from conn, runs it and reports how it ended. It returns
// when it has sent the result, or when the client has gone and the command has
// ended, and closes conn. It does not wait for the end of a detached command.
// The returned error is for the log, whether or not the client has received it
// as well.
//
// The end of ctx ends the command; the client receives the result.
func Serve(ctx context.Context, conn *websocket.Conn, o Options, start Start) error {
	s := &served{link: newLink(conn, o), asked: make(chan control, maxAsked), kills: make(chan struct{}, maxKills), begun: make(chan struct{}), over: make(chan struct{}), gone: make(chan struct{})}
	s.lost = s.cut
	r, err := s.request(ctx)
	if err != nil {
		return s.fail(err)
	}
	if r.Detach {
		ctx = context.WithoutCancel(ctx)
	}
	ctx, s.cancel = context.WithCancel(ctx)
	c := s.command(r)
	go s.listen(r.Detach)
	s.live()
	p, err := start(ctx, r, c)
	if err != nil {
		s.cancel()
		return s.fail(err)
	}
	return s.serve(p, r.Detach)
}

// maxAsked is how many signals and sizes may wait for their turn, and maxKills
// how many kills, which do not wait, may be under way.
const (
	maxAsked = 32
	maxKills = 4
)

// A served is the server's side of one command.
type served struct {
	*link
	cancel func() // ends the command, with its grace

	stdin *wire.Inbox // with flow control, or
	pipe  *io.PipeWriter
	out   [3]*wire.Credits // nil without flow control

	asked chan control  // in the order in which they came
	kills chan struct{} // holds one for each that is under way
	begun chan struct{} // closed when the client was sent that the command runs
	over  chan struct{} // closed when the command has ended
	gone  chan struct{} // closed when the client has

	mu     sync.Mutex
	proc   sandbox.Process // nil before it was started
	killed bool            // asked for before it was started
}

// request reads the first frame.
func (s *served) request(ctx context.Context) (Request, error) {
	s.conn.SetReadLimit(MaxRequest)
	defer s.conn.SetReadLimit(MaxControl)
	ctx, cancel := context.WithTimeout(ctx, s.o.RequestWithin)
	defer cancel()
	var r Request
	kind, b, err := s.read(ctx)
	if err != nil {
		return r, unavailable("stream", "no request came", err)
	}
	if kind != websocket.MessageText {
		return r, invalid("", "the first frame must be a text frame with the request")
	}
	if err := jsonschema.Decode(b, &r); err != nil { // an unknown member could change the command, so it is refused
		return r, err
	}
	s.buf = nil // it may be large
	return r, r.check()
}

// command returns the command of r with the streams of the socket.
func (s *served) command(r Request) sandbox.Command {
	c := r.Command()
	if r.Window > 0 {
		s.stdin = wire.NewInboxOf(Window)
		s.out = [3]*wire.Credits{Stdout: wire.NewCreditsOf(Window), Stderr: wire.NewCreditsOf(Window)}
	}
	switch {
	case r.NoStdin:
		s.stdin = nil
	case s.stdin != nil:
		c.Stdin = &inlet{s: s}
	default:
		c.Stdin, s.pipe = io.Pipe()
	}
	if !r.NoStdout {
		c.Stdout = &responseOutput{s: s, channel: Stdout}
	}
	if !r.NoStderr {
		c.Stderr = &responseOutput{s: s, channel: Stderr}
	}
	return c
}

// serve carries the streams of p and reports its end.
func (s *served) serve(p sandbox.Process, detached bool) error {
	s.mu.Lock()
	s.proc = p
	killed := s.killed
	s.mu.Unlock()
	if killed {
		go s.kill(control{})
	}
	// When it cannot be sent the listener notices that the client has gone.
	_ = s.tell(event{Type: typeStarted, PID: pidOf(p)})
	close(s.begun)
	go s.answer()
	ended := make(chan error, 1)
	go func() { ended <- s.wait(p) }()
	if detached {
		select {
		case err := <-ended:
			return err
		case <-s.gone:
			s.finish()
			return nil
		}
	}
	return <-ended
}

// pidOf returns the number of a process inside of its sandbox, or 0.
func pidOf(p sandbox.Process) int {
	if i, ok := p.(sandbox.Identified); ok {
		return i.PID()
	}
	return 0
}

// wait waits for the end of p and reports it.
func (s *served) wait(p sandbox.Process) error {
	exit, err := p.Wait()
	s.cancel() // no longer needed
	if err != nil {
		return s.fail(err)
	}
	s.finish()
	e := ExitOf(exit)
	last := event{Type: typeExit, Exit: &e}
	if o, ok := p.(Outcomer); ok {
		if last.Outcome, err = json.Marshal(o.Outcome()); err != nil {
			return s.fail(err)
		}
	}
	err = s.tell(last)
	s.end(err == nil)
	<-s.gone
	return err
}

// fail sends err and closes.
func (s *served) fail(err error) error {
	s.finish()
	d := api.Of(err)
	reported := s.tell(event{Type: typeError, Error: &d})
	s.end(reported == nil)
	return err
}

// finish releases the streams: what is still written is dropped, and pending
// reads reach the end.
func (s *served) finish() {
	s.mu.Lock()
	defer s.mu.Unlock()
	select {
	case <-s.over:
		return
	default:
	}
	close(s.over)
	if s.stdin != nil {
		s.stdin.Discard() // input may be under way, which is no fault
	}
	s.cut()
}

// cut ends the streams. It may be called again, and at any time after the
// request was read.
func (s *served) cut() {
	if s.stdin != nil {
		s.stdin.Close(nil)
	}
	if s.pipe != nil {
		_ = s.pipe.Close() // never fails
	}
	for _, c := range s.out {
		if c != nil {
			c.Close(io.ErrClosedPipe)
		}
	}
}

// kill ends the process tree of the command at once. The caller has put a token
// into kills.
func (s *served) kill(c control) {
	defer func() { <-s.kills }()
	s.mu.Lock()
	p := s.proc
	s.killed = true
	s.mu.Unlock()
	if p != nil {
		ctx, cancel := context.WithTimeout(context.Background(), killWithin)
		defer cancel()
		s.done(c.ID, nil, p.Kill(ctx))
	}
}

// Bounds of requests about a process.
const (
	killWithin = time.Minute
	askWithin  = 10 * time.Second
)

// done answers the request id.
func (s *served) done(id uint32, used *Rusage, err error) {
	if id == 0 {
		return
	}
	e := event{Type: typeDone, ID: id, Used: used}
	if err != nil {
		d := api.Of(err)
		e.Error = &d
	}
	_ = s.tell(e) // a send fails when the client has gone
}
