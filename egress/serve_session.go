package egress

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A servedSession is a Session with the resources that belong to it.
type servedSession struct {
	*Session
	o       proxy.Options
	record  *Recorder
	secrets *secret.Set // nil when there are none
	leave   func()      // unregisters the sandbox from the recorder
	once    sync.Once
}

// Close implements [proxy.Session].
func (s *servedSession) Close() error {
	err := s.Session.Close()
	s.letGo()
	return err
}

// Narrow implements [proxy.Session].
func (s *servedSession) Narrow(rules sandbox.EgressRules) error {
	hosts, err := network.New(optionsOf(rules))
	if err != nil {
		return err
	}
	s.Session.Narrow(Narrowing{Policy: hosts, Holds: func(rule string) bool { return slices.Contains(rules.AllowedDomains, rule) }})
	return nil
}

// Traffic implements [proxy.Session].
func (s *servedSession) Traffic() (in, out int64) {
	c := s.meter.Counts()
	return c.In, c.Out
}

// optionsOf returns the rules as options of package network.
func optionsOf(r sandbox.EgressRules) network.Options {
	return network.Options{
		Allowed: r.AllowedDomains, Denied: r.DeniedDomains, AllowPublic: r.AllowPublic, AllowPrivate: r.AllowPrivate,
		Ask: r.Ask, AllowLocalBinding: r.AllowLocalBinding,
	}
}

// letGo releases the resources of the session.
func (s *servedSession) letGo() {
	s.once.Do(func() {
		s.leave()
		if s.secrets != nil {
			_ = s.secrets.Close() // overwrites the values, which cannot fail
		}
	})
}

// Command implements [proxy.Session].
func (s *servedSession) Command(id string, o proxy.Command) proxy.Caller {
	leave := s.record.Command(s.o.Sandbox, id, recordWho{
		Tenant: o.Tenant, Agent: o.Agent, Session: o.Session, Program: o.Program, Line: o.Line, Require: s.o.Require,
	})
	credits := s.Session.Caller(id)
	if o.Span != nil {
		credits.Traced(o.Span)
	}
	return &caller{credits: credits, leave: leave}
}

// A caller is a Caller of the proxy that is registered with the recorder.
type caller struct {
	credits *Caller
	leave   func()
	once    sync.Once
}

// Env implements [proxy.Caller].
func (c *caller) Env() map[string]string { return c.credits.Env() }

// Refused implements [proxy.Caller].
func (c *caller) Refused() []sandbox.Violation { return fromEvents(c.credits.Refused()) }

// Reached implements [proxy.Caller].
func (c *caller) Reached() []proxy.Reached { return c.credits.Reached() }

// Waited implements [proxy.Caller].
func (c *caller) Waited() *sandbox.Waited {
	w := c.credits.Waited()
	if w.Connections == 0 {
		return nil
	}
	return &sandbox.Waited{Connections: w.Connections, Millis: w.Time.Milliseconds()}
}

// End implements [proxy.Caller].
func (c *caller) End() []sandbox.Violation {
	refused := c.credits.End()
	c.once.Do(c.leave)
	return fromEvents(refused)
}

func question(q Question) proxy.Question {
	return proxy.Question{Caller: q.Caller, Target: net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port))), Reason: q.Reason}
}

// asking adapts ask for the proxy; it returns nil for nil.
func asking(ask func(context.Context, proxy.Question) proxy.Answer) func(context.Context, Question) Answer {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, q Question) Answer {
		return Answer(ask(ctx, question(q)))
	}
}

// permitted adapts f for the proxy; it returns nil for nil.
func permitted(f func(proxy.Question) (proxy.Answer, bool)) func(Question) (Answer, bool) {
	if f == nil {
		return nil
	}
	return func(q Question) (Answer, bool) {
		a, ok := f(question(q))
		return Answer(a), ok
	}
}
