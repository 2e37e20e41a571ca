//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	servers "github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

const (
	// sweepWithin bounds one sweep, in which each sandbox is removed in turn.
	sweepWithin = 10 * time.Minute
	// rarely is the interval between two searches for small files that are no
	// longer needed.
	rarely = time.Hour
)

// refiller keeps sandboxes ready; managers of this program may be one.
type refiller interface {
	Refill(ctx context.Context) (started int, next time.Duration, err error)
	RefillDue() <-chan struct{}
	WatchPool(ctx context.Context) error
}

// loops are what the daemon does in the background.
func (d *daemonParts) loops() []servers.Loop {
	out := []servers.Loop{
		{Name: "prune", Every: 5 * time.Minute, Within: sweepWithin, Do: d.prune},
		{Name: "freeze", Every: time.Minute, Within: sweepWithin, Do: func(ctx context.Context) (time.Duration, error) {
			_, next, err := d.manager.FreezeIdle(ctx)
			return next, err
		}},
		{Name: "expire", Every: time.Minute, Within: sweepWithin, Due: d.manager.ExpireDue(), Paced: true, Do: func(ctx context.Context) (time.Duration, error) {
			_, next, err := d.manager.Expire(ctx)
			return next, err
		}},
		{Name: "quotas", Every: time.Minute, Do: func(ctx context.Context) (time.Duration, error) {
			return 0, d.admission.Round(ctx, d.manager, time.Now())
		}},
		{Name: "logins", Every: 5 * time.Second, Do: func(context.Context) (time.Duration, error) { d.console.Sweep(); return 0, nil }},
		{Name: "tokens", Every: rarely, Within: sweepWithin, Do: d.sweepTokens},
		{Name: "media", Every: rarely, Within: sweepWithin, Do: func(ctx context.Context) (time.Duration, error) {
			_, err := d.manager.SweepMedia(ctx)
			return 0, err
		}},
		{Name: "answers", Every: rarely, Within: sweepWithin, Do: func(ctx context.Context) (time.Duration, error) {
			_, err := d.answers.Sweep(ctx)
			return 0, err
		}},
	}
	if r, ok := any(d.manager).(refiller); ok {
		out = append(out, servers.Loop{Name: "pool", Every: time.Minute, Within: sweepWithin, Due: r.RefillDue(), Paced: true, Do: func(ctx context.Context) (time.Duration, error) {
			_, next, err := r.Refill(ctx)
			return next, err
		}}, servers.Loop{Name: "claims", Every: time.Minute, Within: sweepWithin, Do: func(ctx context.Context) (time.Duration, error) {
			return time.Millisecond, r.WatchPool(ctx) // which ends with its time, and begins again
		}})
	}
	return out
}

// sweepTokens forgets tokens that are over, and then what those have used that are
// no more.
func (d *daemonParts) sweepTokens(ctx context.Context) (time.Duration, error) {
	if _, err := d.tokens.Sweep(); err != nil {
		return 0, err
	}
	return 0, d.admission.Forget(ctx, func(id string) bool {
		_, err := d.tokens.Get(id)
		return sandbox.IsNotFound(err)
	})
}

// prune sweeps sandboxes as often as the settings say.
func (d *daemonParts) prune(ctx context.Context) (time.Duration, error) {
	res, err := config.Resolve(d.settings(), config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}, nil)
	if err != nil {
		return 0, err
	}
	every := time.Duration(res.Prune.Every)
	if every <= 0 {
		return 0, nil // switched off; it is asked again later
	}
	_, err = d.manager.Sweep(ctx)
	return every, err
}

// checks are what has to be there to serve.
func (d *daemonParts) checks() []servers.Check {
	return []servers.Check{{Name: "provider", Look: d.sandboxStands}, {Name: "state", Look: d.writes}, {Name: "settings", Look: d.taken, Advice: true}}
}

// taken says why the settings cannot be taken in as they are now. The last good
// ones are in force then.
func (d *daemonParts) taken(context.Context) error { return d.reload() }

// sandboxStands asks the sandboxes that sessions get by the settings whether they
// answer; of auto one of them has to.
func (d *daemonParts) sandboxStands(ctx context.Context) error {
	res, err := config.Resolve(d.settings(), config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}, nil)
	if err != nil {
		return err
	}
	names := []string{res.Provider}
	if res.Provider == "auto" {
		names = []string{"docker", "local"}
	}
	for _, name := range names {
		p, getErr := d.orch.Providers().Get(name)
		if err = getErr; err != nil {
			continue
		}
		// There is none of that name, and who says so has answered.
		if _, err = p.Inspect(ctx, "sbx-readyz"); err == nil || sandbox.IsNotFound(err) {
			return nil
		}
	}
	return err
}

// writes writes and removes a file in the state folder.
func (d *daemonParts) writes(context.Context) error {
	f, err := os.CreateTemp(d.orch.State().Path(), ".ready-*")
	if err != nil {
		return err
	}
	_, err = f.WriteString("ready")
	if closed := f.Close(); err == nil {
		err = closed
	}
	if removed := os.Remove(f.Name()); err == nil {
		err = removed
	}
	return err
}

// registrar takes grants back and derives lesser ones. It is opened when the
// first asks for it.
func (d *daemonParts) registrar() (resource.Registrar, error) { return d.orch.Control() }
