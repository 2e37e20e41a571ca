package client

import (
	"context"
	"errors"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
)

const (
	// keptWithin bounds how long State waits for the guest to keep the state
	// after a line. The guest gives up earlier.
	keptWithin = 15 * time.Second
	// keptLook and keptLookLast are between two looks at whether it has.
	keptLook, keptLookLast = 50 * time.Microsecond, 10 * time.Millisecond
)

// A ShellState is what a shell of another guest can start from: working
// directory, variables, functions, aliases, options, umask and traps. What
// ran in the shell, and what it had open, is not in it.
//
// It was written by code in the sandbox, so it is for a sandbox only, and
// opaque here: it can be given to OpenShellFrom of a client whose sandbox may
// know what this one knew.
type ShellState struct {
	program string
	stale   bool
	content []byte
}

// Program is the name of the shell that can take it up, see sandbox.Shell.
func (s *ShellState) Program() string { return s.program }

// Size is its size in bytes, at most 16 MiB.
func (s *ShellState) Size() int { return len(s.content) }

// Stale reports whether what the last line did to the shell that came to its
// end is not in it: the guest has died before it had kept that, which takes
// it a moment after each line, or it was too much to be kept.
func (s *ShellState) Stale() bool { return s.stale }

// A StateKeeper is a shell that was opened by a Client with
// Options.Descriptors.
type StateKeeper interface {
	sandbox.Shell

	// State returns the state after the last line that came to its end. Of
	// a shell that lives it waits until the guest has kept that, usually for
	// less than a millisecond, at most until ctx ends, and takes no turn. Of
	// one whose guest or connection has gone it returns what was kept last;
	// so it does until the shell is closed, which is then CodeNotFound, like
	// a shell that has no state at all because none could be restored. A
	// state that there was and that is lost is CodeUnavailable: the guest has
	// left no whole one, or those of other shells of the client that have
	// ended take the room, which is 32 MiB.
	State(ctx context.Context) (*ShellState, error)
}

// keptShell is a shell with State.
type keptShell struct{ *shell }

var _ StateKeeper = keptShell{}

// OpenShellFrom opens a shell as OpenShell does, in the state of another one.
// Of o, Env and Dir have no effect on it but for where the shell's program is
// found. When the working directory of the state is not there, the shell
// starts at the root. The first line has Exit.Restarted set.
//
// A guest in which there is only another program than the state's is an error
// of CodeValidation, and the state can be tried again elsewhere. Where not
// all of the state can be taken up, the first line fails and says so, and the
// next one runs with what there is.
//
// Without Options.Descriptors that is CodeUnsupported.
func (c *Client) OpenShellFrom(
	ctx context.Context, o sandbox.ShellOptions, limits sandbox.Limits, from *ShellState,
) (StateKeeper, error) {
	s, err := c.openShell(ctx, o, limits, from)
	if err == nil && s.kept == nil {
		err = keepsNone("open shell")
	}
	if err != nil {
		return nil, c.named(err)
	}
	return keptShell{s}, nil
}

func keepsNone(op string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: op, Message: "the guest of the sandbox cannot hand over the state of shells",
	}
}

// State implements StateKeeper.
func (s keptShell) State(ctx context.Context) (*ShellState, error) {
	last, whole := s.reported()
	if err := s.awaitKept(ctx, last); err != nil {
		return nil, s.c.named(err)
	}
	record, content, err := s.kept.read()
	switch {
	case err == nil && content == nil:
		err = errors.New("the shell has none")
		fallthrough
	case errors.Is(err, errDropped):
		return nil, s.c.named(&sandbox.Error{Code: sandbox.CodeNotFound, Op: "shell state", Message: "there is no state of the shell", Err: err})
	case errors.Is(err, errShelf):
		return nil, s.c.named(&sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "shell state", Message: "the state of the shell was too much to be kept", Err: err, Hint: "close shells that have ended",
		})
	case err != nil:
		return nil, s.c.named(&sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "shell state", Message: "the guest has left no whole state of the shell", Err: err,
		})
	}
	return &ShellState{program: s.program, stale: record.Kept < whole, content: content}, nil
}

// awaitKept waits until the guest is done with the line.
func (s keptShell) awaitKept(ctx context.Context, line uint32) error {
	deadline := time.Now().Add(keptWithin)
	for look := keptLook; ; look = min(2*look, keptLookLast) {
		// An index that is being written is looked at again.
		if over, err := s.kept.over(line); over && err == nil || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-s.ended:
			return nil
		case <-ctx.Done():
			return contextError(ctx, "shell state")
		case <-time.After(look):
		}
	}
}

// reported returns the last line that has ended, and the last one that was reported
// to have ended with its shell alive.
func (s *shell) reported() (last, whole uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	last, whole = s.before, s.whole
	if s.line != nil && s.line.hasEnded() {
		last = s.line.id
		if s.line.wentWell() {
			whole = last
		}
	}
	return last, whole
}

// hasEnded reports whether the last answer came.
func (p *process) hasEnded() bool {
	select {
	case <-p.ended:
		return true
	default:
		return false
	}
}

// wentWell reports whether the line, which has ended, has left its shell
// alive. One that has found a new shell may have.
func (p *process) wentWell() bool { return p.err == nil && !p.exit.Restarted }

// requestShell sends the request for a shell: where there is a side, for one
// whose state is handed over, after the state that it is to start from.
func (c *Client) requestShell(ctx context.Context, s *shell, m wire.Shell, from *ShellState) (err error) {
	t, payload, before := wire.TypeShell, []byte(nil), func() error { return nil }
	switch {
	case c.o.Descriptors == nil && from == nil:
		payload = m.Encode()
	case c.o.Descriptors == nil && c.hello.Has(wire.FeatureSnapshot):
		if len(from.content) > wire.MaxShellFrom {
			return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "open shell", Field: "from", Message: "the state is larger than 3 MiB"}
		}
		t, payload = wire.TypeShellFrom, wire.ShellFrom{Program: from.program, State: from.content, Shell: m}.Encode()
	case c.o.Descriptors == nil || !c.hello.Has(wire.FeatureKeptShell):
		return keepsNone("open shell")
	default:
		s.kept = &keeping{came: make(chan struct{}), shelf: &c.shelf}
		if s.ticket, err = c.side.ask(s.kept); err != nil {
			return err
		}
		k := wire.KeptShell{Ticket: s.ticket, Shell: m}
		if from != nil {
			k.From = from.program
			gift, err := wire.Sealed(from.content) // the guest gets a copy, which cannot be changed
			if err != nil {
				c.side.forget(s.ticket)
				return &sandbox.Error{Code: sandbox.CodeInternal, Op: "open shell", Message: "no memory for the state", Err: err}
			}
			defer gift.Close()
			before = func() error { return c.side.give(s.ticket, gift) }
		}
		t, payload = wire.TypeKeptShell, k.Encode()
	}
	if len(payload) > wire.MaxRequest {
		err = startError(wire.Failed{Kind: wire.KindTooBig}, "", "")
	} else {
		s.stream, err = c.openAfter(ctx, before, t, payload, s)
	}
	if err != nil {
		c.side.forget(s.ticket)
	}
	return err
}

// awaitFiles waits for the files of the state, which the guest has sent
// before it has said that the shell is open.
func (s *shell) awaitFiles(ctx context.Context) error {
	if s.kept == nil {
		return nil
	}
	timer := time.NewTimer(sideWithin)
	defer timer.Stop()
	select {
	case <-s.kept.came:
	case <-timer.C:
	case <-ctx.Done():
		return contextError(ctx, "open shell")
	}
	if s.kept.here() {
		return nil
	}
	s.c.end(wire.Violation("the state of a shell was not handed over"))
	return s.c.Err()
}

// unkeep lets go of the state.
func (s *shell) unkeep() {
	if s.kept != nil {
		s.kept.drop()
	}
}
