package cli

import (
	"context"
	"os"
	"os/signal"
	"sync"
	"syscall"

	"golang.org/x/term"

	"github.com/bulkhead-dev/sandbox"
)

// A terminal is the caller's terminal while a command inside has a
// pseudo-terminal of its own.
type terminal struct {
	file    *os.File
	rites   *interrupts
	resized chan os.Signal
	ended   sync.WaitGroup // of follow

	mu     sync.Mutex
	saved  *term.State        // under mu; not nil while raw
	forget func()             // under mu; takes back the last rite
	stop   context.CancelFunc // under mu; ends follow
}

// isTerminal reports whether f is a terminal.
func isTerminal(f *os.File) bool { return term.IsTerminal(int(f.Fd())) }

func newTerminal(f *os.File, in *interrupts) *terminal {
	return &terminal{file: f, rites: in, resized: make(chan os.Signal, 1), forget: func() {}, stop: func() {}}
}

// size returns the size of the terminal, or the usual one when it has none.
func (t *terminal) size() sandbox.TTY {
	cols, rows, err := term.GetSize(int(t.file.Fd()))
	if err != nil || cols <= 0 || rows <= 0 || cols > 1<<15 || rows > 1<<15 {
		return sandbox.TTY{Rows: 24, Cols: 80}
	}
	return sandbox.TTY{Rows: uint16(rows), Cols: uint16(cols)}
}

// columnsOf returns how many columns the terminal f has, at least 40, and 0
// where f is no terminal.
func columnsOf(f *os.File) int {
	if f == nil || !isTerminal(f) {
		return 0
	}
	cols, _, err := term.GetSize(int(f.Fd()))
	if err != nil || cols <= 0 {
		return 80
	}
	return max(cols, 40)
}

// attach hands the terminal over to the running process: every key goes to
// it unchanged when raw, and a new size is passed on. It is called at most
// once and must be followed by restore.
func (t *terminal) attach(ctx context.Context, p sandbox.Process, raw bool) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	signal.Notify(t.resized, syscall.SIGWINCH)
	ctx, t.stop = context.WithCancel(ctx)
	t.ended.Add(1)
	go t.follow(ctx, p)
	if !raw {
		return nil
	}
	t.forget = t.rites.atExit(func() { t.cook() }) // before it is raw: a signal may come in between
	state, err := term.MakeRaw(int(t.file.Fd()))
	if err != nil {
		return err
	}
	t.saved = state
	return nil
}

// follow passes on the size now, since it may have changed while the
// sandbox was made, and whenever it changes.
func (t *terminal) follow(ctx context.Context, p sandbox.Process) {
	defer t.ended.Done()
	for {
		// A process that has just ended cannot be resized, and that is fine.
		_ = p.Resize(ctx, t.size())
		select {
		case <-t.resized:
		case <-ctx.Done():
			return
		}
	}
}

// cook gives the terminal its old mode back and reports whether it was raw.
func (t *terminal) cook() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.saved == nil {
		return false
	}
	_ = term.Restore(int(t.file.Fd()), t.saved)
	t.saved = nil
	return true
}

// restore ends everything that attach began, whether it was called or not,
// and reports whether the terminal was raw. It may be called many times.
func (t *terminal) restore() bool {
	wasRaw := t.cook()
	t.mu.Lock()
	stop, forget := t.stop, t.forget
	t.mu.Unlock()
	signal.Stop(t.resized)
	stop()
	forget()
	t.ended.Wait()
	return wasRaw
}
