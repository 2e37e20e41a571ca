//go:build linux

package server

import (
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/server/dialect"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A shell is a persistent shell: a stream that lives from its request to
// its Kill, or to the end of the connection. Its process may end and be
// started again any number of times, always for a line.
type shell struct {
	conn *conn
	id   uint32
	req  wire.Shell

	lines chan *shellLine // at most one: current
	stop  chan struct{}   // closed when the shell is to end

	mu      sync.Mutex
	proc    *shellProc // nil while there is none
	current *shellLine // the line that has not ended
	over    bool       // stop is closed

	// Of the goroutine of the shell.
	state *shellState
	lost  bool // a process has ended, and no line was told
}

// openShell opens the stream of a shell.
func (c *conn) openShell(f wire.Frame) error {
	m, err := wire.DecodeShell(f.Payload)
	if err != nil {
		return err
	}
	s := &shell{conn: c, id: f.Stream, req: m, lines: make(chan *shellLine, 1), stop: make(chan struct{})}
	c.begin(s.id, s, false)
	c.srv.running.Add(1)
	go s.run()
	return nil
}

// run runs the shell to its end and sends the answers.
func (s *shell) run() {
	failure := s.open()
	if failure == nil {
		s.answer(wire.TypeOpened, wire.ShellOpened{Program: s.proc.program}.Encode())
		s.serve()
	}
	s.quit()
	if failure == nil {
		s.answer(wire.TypeDone, nil)
	} else {
		s.answer(wire.TypeFailed, failure.Encode())
	}
	if s.conn.srv.running.Add(-1) == 0 {
		s.conn.srv.sweepStrays()
	}
	s.conn.finished(s.id, false)
}

func (s *shell) answer(t wire.Type, payload []byte) {
	// A failed write is the connection's end, which its reader sees too.
	_ = s.conn.w.Write(wire.Frame{Type: t, Stream: s.id, Payload: payload})
}

// open starts the first process.
func (s *shell) open() *wire.Failed {
	var err error
	if s.state, err = newShellState(); err != nil {
		return failure(wire.KindResource, err)
	}
	return s.start()
}

// start starts a process that takes up the state that was kept. When a
// working directory is gone, a shell with a state starts at the root.
func (s *shell) start() *wire.Failed {
	req := s.req
	p, failure := startShell(s.conn, req, s.state.good)
	if failure != nil && failure.Kind == wire.KindBadDir && s.state.good != nil {
		req.Dir = "/"
		p, failure = startShell(s.conn, req, s.state.good)
	}
	if failure != nil {
		return failure
	}
	if !s.adopt(p) {
		p.end()
		return &wire.Failed{Kind: wire.KindInternal, Text: "the shell was closed"}
	}
	if err := s.prepare(p); err != nil {
		s.abandon()
		what := "the shell does not start: "
		if s.state.good != nil {
			s.state.drop()
			what = "the state of the shell could not be restored, the next line finds a new one: "
		}
		return &wire.Failed{Kind: wire.KindInternal, Text: what + err.Error()}
	}
	return nil
}

// adopt makes p the process of the shell, unless the shell is to end.
func (s *shell) adopt(p *shellProc) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return false
	}
	s.proc = p
	return true
}

// prepare has the new process read the prelude and tell its state.
func (s *shell) prepare(p *shellProc) error {
	if err := p.hold.settle(); err != nil {
		return err
	}
	token := randomHex(dialect.TokenLen / 2)
	a := dialect.NewAnswer(token)
	if err := p.say(p.dialect.Begin(token)); err != nil {
		return err
	}
	s.state.begin()
	return p.keepState(a, s.state)
}

// abandon ends the process of the shell and forgets it.
func (s *shell) abandon() {
	if p := s.forget(); p != nil {
		p.end()
	}
}

func (s *shell) forget() *shellProc {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.proc
	s.proc = nil
	return p
}

// serve runs lines until the shell is to end.
func (s *shell) serve() {
	for {
		select {
		case <-s.stop:
			return
		case l := <-s.lines:
			s.play(l)
		}
	}
}

// take gives the shell a line. It refuses one while it has another.
func (s *shell) take(l *shellLine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over || s.current != nil {
		return false
	}
	s.current = l
	s.lines <- l // has room: there is no other line
	return true
}

// dismiss forgets the line, before its last answer is sent.
func (s *shell) dismiss(l *shellLine) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == l {
		s.current = nil
	}
}

// quit ends the process, fails a line that still waits, and closes the
// files.
func (s *shell) quit() {
	s.end()
	s.abandon()
	select {
	case l := <-s.lines:
		l.fail(&wire.Failed{Kind: wire.KindInvalid, Text: "the shell was closed"})
	default:
	}
	if s.state != nil {
		s.state.close()
	}
}

// end lets the shell end. It does not wait for that.
func (s *shell) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.over {
		return
	}
	s.over = true
	close(s.stop)
	if s.proc != nil {
		go s.proc.kill(0)
	}
}

// event implements stream.
func (s *shell) event(f wire.Frame) error {
	if f.Type != wire.TypeKill {
		return wire.Violation("unexpected frame type on the stream of a shell")
	}
	if _, err := wire.DecodeKill(f.Payload); err != nil {
		return err
	}
	s.end()
	return nil
}

// disconnect is called when the client has gone.
func (s *shell) disconnect() { s.end() }

// killLine ends the processes of the shell because of the line l. A line
// that was not begun is never begun, and the shell stays as it is.
func (s *shell) killLine(l *shellLine, grace time.Duration) {
	s.mu.Lock()
	var p *shellProc
	if s.current == l {
		l.killed = true
		if l.begun {
			p = s.proc
		}
	}
	s.mu.Unlock()
	if p != nil {
		p.kill(grace)
	}
}

// errKilled means that the line was ended by the client.
var errKilled = errors.New("the line was ended before it began")
