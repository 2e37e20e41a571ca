//go:build linux

package server

import (
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A shell is a persistent shell: a stream that lives from its request to
// its Kill, or to the end of the connection. Its process may end and be
// started again any number of times, always for a line.
type shell struct {
	conn *conn
	id   uint32
	req  wire.Shell
	kept kept // of the goroutine of the shell

	lines chan *shellLine    // at most one: current
	asks  chan chan struct{} // for the state after the last line: closed when it is kept
	stop  chan struct{}      // closed when the shell is to end

	mu       sync.Mutex
	proc     *shellProc // nil while there is none
	starting bool       // proc has not reported its state yet
	current  *shellLine // the line that has not been answered
	over     bool       // stop is closed

	// Of the goroutine of the shell.
	state    *shellState
	lost     bool   // a process has ended, which no line has reported yet
	turn     uint64 // the last exchange of file systems that its process knows of
	failures int    // in a row, to take up the state
}

// openShell opens the stream of a shell.
func (c *conn) openShell(f wire.Frame) error {
	m, err := wire.DecodeShell(f.Payload)
	if err != nil {
		return err
	}
	c.runShell(f.Stream, m, kept{})
	return nil
}

// runShell begins a shell on a new stream.
func (c *conn) runShell(id uint32, m wire.Shell, k kept) {
	s := &shell{conn: c, id: id, req: m, kept: k, lines: make(chan *shellLine, 1), asks: make(chan chan struct{}), stop: make(chan struct{})}
	c.begin(s.id, s, false)
	c.srv.running.Add(1)
	go s.run()
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
	state, err := newShellState()
	if err != nil {
		return failure(wire.KindResource, err)
	}
	s.mu.Lock()
	s.state = state // set once, but looked for by snapshots
	s.mu.Unlock()
	if refused := s.fetch(); refused != nil {
		return refused
	}
	return s.takenUp(s.start())
}

// abandon ends the process of the shell and forgets it.
func (s *shell) abandon() {
	if p := s.forget(); p != nil {
		p.kill(0)
		<-p.prog.gone
		p.lastWords(s.state)
		p.release()
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
	look := time.NewTimer(0)
	defer look.Stop()
	for {
		select {
		case <-s.stop:
			return
		case l := <-s.lines:
			s.play(l)
			s.conn.srv.pool.worked()
			if p := s.proc; p != nil && !p.telling.over() {
				look.Reset(keepAfter)
			}
		case kept := <-s.asks:
			s.keepAll()
			close(kept)
		case <-look.C:
			if p := s.proc; p != nil && !p.telling.over() {
				if after := s.keepRest(); after > 0 {
					look.Reset(after)
				}
			}
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
// that was not begun is never begun, and the shell stays as it is, unless
// it is being started for this line. A line that has ended is let be: the
// shell may have another one.
func (s *shell) killLine(l *shellLine, grace time.Duration) {
	s.mu.Lock()
	var p *shellProc
	var size int
	if s.current == l && !l.over {
		l.killed = true
		if l.begun || s.starting {
			p, size = s.proc, l.size
		}
	}
	s.mu.Unlock()
	if p != nil {
		p.awaitRead(size)
		p.kill(grace)
	}
}

// errKilled means that the line was ended by the client.
var errKilled = errors.New("the line was ended before it began")
