//go:build linux

package manager_test

import (
	"context"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// newControlledFake is a manager of operations whose sandbox is in memory.
// Requests leave through the real way out.
func newControlledFake(t *testing.T, programs map[string]fake.Program, settings string, more ...func(*manager.Options, *controlled)) (*controlled, *guarded) {
	t.Helper()
	g := newGuarded(t, sandbox.Deny)
	g.wall = fake.New(fake.Options{Name: "local", Rules: rulesOf, Programs: programs})
	c := &controlled{outward: &outward{t: t, burst: 1 << 20, net: testenv.NewInternet(t), who: config.Who{Tenant: tenant, Agent: "main", Session: "s"}}, wall: "local"}
	g.change = func(o *manager.Options) {
		c.open(o, g.state)
		c.control(o, g.state)
		for _, change := range more {
			change(o, c)
		}
	}
	if settings == "" {
		settings = c.settingsFor("")
	}
	c.Manager = g.manager(settings)
	c.browsers()
	return c, g
}

// observed is the Control of another start of the program on the state folder of c,
// which goes on; its evidence goes through the sinks that wrap makes.
func (c *controlled) observed(queue int, wrap func(recorder.Keeper) recorder.Sink) *orchestrator.Control {
	c.t.Helper()
	log := logrus.New()
	log.SetOutput(&c.log)
	ctl, err := orchestrator.OpenOperations(orchestrator.OperationsOptions{
		State: c.state, Log: log, Queue: queue, Sinks: []recorder.Sink{wrap(recorder.NewFile("file", c.evidence))},
		Fetch: orchestrator.Fetch(c.net.Authority.Pool),
	})
	must(c.t, err)
	c.t.Cleanup(func() { ctl.Close() })
	return ctl
}

// balance returns how many records of operations there are, and how many are
// reported as lost.
func (c *controlled) balance() (kept, lost int) {
	c.t.Helper()
	for r, err := range c.evidence.Query(context.Background(), evidence.Filter{Tenant: tenant}) {
		must(c.t, err)
		switch {
		case r.Omitted > 0:
			lost += int(r.Omitted)
		case r.Type == evidence.TypeBegin || r.Type == evidence.TypeEnd:
			kept++
		}
	}
	return kept, lost
}
