package cli

import (
	"context"
	"errors"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A signalled is a process that ends with the first signal.
type signalled struct {
	sandbox.Process
	got   chan string
	ended chan struct{}
}

func (p *signalled) Wait() (sandbox.Exit, error) {
	<-p.ended
	return sandbox.Exit{}, nil
}

func (p *signalled) Signal(_ context.Context, name string) error {
	p.got <- name
	close(p.ended)
	return nil
}

// TestSignalWhileACommandStarts checks that a signal which comes before the start
// of a command has returned goes to the command, and that one which comes long
// before that, or where no command is started, ends the context.
func TestSignalWhileACommandStarts(t *testing.T) {
	for _, tt := range []struct {
		name   string
		expect bool
		after  time.Duration // between the signal and the start
		passed bool
	}{
		{"at once", true, startWindow / 2, true},
		{"much later", true, 2 * startWindow, false},
		{"no command", false, startWindow / 2, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancelCause(t.Context())
				in := newInterrupts(cancel, func(status int) { t.Errorf("it exits with %d", status) })
				defer in.stop()
				if tt.expect {
					in.expect()
				}
				in.ch <- syscall.SIGINT
				time.Sleep(tt.after)
				p := &signalled{got: make(chan string, 1), ended: make(chan struct{})}
				in.passTo(p)
				synctest.Wait()
				var by signalError
				if ended := errors.As(context.Cause(ctx), &by); ended == tt.passed || ended && by.number != syscall.SIGINT {
					t.Errorf("the context ended: %v, by %v", ended, by)
				}
				if len(p.got) == 1 != tt.passed {
					t.Errorf("the command got %d signals", len(p.got))
				}
				if !tt.passed {
					close(p.ended)
				}
			})
		})
	}
}
