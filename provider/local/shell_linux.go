package local

import (
	"context"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider"
)

// OpenShell implements [sandbox.Sandbox].
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	seat, err := h.use(ctx, mustStand, time.Time{})
	if err != nil {
		return nil, err
	}
	s := &shell{h: h, turn: make(chan struct{}, 1), closing: make(chan struct{})}
	s.options, s.limits = provider.Shell(h.locatedShell(o), h.spec)
	inner, err := seat.Client.OpenShell(ctx, s.options, s.limits)
	if err != nil {
		seat.release()
		return nil, err
	}
	s.options.From = nil // it has taken that up
	s.inner, s.seat = inner, seat.keep()
	s.options.ID = inner.ID() // the same in whatever instance it goes on
	s.turn <- struct{}{}
	return s, nil
}

// MoveShell opens a shell in the state of one of another handle of the same
// sandbox, which has no line running and stays as it is. Of o, Env and Dir count
// only where there is no state. The next line has Exit.Restarted set.
func (h *handle) MoveShell(ctx context.Context, from sandbox.Shell, o sandbox.ShellOptions) (sandbox.Shell, error) {
	old, ok := from.(*shell)
	if !ok || old.h.spec.Name != h.spec.Name || !old.h.spec.Owner.Same(h.spec.Owner) {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "move shell", Resource: h.spec.Name, Message: "the shell is not one of this sandbox"}
	}
	inner, _ := old.now()
	state, err := old.stateOf(ctx, inner)
	if err != nil {
		return nil, err
	}
	seat, err := h.use(ctx, mustStand, time.Time{})
	if err != nil {
		return nil, err
	}
	s := &shell{h: h, turn: make(chan struct{}, 1), closing: make(chan struct{}), seat: seat}
	s.options, s.limits = provider.Shell(h.locatedShell(o), h.spec)
	if s.inner, s.reborn, err = s.again(ctx, state, seat.Client); err != nil {
		seat.release()
		return nil, err
	}
	s.options.ID = s.inner.ID()
	seat.keep()
	s.turn <- struct{}{}
	return s, nil
}

// locatedShell returns o with paths of the host.
func (h *handle) locatedShell(o sandbox.ShellOptions) sandbox.ShellOptions {
	if len(h.places) == 0 {
		return o
	}
	if o.Dir != "" {
		o.Dir = h.places.host(h.spec.DirOf(o.Dir))
	}
	o.Env = h.places.environment(o.Env)
	return o
}

// A shell is one that outlives its instance: where rules or grants ask for a new
// one, or the old one has fallen, the next line finds a new shell there, in
// the state after the last line that came to its end.
type shell struct {
	h       *handle
	options sandbox.ShellOptions
	limits  sandbox.Limits

	turn    chan struct{} // holds one token: the right to begin a line
	closing chan struct{} // closed by Close
	once    sync.Once

	failures int // in a row, to take up the state; guarded by the turn

	mu     sync.Mutex
	inner  sandbox.Shell
	seat   *seat
	reborn bool // a new shell without the state of the old one; the next line says so
}

// ID implements [sandbox.Shell].
func (s *shell) ID() string { return s.options.ID }

// Program implements [sandbox.Shell].
func (s *shell) Program() string {
	inner, _ := s.now()
	return inner.Program()
}

func (s *shell) now() (sandbox.Shell, *seat) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inner, s.seat
}

// Run implements [sandbox.Shell].
func (s *shell) Run(ctx context.Context, line string, c sandbox.Command) (sandbox.Process, error) {
	select {
	case <-s.turn:
	default:
		// Another caller's turn: the shell inside knows how to wait, and what
		// to refuse before; but it may only be asked once the one before us
		// has found his instance.
		select {
		case <-s.turn:
		case <-s.closing:
			return nil, s.closed()
		case <-ctx.Done():
			return nil, sandbox.Errorf(sandbox.CodeTimeout, "wait for the line before", "given up: %w", ctx.Err())
		}
	}
	_, at := s.now()
	kills := at.instance.OutOfMemory()
	p, reborn, err := s.begin(ctx, line, c)
	if err != nil {
		s.turn <- struct{}{}
		return nil, err
	}
	out := &process{Process: p, seat: nil, reborn: reborn}
	if _, out.seat = s.now(); out.seat == at {
		out.kills = kills
	}
	go func() {
		_, _ = p.Wait()
		s.turn <- struct{}{}
	}()
	return out, nil
}

// begin starts a line, in an instance that is as rules and host ask for now. The
// caller has the turn.
func (s *shell) begin(ctx context.Context, line string, c sandbox.Command) (p sandbox.Process, reborn bool, err error) {
	if s.isClosed() {
		return nil, false, s.closed()
	}
	seat, err := s.h.use(ctx, mayRevive, time.Time{})
	if sandbox.IsNotFound(err) {
		err = s.lost(err)
	}
	if err != nil {
		return nil, false, err
	}
	seat.instance.inUse.Add(1) // until the guest knows of the line
	defer seat.instance.inUse.Add(-1)
	if _, mine := s.now(); seat == mine {
		seat.release() // we have it in use already
	} else if err := s.moveTo(ctx, seat); err != nil {
		seat.release()
		return nil, false, err
	}
	s.mu.Lock()
	inner := s.inner
	reborn = s.reborn
	s.mu.Unlock()
	if p, err = inner.Run(ctx, line, s.h.located(c)); err == nil {
		s.mu.Lock()
		s.reborn = false
		s.mu.Unlock()
	}
	return p, reborn, err
}

// moveTo starts the shell anew at next, which it then has in use, and ends the
// old one.
func (s *shell) moveTo(ctx context.Context, next *seat) error {
	old, last := s.now()
	state, err := s.stateOf(ctx, old)
	if err != nil {
		return err
	}
	inner, reborn, err := s.again(ctx, state, next.Client)
	if err != nil {
		return err
	}
	s.mu.Lock()
	closed := s.isClosed()
	if !closed {
		s.inner, s.seat, s.reborn = inner, next.keep(), reborn
	}
	s.mu.Unlock()
	if closed {
		_ = inner.Close()
		return s.closed()
	}
	_ = old.Close()
	last.drop()
	return nil
}

// maxFailures is how often in a row a shell may fail to take up its state
// before the state is given up, as in a guest: the first failure may be the
// fault of the moment, but a state that ends its shell would do so for ever.
const maxFailures = 2

// An opener opens shells, as the guest of an instance does.
type opener interface {
	OpenShell(context.Context, sandbox.ShellOptions, sandbox.Limits) (sandbox.Shell, error)
	OpenShellFrom(context.Context, sandbox.ShellOptions, sandbox.Limits, *client.ShellState) (client.StateKeeper, error)
}

// again opens the shell anew in the state that it left, if any; reborn says
// that it starts without. The caller has the turn.
func (s *shell) again(ctx context.Context, state *client.ShellState, at opener) (inner sandbox.Shell, reborn bool, err error) {
	if state != nil {
		inner, err = at.OpenShellFrom(ctx, s.options, s.limits, state)
		if err == nil {
			s.failures = 0
			if state.Stale() {
				s.warn("what the last line changed in the shell is lost")
			}
			return inner, false, nil
		}
		if ctx.Err() != nil {
			return nil, false, err
		}
		if s.failures++; s.failures < maxFailures {
			return nil, false, err
		}
		s.warn("the state of the shell could not be restored and is given up: " + err.Error())
	}
	if inner, err = at.OpenShell(ctx, s.options, s.limits); err == nil {
		s.failures = 0
	}
	return inner, true, err
}

func (s *shell) warn(what string) {
	s.h.site.p.o.Warn(s.h.spec.Name, "shell "+s.options.ID+": "+termsafe.Line(what))
}

// stateOf returns the state of inner, or nil when it has left none. That one is
// lost is reported.
func (s *shell) stateOf(ctx context.Context, inner sandbox.Shell) (*client.ShellState, error) {
	keeper, ok := inner.(client.StateKeeper)
	if !ok {
		return nil, nil
	}
	state, err := keeper.State(ctx)
	switch sandbox.CodeOf(err) {
	case "":
		return state, nil
	case sandbox.CodeNotFound:
		return nil, nil
	case sandbox.CodeUnavailable:
		s.warn("the state of the shell is lost: " + err.Error())
		return nil, nil
	}
	return nil, err
}

// lost says that the sandbox of the shell is no more.
func (s *shell) lost(cause error) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "run line", Resource: s.h.spec.Name, Message: "the sandbox was removed", Err: cause}
}

func (s *shell) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func (s *shell) closed() error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "run line", Resource: s.h.spec.Name, Message: "the shell " + s.options.ID + " is closed"}
}

// Close implements [sandbox.Shell].
func (s *shell) Close() (err error) {
	s.once.Do(func() {
		s.mu.Lock()
		close(s.closing)
		inner, seat := s.inner, s.seat
		s.mu.Unlock()
		err = inner.Close()
		seat.drop()
	})
	return err
}

var _ sandbox.Shell = (*shell)(nil)
