//go:build linux

package server

import (
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// unreadLooks, with unreadLook between two of them, bound how long the kill of
// a line waits for the end of what its shell has to do for the line before: it
// would be lost, and on a busy machine a shell stands still for seconds.
const (
	unreadLooks = 5000
	unreadLook  = 2 * time.Millisecond
)

// A shellLine is one line of a shell. Its stream is that of a command, and
// a command carries its bytes, but has no processes of its own.
type shellLine struct {
	shell *shell
	text  string
	cmd   *command

	token  string
	enter  *reentry // what its shell has to enter before, or nil
	from   protocolOutputs
	bearer *shellProc // the one whose output is carried, or nil

	// Guarded by the mutex of the shell.
	killed bool
	begun  bool // the shell has, or may have, read the line
	size   int  // of its script in bytes
	over   bool // it has come to its end, and cannot be killed any more
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
	l.cmd.before = c.srv.scarcity()
	l.cmd.endless = true // pipes change when it is given to a second process
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
	if s.current == l && l.begun && !l.over && s.proc != nil {
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
	l.cmd.closeStreams()
	l.conclude(wire.TypeFailed, f.Encode())
}

// conclude sends the last answer.
func (l *shellLine) conclude(t wire.Type, payload []byte) {
	if l.cmd.streams != nil {
		l.cmd.streams.handedOver()
	}
	l.cmd.outputDigest.close()
	close(l.cmd.gone)
	l.shell.dismiss(l)
	l.cmd.answer(t, payload)
	l.cmd.conn.finished(l.cmd.id, false)
}

// hand gives the line to a process of the shell, which it starts if there
// is none. The answer is to be heard then.
func (s *shell) hand(l *shellLine) (*shellProc, *protocolAnswer, *wire.Failed) {
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
		err := l.give(p)
		if err == nil {
			return p, newAnswer(l.token), nil
		}
		if err == errKilled {
			return nil, nil, failure(wire.KindInternal, err)
		}
		// It has ended in this moment, or will never tell the state after the
		// line before, and has not seen this one.
		s.abandon()
		s.lost = true
		if tries > 0 {
			return nil, nil, failure(wire.KindInternal, err)
		}
	}
}

// give writes the line into the script of p.
func (l *shellLine) give(p *shellProc) error {
	if err := p.takeNow(l.shell.state); err != nil {
		return err
	}
	flags := l.cmd.start.Flags
	l.token = randomHex(tokenLen / 2)
	var drop bool
	l.from, drop = p.own.next(l.text)
	l.enter, l.shell.turn = l.shell.conn.srv.files.gate.reenter(p.pid, l.shell.turn)
	enter := ""
	if l.enter != nil {
		enter = l.enter.root
	}
	effect := p.effect(l)
	script := p.shellProtocol.Script(protocolLine{
		Outputs: l.from, Drop: drop, Enter: enter, Untrap: p.traps && l.shell.state.mayEnd(), Effect: effect, Traps: p.traps, Text: l.text, Token: l.token, Stdin: l.cmd.inbox != nil,
		Stdout: l.cmd.credits[wire.Stdout] != nil, Stderr: l.cmd.credits[wire.Stderr] != nil,
		Merge: flags&wire.FlagMergeErr != 0,
	})
	if script.Slot {
		if err := p.setText(script.Text); err != nil {
			return err
		}
	}
	if err := l.giveInput(p); err != nil {
		return err
	}
	l.shell.mu.Lock()
	killed := l.killed
	l.begun, l.size = !killed, script.Size()
	l.shell.mu.Unlock()
	if killed {
		return errKilled
	}
	p.expect(l.cmd.id, l.shell.state)
	_, l.cmd.audit = newAudit(l.shell.req.Limits)
	p.prog.testify(l.cmd.outputDigest, newForks(p.prog, l.cmd.audit, 1))
	p.prog.conn.srv.auditor.watch(p.prog, l.cmd.audit, true)
	if err := p.say(script); err != nil {
		l.shell.takeBack(l)
		return err
	}
	return nil
}

// effect returns what the line does at most to the state that is kept, and takes
// note of one that may change it, or give the shell traps.
func (p *shellProc) effect(l *shellLine) protocolEffect {
	effect := p.shellProtocol.Effect(l.text)
	since := l.shell.state.isSince(p.changed)
	if since {
		p.traps = !l.shell.state.isUsual()
	}
	switch {
	case effect == protocolChanges, l.enter != nil:
		p.traps = p.traps || mayTrap(l.text)
		p.changed = l.cmd.id
		return protocolChanges
	case !since || p.traps:
		return protocolChanges
	}
	return effect
}

// giveInput puts the read end of the line's input where the shell finds it.
// It stays open here too, for another process of the shell.
func (l *shellLine) giveInput(p *shellProc) error {
	if l.cmd.streams == nil {
		l.cmd.streams = &streams{}
		if l.cmd.inbox != nil {
			if err := l.cmd.streams.openPipe(wire.Stdin); err != nil {
				return err
			}
		}
	}
	if l.cmd.inbox == nil {
		return nil
	}
	if err := p.hold.put(put{slotStdin, l.cmd.streams.child[wire.Stdin]}); err != nil {
		return err
	}
	return p.hold.settle()
}

// ends reports whether the line, which has come to its end, was not killed
// before that. It cannot be killed any more then.
func (s *shell) ends(l *shellLine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.over = !l.killed
	return l.over
}

// takeBack makes a line that was given to a process one that was not begun,
// unless it was killed.
func (s *shell) takeBack(l *shellLine) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	l.begun = false
	return !l.killed
}

// awaitRead waits a little for a shell that has not begun to read a script of
// so many bytes. What it still does belongs to the line before.
func (p *shellProc) awaitRead(size int) {
	for range unreadLooks {
		if left, err := pending(p.script); size == 0 || err != nil || left < size {
			return
		}
		time.Sleep(unreadLook)
	}
}
