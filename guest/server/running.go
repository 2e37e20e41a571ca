//go:build linux

package server

import (
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// maxSnapshots bounds the snapshots that are made at a time.
	maxSnapshots = 2
	// stateSoon bounds how long a shell that seems to have no line may take to
	// turn to a snapshot: it has one by then.
	stateSoon = 500 * time.Millisecond
)

// snapshot begins to answer a request for what runs.
func (c *conn) snapshot(f wire.Frame) error {
	if len(f.Payload) > 0 {
		return wire.Violation("malformed request for a snapshot")
	}
	select {
	case c.srv.snapshots <- struct{}{}:
	default:
		return c.refuse(f.Stream, wire.KindResource, "snapshots are made for too many requests at once")
	}
	o := &fileOp{conn: c, id: f.Stream, credits: wire.NewCredits(), off: make(chan struct{})}
	c.begin(o.id, o, false)
	go o.sendSnapshot()
	return nil
}

func (o *fileOp) sendSnapshot() {
	defer func() { <-o.conn.srv.snapshots }()
	defer o.conn.finished(o.id, false)
	rest := o.conn.srv.snapshotOf(o.off).Encode()
	fill := func(b []byte) (n int, more bool, err error) {
		n = copy(b, rest)
		rest = rest[n:]
		return n, len(rest) > 0, nil
	}
	if err := o.send(fill, &wire.FileInfo{}, fill); err != nil {
		o.answer(wire.TypeFailed, 0, fileFailure(err).Encode())
	}
}

// snapshotOf returns what runs now.
func (s *Server) snapshotOf(off <-chan struct{}) (m wire.Snapshot) {
	var shells []*shell
	s.mu.Lock()
	for c := range s.talking {
		c.mu.Lock()
		for _, one := range c.streams {
			if sh, ok := one.(*shell); ok && len(shells) < wire.MaxRunning {
				shells = append(shells, sh)
			}
		}
		c.mu.Unlock()
	}
	for c := range s.commands {
		if len(m.Commands) < wire.MaxRunning {
			m.Commands = append(m.Commands, c.running())
		}
	}
	s.mu.Unlock()
	var all []proctreeProc
	if len(shells) > 0 {
		s.walk(func() { all, _ = snapshotProctree() })
	}
	room := wire.MaxSnapshotStates
	for _, sh := range shells {
		one := sh.snapshot(all, room, off)
		room -= len(one.State)
		m.Shells = append(m.Shells, one)
	}
	return m
}

// running describes the command.
func (m *command) running() wire.Running {
	m.mu.Lock()
	defer m.mu.Unlock()
	r := wire.Running{
		PID: uint32(m.pid), Detach: m.detach, TTY: m.start.Flags&wire.FlagTTY != 0,
		Started: uint64(max(0, m.began.UnixNano())), Dir: m.start.Dir,
	}
	room := wire.MaxRunningText
	for _, a := range m.start.Args {
		a = a[:min(len(a), room)]
		if room -= len(a); room == 0 {
			break
		}
		r.Args = append(r.Args, a)
	}
	return r
}

// noteCommand notes a command that runs, and forgetCommand one that has ended with
// everything that it has started.
func (s *Server) noteCommand(m *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.commands == nil {
		s.commands = map[*command]struct{}{}
	}
	s.commands[m] = struct{}{}
}

func (s *Server) forgetCommand(m *command) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.commands, m)
}

// snapshot describes the shell, with a state of at most room bytes. Of one that has
// no line it waits until the state after the last one is kept.
func (s *shell) snapshot(all []proctreeProc, room int, off <-chan struct{}) wire.ShellState {
	m := wire.ShellState{ID: s.req.Name}
	timer := time.NewTimer(stateSoon)
	defer timer.Stop()
	if s.line() == nil {
		kept := make(chan struct{})
		select {
		case s.asks <- kept:
			<-kept
			m.Kept = true
		case <-timer.C:
		case <-s.stop:
		case <-off:
		}
	}
	s.mu.Lock()
	p, line, state := s.proc, s.current, s.state
	s.mu.Unlock()
	if line != nil {
		m.Line = line.text[:min(len(line.text), wire.MaxRunningText)]
	}
	if p != nil {
		m.Program = p.program
		dir, _ := os.Readlink("/proc/" + strconv.Itoa(p.pid) + "/cwd") // what it says itself is in the state
		m.Dir = strings.TrimSuffix(dir, " (deleted)")
		m.Processes = p.others(all)
	}
	if state != nil {
		if content := state.content(room); content != nil {
			m.State = content
		} else {
			m.Kept = false
		}
	}
	return m
}

// line returns the line that has not been answered.
func (s *shell) line() *shellLine {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.current
}

// keepAll takes the state after the last line to its end, if there is one that
// the shell has not written yet.
func (s *shell) keepAll() {
	for p := s.proc; p != nil && !p.telling.over(); p = s.proc {
		after := s.keepRest()
		if after == 0 {
			return
		}
		time.Sleep(min(after, stateLook/10))
	}
}

// others counts the processes of the shell beside itself and its descriptor store.
func (p *shellProc) others(all []proctreeProc) (n uint32) {
	p.prog.mu.Lock()
	shim := p.prog.shim
	p.prog.mu.Unlock()
	if shim == nil {
		return 0
	}
	for _, one := range descendantsProctree(all, shim.pid, func(int) bool { return false }) {
		if one.PID != p.pid && one.PID != p.store && !one.ended() {
			n++
		}
	}
	return n
}

// content returns a copy of what is kept, nil if it is nothing or more than most
// bytes. It may be called by any goroutine.
func (s *shellState) content(most int) []byte {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.good == nil || s.whole > int64(most) || s.whole == 0 {
		return nil
	}
	b := make([]byte, s.whole)
	if _, err := s.good.ReadAt(b, 0); err != nil {
		return nil
	}
	return b
}

// openFrom opens the stream of a shell that takes up the state of another one.
func (c *conn) openFrom(f wire.Frame) error {
	m, err := wire.DecodeShellFrom(f.Payload)
	if err != nil {
		return err
	}
	c.runShell(f.Stream, m.Shell, kept{from: m.Program, posix: m.Program == "sh", content: append([]byte(nil), m.State...)})
	return nil
}
