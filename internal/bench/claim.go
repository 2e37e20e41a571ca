//go:build linux

package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/manager"
)

const (
	claimRounds = 40
	// engineBurst is how many containers the engine starts at once, instead
	// of as many as are claimed: those take it longer than one sample may.
	engineBurst = 16
)

// A first notes when something is written first.
type first struct{ at time.Time }

func (f *first) Write(p []byte) (int, error) {
	if f.at.IsZero() {
		f.at = time.Now()
	}
	return len(p), nil
}

// echo is a command that says something.
func echo() []string { return []string{"/bin/echo", word} }

// pool opens the pool, with enough sandboxes for all who claim one: nothing is
// filled again while it is measured.
func (s *Session) pool(ctx context.Context) (*rigPool, error) {
	return s.Rig.OpenPool(ctx, s.Effort.rounds(claimRounds)+1+s.Effort.Burst)
}

// firstOutput runs a command by m for a session and returns when its first
// output was there. Whether the sandbox was claimed for it must be as said.
func firstOutput(ctx context.Context, m *manager.Manager, session string, claimed bool) (time.Time, error) {
	var out first
	o, err := m.Run(ctx, manager.Request{Who: config.Who{Agent: config.DefaultAgent, Session: session}, Command: sandbox.Command{Args: echo(), Stdout: &out}})
	if err == nil && (o.Exit.Code != 0 || out.at.IsZero() || o.Claimed != claimed) {
		err = wrong("exit status %d, claimed %v (%s)", o.Exit.Code, o.Claimed, o.Miss)
	}
	return out.at, err
}

// claim is the time from a request to the first output of its command: of a
// session that is new, of one whose sandbox was frozen, and of one that goes
// on. Beside it is the engine with a new container, and with one that runs.
func (s *Session) claim(ctx context.Context) (operation, error) {
	p, err := s.pool(ctx)
	if err != nil {
		return operation{}, err
	}
	m, err := s.Rig.OpenManager()
	if err != nil {
		return operation{}, err
	}
	n := 0
	claims := func(ctx context.Context) ([]time.Duration, error) {
		n++
		begun := time.Now()
		at, err := firstOutput(ctx, p.Manager, fmt.Sprintf("claim-%d", n), true)
		return []time.Duration{at.Sub(begun)}, err
	}
	goesOn := func(ctx context.Context) ([]time.Duration, error) {
		begun := time.Now()
		at, err := firstOutput(ctx, m, config.DefaultSession, false)
		return []time.Duration{at.Sub(begun)}, err
	}
	return operation{rounds: claimRounds, cold: true, ways: []way{
		{name: WayEngine, turn: 1, take: s.plainFirst},
		{name: WayExec, turn: 1, take: s.execFirst},
		{name: WayPool, turn: 1, take: claims},
		{name: WayFrozen, turn: 1, take: frozen(m, goesOn)},
		{name: WayManager, turn: 1, take: goesOn},
	}}, nil
}

// frozen takes a sample in the session's sandbox after that was frozen.
func frozen(m *manager.Manager, next sample) sample {
	return func(ctx context.Context) ([]time.Duration, error) {
		name, err := m.Name(speaker(), nil)
		if err != nil {
			return nil, err
		}
		row, err := m.Find(ctx, "", name, "")
		if sandbox.IsNotFound(err) { // it is not there before the first use
			if _, err = next(ctx); err == nil {
				row, err = m.Find(ctx, "", name, "")
			}
		}
		if err == nil {
			err = m.Pause(ctx, row)
		}
		if err != nil {
			return nil, err
		}
		if row, err = m.Find(ctx, "", name, ""); err == nil && row.Status != sandbox.StatusPaused {
			err = wrong("the sandbox is %s and not frozen", row.Status)
		}
		if err != nil {
			return nil, err
		}
		return next(ctx)
	}
}

// plainFirst creates and starts a container by the engine and runs a command
// in it. It is removed after the clock has stopped.
func (s *Session) plainFirst(ctx context.Context) ([]time.Duration, error) {
	plan, err := s.plan("first")
	if err != nil {
		return nil, err
	}
	begun := time.Now()
	at, remove, err := s.plainStart(ctx, plan)
	return []time.Duration{at.Sub(begun)}, errors.Join(err, remove(ctx))
}

// plan is what the engine is asked to create for a container of its own.
func (s *Session) plan(session string) (container.Plan, error) {
	spec, err := s.Rig.NewSpec(s.Rig.Spec.Image, s.Rig.Spec.Owner.Session+"-"+session)
	if err != nil {
		return container.Plan{}, err
	}
	return s.Rig.Plan(spec)
}

// plainStart tells when the first output in a new container was there, which
// remove removes, with an error too.
func (s *Session) plainStart(ctx context.Context, plan container.Plan) (at time.Time, remove func(context.Context) error, err error) {
	id, err := s.Rig.Plain.Start(ctx, plan, []string{"sleep", "infinity"})
	remove = func(ctx context.Context) error {
		if id == "" {
			return nil
		}
		return s.Rig.Remove(ctx, id)
	}
	if err == nil {
		at, err = s.execOutput(ctx, id)
	}
	return at, remove, err
}

// execFirst runs a command by the engine in the container that runs.
func (s *Session) execFirst(ctx context.Context) ([]time.Duration, error) {
	begun := time.Now()
	at, err := s.execOutput(ctx, s.Rig.Info.ID)
	return []time.Duration{at.Sub(begun)}, err
}

func (s *Session) execOutput(ctx context.Context, id string) (time.Time, error) {
	var out, errOut first
	code, err := s.Rig.Plain.Exec(ctx, id, plainCommand{Args: echo(), Stdout: &out, Stderr: &errOut})
	if err == nil && (code != 0 || out.at.IsZero() || !errOut.at.IsZero()) {
		err = wrong("exit status %d", code)
	}
	return out.at, err
}

// burst has many new sessions claim a sandbox at one moment, from which each
// of them is timed. It can be done once, for one pool; the engine has fewer.
func (s *Session) burst(ctx context.Context) (operation, error) {
	p, err := s.pool(ctx)
	if err != nil {
		return operation{}, err
	}
	claims, err := atOnce(s.Effort.Burst, func(i int) (time.Time, error) {
		return firstOutput(ctx, p.Manager, fmt.Sprintf("burst-%d", i), true)
	})
	if err != nil {
		return operation{}, named(OpBurst, WayPool, err)
	}
	if err := p.Empty(); err != nil {
		return operation{}, err
	}
	return operation{rounds: 3, settle: settleMany, cold: true, ways: []way{
		{name: WayEngine, turn: 1, take: s.plainBurst},
		{name: WayPool, reported: claims},
	}}, nil
}

// plainBurst starts some containers by the engine at once.
func (s *Session) plainBurst(ctx context.Context) ([]time.Duration, error) {
	var plans [engineBurst]container.Plan
	for i := range plans {
		var err error
		if plans[i], err = s.plan(fmt.Sprintf("burst-%d", i)); err != nil {
			return nil, err
		}
	}
	var removes [engineBurst]func(context.Context) error
	times, err := atOnce(engineBurst, func(i int) (at time.Time, err error) {
		at, removes[i], err = s.plainStart(ctx, plans[i])
		return at, err
	})
	for _, remove := range removes {
		err = errors.Join(err, remove(ctx))
	}
	return times, err
}

// atOnce has n callers do something at one moment, and tells how long after it
// each was where it says.
func atOnce(n int, do func(i int) (time.Time, error)) ([]time.Duration, error) {
	times := make([]time.Duration, n)
	errs := make([]error, n)
	gate := make(chan struct{})
	var begun time.Time
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			<-gate
			at, err := do(i)
			times[i], errs[i] = at.Sub(begun), err
		})
	}
	begun = time.Now()
	close(gate)
	wg.Wait()
	return times, errors.Join(errs...)
}
