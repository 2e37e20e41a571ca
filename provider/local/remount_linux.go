package local

import (
	"context"
	"os"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

const (
	// remountWithin bounds how long a Remount waits for what is begun at that
	// moment, such as a file operation.
	remountWithin = 500 * time.Millisecond
	remountLook   = 2 * time.Millisecond
)

// Remount implements [sandbox.Remounter]. An instance shows what lies on the host
// when it is built, so the mount has to lie at the folder of the host that the Spec
// mounts at target, of which mount is the proof, and the instances of the sandbox
// end. The next command finds a new one. Shells go on there in the state after their
// last line, which their next line says (Exit.Restarted); listeners, connections
// and watches end.
//
// A sandbox in which something runs, or that another program has open, is
// [sandbox.CodeBusy].
func (h *handle) Remount(ctx context.Context, target string, mount *os.File) error {
	if err := h.lies(target, mount); err != nil {
		return err
	}
	release, err := h.site.p.turns.Enter(ctx, h.spec.Name)
	if err != nil {
		return err
	}
	defer release()
	if err := h.ready(mayRevive); err != nil {
		return err
	}
	all, err := h.site.own()
	if err != nil {
		return err
	}
	for _, w := range all {
		w.replaced.Store(true) // what begins from now on waits for its turn
	}
	for _, w := range all {
		if err = w.idles(ctx); err != nil {
			break
		}
	}
	if err != nil {
		for _, w := range all {
			w.replaced.Store(false)
		}
		return err
	}
	h.site.retire(all)
	for _, w := range all {
		w.Kill()
		<-w.Ended()
	}
	return nil
}

// lies returns an error unless the mount is what lies at the folder of the host
// that is shown at target.
func (h *handle) lies(target string, mount *os.File) error {
	invalid := func(field, message string, err error) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "remount", Field: field, Resource: h.spec.Name, Message: message, Err: err}
	}
	at := slices.IndexFunc(h.spec.Mounts, func(m sandbox.Mount) bool {
		return m.Target == target && (m.Role == sandbox.RoleWorkspace || m.Role == sandbox.RoleAgent || m.Role == sandbox.RoleBind)
	})
	if at < 0 {
		return invalid("target", strconv.Quote(target)+" is no folder of the host that the sandbox mounts", nil)
	}
	if mount == nil {
		return invalid("mount", "there is no mount", nil)
	}
	var given, there unix.Stat_t
	if err := unix.Fstat(int(mount.Fd()), &given); err != nil || given.Mode&unix.S_IFMT != unix.S_IFDIR {
		return invalid("mount", "the descriptor is not that of a folder", err)
	}
	source := h.spec.Mounts[at].Source
	if err := unix.Stat(source, &there); err != nil {
		return invalid("mount", "what lies at "+strconv.Quote(source)+" cannot be examined", err)
	}
	if given.Dev != there.Dev || given.Ino != there.Ino {
		return invalid("mount", "it does not lie at "+strconv.Quote(source)+", of which the sandbox is built", nil)
	}
	return nil
}

// own returns the instances of the sandbox. Those of another program are an error.
// The caller has its turn.
func (s *site) own() ([]*instance, error) {
	defs, err := s.p.defs()
	if err != nil {
		return nil, err
	}
	_, noted, err := defs.Get(s.def.Name)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := slices.Clone(s.instances)
	for _, r := range noted {
		mine := slices.ContainsFunc(all, func(w *instance) bool { return w.First() == r.Process })
		if alive, unseen := r.Process.Alive(); !mine && (alive || unseen != nil) {
			return nil, busyRemount(s.def.Name, "another program has the sandbox open")
		}
	}
	return all, nil
}

// retire has no handle find the instances any more.
func (s *site) retire(all []*instance) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, w := range all {
		w.retired = true
	}
}

// idles returns an error if something runs in the instance, which no new use can
// enter. It waits a moment for what is about to end, and until the states of shells
// are kept.
func (w *instance) idles(ctx context.Context) error {
	if w.fallen() {
		return nil
	}
	if w.detached.Load() {
		return busyRemount(w.site.def.Name, "a detached command may have left something running")
	}
	for end := time.Now().Add(remountWithin); w.inUse.Load() > w.kept.Load(); {
		if time.Now().After(end) {
			return busyRemount(w.site.def.Name, "a command or a file operation runs")
		}
		select {
		case <-ctx.Done():
			return sandbox.Errorf(sandbox.CodeTimeout, "remount", "given up: %w", ctx.Err())
		case <-time.After(remountLook):
		}
	}
	c, err := w.Connect(ctx, client.Options{Name: w.site.def.Name})
	if err != nil {
		if w.fallen() {
			return nil
		}
		return err
	}
	defer c.Close()
	now, err := c.Snapshot(ctx)
	if err != nil {
		return err
	}
	if len(now.Running) > 0 {
		return busyRemount(w.site.def.Name, "a command runs")
	}
	for _, s := range now.Shells {
		if s.Line != "" || s.Processes > 0 {
			return busyRemount(w.site.def.Name, "something runs in the shell "+strconv.Quote(s.ID))
		}
	}
	return nil
}

func busyRemount(name, message string) error {
	return &sandbox.Error{Code: sandbox.CodeBusy, Op: "remount", Resource: name, Message: message, Retryable: true, Hint: "end it, or wait until it has ended"}
}

// keep says that the seat is kept by a shell, a listener, a connection or a watch,
// by which nothing runs.
func (s *seat) keep() *seat {
	s.instance.kept.Add(1)
	return s
}

// drop gives back a seat that was kept.
func (s *seat) drop() {
	s.instance.kept.Add(-1) // first: for a moment something seems to run
	s.release()
}

// Snapshot implements [sandbox.Snapshotter]: what runs in the instances that the
// handle uses, also of other handles.
func (h *handle) Snapshot(ctx context.Context) (out sandbox.Snapshot, err error) {
	if err := h.ready(mayRevive); err != nil {
		return out, err
	}
	h.mu.Lock()
	seats := append(slices.Clone(h.older), h.seat)
	h.mu.Unlock()
	var seen []*instance
	for _, s := range seats {
		if s.ended() || slices.Contains(seen, s.instance) {
			continue
		}
		seen = append(seen, s.instance)
		one, err := s.Client.Snapshot(ctx)
		if err != nil {
			return sandbox.Snapshot{}, s.instance.whyEnded("snapshot", err)
		}
		out.Shells = append(out.Shells, one.Shells...)
		out.Running = append(out.Running, one.Running...)
	}
	slices.SortStableFunc(out.Running, func(a, b sandbox.RunningCommand) int { return a.Started.Compare(b.Started) })
	return out, nil
}

var (
	_ sandbox.Remounter   = (*handle)(nil)
	_ sandbox.Snapshotter = (*handle)(nil)
)
