package manager

import (
	"context"
	"errors"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/grant/store"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// holdings are what a call has beyond single operations: a session of the
// browser and temporary space. They are let go of when its grant ends, by
// [Manager.EndCall] or with the Manager.
type holdings struct {
	browser  Browsing
	spaces   *operation.Spaces
	files    *lastFiles         // that spaces are in
	allotted bool               // there may be something in spaces
	life     context.Context    // ends with the grant; nil while nothing is held
	unwatch  context.CancelFunc // of life
}

// letGoWithin bounds how long letting go of what a call held may take.
const letGoWithin = 30 * time.Second

func errCallEnded(c *call) error {
	return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "operate", Field: "grant", Resource: c.grant.ID, Message: "the call has ended", Hint: "ask for a new grant"}
}

// spaces returns the temporary space of the call, which may be none yet, in the
// sandbox with the files.
func (o *order) spaces(f sandbox.Files) (*operation.Spaces, error) {
	c := o.call
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.over {
		return nil, errCallEnded(c)
	}
	if c.held.spaces == nil {
		c.held.files = &lastFiles{}
		c.held.files.set(f)
		c.held.spaces = operation.NewSpaceExecutor(c.held.files, o.guard.Profile().Mappings.Tmp)
	}
	c.held.files.set(f)
	if o.vetted.Domain == grant.DomainTmp {
		c.held.allotted = true
		o.m.calls.watch(o.c, c)
	}
	return c.held.spaces, nil
}

// watch lets go of what c holds when its grant ends, and returns the context
// that does so too. c is locked.
func (s *calls) watch(ctl *Control, c *call) context.Context {
	if c.held.life != nil {
		return c.held.life
	}
	ctx, done := store.Context(context.Background(), ctl.Revocations, c.grant)
	c.held.life, c.held.unwatch = ctx, done
	context.AfterFunc(ctx, func() {
		c.because(context.Cause(ctx))
		done()
		if err := s.letGo(c); err != nil {
			s.m.log.WithError(err).WithField("grant", c.grant.ID).Warn("not all that a call held is gone")
		}
	})
	return ctx
}

// EndCall ends the call of a grant: what runs of it is stopped, nothing more is
// carried out for it by this Manager, its browser session is closed and its
// temporary space removed. A call that there is not is ended already.
func (m *Manager) EndCall(tenant, id string) error {
	m.calls.mu.Lock()
	c := m.calls.of[tenant+"\x00"+id]
	m.calls.mu.Unlock()
	if c == nil {
		return nil
	}
	return m.calls.letGo(c)
}

// letGo releases what c holds. It may be called again, and returns when
// everything is released, also when another caller began to release it.
func (s *calls) letGo(c *call) error {
	c.ending.Lock()
	defer c.ending.Unlock()
	c.mu.Lock()
	held := c.held
	c.held, c.over = holdings{}, true
	c.guard, c.terms = nil, nil
	c.mu.Unlock()
	c.stop(c.ended())
	if held.unwatch != nil {
		held.unwatch()
	}
	var err error
	if held.browser != nil {
		err = held.browser.Close()
	}
	if held.allotted {
		err = errors.Join(err, s.clear(c, held))
	}
	return err
}

// clear removes temporary space from the sandbox, where that is there still.
func (s *calls) clear(c *call, held holdings) error {
	ctx, done := context.WithTimeout(context.Background(), letGoWithin)
	defer done()
	p := s.m.pipeline(Request{Who: whoOf(c.grant), MustExist: true}, gate.Call{})
	err := p.judge(ctx)
	if err != nil {
		return err
	}
	err = p.use(ctx, func(l *acquired) error {
		if l.want.gate.Place != Sandboxed { // what has these names on the host was never ours
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "release temporary space", Field: l.want.gate.Field,
				Message: "the session is in no sandbox any more, so its temporary space stays there for now: " + l.want.gate.Reason}
		}
		bridge, err := l.bridge(ctx) // nothing that a call has left is kept
		if err != nil {
			return err
		}
		plain, err := bridge.WithoutLinks()
		if err != nil {
			return err
		}
		held.files.set(plain)
		return held.spaces.Release(ctx)
	})
	if sandbox.IsNotFound(err) {
		return nil // and with the sandbox what lay in its memory
	}
	return err
}

// endCalls ends every call.
func (s *calls) endCalls() error {
	s.mu.Lock()
	var all []*call
	for _, c := range s.of {
		all = append(all, c)
	}
	s.of, s.over = nil, true
	s.mu.Unlock()
	var err error
	for _, c := range all {
		err = errors.Join(err, s.letGo(c))
	}
	s.work.Wait()
	return err
}

// sweepEvery is how often what is about expired grants is forgotten.
const sweepEvery = time.Hour

// sweepIfDue has c forget what is about grants that have expired, beside the
// operations. Close waits for it.
func (s *calls) sweepIfDue(c *Control) {
	if c.Sweep == nil {
		return
	}
	s, now := s, s.m.now()
	s.mu.Lock()
	due := s.forgot.IsZero() || now.Sub(s.forgot) >= sweepEvery
	if due = due && !s.over; due {
		s.forgot = now
		s.work.Add(1)
	}
	s.mu.Unlock()
	if !due {
		return
	}
	go func() {
		defer s.work.Done()
		ctx, done := context.WithTimeout(context.Background(), letGoWithin)
		defer done()
		if err := c.Sweep(ctx); err != nil {
			s.m.log.WithError(err).Warn("not all that is about expired grants could be forgotten")
		}
	}()
}
