package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// Fork makes the workspace newName of the checkpoint ref. Its files belong to
// o, as far as they belonged to the owner of the workspace that the checkpoint
// was made of. The workspace must not exist, or be an empty folder. With
// overlay no file is copied. [Head].Restore is as after [Store.Rollback].
func (s *Store) Fork(ctx context.Context, ref, newName string, o workspace.Owner) error {
	const op = "fork workspace"
	means, reason, err := s.MeansOf(ctx, newName)
	if err != nil {
		return err
	}
	l, err := s.lock(ctx, newName)
	if err != nil {
		return err
	}
	defer l.Release()
	if _, ok, err := s.readHead(newName); err != nil {
		return err
	} else if ok {
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: op, Resource: newName, Message: "the workspace exists already", Hint: "remove its sandbox and its workspace first"}
	}
	if err := s.checkEmpty(op, newName); err != nil {
		return err
	}
	r, err := s.find(ref, nil)
	if err != nil {
		return err
	}
	t, ok := r.tree(WorkspaceTree)
	if !ok || len(t.Layers) == 0 && t.Base == "" {
		return sandbox.Errorf(sandbox.CodeUnavailable, op, "the checkpoint %s has no workspace", r.ID)
	}
	h := &head{
		Name: newName, Means: means, Reason: reason, Base: t.Base, BaseOwner: t.BaseOwner, BaseLayer: t.BaseLayer, Bases: t.Bases, Owner: o, Parent: r.ID,
		Layers: t.Layers, UserXattr: r.UserXattr, Restore: r.toRestore(),
	}
	if means == Overlay {
		h.Upper = newID()
		return s.begin(ctx, h, workspaceMode)
	}
	return s.forkCopy(ctx, h, r, t)
}

// forkCopy makes the workspace of h a copy of a checkpoint.
func (s *Store) forkCopy(ctx context.Context, h *head, r Record, t Tree) error {
	if len(t.Layers) == 1 && (t.Base == "" || r.Means != Overlay) && t.Layers[0].Weight == 0 {
		return s.beginCopy(ctx, h, t.Layers[0], "")
	}
	// The layers of an overlay become one full tree.
	stage, done, err := s.scratch("layer")
	if err != nil {
		return err
	}
	defer done()
	layer := Layer{ID: newID(), Owner: h.Owner}
	if h.Base != "" {
		// The copy holds the base as it is now. What the checkpoint's workspace
		// began with is not known for all files, so the fork is no view of it.
		h.Base, h.BaseOwner, h.Bases = "", workspace.Owner{}, ""
		h.Reason += "; the files of the private workspace's host folder are copied"
	}
	if err := s.flatten(ctx, r, t, stage, h.Owner); err != nil {
		return fail("fork workspace", h.Name, err)
	}
	return s.beginCopy(ctx, h, layer, stage)
}

// beginCopy makes a workspace that is a copy of a layer. The layer is new when
// stage names its folder.
func (s *Store) beginCopy(ctx context.Context, h *head, layer Layer, stage string) error {
	refs, err := s.lockRefs(ctx)
	if err != nil {
		return err
	}
	h.Layers = []Layer{layer}
	h.Pending = &pending{Op: "begin"}
	if stage != "" {
		err = statedir.Unavailable("make layer", stage, os.Rename(stage, s.layerDir(layer.ID)))
		s.o.step("begin: layer made")
	} else if _, e := os.Lstat(s.layerFS(layer.ID)); e != nil {
		err = fail("fork workspace", h.Name, e) // the checkpoint was removed meanwhile
	}
	if err == nil {
		err = s.writeHead(h)
	}
	if e := refs.Release(); err == nil {
		err = fail("make workspace", h.Name, e)
	}
	s.o.step("begin: head written")
	if err == nil {
		if err = s.fill(ctx, h, layer); err == nil {
			s.o.step("begin: files there")
			err = s.commit(h, nil)
		}
	}
	if err != nil {
		return also(err, s.recover(h.Name))
	}
	return nil
}

// fill copies a layer to the empty workspace of h.
func (s *Store) fill(ctx context.Context, h *head, layer Layer) error {
	const op = "make workspace"
	dir := s.Path(h.Name)
	target := dir
	if !s.bounded(h.Name) {
		stage, done, err := s.scratch("workspace")
		if err != nil {
			return err
		}
		defer done()
		target = filepath.Join(stage, "fs")
		if err := os.Mkdir(target, 0o700); err != nil {
			return fail(op, h.Name, err)
		}
	}
	src, err := openFolder(s.layerFS(layer.ID))
	if err != nil {
		return fail(op, h.Name, err)
	}
	defer src.Close()
	dst, err := openFolder(target)
	if err != nil {
		return fail(op, h.Name, err)
	}
	defer dst.Close()
	c := &copier{src: src, dst: dst, name: h.Name, owner: swapOwners(layer.Owner, h.Owner), clone: h.Means == Reflink}
	made, err := c.run(ctx)
	if err != nil {
		return fail(op, h.Name, err)
	}
	if os.Geteuid() == 0 {
		if err := dst.Chown(h.Owner.UID, h.Owner.GID); err != nil {
			return fail(op, h.Name, err)
		}
	}
	if err := dst.Chmod(workspaceMode); err != nil {
		return fail(op, h.Name, err)
	}
	s.o.step("fill: files copied")
	if err := s.writeFiles(h, layer, dst, made.entries); err != nil {
		return fail(op, h.Name, err)
	}
	if target != dir {
		return fail(op, h.Name, unix.Rename(target, dir))
	}
	return nil
}

// emptyWorkspace removes the files of a workspace.
func (s *Store) emptyWorkspace(name string) error {
	const op = "undo workspace"
	dir := s.Path(name)
	if !s.bounded(name) {
		if _, err := os.Lstat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		// The folder is exchanged for an empty one that belongs to nobody
		// else, as it was before.
		if err := s.discard(dir); err != nil {
			return err
		}
		return nil
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fail(op, name, err)
	}
	defer root.Close()
	f, err := root.Open(".")
	if err != nil {
		return fail(op, name, err)
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	if err != nil {
		return fail(op, name, err)
	}
	for _, n := range names {
		if err := root.RemoveAll(n); err != nil {
			return fail(op, name, err)
		}
	}
	return nil
}
