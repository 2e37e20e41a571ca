package stream

import (
	"context"
	"io"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

// listen handles what the client sends until it disconnects, which ends a
// command that is not detached.
func (s *served) listen(detached bool) {
	defer close(s.gone)
	defer s.cut()
	if !detached {
		defer s.cancel()
	}
	for {
		kind, b, err := s.read(context.Background())
		if err != nil {
			return
		}
		if err = s.take(kind, b); err != nil {
			_ = s.conn.Close(websocket.StatusPolicyViolation, "not understood")
			return
		}
	}
}

func (s *served) take(kind websocket.MessageType, b []byte) error {
	if kind == websocket.MessageBinary {
		if len(b) == 0 || b[0] != Stdin {
			return invalid("", "data for a channel that is not the client's")
		}
		return s.input(b[1:])
	}
	var c control
	if err := decode(b, &c); err != nil {
		return err
	}
	switch c.Type {
	case typeEOF:
		s.inputEnds()
	case typeCancel:
		s.cancel()
	case typeKill:
		select {
		case s.kills <- struct{}{}:
			go s.kill(c)
		default:
			s.done(c.ID, nil, tooMuch(c))
		}
	case typeCredit, typeStop:
		return s.flow(c)
	case typeSignal, typeResize, typeUsed:
		select {
		case s.asked <- c:
		default:
			s.done(c.ID, nil, tooMuch(c))
		}
	default:
		return invalid("type", "there is no such control")
	}
	return nil
}

func tooMuch(c control) error {
	return &sandbox.Error{Code: sandbox.CodeBusy, Op: c.Type, Message: "too much is asked at once", Retryable: true}
}

// input passes b to the program. Without flow control it waits until the program
// has read it.
func (s *served) input(b []byte) error {
	switch {
	case s.stdin != nil:
		return s.stdin.Put(b)
	case s.pipe != nil:
		s.behind.Store(true)
		_, err := s.pipe.Write(b)
		s.heard.Store(true)
		s.behind.Store(false)
		if err != nil && err != io.ErrClosedPipe {
			return err
		}
	}
	return nil
}

func (s *served) inputEnds() {
	if s.stdin != nil {
		s.stdin.Close(nil)
	}
	if s.pipe != nil {
		_ = s.pipe.Close() // never fails
	}
}

func (s *served) flow(c control) error {
	if c.Channel != Stdout && c.Channel != Stderr {
		return invalid("channel", "there is no such output")
	}
	credits := s.out[c.Channel]
	switch {
	case credits == nil && c.Type == typeStop:
		return nil // TCP cannot distinguish them
	case credits == nil:
		return invalid("type", "a credit without a window")
	case c.Type == typeStop:
		credits.Close(io.ErrClosedPipe)
		return nil
	}
	return credits.Grant(c.Bytes)
}

// answer carries out the requests of the client in order: of two sizes the later
// one must win.
func (s *served) answer() {
	for {
		select {
		case <-s.over:
			return
		case <-s.gone:
			return
		case c := <-s.asked:
			s.ask(c)
		}
	}
}

func (s *served) ask(c control) {
	ctx, cancel := context.WithTimeout(context.Background(), askWithin)
	defer cancel()
	switch c.Type {
	case typeSignal:
		s.done(c.ID, nil, s.proc.Signal(ctx, c.Signal))
	case typeResize:
		s.done(c.ID, nil, s.proc.Resize(ctx, sandbox.TTY{Rows: c.Rows, Cols: c.Cols}))
	case typeUsed:
		m, ok := s.proc.(sandbox.Metered)
		if !ok {
			s.done(c.ID, nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "measure", Message: "what the command has used is not reported while it runs"})
			return
		}
		u, err := m.Used(ctx)
		used := Rusage(u)
		s.done(c.ID, &used, err)
	}
}

// An inlet is the program's input.
type inlet struct {
	s    *served
	rest []byte
}

// Read implements io.Reader. It grants the client credit for what was read.
func (i *inlet) Read(p []byte) (int, error) {
	if len(i.rest) == 0 {
		b, err := i.s.stdin.Take()
		if err != nil {
			return 0, err
		}
		i.rest = b
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	if grant := i.s.stdin.Consumed(n); grant > 0 {
		// An error means that the client has gone, which then needs no credit.
		_ = i.s.tell(event{Type: typeCredit, Channel: Stdin, Bytes: grant})
	}
	return n, nil
}

// An outlet is one output of the program.
type responseOutput struct {
	s       *served
	channel byte
	frame   []byte
}

// Write implements io.Writer. It waits until the client grants credit.
func (o *responseOutput) Write(p []byte) (int, error) {
	select {
	case <-o.s.begun:
	case <-o.s.over:
		return 0, io.ErrClosedPipe
	}
	for sent := 0; ; {
		n := min(len(p)-sent, MaxData)
		if n == 0 {
			return sent, nil
		}
		if credits := o.s.out[o.channel]; credits != nil {
			var err error
			if n, err = credits.Take(n); err != nil {
				return sent, err
			}
		}
		o.frame = append(append(o.frame[:0], o.channel), p[sent:sent+n]...)
		if err := o.s.data(o.frame); err != nil {
			return sent, err
		}
		sent += n
	}
}
