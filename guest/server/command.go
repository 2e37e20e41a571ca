//go:build linux

package server

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// errDetached ends the channels of a command whose client does not listen
// any more.
var errDetached = errors.New("the client has detached")

// A command is one running command, from its request to its last answer.
type command struct {
	conn  *conn
	id    uint32
	start wire.Start
	began time.Time
	pass  pass // at the gate

	launched chan struct{} // closed when the program runs or could not be started
	gone     chan struct{} // closed when no process of it is left
	killing  sync.Mutex    // held while processes are looked for below the shim
	forced   atomic.Bool   // kill has ended the shim, because processes below it were left

	inbox   *wire.Inbox // standard input, nil when not carried
	input   *input      // nil when not carried
	outputs [3]*output  // by channel, nil when not carried
	credits [3]*wire.Credits

	body         []byte    // the request for the shim, until that has it
	asked        *shimProc // has the request already, or nil
	streams      *streams
	outputDigest *outputDigest // nil where attempts are not observed
	before       scarcity      // when it began
	audit        *audit        // nil where no limit has to be reported
	counted      bool          // it needs a shim whose processes ask before they make others
	forks        *forks        // nil where each may, or where a line is asked
	asks         asks          // what it has used so far
	endless      bool          // outputs end with the last answer only: what carries them may change

	mu      sync.Mutex
	shim    *shimProc
	pid     int     // of the program; 0 before it runs and after it was reaped
	spent   spent   // by what its shim had reaped before; settled with stage
	detach  bool    // of the request
	stopped [3]bool // by channel: the client does not want the output
	runs    bool    // orders are followed at once
	orders  []order // that wait for the program to run
}

func newCommand(c *conn, id uint32, s wire.Start) *command {
	m := &command{
		conn: c, id: id, start: s, began: time.Now(), detach: s.Flags&wire.FlagDetach != 0,
		launched: make(chan struct{}), gone: make(chan struct{}),
	}
	m.start.Limits, m.audit = newAudit(s.Limits)
	m.forks = newForks(m, m.audit, 0)
	m.counted = m.forks != nil
	m.outputDigest = c.newOutputDigest(id)
	tty := s.Flags&wire.FlagTTY != 0
	if tty || s.Flags&wire.FlagNoStdin == 0 {
		m.inbox = wire.NewInbox()
	}
	if tty || s.Flags&wire.FlagNoStdout == 0 {
		m.credits[wire.Stdout] = wire.NewCredits()
	}
	if !tty && s.Flags&(wire.FlagNoStderr|wire.FlagMergeErr) == 0 {
		m.credits[wire.Stderr] = wire.NewCredits()
	}
	return m
}

// start opens the stream of a command.
func (c *conn) start(f wire.Frame) error {
	s, err := wire.DecodeStart(f.Payload)
	if err != nil {
		return err
	}
	m := newCommand(c, f.Stream, s)
	c.begin(m.id, m, m.detach)
	c.srv.noteCommand(m)
	c.srv.running.Add(1)
	m.before = c.srv.scarcity()
	m.pass = pass{queue: &c.queue, start: m.begin, busy: m.busy}
	if c.srv.gate.enter(&m.pass) {
		m.begin()
	}
	return nil
}

// begin is called when it is the command's turn. It does not wait.
func (m *command) begin() {
	failure := m.prepare()
	if failure == nil {
		m.hurry()
	}
	go m.run(failure)
}

// busy reports whether the program keeps a processor busy, or will soon.
func (m *command) busy() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.pid == 0 || runningProctree(m.pid)
}

// end forgets a command that has sent its last answer.
func (m *command) end() {
	if m.isGone() { // else outlive forgets it
		m.conn.srv.forgetCommand(m)
	}
	if m.conn.srv.running.Add(-1) == 0 {
		m.conn.srv.sweepStrays() // for what a detached command left
	}
	m.conn.finished(m.id, m.detach)
}

// run runs the command to its end and sends the answers. failure is what
// went wrong already, or nil.
func (m *command) run(failure *wire.Failed) {
	defer m.end()
	if failure == nil {
		failure = m.launch()
	}
	m.body = nil
	if failure != nil {
		m.conn.srv.gate.leave(&m.pass)
		close(m.gone)
		close(m.launched)
		m.closeStreams()
		m.answer(wire.TypeFailed, failure.Encode())
		return
	}
	m.conn.srv.auditor.watch(m, m.audit, false)
	m.report(wire.TypeStarted, wire.Started{PID: uint32(m.pid)}.Encode())
	m.catchUp() // before it can have input
	m.carry()
	close(m.launched)
	exit, err := m.await()
	m.conn.srv.gate.leave(&m.pass)
	if err != nil && !m.forced.Load() {
		m.lost()
		return
	}
	if err != nil {
		m.sweep()
		close(m.gone)
	}
	m.finish()
	m.outputDigest.close()
	m.asks.close()
	exit = m.audit.ended(exit)
	if exit.Limit == nil {
		exit.Limit = m.conn.srv.short(m.before, exit, m.start.Env, m.start.Dir)
	}
	m.report(wire.TypeExit, exit.Encode())
}

// report sends an answer at once, unless others wait for their turn: then
// answers go out together, which keeps both sides from a change of context
// for each.
func (m *command) report(t wire.Type, payload []byte) {
	if !m.conn.srv.gate.crowded() {
		m.answer(t, payload)
		return
	}
	_ = m.conn.held.write(wire.Frame{Type: t, Stream: m.id, Payload: payload}) // as with answer
}

func (m *command) answer(t wire.Type, payload []byte) {
	// A failed write is the connection's end, which its reader sees too.
	_ = m.conn.w.Write(wire.Frame{Type: t, Stream: m.id, Payload: payload})
}

// carry starts to move bytes.
func (m *command) carry() {
	m.carryInput()
	m.carryOutputs()
}

func (m *command) carryInput() {
	if m.inbox != nil {
		m.input = &input{
			file: m.streams.ours[wire.Stdin], tty: m.streams.tty != nil, inbox: m.inbox, ended: make(chan struct{}),
			send: func(f wire.Frame) error {
				f.Stream = m.id
				return m.conn.w.Write(f)
			},
		}
		go m.input.pump()
	}
}

func (m *command) carryOutputs() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for ch, credits := range m.credits {
		if credits == nil {
			continue
		}
		o := &output{
			file: m.streams.ours[ch], channel: uint8(ch), credits: credits, endless: m.endless,
			bufs: m.conn.bufs, ended: make(chan struct{}),
			end: func(f wire.Frame) error {
				f.Stream = m.id
				return m.conn.ends.write(f)
			},
			send: func(f wire.Frame, b []byte) error {
				f.Stream = m.id
				return m.conn.w.WriteInPlace(f, b)
			},
		}
		m.outputs[ch] = o
		go o.pump()
		if m.stopped[ch] {
			go o.dropRest()
		}
	}
}

// await waits for the end of the program and of what it left behind. The
// descendants of a detached command are waited for in the background. With an
// error, which means that the shim has ended, the result is what is known
// about a command that kill ended with its shim.
func (m *command) await() (wire.Exit, error) {
	r, err := m.shim.report()
	m.mu.Lock()
	program := m.pid
	m.pid = 0
	m.mu.Unlock()
	if err == nil && !r.Empty && m.detach {
		go m.outlive(program)
		return exitOf(r, m.spent), nil
	}
	defer m.conn.srv.sweepStrays()
	m.conn.srv.leaveSession(program)
	if err != nil {
		return wire.Exit{Signal: uint8(unix.SIGKILL)}, err
	}
	exit := exitOf(r, m.spent)
	if !r.Empty {
		m.conn.srv.lastLook(m)
		if left := m.conn.srv.leftBehind(m.shim.pid); left.Count > 0 {
			exit.Left = &left
		}
		go m.kill(0)
		last, err := m.shim.report()
		if err != nil {
			return exit, err
		}
		exit.User, exit.System = m.spent.until(last)
	}
	m.vacate()
	return exit, nil
}

// vacate gives the shim back. A killer that is still at work finds its
// victims by their shim, so it must come to its end before the shim may
// have another command.
func (m *command) vacate() {
	close(m.gone)
	m.killing.Lock()
	defer m.killing.Unlock()
	m.giveBack(m.shim)
}

// outlive waits for the last descendant of a detached command.
func (m *command) outlive(program int) {
	defer m.conn.srv.leaveSession(program)
	defer m.conn.srv.forgetCommand(m)
	if _, err := m.shim.report(); err != nil {
		m.sweep()
		close(m.gone)
	} else {
		m.vacate()
	}
	m.closeStreams()
}

// lost cleans up after a shim that died under its command, by the hand of
// user code where nothing keeps commands from signalling it. What was below
// it is below us now.
func (m *command) lost() {
	m.sweep()
	close(m.gone)
	m.finish()
	m.outputDigest.close()
	m.asks.close()
	m.answer(wire.TypeFailed, failure(wire.KindInternal, errors.New("the stage of the command was killed")).Encode())
}

// sweep ends what a shim that died has left to us.
func (m *command) sweep() {
	srv := m.conn.srv
	m.shim.close()
	srv.nursery.kill(m.shim.pid)
	srv.nursery.await(m.shim.pid)
	srv.sweep()
}

// finish sends what is left in the pipes and closes them. For a detached
// command with descendants the pipes stay open and are drained for ever.
func (m *command) finish() {
	for _, o := range m.outputs {
		if o != nil {
			o.finish()
		}
	}
	for _, o := range m.outputs {
		if o != nil {
			<-o.ended
		}
	}
	if m.input != nil {
		m.input.finish() // after it no frame of ours can follow the last answer
	}
	select {
	case <-m.gone:
		m.closeStreams()
	default:
		m.dropOutput()
	}
}

func (m *command) dropOutput() {
	for _, o := range m.outputs {
		if o != nil {
			go o.drop()
		}
	}
}

func (m *command) closeStreams() {
	if m.streams != nil {
		m.streams.close()
	}
}

// disconnect is called when the client has gone.
func (m *command) disconnect() {
	for _, c := range m.credits {
		if c != nil {
			c.Close(errDetached)
		}
	}
	if m.inbox != nil {
		m.inbox.Close(errDetached)
	}
	if !m.detach {
		m.kill(0)
		return
	}
	go func() { // keep a detached command from blocking on a full pipe
		<-m.launched
		for _, o := range m.outputs {
			if o != nil {
				<-o.ended
				go o.drop()
			}
		}
	}()
}
