package manager

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry"
)

const (
	freezeMost     = 16               // sandboxes that one call of FreezeIdle freezes
	freezeSoonest  = time.Second      // between two calls when there is nothing left to do; the resolution of last uses
	freezeLatest   = time.Minute      // the settings may change meanwhile
	freezeAfterErr = 30 * time.Second // an engine that fails is left alone for so long
)

// A freezer remembers, between two calls of FreezeIdle, which idle sandboxes
// did not run, by the last use that they had then: they are not asked about
// again before they are used.
type freezer struct {
	m    *Manager
	mu   sync.Mutex
	down map[string]time.Time
}

// FreezeIdle freezes sandboxes that have not been used for as long as
// idle.pauseAfter of their agent says and in which nothing runs. It returns
// the names of those that it froze, and how long the next call can wait. The
// work of one call is bounded: when there is more, next is a moment. Browsers are
// left alone. It is for one caller that lives long.
func (m *Manager) FreezeIdle(ctx context.Context) (frozen []string, next time.Duration, err error) {
	m.freezer.mu.Lock()
	defer m.freezer.mu.Unlock()
	after := &pauseAfters{m, map[string]time.Duration{}}
	least, err := after.least(m.current())
	if err != nil || least <= 0 {
		return nil, freezeLatest, err
	}
	records, _, err := m.lister.readRecords(ctx)
	if err != nil {
		return nil, freezeAfterErr, err
	}
	due, next, err := m.freezer.due(records, after)
	if err != nil {
		return nil, freezeAfterErr, err
	}
	next = min(max(min(next, least), freezeSoonest), freezeLatest)
	if len(due) == 0 {
		return nil, next, nil
	}
	frozen, more, err := m.freezer.freezeAll(ctx, due)
	switch {
	case err != nil:
		next = freezeAfterErr
	case more:
		next = time.Millisecond
	}
	return frozen, next, err
}

// pauseAfters asks the settings of each agent once.
type pauseAfters struct {
	m  *Manager
	of map[string]time.Duration
}

func (a *pauseAfters) agent(name string) (time.Duration, error) {
	if d, ok := a.of[name]; ok {
		return d, nil
	}
	res, err := a.m.pruner.resolveAgent(name)
	if err == nil {
		a.of[name] = time.Duration(res.Idle.PauseAfter)
	}
	return a.of[name], err
}

// least is the shortest span that any agent has, 0 where none has one.
func (a *pauseAfters) least(s *config.Settings) (time.Duration, error) {
	agents := []string{config.DefaultAgent}
	if s != nil && s.Agents != nil {
		for _, one := range s.Agents.List {
			if one.ID != nil {
				agents = append(agents, *one.ID)
			}
		}
	}
	var least time.Duration
	for _, agent := range agents {
		d, err := a.agent(agent)
		if err != nil {
			return 0, err
		}
		if d > 0 && (least == 0 || d < least) {
			least = d
		}
	}
	return least, nil
}

// due returns the recorded sandboxes that are to be frozen, those unused
// longest first, and when the next of the others is. The freezer keeps what it
// remembers of those that are recorded as they were.
func (z *freezer) due(records []registry.Record, after *pauseAfters) (due []registry.Record, next time.Duration, err error) {
	now, next, down := z.m.now(), freezeLatest, map[string]time.Time{}
	for _, r := range records {
		if r.Kind != sandbox.KindSandbox || r.Frozen || !z.m.ours(r.Provider, r.Instance) {
			continue
		}
		if at, ok := z.down[r.Name]; ok && at.Equal(r.LastUsedAt) {
			down[r.Name] = at
			continue
		}
		if p, err := z.m.providers.Get(r.Provider); err != nil || !p.Features().Pause {
			continue
		}
		d, err := after.agent(r.Agent)
		if err != nil {
			return nil, 0, err
		}
		left := d - now.Sub(r.LastUsedAt)
		switch {
		case d <= 0:
		case left > 0:
			next = min(next, left)
		case z.m.pruner.leased(r.Provider)(r.Name): // its use is noted again at the end
		default:
			due = append(due, r)
		}
	}
	z.down = down
	slices.SortFunc(due, func(a, b registry.Record) int { return a.LastUsedAt.Compare(b.LastUsedAt) })
	return due, next, nil
}

// freezeAll freezes those of the due sandboxes that run, as many as one call
// may, and reports whether it has left some. One that is in use is left alone.
func (z *freezer) freezeAll(ctx context.Context, due []registry.Record) (frozen []string, more bool, errs error) {
	status, errs := z.statuses(ctx, due)
	for _, r := range due {
		known, answered := status[r.Provider]
		now := known[r.Name]
		switch {
		case !answered:
		case now != sandbox.StatusRunning && now != sandbox.StatusPaused:
			z.down[r.Name] = r.LastUsedAt
		case len(frozen) == freezeMost || ctx.Err() != nil:
			more = true
		default:
			ok, err := z.freezeOne(ctx, r)
			if ok {
				frozen = append(frozen, r.Name)
			}
			errs = errors.Join(errs, err)
		}
	}
	return frozen, more, errs
}

// statuses asks each provider of the records once for the states of all its
// sandboxes. One that does not answer has no entry.
func (z *freezer) statuses(ctx context.Context, records []registry.Record) (of map[string]map[string]sandbox.Status, errs error) {
	of = map[string]map[string]sandbox.Status{}
	tried := map[string]bool{}
	for _, r := range records {
		if tried[r.Provider] {
			continue
		}
		tried[r.Provider] = true
		p, err := z.m.providers.Get(r.Provider)
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		infos, err := p.List(ctx, sandbox.Filter{Instance: z.m.instanceOf(r.Provider)})
		if err != nil {
			errs = errors.Join(errs, err)
			continue
		}
		of[r.Provider] = make(map[string]sandbox.Status, len(infos))
		for _, i := range infos {
			of[r.Provider][i.Name] = i.Status
		}
	}
	return of, errs
}

// freezeOne freezes what r records unless it is in use or has been since.
func (z *freezer) freezeOne(ctx context.Context, r registry.Record) (bool, error) {
	p, err := z.pauser("freeze", Row{Name: r.Name, Provider: r.Provider})
	if err != nil {
		return false, err
	}
	err = z.freeze(ctx, p, r.Kind, r.Name, func(now *registry.Record) bool {
		return !now.Frozen && now.LastUsedAt.Equal(r.LastUsedAt)
	})
	switch {
	case err == nil:
		z.m.log.WithField("sandbox", r.Name).Infof("frozen: not used since %s", r.LastUsedAt.UTC().Format(time.RFC3339))
		return true, nil
	case errors.Is(err, errNotIdle), sandbox.CodeOf(err) == sandbox.CodeBusy, sandbox.IsNotFound(err):
		return false, nil
	}
	return false, err
}
