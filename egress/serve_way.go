package egress

import (
	"context"
	"net"
	"slices"
	"strconv"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/outlet"
	"github.com/bulkhead-dev/sandbox/egress/secret"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A way is a Way of the proxy with the resources that belong to it.
type way struct {
	*Way
	o       outlet.Options
	record  *Recorder
	secrets *secret.Set // nil when there are none
	leave   func()      // unregisters the sandbox from the recorder
	once    sync.Once
}

// Close implements [outlet.Way].
func (w *way) Close() error {
	err := w.Way.Close()
	w.letGo()
	return err
}

// Narrow implements [outlet.Way].
func (w *way) Narrow(rules sandbox.EgressRules) error {
	hosts, err := network.New(optionsOf(rules))
	if err != nil {
		return err
	}
	w.Way.Narrow(Narrowing{Policy: hosts, Holds: func(rule string) bool { return slices.Contains(rules.AllowedDomains, rule) }})
	return nil
}

// optionsOf returns the rules as options of package network.
func optionsOf(r sandbox.EgressRules) network.Options {
	return network.Options{
		Allowed: r.AllowedDomains, Denied: r.DeniedDomains, AllowPublic: r.AllowPublic, AllowPrivate: r.AllowPrivate,
		Ask: r.Ask, AllowLocalBinding: r.AllowLocalBinding,
	}
}

// letGo releases the resources of the way.
func (w *way) letGo() {
	w.once.Do(func() {
		w.leave()
		if w.secrets != nil {
			_ = w.secrets.Close() // overwrites the values, which cannot fail
		}
	})
}

// Command implements [outlet.Way].
func (w *way) Command(id string, o outlet.Command) outlet.Caller {
	leave := w.record.Command(w.o.Sandbox, id, recordWho{
		Tenant: o.Tenant, Agent: o.Agent, Session: o.Session, Program: o.Program, Line: o.Line, Require: w.o.Require,
	})
	credits := w.Way.Caller(id)
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

// Env implements [outlet.Caller].
func (c *caller) Env() map[string]string { return c.credits.Env() }

// Refused implements [outlet.Caller].
func (c *caller) Refused() []sandbox.Violation { return fromEvents(c.credits.Refused()) }

// Waited implements [outlet.Caller].
func (c *caller) Waited() *sandbox.Waited {
	w := c.credits.Waited()
	if w.Connections == 0 {
		return nil
	}
	return &sandbox.Waited{Connections: w.Connections, Millis: w.Time.Milliseconds()}
}

// End implements [outlet.Caller].
func (c *caller) End() []sandbox.Violation {
	refused := c.credits.End()
	c.once.Do(c.leave)
	return fromEvents(refused)
}

func question(q Question) outlet.Question {
	return outlet.Question{Caller: q.Caller, Target: net.JoinHostPort(q.Host, strconv.Itoa(int(q.Port))), Reason: q.Reason}
}

// asking adapts ask for the proxy; it returns nil for nil.
func asking(ask func(context.Context, outlet.Question) outlet.Answer) func(context.Context, Question) Answer {
	if ask == nil {
		return nil
	}
	return func(ctx context.Context, q Question) Answer {
		return Answer(ask(ctx, question(q)))
	}
}

// permitted adapts f for the proxy; it returns nil for nil.
func permitted(f func(outlet.Question) (outlet.Answer, bool)) func(Question) (Answer, bool) {
	if f == nil {
		return nil
	}
	return func(q Question) (Answer, bool) {
		a, ok := f(question(q))
		return Answer(a), ok
	}
}
