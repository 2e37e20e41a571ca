package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// A Switch is an operation after which another file system lies at the
// workspace: a sandbox that has the workspace mounted has to exchange its
// mount. The caller has the sandbox do so with the result of Mount and calls
// Commit, calls Abort where the sandbox has not, and Forward where that is not
// known. One of the three must be called: the workspace is locked until then.
//
// A process that ends before it calls Mount has aborted the operation. From
// Mount on code in the sandbox may have written to the new file system, so the
// next operation on the workspace, or [Open], does what Forward does.
type Switch struct {
	s    *Store
	h    *head // the new head, which is pending
	lock *keylock.Lock

	sweep bool // layers are left that nothing refers to

	mu   sync.Mutex
	done bool
}

// Mount returns the new file system of the workspace as a detached mount,
// which move_mount(2) puts into a mount namespace. The caller closes it.
func (w *Switch) Mount() (*os.File, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil, errDone(w.h.Name)
	}
	if err := w.s.markStale(w.h); err != nil {
		return nil, err
	}
	return w.s.cloneAt(w.h.Name)
}

// Mount returns what lies at the workspace of that name as a detached mount, which
// move_mount(2) puts into a mount namespace. The caller closes it.
//
// Until the caller says by [Store.Remounted] that the sandbox has taken it up,
// [Store.Stale] reports that it may have another one.
func (s *Store) Mount(ctx context.Context, name string) (*os.File, error) {
	l, err := s.lock(ctx, name)
	if err != nil {
		return nil, err
	}
	defer l.Release()
	h, ok, err := s.readHead(name)
	if err == nil && ok {
		if err = s.settleMounts(h); err == nil {
			err = s.markStale(h)
		}
	}
	if err != nil {
		return nil, err
	}
	return s.cloneAt(name)
}

func (s *Store) cloneAt(name string) (*os.File, error) {
	m, err := cloneMount(s.Path(name))
	return m, fail(opMount, name, err)
}

// markStale writes that a sandbox may have another file system than the one at
// the workspace of h.
func (s *Store) markStale(h *head) error {
	if h.Stale {
		return nil
	}
	next := *h
	next.Stale = true
	if err := s.writeHead(&next); err != nil {
		return err
	}
	h.Stale = true
	s.o.step("mount: head marked")
	return nil
}

// Stale reports whether the sandbox of the workspace of that name may have
// another file system mounted than the one that lies there, because a process
// was killed while it exchanged them. It completes or undoes what that process
// has begun. The caller makes the sandbox exchange its mount for the result of
// [Store.Mount], or begins it anew, and calls [Store.Remounted].
func (s *Store) Stale(ctx context.Context, name string) (bool, error) {
	if err := statedir.CheckName(name); err != nil {
		return false, err
	}
	h, ok, err := s.readHead(name)
	if err != nil || !ok || h.Pending == nil && !h.Stale && !h.Changed {
		return false, err
	}
	l, err := s.lock(ctx, name)
	if err != nil {
		return false, err
	}
	defer l.Release()
	h, ok, err = s.readHead(name)
	return err == nil && ok && h.Stale, err
}

// Remounted says that the sandbox of the workspace of that name has the file
// system mounted that lies there.
func (s *Store) Remounted(ctx context.Context, name string) error {
	return s.confirm(ctx, name, func(h *head) bool {
		was := h.Stale
		h.Stale = false
		return was
	})
}

// Restored says that the archives of the checkpoint that [Head].Restore names are in
// their places, or cannot be put there any more.
func (s *Store) Restored(ctx context.Context, name string) error {
	return s.confirm(ctx, name, func(h *head) bool {
		was := h.Restore
		h.Restore = ""
		return was != ""
	})
}

// confirm writes the head of a workspace where change reports that it is another one.
func (s *Store) confirm(ctx context.Context, name string, change func(*head) bool) error {
	if err := statedir.CheckName(name); err != nil {
		return err
	}
	if h, ok, err := s.readHead(name); err != nil || !ok || !change(h) {
		return err
	}
	l, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer l.Release()
	h, ok, err := s.readHead(name)
	if err != nil || !ok || !change(h) {
		return err
	}
	return s.writeHead(h)
}

// Commit completes the operation. After an error of Commit the next operation
// on the workspace, or Open, either completes or undoes it.
func (w *Switch) Commit() error {
	return w.end("complete checkpoint", func() error {
		w.h.Stale = false
		err := w.s.commit(w.h, w.h.Pending.New)
		if err == nil && w.sweep {
			w.s.later(func() {
				if err := w.s.sweep(context.Background()); err != nil {
					w.s.o.Log.Warn("layers that nothing refers to are left", "err", err)
				}
			})
		}
		return err
	})
}

// Forward completes the operation where it is not known which file system the
// sandbox has: [Store.Stale] reports it, and a checkpoint is marked busy.
func (w *Switch) Forward() error {
	return w.end("complete checkpoint", func() error {
		if err := w.s.markStale(w.h); err != nil {
			return err
		}
		return w.s.recover(w.h.Name)
	})
}

// Abort puts everything back as it was before the operation. After Commit it
// does nothing, so it can be deferred.
func (w *Switch) Abort() error {
	w.mu.Lock()
	done := w.done
	w.mu.Unlock()
	if done {
		return nil
	}
	return w.end("undo checkpoint", func() error {
		if w.h.Stale { // the sandbox has the old file system after all
			w.h.Stale = false
			if err := w.s.writeHead(w.h); err != nil {
				return err
			}
			w.s.o.step("abort: head unmarked")
		}
		return w.s.recover(w.h.Name)
	})
}

// end does how once, and unlocks the workspace.
func (w *Switch) end(op string, how func() error) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return errDone(w.h.Name)
	}
	w.done = true
	err := how()
	if e := w.lock.Release(); err == nil {
		err = fail(op, w.h.Name, e)
	}
	return err
}

func errDone(name string) error {
	return sandbox.Errorf(sandbox.CodeInternal, "complete checkpoint", "the operation on %s is over", name)
}

// commit completes the pending operation of h. It is complete when the record
// is written, or the head where there is no record.
func (s *Store) commit(h *head, r *Record) error {
	if r != nil {
		if err := writeJSON(s.recordPath(r.ID), r); err != nil {
			return err
		}
		s.o.step("commit: record written")
	}
	final := *h
	final.Pending = nil
	if err := s.writeHead(&final); err != nil {
		return err
	}
	s.o.step("commit: head written")
	return s.settleMounts(&final)
}

// settle completes or undoes what killed processes have begun. A workspace that
// another process works on is left to it.
func (s *Store) settle() error {
	if err := s.prepare(); err != nil {
		return err
	}
	heads, err := s.heads()
	if err != nil {
		return err
	}
	for _, h := range heads {
		if h.Pending == nil {
			continue
		}
		l, err := s.names.TryEnsure(h.Name)
		if sandbox.CodeOf(err) == sandbox.CodeBusy {
			continue
		}
		if err != nil {
			return err
		}
		// The next operation on the workspace tries again and returns the
		// error.
		if err := s.recover(h.Name); err != nil {
			s.o.Log.Warn("an operation on a workspace was interrupted and cannot be undone now", "workspace", h.Name, "err", err)
		}
		if err := l.Release(); err != nil {
			return fail("open checkpoints", h.Name, err)
		}
	}
	return nil
}

// recover completes or undoes the pending operation of the workspace, under its
// lock.
func (s *Store) recover(name string) error {
	h, ok, err := s.readHead(name)
	if err != nil || !ok {
		return err
	}
	if h.Changed {
		if err := s.renew(h); err != nil {
			return err
		}
	}
	if h.Pending == nil {
		return nil
	}
	p := h.Pending
	if p.Record != "" {
		if r, ok, err := s.readRecord(p.Record); err != nil {
			return err
		} else if ok {
			h.Stale = h.Stale && r.Busy // that of Commit is not, and the sandbox has exchanged its mount
			return s.commit(h, nil)
		}
	}
	if h.Stale {
		return s.forward(h)
	}
	switch p.Op {
	case "begin":
		err = s.undoBegin(h)
	case "convert":
		err = s.undoConvert(h)
	case "switch":
		err = s.undoSwitch(h)
	case "record":
		err = s.undoRecord(h)
	case "restore":
		err = s.redoRestore(h)
	default:
		return sandbox.Errorf(sandbox.CodeUnavailable, "open checkpoints", "the head of %s has the unknown operation %q of a later version", name, p.Op)
	}
	if err != nil {
		return err
	}
	return s.sweep(context.Background())
}

// forward completes the pending operation of h, whose file system the sandbox may
// have. It may have written to the old one as well, which a checkpoint has now.
func (s *Store) forward(h *head) error {
	var r *Record
	if h.Pending.New != nil {
		made := *h.Pending.New
		made.Busy, r = true, &made
	}
	if err := s.commit(h, r); err != nil {
		return err
	}
	return s.sweep(context.Background())
}

// undoBegin removes a workspace that was being made.
func (s *Store) undoBegin(h *head) error {
	if err := s.unmountNew(h); err != nil {
		return err
	}
	s.o.step("undo: unmounted")
	if h.Means != Overlay {
		if err := s.emptyWorkspace(h.Name); err != nil {
			return err
		}
	}
	s.o.step("undo: emptied")
	return s.removeHead(h.Name)
}

// undoRecord makes the head before the current one again, where the workspace
// was not changed.
func (s *Store) undoRecord(h *head) error {
	if h.Pending.Prev == nil {
		return s.removeHead(h.Name)
	}
	return s.writeHead(h.Pending.Prev)
}

// undoConvert makes the layer that the workspace became a plain folder again.
func (s *Store) undoConvert(h *head) error {
	const op = "undo checkpoint"
	if err := s.unmountNew(h); err != nil {
		return err
	}
	s.o.step("undo: unmounted")
	dir, tree := s.Path(h.Name), s.layerFS(h.Pending.Stage)
	if _, err := os.Lstat(tree); err == nil {
		if err := os.Remove(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fail(op, h.Name, err)
		}
		s.o.step("undo: mount point removed")
		if err := os.Rename(tree, dir); err != nil {
			return fail(op, h.Name, err)
		}
		s.o.step("undo: folder moved back")
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fail(op, h.Name, err)
	}
	return s.removeHead(h.Name)
}

// undoSwitch makes the head before the current one again.
func (s *Store) undoSwitch(h *head) error {
	if err := s.unmountNew(h); err != nil {
		return err
	}
	s.o.step("undo: unmounted")
	prev := h.Pending.Prev
	if err := s.writeHead(prev); err != nil {
		return err
	}
	s.o.step("undo: head written")
	return s.settleMounts(prev)
}

// unmountNew unmounts the overlay of the new head h. A sandbox that has it
// mounted cannot write to it any more: its upper folder goes.
func (s *Store) unmountNew(h *head) error {
	if h.Means != Overlay {
		return nil
	}
	dir := s.Path(h.Name)
	for {
		list, err := mountsAt(dir)
		if err != nil {
			return fail("undo checkpoint", h.Name, err)
		}
		if len(list) == 0 || list[len(list)-1].source != source(h.Upper) {
			return nil
		}
		_ = setReadOnly(dir) // fails where a file is open for writing
		if err := detach(dir); err != nil {
			return fail("undo checkpoint", h.Name, err)
		}
	}
}
