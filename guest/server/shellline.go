//go:build linux

package server

import (
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/server/dialect"
	"github.com/bulkhead-dev/sandbox/guest/server/hold"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// A shellLine is one line of a shell. Its stream is that of a command, and
// a command carries its bytes, but has no processes of its own.
type shellLine struct {
	shell *shell
	text  string
	cmd   *command

	killed bool // guarded by the mutex of the shell
	begun  bool // guarded by it too: the shell has, or may have, read the line
}

// line opens the stream of a line.
func (c *conn) line(f wire.Frame) error {
	m, err := wire.DecodeLine(f.Payload)
	if err != nil {
		return err
	}
	c.mu.Lock()
	s, ok := c.streams[m.Shell].(*shell)
	c.mu.Unlock()
	if !ok {
		return c.refuse(f.Stream, wire.KindInvalid, "there is no such shell")
	}
	l := &shellLine{shell: s, text: m.Text, cmd: newCommand(c, f.Stream, wire.Start{Flags: m.Flags})}
	c.begin(f.Stream, l, false)
	if !s.take(l) {
		l.fail(&wire.Failed{Kind: wire.KindInvalid, Text: "the shell is closed, or has another line"})
	}
	return nil
}

// event implements stream.
func (l *shellLine) event(f wire.Frame) error {
	switch f.Type {
	case wire.TypeSignal:
		m, err := wire.DecodeSignal(f.Payload)
		if err == nil {
			l.shell.signalLine(l, unix.Signal(m.Number))
		}
		return err
	case wire.TypeKill:
		m, err := wire.DecodeKill(f.Payload)
		if err == nil {
			go l.shell.killLine(l, time.Duration(m.GraceMillis)*time.Millisecond)
		}
		return err
	case wire.TypeData, wire.TypeCredit, wire.TypeStop:
		return l.cmd.event(f)
	}
	return wire.Violation("unexpected frame type on the stream of a line")
}

// signalLine signals the process group of the shell and its line.
func (s *shell) signalLine(l *shellLine, sig unix.Signal) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == l && l.begun && s.proc != nil {
		s.proc.prog.signalGroup(sig)
	}
}

// disconnect is called when the client has gone. The shell hears of it too.
func (l *shellLine) disconnect() {
	for _, c := range l.cmd.credits {
		if c != nil {
			c.Close(errDetached)
		}
	}
	if l.cmd.inbox != nil {
		l.cmd.inbox.Close(errDetached)
	}
}

// fail answers a line that never ran.
func (l *shellLine) fail(f *wire.Failed) {
	close(l.cmd.launched)
	l.conclude(wire.TypeFailed, f.Encode())
}

// conclude sends the last answer.
func (l *shellLine) conclude(t wire.Type, payload []byte) {
	close(l.cmd.gone)
	l.shell.dismiss(l)
	l.cmd.answer(t, payload)
	l.cmd.conn.finished(l.cmd.id, false)
}

// play runs one line to its end and makes the shell ready for the next.
func (s *shell) play(l *shellLine) {
	p, a, refused := s.hand(l)
	if refused != nil {
		l.fail(refused)
		return
	}
	used := l.carry(p)
	err := p.hear(a, func() bool { _, ok := a.Ended(); return ok }, firstLook, nil)
	if err == nil && !s.killed(l) {
		l.settle()
		status, _ := a.Ended()
		exit := wire.Exit{Code: status, Restarted: s.lost}
		s.lost = false
		l.conclude(wire.TypeExit, exit.Encode())
		if p.settle(a, used, s.state) != nil {
			s.abandon()
			s.lost = true
		}
		return
	}
	s.bury(l, p, a)
}

// bury ends what is left of a process of the shell that has ended with the
// line, or has to.
func (s *shell) bury(l *shellLine, p *shellProc, a *dialect.Answer) {
	s.forget()
	p.kill(0)
	<-p.prog.gone
	l.finish()
	p.release()
	s.lost = false
	if p.exitErr != nil {
		l.conclude(wire.TypeFailed, failure(wire.KindInternal, errors.New("the stage of the shell was killed")).Encode())
		return
	}
	exit := wire.Exit{Code: p.exit.Code, Signal: p.exit.Signal, Restarted: true}
	if status, ok := a.Ended(); ok { // within the time that it had to end by itself
		exit.Code, exit.Signal = status, 0
	}
	l.conclude(wire.TypeExit, exit.Encode())
}

// hand gives the line to a process of the shell, which it starts if there
// is none. The answer is to be heard then.
func (s *shell) hand(l *shellLine) (*shellProc, *dialect.Answer, *wire.Failed) {
	for tries := 0; ; tries++ {
		if p := s.proc; p != nil && p.isGone() {
			s.abandon()
			s.lost = true
		}
		if s.proc == nil {
			if refused := s.start(); refused != nil {
				return nil, nil, refused
			}
		}
		p := s.proc
		token := randomHex(dialect.TokenLen / 2)
		err := l.give(p, token)
		if err == nil {
			return p, dialect.NewAnswer(token), nil
		}
		if err == errKilled {
			return nil, nil, failure(wire.KindInternal, err)
		}
		// It has ended in this moment, and has not seen the line.
		s.abandon()
		s.lost = true
		if tries > 0 {
			return nil, nil, failure(wire.KindInternal, err)
		}
	}
}

// give writes the line into the script of p.
func (l *shellLine) give(p *shellProc, token string) error {
	flags := l.cmd.start.Flags
	writes, text := p.dialect.Script(dialect.Line{
		Text: l.text, Token: token, Stdin: l.cmd.inbox != nil,
		Stdout: l.cmd.credits[wire.Stdout] != nil, Stderr: l.cmd.credits[wire.Stderr] != nil,
		Merge: flags&wire.FlagMergeErr != 0,
	})
	if text {
		if err := p.setText(l.text); err != nil {
			return err
		}
	}
	st := &streams{}
	if l.cmd.inbox != nil {
		if err := st.openPipe(wire.Stdin); err != nil {
			return err
		}
		err := p.hold.put(put{hold.SlotStdin, st.child[wire.Stdin]})
		st.handedOver()
		if err == nil {
			err = p.hold.settle()
		}
		if err != nil {
			st.close()
			return err
		}
	}
	l.shell.mu.Lock()
	killed := l.killed
	l.begun = !killed
	l.shell.mu.Unlock()
	if killed {
		st.close()
		return errKilled
	}
	l.cmd.streams = st
	l.shell.state.begin()
	if err := p.say(writes); err != nil {
		st.close()
		return err
	}
	l.cmd.answer(wire.TypeStarted, wire.Started{PID: uint32(p.pid)}.Encode())
	return nil
}

// carry starts to move bytes, and returns the channels of output that the
// line uses.
func (l *shellLine) carry(p *shellProc) (used []int) {
	for ch, credits := range l.cmd.credits {
		if credits != nil {
			l.cmd.streams.ours[ch] = p.outputs[ch]
			used = append(used, ch)
		}
	}
	l.cmd.carry()
	close(l.cmd.launched)
	return used
}

// settle sends what the line has written, and leaves the pipes to what it
// has left running.
func (l *shellLine) settle() {
	for _, o := range l.cmd.outputs {
		if o != nil {
			o.settle()
		}
	}
	l.await()
}

// finish sends what is left of a line whose processes are gone.
func (l *shellLine) finish() {
	for _, o := range l.cmd.outputs {
		if o != nil {
			o.finish()
		}
	}
	l.await()
}

func (l *shellLine) await() {
	for _, o := range l.cmd.outputs {
		if o != nil {
			<-o.ended
		}
	}
	if l.cmd.input != nil {
		l.cmd.input.finish()
	}
}

func (s *shell) killed(l *shellLine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return l.killed
}
