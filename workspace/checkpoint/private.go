package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// workspaceMode is the mode of the root of a workspace, as [workspace.Store]
// makes it.
const workspaceMode = 0o700

// Private makes the workspace of that name a private view of the host folder
// base, which is never written to and whose owner stays. In the view the files
// of the owner of base belong to o, so o may do to them what that owner may;
// the files of others keep their owners. File systems that are mounted below
// base do not show.
//
// The workspace must not exist, or be an empty folder. Where it is such a view
// of base already, Private does what [Store.Ensure] does.
//
// With means other than overlay, or on a file system that overlayfs cannot
// use, the view is a copy; [Head].Reason says so.
func (s *Store) Private(ctx context.Context, name, base string, o workspace.Owner) error {
	const op = "make private workspace"
	fi, err := s.checkBase(base)
	if err != nil {
		return err
	}
	means, reason, err := s.MeansOf(ctx, name)
	if err != nil {
		return err
	}
	l, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer l.Release()
	if h, ok, err := s.readHead(name); err != nil {
		return err
	} else if ok {
		if h.Base != base || h.Owner != o {
			return &sandbox.Error{
				Code: sandbox.CodeBusy, Op: op, Resource: name,
				Message: "the workspace exists and is no view of that folder for that owner", Hint: "remove the sandbox and its workspace first",
			}
		}
		return s.settleMounts(h)
	}
	if err := s.checkEmpty(op, name); err != nil {
		return err
	}
	h := &head{Name: name, Means: means, Reason: reason, Base: base, BaseOwner: ownerOf(fi), Owner: o, Bases: newID(), UserXattr: inUserNamespace()}
	if means == Overlay {
		h.Upper = newID()
		err := s.begin(ctx, h, workspaceMode)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Op != opMount || e.Resource != name {
			return err
		}
		// The file system of base cannot be a lower folder, or not show its
		// files as those of another owner.
		h.Means, h.Upper, h.Reason = Copy, "", fmt.Sprintf("no overlay over %s: %v", base, e.Err)
		if s.canReflink() {
			h.Means = Reflink
		}
		s.o.Log.WarnContext(ctx, "a private workspace is a copy", "workspace", name, "base", base, "err", e.Err)
	}
	return s.privateCopy(ctx, h)
}

// checkBase refuses what cannot be the base of a private workspace.
func (s *Store) checkBase(base string) (fs.FileInfo, error) {
	const op, field = "make private workspace", "workspace"
	if !filepath.IsAbs(base) || filepath.Clean(base) != base {
		return nil, invalid(op, field, base, fmt.Sprintf("%q is not an absolute path without detours", base), "name the folder by its canonical path")
	}
	fi, err := os.Lstat(base)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: op, Field: field, Resource: base, Message: "there is no " + base, Err: err}
	}
	if err != nil {
		return nil, fail(op, base, err)
	}
	canonical, err := filepath.EvalSymlinks(base)
	switch {
	case err != nil:
		return nil, fail(op, base, err)
	case canonical != base || !fi.IsDir():
		return nil, invalid(op, field, base, base+" is not a folder, or is reached by a link", "name the folder by its canonical path")
	case below(base, s.root) || below(s.root, base):
		return nil, invalid(op, field, base, fmt.Sprintf("%s and the folder of the workspaces, %s, hold one another", base, s.root), "keep the state folder outside of the folder that the agent works on")
	}
	return fi, nil
}

// checkEmpty refuses a workspace that has files.
func (s *Store) checkEmpty(op, name string) error {
	names, err := readNames(s.Path(name), 2)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fail(op, name, err)
	}
	if len(names) > 0 {
		return &sandbox.Error{
			Code: sandbox.CodeBusy, Op: op, Resource: name,
			Message: "the workspace " + s.Path(name) + " holds files", Hint: "remove the sandbox and its workspace first",
		}
	}
	return nil
}

// readNames returns at most n names of the folder at path, which is no link.
func readNames(path string, n int) ([]string, error) {
	f, err := openFolder(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(n)
	if len(names) > 0 || err == nil {
		return names, nil
	}
	return nil, nil //nolint:nilerr // the end of the folder
}

// begin makes a workspace with an overlay. An error takes it away again.
func (s *Store) begin(ctx context.Context, h *head, mode fs.FileMode) error {
	refs, err := s.lockRefs(ctx)
	if err != nil {
		return err
	}
	h.Pending = &pending{Op: "begin"}
	if h.Base != "" {
		h.Bases, err = s.copyBases(h.Bases)
	}
	if err == nil {
		err = s.newUpper(h.Upper, mode, h.Owner)
	}
	s.o.step("begin: upper made")
	if err == nil {
		err = s.writeHead(h)
	}
	if e := refs.Release(); err == nil {
		err = fail("make workspace", h.Name, e)
	}
	s.o.step("begin: head written")
	if err == nil {
		if err = s.settleMounts(h); err == nil {
			s.o.step("begin: mounted")
			err = s.commit(h, nil)
		}
	}
	if err != nil {
		return also(err, s.recover(h.Name))
	}
	return nil
}

// privateCopy makes the workspace of h a copy of its base. A layer keeps the
// base as it was.
func (s *Store) privateCopy(ctx context.Context, h *head) error {
	const op = "make private workspace"
	stage, done, err := s.scratch("layer")
	if err != nil {
		return err
	}
	defer done()
	src, err := openFolder(h.Base)
	if err != nil {
		return fail(op, h.Base, err)
	}
	defer src.Close()
	layer := Layer{ID: newID(), Owner: h.Owner}
	if _, err := s.copyLayer(ctx, &copier{src: src, name: h.Base, owner: swapOwners(h.BaseOwner, h.Owner)}, stage, h.Means); err != nil {
		return fail(op, h.Name, err)
	}
	h.BaseLayer = layer.ID
	return s.beginCopy(ctx, h, layer, stage)
}

// BaseChanges calls write, which changes files of the base of the private view of
// that name, and has the view show them. An overlay keeps what it has looked up in
// its lower folders, of which the kernel says that they may not change; so it is
// renewed when write has returned, in all mount namespaces at once. What a command
// has open, and the working directories of commands, stay what they were.
//
// After a kill in between, the next operation on the workspace or call of
// [Store.Stale] renews it.
func (s *Store) BaseChanges(ctx context.Context, name string, write func() error) error {
	l, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer l.Release()
	h, ok, err := s.readHead(name)
	if err != nil {
		return err
	}
	if !ok || h.Base == "" || h.Means != Overlay { // a copy follows no folder
		err := write()
		s.o.step("base: written")
		return err
	}
	h.Changed = true
	if err := s.writeHead(h); err != nil {
		return err
	}
	s.o.step("base: head marked")
	err = write()
	s.o.step("base: written")
	return errors.Join(err, s.renew(h))
}

// renew has the overlay of h forget what it knows of its lower folders.
func (s *Store) renew(h *head) error {
	dir := s.Path(h.Name)
	list, err := mountsAt(dir)
	if err != nil {
		return fail(opMount, h.Name, err)
	}
	if len(list) > 0 && list[len(list)-1].source == source(h.Upper) {
		if err := forget(dir); err != nil {
			return fail(opMount, h.Name, err)
		}
	}
	h.Changed = false
	return s.writeHead(h)
}
