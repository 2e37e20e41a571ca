package client

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"strings"
	"sync"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// shellStops bounds how long Close waits for the end of a shell.
const shellStops = 10 * time.Second

// A shell is an open shell.
type shell struct {
	c       *Client
	id      string
	stream  uint32
	asked   []wire.Limit // the limits of each line
	program string       // readable once opened is closed

	opened chan struct{} // closed when it is open or could not be opened
	failed error         // why it could not; readable once opened is closed
	isOpen bool          // guarded by the reader
	ended  chan struct{} // closed when its processes are gone or the connection is

	kept   *keeping // its state, nil where that is not handed over
	ticket uint32   // of kept

	turn chan struct{} // holds one token: the right to run a line

	mu      sync.Mutex
	closing bool
	line    *process // the last one that was begun
	before  uint32   // the line before it
	whole   uint32   // the last one before it that went well
}

var _ sandbox.Shell = (*shell)(nil)

// OpenShell starts a persistent shell, as the contracts of sandbox.Sandbox
// and sandbox.Shell say. o is laid over the options of the client, and
// limits bound each process of the shell as those of a Command do. The end
// of ctx is of no matter once OpenShell has returned; the end of the
// connection ends the shell.
//
// A guest from before shells is an error of CodeUnsupported. For the others see
// Start. Exit.Usage of a line is zero, because the costs of a shell are not
// divided among its lines.
//
// With Options.Descriptors the shell is a StateKeeper.
func (c *Client) OpenShell(ctx context.Context, o sandbox.ShellOptions, limits sandbox.Limits) (sandbox.Shell, error) {
	s, err := c.openShell(ctx, o, limits, nil)
	switch {
	case err != nil:
		return nil, c.named(err)
	case s.kept != nil:
		return keptShell{s}, nil
	}
	return s, nil
}

func (c *Client) openShell(ctx context.Context, o sandbox.ShellOptions, limits sandbox.Limits, from *ShellState) (*shell, error) {
	if err := ctx.Err(); err != nil {
		return nil, contextError(ctx, "open shell")
	}
	if !c.hello.Has(wire.FeatureShell) {
		return nil, &sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "open shell", Message: "the guest of the sandbox is older than persistent shells",
			Hint: "recreate the sandbox to get the current guest",
		}
	}
	if o.ID == "" {
		o.ID = randomID()
	}
	m, err := c.shellRequest(o, limits)
	if err == nil && o.From != nil {
		from, err = stateFrom(*o.From, m.Env)
	}
	if err != nil {
		return nil, err
	}
	silent := time.AfterFunc(startWithin, func() { c.end(silentError()) })
	defer silent.Stop()
	s := &shell{c: c, id: o.ID, asked: m.Limits, opened: make(chan struct{}), ended: make(chan struct{}), turn: make(chan struct{}, 1)}
	s.turn <- struct{}{}
	if err = c.requestShell(ctx, s, m, from); err == nil {
		select {
		case <-s.opened:
			if s.failed != nil {
				err = s.failed
			} else if err = s.awaitFiles(ctx); err != nil {
				s.kill()
			}
		case <-ctx.Done():
			s.kill()
			err = contextError(ctx, "open shell")
		}
	}
	if err != nil {
		s.unkeep()
		return nil, err
	}
	return s, nil
}

func (c *Client) shellRequest(o sandbox.ShellOptions, l sandbox.Limits) (wire.Shell, error) {
	m := wire.Shell{Dir: o.Dir, Name: strings.ToValidUTF8(o.ID[:min(len(o.ID), maxShellID)], "?")}
	if m.Dir == "" {
		m.Dir = c.o.Dir
	}
	if strings.ContainsRune(m.Dir, 0) {
		return m, invalid("dir", "the path holds a NUL byte")
	}
	var err error
	if m.Limits, err = c.limits(l); err != nil {
		return m, err
	}
	m.Env, err = environment(c.o.Env, o.Env)
	return m, err
}

func randomID() string {
	var b [8]byte
	_, _ = rand.Read(b[:]) // does not fail
	return hex.EncodeToString(b[:])
}

// frame implements stream.
func (s *shell) frame(f wire.Frame) (last bool, err error) {
	switch f.Type {
	case wire.TypeOpened:
		m, err := wire.DecodeShellOpened(f.Payload)
		if err != nil || s.isOpen || m.Program != "bash" && m.Program != "sh" {
			return false, wire.Violation("a shell was opened that was not asked for")
		}
		s.program, s.isOpen = m.Program, true
		close(s.opened)
		return false, nil
	case wire.TypeFailed:
		m, err := wire.DecodeFailed(f.Payload)
		if err != nil || s.isOpen {
			return false, wire.Violation("the shell failed after it was opened")
		}
		s.finish(startError(m, "bash or sh", "of the shell"))
		return true, nil
	case wire.TypeDone:
		if !s.isOpen {
			return false, wire.Violation("the shell was closed before it was opened")
		}
		s.finish(nil)
		return true, nil
	}
	return false, wire.Violation("unexpected frame of a shell")
}

// lost implements stream.
func (s *shell) lost(err error) { s.finish(err) }

func (s *shell) finish(err error) {
	if !s.isOpen {
		s.failed = err
		s.c.side.forget(s.ticket)
		close(s.opened)
	}
	close(s.ended)
	if s.kept != nil {
		go s.kept.retire()
	}
}

// ID implements sandbox.Shell.
func (s *shell) ID() string { return s.id }

// Program implements sandbox.Shell.
func (s *shell) Program() string { return s.program }

// Close implements sandbox.Shell. It returns when the processes are gone,
// or after some seconds; then an error says so. Closing again is harmless.
func (s *shell) Close() error {
	s.mu.Lock()
	first, line := !s.closing, s.line
	s.closing = true
	s.mu.Unlock()
	if first {
		s.unkeep()
		s.kill()
		if line != nil {
			line.settleAfter(settleWithin)
		}
	}
	timer := time.NewTimer(shellStops)
	defer timer.Stop()
	select {
	case <-s.ended:
		return nil
	case <-timer.C:
		return s.c.named(silentError())
	}
}

// kill asks the guest to end the shell. When it cannot be asked the
// connection is at its end, and that ends the shell too.
func (s *shell) kill() {
	ctx, cancel := context.WithTimeout(context.Background(), writeWithin)
	defer cancel()
	f := killFrame(0)
	f.Stream = s.stream
	select {
	case <-s.ended:
		return
	default:
	}
	if s.c.send(ctx, f) != nil {
		s.c.end(errStuck)
	}
}
