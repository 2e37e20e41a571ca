package client

import (
	"context"
	"sync"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// useWithin bounds how long the guest may take to report what a command has
// used, because the caller may be about to end the command by the answer. It is
// no shorter because a command whose usage is unknown is ended: on a busy
// machine the guest, or the reader of its answers, stands still for seconds,
// and so may the whole machine. Meanwhile the guest itself enforces the limits
// of the command.
const useWithin = 15 * time.Second

var _ sandbox.Metered = (*process)(nil)

// uses is what the guest has reported of the use of one process. In the zero
// value nothing was reported and no caller has asked.
type uses struct {
	none bool // of a line: its costs are not known

	mu       sync.Mutex
	asked    uint32        // number of the last question
	answered uint32        // the highest number that was answered
	waiting  chan struct{} // closed by the answer to the last question, nil where that is not waited for
	last     sandbox.Rusage
}

// Used implements sandbox.Metered. Callers at the same time share one question.
// A guest that does not answer within 15 seconds is an error of CodeUnavailable;
// what it says is bounded and never goes back.
func (p *process) Used(ctx context.Context) (sandbox.Rusage, error) {
	if p.use.none || !p.c.hello.Has(wire.FeatureUse) {
		return sandbox.Rusage{}, p.c.named(&sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "measure", Message: "what the command has used is not reported while it runs",
			Hint: "a line of a shell is not measured by itself; a sandbox with an older guest has to be recreated",
		})
	}
	u := &p.use
	number, answer, first := u.ask()
	if first {
		if err := p.askUse(number); err != nil {
			u.giveUp(answer)
			return u.figure(), p.c.named(err)
		}
	}
	timer := time.NewTimer(useWithin)
	defer timer.Stop()
	select {
	case <-answer:
		if u.has(number) {
			return u.figure(), nil
		}
	case <-p.ended:
		return p.useAtEnd()
	case <-ctx.Done():
		return u.figure(), p.c.named(contextError(ctx, "measure"))
	case <-timer.C:
		u.giveUp(answer)
	}
	return u.figure(), p.c.named(&sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "measure", Message: "the guest does not tell what the command has used", Retryable: true,
	})
}

// askUse sends the question. The answer may serve several callers, so askUse
// has a timeout of its own in place of a caller's context.
func (p *process) askUse(number uint32) error {
	ctx, cancel := context.WithTimeout(context.Background(), useWithin)
	defer cancel()
	return p.control(ctx, wire.Frame{Type: wire.TypeUse, Payload: wire.Use{Number: number}.Encode()})
}

// useAtEnd is the last figure: that of the exit, unless more was seen before.
// Precondition: ended is closed.
func (p *process) useAtEnd() (sandbox.Rusage, error) {
	if p.err != nil {
		return p.use.figure(), p.c.named(p.err)
	}
	return p.use.take(p.exit.Usage), nil
}

// used takes an answer; it is called by the reader only.
func (p *process) used(f wire.Frame) error {
	m, err := wire.DecodeUsed(f.Payload)
	if err != nil {
		return err
	}
	return p.use.answer(m)
}

// ask returns the question to be waited for, and whether it has to be sent.
func (u *uses) ask() (number uint32, answer chan struct{}, first bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting == nil {
		u.asked++
		u.waiting, first = make(chan struct{}), true
	}
	return u.asked, u.waiting, first
}

// giveUp has the next caller ask anew, and those who wait for this answer see
// that there is none.
func (u *uses) giveUp(answer chan struct{}) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.waiting == answer {
		u.waiting = nil
		close(answer)
	}
}

func (u *uses) has(number uint32) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.answered >= number
}

func (u *uses) figure() sandbox.Rusage {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.last
}

// answer takes what the guest says. Questions are answered in their order, each
// once at most, or together with a later one.
func (u *uses) answer(m wire.Used) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if m.Number > u.asked || m.Number <= u.answered {
		return wire.Violation("an answer to no question")
	}
	u.answered = m.Number
	u.raise(sandbox.Rusage{User: time.Duration(m.User), System: time.Duration(m.System), MaxRSS: int64(m.MaxRSS)})
	if u.waiting != nil && m.Number == u.asked {
		close(u.waiting)
		u.waiting = nil
	}
	return nil
}

// take raises the figure to r, if that is more, and returns it.
func (u *uses) take(r sandbox.Rusage) sandbox.Rusage {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.raise(r)
	return u.last
}

// raise takes times of which more was used in all, whatever their parts, and
// the larger memory. Precondition: mu is held.
func (u *uses) raise(r sandbox.Rusage) {
	if r.User+r.System > u.last.User+u.last.System {
		u.last.User, u.last.System = r.User, r.System
	}
	u.last.MaxRSS = max(u.last.MaxRSS, r.MaxRSS)
}
