package local

import (
	"context"
	"errors"
	"path"
	"strings"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// guestInside is the guest's binary as the instance shows it.
const guestInside = sandbox.GuestDir + "/bin/sandbox-guest"

// An instance is one that is up, or was.
type instance struct {
	*launch.Instance
	planned
	site         *site
	slot         *launch.Slot
	placeholders *hostscan.Held
	cover        cover
	watch        *hostscan.MountWatch // nil until the instance is made ready
	noted        launch.Record
	relay        *relay // to sockets of the host, or nil

	users   int  // seats; guarded by the site
	retired bool // it takes no new users; guarded by the site

	// spare is the session over which the instance was made ready, until the first
	// seat takes it.
	spare atomic.Pointer[client.Client]

	// detached says that something was started that outlives its handle, and
	// left that it was by a caller.
	detached, left atomic.Bool

	guarding guarding
	planted  planted
	inUse    atomic.Int64 // commands, shells and the like of all seats
	kept     atomic.Int64 // of these, what runs nothing by itself, see [seat.keep]
	replaced atomic.Bool  // another file system lies where one of its mounts is from
	spoiled  atomic.Pointer[spoiling]
}

// fallen reports whether the instance has ended.
func (w *instance) fallen() bool {
	select {
	case <-w.Ended():
		return true
	default:
		return false
	}
}

// idle reports whether the sandbox is not in use. The caller holds the
// site's mu.
func (w *instance) idle() bool { return w.users == 0 && !w.detached.Load() }

// busy reports whether something may run that no caller waits for.
func (w *instance) busy() bool { return w.detached.Load() }

// take ends an instance in which nothing runs.
func (w *instance) take() { go w.Kill() }

// Kill is [launch.Wall.Kill]. While bubblewrap follows the guest, what we
// still hold of the instance's mounts is let go: the kernel takes them down in the
// close, and waits there for all processors. Placeholders are removed meanwhile, too:
// with the guest, which is process 1 inside, all that they were closed to has
// ended. Of an instance in which something was left, planted repositories are looked
// for before.
func (w *instance) Kill() bool {
	gone := w.KillGuest()
	if w.watch != nil {
		go func() { // letGo waits for it
			w.unguard()
			w.watch.Close()
		}()
		if gone && !w.detached.Load() {
			go w.placeholders.Release() // letGo returns what comes of it
		}
	}
	return w.Instance.Kill()
}

// session returns a session with the guest that no other caller has, in a sandbox
// that is ready for commands.
func (w *instance) session(ctx context.Context, spec sandbox.Spec) (*client.Client, error) {
	if c := w.spare.Swap(nil); c != nil {
		if c.Err() == nil {
			return c, nil
		}
		c.Close()
	}
	c, err := w.Connect(ctx, client.Options{Name: spec.Name})
	if err != nil {
		return nil, err
	}
	if err := provider.MakeReady(ctx, c, spec); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

// letGo gives up what the instance kept on the host. It has ended.
func (w *instance) letGo() {
	w.relay.close()
	if w.detached.Load() { // else the last command has looked
		list, err := w.hold()
		w.warnPlanted(list)
		if err != nil {
			w.site.p.o.Warn(w.site.def.Name, err.Error())
		}
	}
	if c := w.spare.Swap(nil); c != nil {
		c.Close()
	}
	if w.watch != nil {
		w.unguard()
		w.watch.Close()
	}
	if err := w.placeholders.Release(); err != nil {
		w.site.p.o.Warn(w.site.def.Name, "could not remove what held the place of a closed path: "+err.Error())
	}
}

// intact reports whether the mounts are still those that the instance was built
// with, and what they were put on is still there: who removes, replaces or
// renames a file on the host takes the mount over it along. Settled says that
// no name has changed there since this was found to be so.
func (w *instance) intact(settled bool) bool {
	if w.site.p.landlock {
		return true
	}
	return !w.replaced.Load() && !w.watch.Changed() && w.placeholders.Intact() && (settled || w.covers())
}

// sound reports whether the instance is up and intact. One that cannot be looked at counts
// as up: its next use finds out.
func (w *instance) sound() bool {
	if w.fallen() || !w.intact(false) {
		return false
	}
	alive, unseen := w.First().Alive()
	return alive || unseen != nil
}

// discard ends an instance that was never admitted.
func (w *instance) discard() {
	w.Kill()
	w.letGo()
}

// build puts up an instance as pl says and makes it ready for commands. On an error
// nothing of it is left but the slot.
func (s *site) build(ctx context.Context, spec sandbox.Spec, pl planned, slot *launch.Slot) (_ *instance, err error) {
	ctx, done := context.WithTimeout(ctx, s.p.o.Ready)
	defer done()
	defer func() { err = explain(ctx, spec.Name, err) }()
	start, err := s.p.starter(spec, pl, s.begun)
	if err != nil {
		return nil, err
	}
	held, err := s.p.hold(ctx, pl.plan.Placeholders)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		err = &outdated{err} // something has appeared where nothing was
	}
	if err != nil {
		return nil, err
	}
	lies := coverOf(pl.plan)
	lw, err := start(ctx)
	if err != nil {
		return nil, errors.Join(err, held.Release())
	}
	w := &instance{Instance: lw, planned: pl, site: s, slot: slot, placeholders: held, cover: lies}
	defer func() {
		if err != nil {
			w.discard()
		}
	}()
	w.noted = launch.Record{Process: lw.First(), StartedAt: s.p.o.Now().UTC().Round(0), Group: lw.Group()}
	if err := slot.Started(w.noted); err != nil {
		return nil, err
	}
	return w, w.makeReady(ctx, spec)
}

// makeReady runs what comes before the first command.
func (w *instance) makeReady(ctx context.Context, spec sandbox.Spec) (err error) {
	c, err := w.Connect(ctx, client.Options{Name: spec.Name})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = w.because(ctx, c, err)
			c.Close()
		} else {
			w.spare.Store(c)
		}
	}()
	for _, what := range c.Hello().Degraded {
		w.site.p.o.Warn(spec.Name, "weaker here: "+termsafe.Line(what))
	}
	if err := w.verified(ctx, c, spec); err != nil {
		return err
	}
	if len(spec.OnStart) > 0 {
		w.detached.Store(true) // what they leave running is meant to stay
	}
	return provider.MakeReady(ctx, c, spec)
}

// verified returns an error unless the instance is as planned, and has what commands
// reach of the host.
func (w *instance) verified(ctx context.Context, c *client.Client, spec sandbox.Spec) (err error) {
	if w.site.p.landlock { // there are no mounts to look at
		return w.check(ctx, c)
	}
	if w.watch, err = hostscan.OpenMountWatch(w.First().PID); err != nil {
		return err
	}
	if err := w.verify(ctx, c); err != nil {
		return err
	}
	return w.relaySockets(ctx, spec)
}

// because returns why an instance could not be made ready. A guest greets before it
// has all that commands need, and ends where it cannot have that: what is found
// of its instance then, from outside, does not show why.
func (w *instance) because(ctx context.Context, c *client.Client, err error) error {
	var reported *launch.Failed
	if errors.As(err, &reported) || c.Ping(ctx) == nil {
		return err
	}
	return w.Explain(ctx, err)
}

// verify looks at the instance from outside while the guest tries it from inside.
// Nothing runs in it before both have found it to be as planned.
func (w *instance) verify(ctx context.Context, c *client.Client) error {
	tried := make(chan error, 1)
	go func() { tried <- w.check(ctx, c) }()
	err := w.prove()
	inside := <-tried
	if err != nil {
		return &outdated{err}
	}
	return inside
}

// explain turns the failure to put up an instance into an error for people.
func explain(ctx context.Context, name string, err error) error {
	if err == nil {
		return nil
	}
	if ctx.Err() != nil {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "start", Resource: name, Message: "the sandbox was not up in time", Err: errors.Join(ctx.Err(), err), Retryable: true}
	}
	var ungrouped *launch.Ungrouped
	if errors.As(err, &ungrouped) {
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "start", Resource: name, Field: "docker.memory", Retryable: true,
			Message: "the sandbox cannot have the control group that bounds its memory, processors and processes", Err: ungrouped.Cause,
			Hint: "see what the service manager says (systemctl status, journalctl), or set docker.memory, docker.cpus and docker.pidsLimit to 0 to have no such bounds",
		}
	}
	var failed *launch.Failed
	if !errors.As(err, &failed) {
		var known *sandbox.Error
		if errors.As(err, &known) {
			return err
		}
		return sandbox.Errorf(sandbox.CodeUnavailable, "start", "the sandbox cannot be put up: %w", err)
	}
	if strings.HasSuffix(failed.Program, path.Base(guestInside)) {
		return explainLandlock(name, failed)
	}
	e := explainBwrap(&sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "start", Resource: name, Message: "the sandbox cannot be put up", Err: failed,
	}, failed.Stderr)
	var unreachable *launch.Unreachable
	if strings.Contains(failed.Stderr, "Can't find source path") || errors.As(failed, &unreachable) {
		return &outdated{e} // what the plan shows has gone
	}
	return e
}
