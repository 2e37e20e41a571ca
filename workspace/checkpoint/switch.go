package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
)

// A Switch is an operation after which another file system lies at the
// workspace: a sandbox that has the workspace mounted has to exchange its
// mount. The caller has the sandbox do so with the result of Mount and calls
// Commit, or calls Abort where the sandbox cannot. One of the two must be
// called: the workspace is locked until then. When the process ends before,
// the operation counts as aborted.
type Switch struct {
	s    *Store
	h    *head // the new head, which is pending
	r    *Record
	lock *keylock.Lock

	sweep bool // layers are left that nothing refers to

	mu   sync.Mutex
	done bool
}

// Mount returns the new file system of the workspace as a detached mount,
// which move_mount(2) puts into a mount namespace. The caller closes it.
func (w *Switch) Mount() (*os.File, error) { return w.s.Mount(w.h.Name) }

// Mount returns what lies at the workspace of that name as a detached mount, which
// move_mount(2) puts into a mount namespace. The caller closes it.
func (s *Store) Mount(name string) (*os.File, error) {
	m, err := cloneMount(s.Path(name))
	return m, fail(opMount, name, err)
}

// Commit completes the operation. After an error of Commit the next operation
// on the workspace, or Open, either completes or undoes it.
func (w *Switch) Commit() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return errDone(w.h.Name)
	}
	w.done = true
	err := w.s.commit(w.h, w.r)
	if err == nil && w.sweep {
		w.s.later(func() {
			if err := w.s.sweep(context.Background()); err != nil {
				w.s.o.Log.Warn("layers that nothing refers to are left", "err", err)
			}
		})
	}
	if e := w.lock.Release(); err == nil {
		err = fail("complete checkpoint", w.h.Name, e)
	}
	return err
}

// Abort puts everything back as it was before the operation. After Commit it
// does nothing, so it can be deferred.
func (w *Switch) Abort() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done {
		return nil
	}
	w.done = true
	err := w.s.recover(w.h.Name)
	if e := w.lock.Release(); err == nil {
		err = fail("undo checkpoint", w.h.Name, e)
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
	if err != nil || !ok || h.Pending == nil {
		return err
	}
	p := h.Pending
	if p.Record != "" {
		if _, ok, err := s.readRecord(p.Record); err != nil {
			return err
		} else if ok {
			return s.commit(h, nil)
		}
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
