package client

import (
	"context"
	"io"
	"math"
	"sync"
	"sync/atomic"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// maxGrace bounds the time between SIGTERM and SIGKILL.
const maxGrace = time.Hour

// A process is a command that runs in the sandbox.
type process struct {
	c      *Client
	id     uint32
	cmd    sandbox.Command
	asked  []wire.Limit   // the limits of the command
	parent *sandbox.Span  // of the caller of Start; nil where no trace is recorded
	boxes  [3]*wire.Inbox // of the outputs that are carried
	stdin  *wire.Credits  // nil when nothing is sent

	started chan struct{} // closed when it runs or could not be started
	failure error         // why it could not; readable once started is closed
	running bool          // guarded by the reader: the answer to Start came
	pid     int           // inside of the sandbox; readable once started is closed

	ended chan struct{} // closed when the last answer came or the connection ended
	exit  sandbox.Exit  // readable once ended is closed, like err
	err   error

	attempts attempts
	use      uses

	delivery sync.Mutex
	carrying bool    // guarded by delivery: carry was called
	filled   [3]bool // guarded by delivery: bytes came on the channel
	pumping  [3]bool // guarded by delivery: they have a goroutine that delivers them

	span *sandbox.Span // from the answer to Start to the end; guarded by the reader; nil where no trace is recorded
	said bool          // guarded by the reader: the first output came

	awaited  atomic.Int32  // see arrived
	unwatch  func() bool   // lets go of the context of Start; nil where that never ends
	waited   chan struct{} // closed when Wait may return
	released sync.Once     // guards closing it
	writes   wire.Writes   // to Stdout and Stderr
}

var (
	_ sandbox.Process    = (*process)(nil)
	_ sandbox.Identified = (*process)(nil)
)

func newProcess(ctx context.Context, c *Client, cmd sandbox.Command, flags uint32) *process {
	p := &process{
		c: c, cmd: cmd, parent: sandbox.SpanOf(ctx),
		started: make(chan struct{}), ended: make(chan struct{}), waited: make(chan struct{}),
	}
	p.awaited.Store(2) // the end, and carry
	tty := flags&wire.FlagTTY != 0
	if tty || flags&wire.FlagNoStdin == 0 {
		p.stdin = wire.NewCredits()
	}
	if tty || flags&wire.FlagNoStdout == 0 {
		p.boxes[wire.Stdout] = wire.NewInbox()
	}
	if !tty && flags&(wire.FlagNoStderr|wire.FlagMergeErr) == 0 {
		p.boxes[wire.Stderr] = wire.NewInbox()
	}
	return p
}

// frame takes a frame of the stream; it is called by the reader only.
func (p *process) frame(f wire.Frame) (last bool, err error) {
	switch f.Type {
	case wire.TypeStarted:
		m, err := wire.DecodeStarted(f.Payload)
		if err != nil || p.running {
			return false, wire.Violation("a command was started twice")
		}
		if m.PID <= math.MaxInt32 {
			p.pid = int(m.PID)
		}
		p.running = true
		p.span = p.parent.Child(spanProcess, sandbox.SpanInternal)
		close(p.started)
	case wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil {
			return false, err
		}
		p.finish(sandbox.Exit{}, p.failed(m))
		return true, nil
	case wire.TypeExit:
		m, err := wire.DecodeExit(f.Payload)
		if err != nil || !p.running {
			return false, wire.Violation("a command ended that was not started")
		}
		exit := exitOf(m)
		if exit.Limit, err = hit(m.Limit, p.asked); err != nil {
			return false, err
		}
		p.finish(exit, nil)
		return true, nil
	case wire.TypeData:
		return false, p.data(f)
	case wire.TypeCredit, wire.TypeStop:
		return false, p.flow(f)
	case wire.TypeUsed:
		return false, p.used(f)
	default:
		return false, wire.Violation("unexpected frame of a command")
	}
	return false, nil
}

// failed is the error of a command that could not be started, or whose end
// the guest does not know because its shim was killed.
func (p *process) failed(m wire.Failed) error {
	if p.running {
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: "run", Message: "the end of the command is not known: " + wire.Quote(m.Text)}
	}
	dir := p.cmd.Dir
	if dir == "" {
		dir = p.c.o.Dir
	}
	return startError(m, p.cmd.Args[0], dir)
}

func (p *process) data(f wire.Frame) error {
	ch := f.Channel()
	if !p.running || ch >= 3 || p.boxes[ch] == nil {
		return wire.Violation("data on a channel that is not open")
	}
	if len(f.Payload) > 0 {
		if p.span != nil && !p.said {
			p.said = true
			p.span.Event(eventOutput)
		}
		if err := p.boxes[ch].Put(f.Payload); err != nil {
			return err
		}
		p.fill(ch)
	}
	if f.EOF() {
		p.boxes[ch].Close(nil)
	}
	return nil
}

func (p *process) flow(f wire.Frame) error {
	if f.Channel() != wire.Stdin || p.stdin == nil {
		return wire.Violation("flow control of a channel that is not open")
	}
	if f.Type == wire.TypeStop {
		p.stdin.Close(io.EOF)
		return nil
	}
	m, err := wire.DecodeCredit(f.Payload)
	if err != nil {
		return err
	}
	return p.stdin.Grant(m.N)
}

// lost ends the process because the connection ended.
func (p *process) lost(err error) { p.finish(sandbox.Exit{}, err) }

// finish records the end; it is called once.
func (p *process) finish(exit sandbox.Exit, err error) {
	p.exit, p.err = exit, err
	if p.span != nil {
		p.trace()
	}
	if !p.running {
		p.failure = err
		close(p.started)
	}
	for _, b := range p.boxes {
		if b != nil {
			b.Close(nil)
		}
	}
	if p.stdin != nil {
		p.stdin.Close(io.EOF)
	}
	close(p.ended)
	if err != nil && p.running { // the result is not known, whatever is delivered
		time.AfterFunc(settleWithin, p.giveUp)
	}
	p.arrived()
}

func exitOf(m wire.Exit) sandbox.Exit {
	e := sandbox.Exit{Code: int(m.Code), Restarted: m.Restarted, LostDir: m.LostDir, Usage: sandbox.Rusage{
		User: time.Duration(m.User), System: time.Duration(m.System), MaxRSS: int64(m.MaxRSS),
	}}
	if m.Left != nil {
		e.Left = &sandbox.Left{Count: int(m.Left.Count), Names: m.Left.Names}
	}
	if m.Signal != 0 {
		e.Code, e.Signal = 128+int(m.Signal), wire.SignalName(int(m.Signal))
	}
	return e
}

// PID implements sandbox.Identified. It is what the guest says.
func (p *process) PID() int {
	<-p.started
	return p.pid
}

// Wait implements sandbox.Process.
func (p *process) Wait() (sandbox.Exit, error) {
	<-p.waited
	return p.exit, p.c.named(p.err)
}

// Signal implements sandbox.Process. The signal goes to the program's
// process group, as a terminal's would. A command that has ended takes none.
func (p *process) Signal(ctx context.Context, name string) error {
	n := wire.SignalNumber(name)
	if n == 0 {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "signal", Field: "name", Message: "there is no signal " + wire.Quote(name)}
	}
	return p.control(ctx, wire.Frame{Type: wire.TypeSignal, Payload: wire.Signal{Number: uint8(n)}.Encode()})
}

// Resize implements sandbox.Process.
func (p *process) Resize(ctx context.Context, t sandbox.TTY) error {
	if p.cmd.TTY == nil {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resize", Message: "the command has no terminal"}
	}
	return p.control(ctx, wire.Frame{Type: wire.TypeResize, Payload: wire.Resize{Rows: t.Rows, Cols: t.Cols}.Encode()})
}

// Kill implements sandbox.Process. It returns when the tree is gone, or
// when the guest does not answer.
func (p *process) Kill(ctx context.Context) error {
	go p.insist(0)
	if err := p.control(ctx, killFrame(0)); err != nil {
		return err
	}
	p.settleAfter(settleWithin)
	select {
	case <-p.ended:
		return p.unanswered()
	case <-ctx.Done():
		return p.c.named(contextError(ctx, "kill"))
	}
}

// unanswered is the error of a connection that ended before the process
// did, nil otherwise. Precondition: ended is closed.
func (p *process) unanswered() error {
	if sandbox.CodeOf(p.err) == sandbox.CodeUnavailable {
		return p.c.named(p.err)
	}
	return nil
}

// control sends a frame about a command that has not ended.
func (p *process) control(ctx context.Context, f wire.Frame) error {
	select {
	case <-p.ended:
		return nil
	default:
	}
	f.Stream = p.id
	return p.c.named(p.c.send(ctx, f))
}

func killFrame(grace time.Duration) wire.Frame {
	grace = min(max(grace, 0), maxGrace)
	return wire.Frame{Type: wire.TypeKill, Payload: wire.Kill{GraceMillis: uint32(grace.Milliseconds())}.Encode()}
}
