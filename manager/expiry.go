package manager

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/registry"
)

const (
	expireLatest   = time.Minute      // between two rounds: another process may set an end
	expireAfterErr = 10 * time.Second // an engine that fails is left alone for so long
	clockSkew      = time.Minute      // by which an end may lie further ahead than its timeout
)

// An expiry ends sandboxes whose timeout is over.
type expiry struct {
	m   *Manager
	due chan struct{} // has a value when an end was set
}

// ExpireDue has a value when Expire may be due sooner than it said: this Manager has
// set an end since.
func (m *Manager) ExpireDue() <-chan struct{} { return m.expiry.due }

// SetTimeout lets a sandbox end so long from now, whatever runs in it, as it was
// created with: by default it is removed. after is a whole number of seconds and more
// than 0. A sandbox that is being removed because its time is over is
// [sandbox.CodeNotFound]: of a SetTimeout and the end one comes first.
func (m *Manager) SetTimeout(ctx context.Context, row Row, after time.Duration) error {
	if err := m.own("set timeout", row); err != nil {
		return err
	}
	rec, err := m.Recorded(ctx, row.Tenant, row.Name, row.Provider)
	if err != nil {
		return err
	}
	return m.expiry.set(rec, after, "")
}

// set has the sandbox of rec end after so long as how says; "" leaves that.
func (x *expiry) set(rec registry.Record, after time.Duration, how string) error {
	res, err := config.Resolve(x.m.current(), config.Who{Tenant: rec.Tenant, Agent: rec.Agent, Session: rec.Session}, nil)
	if err != nil {
		return err
	}
	now, bad := x.m.now(), ""
	switch oldest := time.Duration(res.Prune.MaxAge); {
	case after < time.Second || after > 31536000*time.Second:
		bad = "a timeout has 1 to 31536000 seconds"
	case oldest > 0 && now.Add(after).After(rec.CreatedAt.Add(oldest)):
		bad = fmt.Sprintf("no sandbox gets older than %s, which prune.maxAge says", oldest)
	}
	if bad != "" {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "set timeout", Field: "timeout", Resource: rec.Name, Message: bad}
	}
	err = x.m.records.Of(rec.Provider).Update(rec.Kind, rec.Name, func(r *registry.Record) error {
		if r.Ending {
			return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "set timeout", Resource: rec.Name, Message: "the time of the sandbox is over, and it is being removed", Hint: "create a new one"}
		}
		r.ExpiresAt, r.Timeout = now.Add(after).UTC(), int64(after/time.Second)
		switch {
		case how != "":
			r.OnTimeout = how
		case r.OnTimeout == "":
			r.OnTimeout = config.OnTimeoutKill
		}
		return nil
	})
	select {
	case x.due <- struct{}{}:
	default:
	}
	return err
}

// Expire ends the sandboxes of this instance whose timeout is over, and returns their
// names and in how long the next one is. Ends are read from the records, so that they
// outlast the process that set them. A clock that is set back does not lengthen a
// timeout: an end that lies further ahead than the whole timeout is set anew.
func (m *Manager) Expire(ctx context.Context) (ended []string, next time.Duration, errs error) {
	records, _, err := m.lister.readRecords(ctx)
	next = expireLatest
	switch _, ok := unanswered(err); {
	case !ok:
		return nil, expireAfterErr, err
	case err != nil:
		errs, next = err, expireAfterErr
	}
	for _, r := range records {
		if r.OnTimeout == "" || r.ExpiresAt.IsZero() || !m.ours(r.Provider, r.Instance) || ctx.Err() != nil {
			continue
		}
		now := m.now()
		left, whole := r.ExpiresAt.Sub(now), time.Duration(r.Timeout)*time.Second
		if whole > 0 && left > whole+clockSkew {
			err := m.records.Of(r.Provider).Update(r.Kind, r.Name, func(have *registry.Record) error {
				if have.ExpiresAt.Equal(r.ExpiresAt) {
					have.ExpiresAt = now.Add(whole).UTC()
				}
				return nil
			})
			errs, left = errors.Join(errs, err), whole
		}
		if left > 0 {
			next = min(next, left)
			continue
		}
		did, err := m.expiry.end(ctx, r)
		switch {
		case err != nil && !sandbox.IsNotFound(err):
			errs = errors.Join(errs, err)
			next = min(next, expireAfterErr)
		case did:
			ended = append(ended, r.Name)
			m.log.WithField("sandbox", r.Name).Infof("its timeout is over: %s", r.OnTimeout)
		}
	}
	return ended, max(next, time.Millisecond), errs
}

// over reports whether the timeout that r has is over at now.
func over(r *registry.Record, now time.Time) bool {
	return r.OnTimeout != "" && !r.ExpiresAt.IsZero() && !now.Before(r.ExpiresAt)
}

// end ends the sandbox of r unless its end was put off meanwhile.
func (x *expiry) end(ctx context.Context, r registry.Record) (did bool, err error) {
	if r.OnTimeout == config.OnTimeoutPause {
		if r.Frozen {
			return false, nil
		}
		err = x.m.freezer.hold(ctx, r, func(have *registry.Record) bool { return over(have, x.m.now()) && !have.Frozen }, func(c config.Creation) bool {
			return c.AutoResume == nil || !*c.AutoResume
		})
	} else {
		err = x.m.records.Of(r.Provider).Update(r.Kind, r.Name, func(have *registry.Record) error {
			if !over(have, x.m.now()) {
				return errNotIdle
			}
			have.Ending = true
			return nil
		})
		if err == nil {
			row := Row{Name: r.Name, Kind: r.Kind, Provider: r.Provider, Tenant: r.Tenant, Agent: r.Agent, Session: r.Session, Workspace: r.Workspace}
			// Another program can have ended it, and a command can have made it anew.
			err = x.m.removeIf(ctx, row, RemoveOptions{Force: true}, func(have *registry.Record) bool { return have.Ending })
		}
	}
	if errors.Is(err, errNotIdle) {
		return false, nil
	}
	return err == nil, err
}

// Hold freezes a sandbox with whatever runs in it, until Resume; where it was not
// created with autoResume false the next call resumes it, too. One that is frozen is
// left so.
func (m *Manager) Hold(ctx context.Context, row Row) error {
	if err := m.own("pause", row); err != nil {
		return err
	}
	rec, err := m.Recorded(ctx, row.Tenant, row.Name, row.Provider)
	if err != nil {
		return err
	}
	return m.freezer.hold(ctx, rec, func(r *registry.Record) bool { return !r.Ending }, func(c config.Creation) bool {
		return c.AutoResume != nil && !*c.AutoResume
	})
}

// hold freezes the sandbox of r with whatever runs in it. still is asked, under the
// lock of the record, whether to go on, and stays whether a call may not resume it.
func (z *freezer) hold(ctx context.Context, r registry.Record, still func(*registry.Record) bool, stays func(config.Creation) bool) error {
	p, err := z.pauser("pause", Row{Name: r.Name, Provider: r.Provider})
	if err != nil {
		return err
	}
	c, _, err := z.m.creations.read(r.Provider, r.Name)
	if err != nil {
		return err
	}
	turn, err := z.m.locksOf(r.Provider).Ensure(ctx, r.Name)
	if err != nil {
		return err
	}
	defer turn.Release()
	var was registry.Record
	err = z.recordsBehind(p).Update(r.Kind, r.Name, func(have *registry.Record) error {
		if !still(have) {
			return errNotIdle
		}
		was = *have
		have.Frozen, have.Held = true, stays(c)
		return nil
	})
	if err != nil {
		return err
	}
	ctx = context.WithoutCancel(ctx) // the answer is waited for: see freeze
	pausing, done := context.WithTimeout(ctx, freezeWithin)
	defer done()
	err = p.Pause(pausing, r.Name)
	if err == nil || sandbox.IsNotFound(err) {
		return nil // what does not run has nothing to freeze, and stays so
	}
	if q, able := p.(sandbox.Provider); able {
		looking, done := context.WithTimeout(ctx, freezeWithin)
		defer done()
		if info, lookErr := q.Inspect(looking, r.Name); lookErr == nil && (info.Status == sandbox.StatusStopped || info.Status == sandbox.StatusPaused) {
			return nil
		}
	}
	undoing, done := context.WithTimeout(ctx, freezeWithin)
	defer done()
	_ = p.Unpause(undoing, r.Name) // it may have been frozen all the same
	undo := z.recordsBehind(p).Update(r.Kind, r.Name, func(have *registry.Record) error {
		have.Held = was.Held // that it is frozen stays, as a hint
		return nil
	})
	return errors.Join(err, undo)
}

// errHeld is the error of a call for a sandbox that stays paused.
func errHeld(name string) error {
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: "exec", Resource: name, Message: "the sandbox is paused, and no call resumes it",
		Hint: "resume it (POST /v1/sandboxes/" + name + "/resume), or create it with autoResume",
	}
}
