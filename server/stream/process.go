package stream

import (
	"context"
	"encoding/json"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// settleWithin bounds how long a command may take to end after it was cancelled,
// beside its grace, and after that the delivery of its output.
const settleWithin = 20 * time.Second

// unreadFor is how long after the cancellation output waits for a reader that
// does not read, before it is dropped so that the command can end.
const unreadFor = 2 * time.Second

// A Process is a command that runs on the other side. It implements
// sandbox.Process and sandbox.Metered.
type Process struct {
	*link
	cmd    sandbox.Command
	tty    bool
	boxes  [3]*wire.Inbox
	stdin  *wire.Credits
	writes wire.Writes // to Stdout and Stderr

	started chan struct{} // closed when it runs or could not be started
	ended   chan struct{} // closed when the last frame came or the socket ended
	exit    sandbox.Exit  // readable once ended is closed, like err and outcome
	err     error
	outcome json.RawMessage
	runs    bool // the listener's until started is closed, like pid
	pid     int

	awaited atomic.Int32 // number of events that Wait still waits for
	waited  chan struct{}
	freed   sync.Once
	unwatch func() bool

	mu       sync.Mutex
	number   uint32
	answers  map[uint32]chan event
	measured sandbox.Rusage
	pumping  [3]bool
}

var (
	_ sandbox.Process    = (*Process)(nil)
	_ sandbox.Metered    = (*Process)(nil)
	_ sandbox.Identified = (*Process)(nil)
)

// Open asks the server at the other end of conn to run r, with the streams of c,
// and returns when the command runs. It uses only Stdin, Stdout, Stderr and
// Grace of c; r is the result of [RequestOf] for a command, with the route's
// Extra. conn belongs to the process from then on, also when Open fails.
//
// The end of ctx ends the command. If the server does not answer that, Wait
// gives up after the grace and some time more, and returns an error.
func Open(ctx context.Context, conn *websocket.Conn, o Options, r Request, c sandbox.Command) (*Process, error) {
	p := &Process{
		link: newLink(conn, o), cmd: c, tty: r.TTY != nil,
		started: make(chan struct{}), ended: make(chan struct{}), waited: make(chan struct{}),
		answers: map[uint32]chan event{},
	}
	p.awaited.Store(2) // the end, and this call
	if ctx.Err() != nil {
		p.link.end(false)
		return nil, timely(ctx, "start", unavailable("start", "nothing was asked", nil))
	}
	r.Window, r.NoStdin, r.NoStdout, r.NoStderr = Window, c.Stdin == nil, c.Stdout == nil, c.Stderr == nil
	p.boxes = [3]*wire.Inbox{Stdout: wire.NewInboxOf(Window), Stderr: wire.NewInboxOf(Window)}
	p.stdin = wire.NewCreditsOf(Window)
	if err := p.tell(r); err != nil {
		p.end(false)
		return nil, timely(ctx, "start", unavailable("start", "the request could not be sent", err))
	}
	go p.listen()
	p.live()
	select {
	case <-p.started:
	case <-ctx.Done():
		p.link.end(false) // which ends the command, should it run
		<-p.ended
		return nil, timely(ctx, "start", p.err)
	}
	if !p.runs {
		return nil, timely(ctx, "start", p.err)
	}
	p.carry(ctx)
	return p, nil
}

// timely returns err, or the error of ctx where its end is the reason.
func timely(ctx context.Context, op string, err error) error {
	if cause := ctx.Err(); cause != nil && sandbox.CodeOf(err) == sandbox.CodeUnavailable {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: op, Message: "the call ended before there was an answer", Retryable: true, Err: cause}
	}
	return err
}

// carry starts to move bytes and to watch ctx.
func (p *Process) carry(ctx context.Context) {
	if p.cmd.Stdin != nil {
		go p.pumpIn() // not waited for: its reader may never return
	}
	if ctx.Done() != nil {
		p.unwatch = context.AfterFunc(ctx, p.cancel)
	}
	p.arrived()
}

// cancel ends the command because its context has ended.
func (p *Process) cancel() {
	grace := min(max(p.cmd.Grace, 0), time.Hour)
	if p.tell(control{Type: typeCancel}) != nil {
		_ = p.conn.CloseNow() // that ends it too
	}
	if !p.endsWithin(grace + unreadFor) {
		p.abandon()
		if !p.endsWithin(settleWithin) {
			_ = p.conn.CloseNow()
		}
	}
	<-p.ended
	timer := time.AfterFunc(settleWithin, p.giveUp)
	select {
	case <-p.waited:
		timer.Stop()
	default:
	}
}

func (p *Process) endsWithin(d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-p.ended:
		return true
	case <-timer.C:
		return false
	}
}

// abandon drops all output, pending and later.
func (p *Process) abandon() {
	for _, ch := range []uint8{Stdout, Stderr} {
		p.boxes[ch].Discard()
		_ = p.tell(control{Type: typeStop, Channel: ch}) // an error means that there is no socket, and so no output
	}
}

// arrived counts the events that Wait waits for. The last one lets Wait return.
func (p *Process) arrived() {
	if p.awaited.Add(-1) == 0 {
		p.release()
		if p.unwatch != nil {
			p.unwatch()
		}
	}
}

func (p *Process) release() { p.freed.Do(func() { close(p.waited) }) }

// giveUp lets Wait return although output is not delivered.
func (p *Process) giveUp() {
	p.writes.Stop(settleWithin)
	p.release()
}

// pumpOut delivers one channel. A writer that fails gets no more output, as in
// os/exec; the program does not notice.
func (p *Process) pumpOut(ch uint8, w io.Writer) {
	defer p.arrived()
	box := p.boxes[ch]
	for {
		chunk, err := box.Take()
		if err != nil {
			return
		}
		for len(chunk) > 0 {
			n := min(len(chunk), MaxData)
			if p.writes.Write(w, chunk[:n]) != nil {
				box.Discard()
				_ = p.tell(control{Type: typeStop, Channel: ch}) // an error means that there is no socket, and so no output
				return
			}
			chunk = chunk[n:]
			if grant := box.Consumed(n); grant > 0 {
				_ = p.tell(control{Type: typeCredit, Channel: ch, Bytes: grant}) // as above
			}
		}
	}
}

// pumpIn sends standard input to its end, or until the command has ended.
func (p *Process) pumpIn() {
	frame := make([]byte, 1+MaxData)
	frame[0] = Stdin
	for {
		n, err := p.stdin.Take(MaxData)
		if err != nil {
			return
		}
		got, readErr := p.cmd.Stdin.Read(frame[1 : 1+n])
		p.stdin.Return(n - got)
		select {
		case <-p.ended:
			return
		default:
		}
		if got > 0 && p.data(frame[:1+got]) != nil {
			return
		}
		if readErr != nil {
			_ = p.tell(control{Type: typeEOF}) // without a socket it is at its end
			return
		}
	}
}

// PID implements sandbox.Identified: the number that the server reports.
func (p *Process) PID() int { return p.pid }

// Wait implements sandbox.Process.
func (p *Process) Wait() (sandbox.Exit, error) {
	<-p.waited
	return p.exit, p.err
}

// Outcome returns what the server has sent about the end beside the exit, nil
// where there is nothing. It may be called when Wait has returned.
func (p *Process) Outcome() json.RawMessage { return p.outcome }
