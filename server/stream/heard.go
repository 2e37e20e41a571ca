package stream

import (
	"context"
	"encoding/json"
	"io"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
)

// listen handles what the server sends until the command has ended.
func (p *Process) listen() {
	for {
		kind, b, err := p.read(context.Background())
		if err != nil {
			p.finish(sandbox.Exit{}, unavailable("run", "the connection ended before the command had: it is not known how it ended", err))
			return
		}
		over, err := p.take(kind, b)
		if err != nil {
			p.finish(sandbox.Exit{}, unavailable("run", "the daemon does not speak as it should, so it is not known how the command ended", err))
			return
		}
		if over {
			return
		}
	}
}

func (p *Process) take(kind websocket.MessageType, b []byte) (over bool, err error) {
	if kind == websocket.MessageBinary {
		if len(b) == 0 || b[0] != Stdout && b[0] != Stderr || !p.runs {
			return false, invalid("", "data on a channel that is not open")
		}
		return false, p.output(b[0], b[1:])
	}
	var e event
	if err := json.Unmarshal(b, &e); err != nil { // a newer daemon may say more
		return false, err
	}
	switch e.Type {
	case typeStarted:
		if p.runs {
			return false, invalid("type", "it was started twice")
		}
		p.runs, p.pid = true, max(e.PID, 0)
		close(p.started)
	case typeCredit:
		if e.Channel != Stdin {
			return false, invalid("channel", "a credit for what is not sent")
		}
		return false, p.stdin.Grant(e.Bytes)
	case typeDone:
		p.answered(e)
	case typeExit:
		if e.Exit == nil || !p.runs {
			return false, invalid("exit", "an end without a beginning")
		}
		p.outcome = e.Outcome
		p.finish(e.Exit.Plain(), nil)
		return true, nil
	case typeError:
		if e.Error == nil {
			return false, invalid("error", "an error that is none")
		}
		p.finish(sandbox.Exit{}, e.Error.Err())
		return true, nil
	default:
		return false, invalid("type", "there is no such event")
	}
	return false, nil
}

func (p *Process) output(ch uint8, b []byte) error {
	if err := p.boxes[ch].Put(b); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.pumping[ch] {
		p.pumping[ch] = true
		p.awaited.Add(1) // the command has not ended, so Wait still waits
		w := p.cmd.Stdout
		if ch == Stderr {
			w = p.cmd.Stderr
		}
		if w == nil {
			w = io.Discard
		}
		go p.pumpOut(ch, w)
	}
	return nil
}

// finish records the end and closes the socket; only the listener calls it.
func (p *Process) finish(exit sandbox.Exit, err error) {
	p.exit, p.err = exit, err
	for _, ch := range []uint8{Stdout, Stderr} {
		p.boxes[ch].Close(nil)
	}
	p.stdin.Close(io.EOF)
	p.link.end(false)
	close(p.ended)
	if !p.runs {
		close(p.started)
	} else if err != nil { // the result is not known, whatever is delivered
		time.AfterFunc(settleWithin, p.giveUp)
	}
	p.arrived()
}

func (p *Process) answered(e event) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if answer := p.answers[e.ID]; answer != nil { // else the call has given up
		delete(p.answers, e.ID)
		answer <- e
	}
}

// ask sends c and waits for the answer. ended is true when the command has
// ended, and then nothing was sent.
func (p *Process) ask(ctx context.Context, c control) (e event, ended bool, err error) {
	answer := make(chan event, 1)
	p.mu.Lock()
	p.number++
	c.ID = p.number
	p.answers[c.ID] = answer
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		delete(p.answers, c.ID)
		p.mu.Unlock()
	}()
	select {
	case <-p.ended:
		return e, true, nil
	default:
	}
	if err := p.tell(c); err != nil {
		<-p.ended // the end of the socket ends a send that blocks
		return e, true, nil
	}
	select {
	case e = <-answer:
		if e.Error != nil {
			err = e.Error.Err()
		}
		return e, false, err
	case <-p.ended:
		return e, true, nil
	case <-ctx.Done():
		return e, false, &sandbox.Error{Code: sandbox.CodeTimeout, Op: c.Type, Message: "the daemon has not answered yet", Retryable: true, Err: ctx.Err()}
	}
}

// Signal implements sandbox.Process.
func (p *Process) Signal(ctx context.Context, name string) error {
	_, _, err := p.ask(ctx, control{Type: typeSignal, Signal: name})
	return err
}

// Resize implements sandbox.Process.
func (p *Process) Resize(ctx context.Context, t sandbox.TTY) error {
	if !p.tty {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resize", Message: "the command has no terminal"}
	}
	_, _, err := p.ask(ctx, control{Type: typeResize, Rows: t.Rows, Cols: t.Cols})
	return err
}

// Kill implements sandbox.Process.
func (p *Process) Kill(ctx context.Context) error {
	unread := time.AfterFunc(unreadFor, p.abandon)
	defer unread.Stop()
	_, ended, err := p.ask(ctx, control{Type: typeKill})
	if ended && sandbox.CodeOf(p.err) == sandbox.CodeUnavailable {
		return p.err
	}
	return err
}

// Used implements sandbox.Metered. After the end it returns the last figures
// received.
func (p *Process) Used(ctx context.Context) (sandbox.Rusage, error) {
	e, ended, err := p.ask(ctx, control{Type: typeUsed})
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case ended && p.err != nil:
		return p.measured, p.err
	case ended:
		p.measured = most(p.measured, p.exit.Usage)
		return p.measured, nil
	case err != nil:
		return p.measured, err
	case e.Used != nil:
		p.measured = most(p.measured, sandbox.Rusage(*e.Used))
	}
	return p.measured, nil
}

// most returns the larger figures of both, since usage never decreases: the
// larger sum of times, the larger memory.
func most(a, b sandbox.Rusage) sandbox.Rusage {
	memory := max(a.MaxRSS, b.MaxRSS)
	if a.User+a.System > b.User+b.System {
		b = a
	}
	b.MaxRSS = memory
	return b
}
