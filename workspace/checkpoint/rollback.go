package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

const opRollback = "roll back workspace"

// Rollback makes the workspace of that name what the checkpoint ref keeps. What
// changed since its last checkpoint is lost. No command may run in the
// workspace meanwhile.
//
// [Head].Restore names the checkpoint then, until the caller has put its archives in
// place and calls [Store.Restored].
//
// With overlay another file system lies at the workspace then, and the rollback
// is done when Commit of the Switch has returned. With other means the files
// that differ are put in place one by one, and there is no Switch; what the
// checkpoint left out, as pipes and sockets, stays.
func (s *Store) Rollback(ctx context.Context, name, ref string) (Record, *Switch, error) {
	l, err := s.lock(ctx, name)
	if err != nil {
		return Record{}, nil, err
	}
	r, w, err := s.rollback(ctx, name, ref)
	if w != nil {
		w.lock = l
		return r, w, nil
	}
	if e := l.Release(); err == nil {
		err = fail(opRollback, name, e)
	}
	return r, nil, err
}

// rollback is Rollback for a caller that has the lock of the workspace.
func (s *Store) rollback(ctx context.Context, name, ref string) (Record, *Switch, error) {
	means, reason, err := s.MeansOf(ctx, name)
	if err != nil {
		return Record{}, nil, err
	}
	r, err := s.find(ref, nil)
	if err != nil {
		return Record{}, nil, err
	}
	t, ok := r.tree(WorkspaceTree)
	if !ok || len(t.Layers) == 0 {
		return Record{}, nil, sandbox.Errorf(sandbox.CodeUnavailable, opRollback, "the checkpoint %s has no workspace", r.ID)
	}
	h, ok, err := s.readHead(name)
	if err != nil {
		return Record{}, nil, err
	}
	c := &creation{s: s, name: name, r: &Record{}}
	defer c.close()
	mode, owner, err := c.rootOf()
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: opRollback, Resource: name, Message: "there is no workspace " + name, Err: err}
	}
	if err != nil {
		return Record{}, nil, err
	}
	next := &head{Name: name, Means: means, Reason: reason, Owner: owner, UserXattr: r.UserXattr}
	if ok {
		if err := s.settleMounts(h); err != nil {
			return Record{}, nil, err
		}
		next.Means, next.Reason, next.Owner = h.Means, h.Reason, h.Owner
	}
	if ok && h.Base != t.Base || !ok && t.Base != "" {
		return Record{}, nil, invalid(opRollback, "checkpoint", r.ID, "the checkpoint is one of a private view of another folder", "fork it instead")
	}
	next.Parent, next.Layers, next.Restore = r.ID, t.Layers, r.toRestore()
	next.Base, next.BaseOwner, next.BaseLayer = t.Base, t.BaseOwner, t.BaseLayer
	if next.Means != Overlay {
		return r, nil, s.restore(ctx, next, r, t)
	}
	next.Upper = newID()
	next.Pending = &pending{Op: "convert", Stage: newID()}
	if ok {
		next.Pending = &pending{Op: "switch", Prev: h}
	}
	c.bases = t.Bases
	w, err := s.exchange(ctx, c, next, mode)
	if err != nil {
		return Record{}, nil, err
	}
	w.sweep = true
	return r, w, nil
}

// restoreDir is where files wait for their place in a workspace that is a file
// system of its own.
const restoreDir = ".sandbox-restore-"

// restore puts the files of a checkpoint in place where they differ. All that
// has to be copied is copied first; then the head says what is to be done, and
// a process that is killed while it does so leaves the rest to the next one.
func (s *Store) restore(ctx context.Context, next *head, r Record, t Tree) error {
	c := &creation{s: s, name: next.Name, r: &Record{}}
	defer c.close()
	layer := t.Layers[0]
	from := s.layerDir(layer.ID)
	if len(t.Layers) > 1 || layer.Weight > 0 {
		st, err := c.stage()
		if err != nil {
			return err
		}
		layer, from = Layer{ID: st.id, Owner: next.Owner}, st.dir
		if err := s.flatten(ctx, r, t, st.dir, next.Owner); err != nil {
			return fail(opRollback, next.Name, err)
		}
	}
	next.Layers = []Layer{layer}
	if err := c.planRestore(ctx, next, layer, from); err != nil {
		return err
	}
	if err := s.redoRestore(next); err != nil {
		return err
	}
	return s.sweep(ctx)
}

// planRestore copies what differs from the layer in the folder from, and writes
// the plan and the pending head.
func (c *creation) planRestore(ctx context.Context, next *head, layer Layer, from string) (err error) {
	s, name := c.s, next.Name
	st, err := c.stage()
	if err != nil {
		return err
	}
	tree, note := filepath.Join(st.dir, "fs"), ""
	if s.bounded(name) {
		tree, note = filepath.Join(s.Path(name), restoreDir+st.id), "inside"
		defer func() {
			if err != nil {
				_ = os.RemoveAll(tree)
			}
		}()
	}
	if err := os.Mkdir(tree, 0o700); err != nil {
		return fail(opRollback, name, err)
	}
	plan, skip, err := s.compare(name, layer, from)
	if err != nil {
		return fail(opRollback, name, err)
	}
	src, err := openFolder(filepath.Join(from, "fs"))
	if err != nil {
		return fail(opRollback, name, err)
	}
	defer src.Close()
	dst, err := openFolder(tree)
	if err != nil {
		return fail(opRollback, name, err)
	}
	defer dst.Close()
	cp := &copier{src: src, dst: dst, name: name, owner: swapOwners(layer.Owner, next.Owner), clone: next.Means == Reflink, skip: skip}
	if _, err := cp.run(ctx); err != nil {
		return fail(opRollback, name, err)
	}
	s.o.step("restore: files copied")
	if err := writeManifest(filepath.Join(st.dir, "plan"), note, plan); err != nil {
		return fail(opRollback, name, err)
	}
	next.Pending = &pending{Op: "restore", Stage: st.id}
	err = c.publish(ctx, func() error { return s.writeHead(next) })
	if err != nil {
		return err
	}
	s.o.step("restore: head written")
	return nil
}

// typeRemove marks entries of a plan that have to go.
const typeRemove = 'r'

// compare returns the entries of the layer preceded by what has to be removed
// from the workspace, and which files of the layer the workspace has already.
func (s *Store) compare(name string, layer Layer, folder string) (plan []Entry, skip func(string) bool, err error) {
	wanted := map[string]Entry{}
	linked := map[string]bool{}
	_, ok, err := readManifest(filepath.Join(folder, "manifest"), func(e Entry) {
		wanted[e.Path] = e
		if e.Type == typeFile && e.Link != "" {
			linked[e.Path], linked[e.Link] = true, true
		}
	})
	if err != nil {
		return nil, nil, err
	}
	if !ok {
		if wanted, err = listLayer(folder); err != nil {
			return nil, nil, err
		}
	}
	known := map[string]Entry{}
	from, _, err := readManifest(s.filesPath(name), func(e Entry) { known[e.Path] = e })
	if err != nil {
		known = nil // then all files are put in place
	}
	root, err := openFolder(s.Path(name))
	if err != nil {
		return nil, nil, err
	}
	defer root.Close()
	have := map[string]bool{}
	err = walkTree(root, func(rel string, st *unix.Stat_t) (bool, error) {
		w, ok := wanted[rel]
		kind := kindOf(st)
		switch {
		case ok && w.Type == typeLeftOut:
			return false, nil
		case !ok && kind == 0:
			return false, nil // a pipe or a socket of later
		case !ok || w.Type != kind:
			plan = append(plan, Entry{Path: rel, Type: typeRemove})
			return false, nil
		}
		if k, ok := known[rel]; ok && kind == typeFile && !linked[rel] && k.unchanged(st) && s.sameFile(from, layer.ID, rel) {
			have[rel] = true
		}
		return true, nil
	})
	if err != nil {
		return nil, nil, err
	}
	paths := make([]string, 0, len(wanted))
	for p := range wanted {
		paths = append(paths, p)
	}
	slices.Sort(paths)
	for _, p := range paths {
		if wanted[p].Type != typeLeftOut {
			plan = append(plan, wanted[p])
		}
	}
	return plan, func(rel string) bool { return have[rel] }, nil
}

// sameFile reports whether two layers have the same file at rel.
func (s *Store) sameFile(a, b, rel string) bool {
	if a == b {
		return true
	}
	if !checkID(a) || !checkID(b) {
		return false
	}
	x, err := os.Lstat(filepath.Join(s.layerFS(a), rel))
	if err != nil {
		return false
	}
	y, err := os.Lstat(filepath.Join(s.layerFS(b), rel))
	return err == nil && os.SameFile(x, y)
}

func kindOf(st *unix.Stat_t) byte {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return typeDir
	case unix.S_IFREG:
		return typeFile
	case unix.S_IFLNK:
		return typeLink
	}
	return 0
}

// listLayer lists the files of a layer that has no manifest: a folder that
// became one.
func listLayer(folder string) (map[string]Entry, error) {
	root, err := openFolder(filepath.Join(folder, "fs"))
	if err != nil {
		return nil, err
	}
	defer root.Close()
	list := map[string]Entry{}
	var st unix.Stat_t
	if err := unix.Fstat(int(root.Fd()), &st); err != nil {
		return nil, err
	}
	list["."] = entryOf(".", typeDir, &st)
	return list, walkTree(root, func(rel string, st *unix.Stat_t) (bool, error) {
		if kind := kindOf(st); kind != 0 {
			list[rel] = entryOf(rel, kind, st)
		}
		return true, nil
	})
}

// redoRestore puts in place what the plan of the pending head says. It may have
// been done in part before.
func (s *Store) redoRestore(h *head) error {
	dir := s.layerDir(h.Pending.Stage)
	var plan []Entry
	note, ok, err := readManifest(filepath.Join(dir, "plan"), func(e Entry) { plan = append(plan, e) })
	if err == nil && !ok {
		err = errors.New("the plan of the rollback is gone")
	}
	if err != nil {
		return fail(opRollback, h.Name, err)
	}
	tree := filepath.Join(dir, "fs")
	if note == "inside" {
		if !s.bounded(h.Name) {
			return &sandbox.Error{
				Code: sandbox.CodeUnavailable, Op: opRollback, Resource: h.Name, Message: "the file system of the workspace is not mounted",
				Hint: "start the sandbox, which mounts it", Retryable: true,
			}
		}
		tree = filepath.Join(s.Path(h.Name), restoreDir+h.Pending.Stage)
	}
	root, err := openFolder(s.Path(h.Name))
	if err != nil {
		return fail(opRollback, h.Name, err)
	}
	defer root.Close()
	if staged, err := openFolder(tree); err == nil {
		err = s.place(h, root, staged, plan)
		staged.Close()
		if err != nil {
			return fail(opRollback, h.Name, err)
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return fail(opRollback, h.Name, err)
	}
	s.o.step("restore: files in place")
	var files []Entry
	for _, e := range plan {
		if e.Type != typeRemove {
			files = append(files, e)
		}
	}
	if err := s.writeFiles(h, h.Layers[0], root, files); err != nil {
		return fail(opRollback, h.Name, err)
	}
	s.o.step("restore: files listed")
	if note == "inside" {
		if err := removeBeneath(root, restoreDir+h.Pending.Stage); err != nil {
			return fail(opRollback, h.Name, err)
		}
	}
	return s.commit(h, nil)
}

// place carries out a plan: removals, then folders, files and links, then the
// attributes of folders.
func (s *Store) place(h *head, root, staged *os.File, plan []Entry) error {
	owner := swapOwners(h.Layers[0].Owner, h.Owner)
	for _, e := range plan {
		if e.Type != typeRemove || e.Path == restoreDir+h.Pending.Stage {
			continue
		}
		if err := removeBeneath(root, e.Path); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
	}
	s.o.step("restore: files removed")
	for i, e := range plan {
		var err error
		switch {
		case e.Type == typeDir && e.Path != ".":
			err = mkdirBeneath(root, e.Path)
		case e.Type == typeFile || e.Type == typeLink:
			err = renameBeneath(staged, root, e.Path)
		}
		if err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
		if i == len(plan)/2 {
			s.o.step("restore: half of the files in place")
		}
	}
	for _, e := range slices.Backward(plan) {
		if e.Type != typeDir {
			continue
		}
		c := &copier{dst: root, owner: owner}
		if e.Path == "." {
			// The workspace's own folder has the mode and the owner of one.
			o := h.Owner
			e.UID, e.GID, e.Mode = o.UID, o.GID, workspaceMode
			c.owner = func(o workspace.Owner) workspace.Owner { return o }
		}
		if err := c.finishFolder(e); err != nil {
			return fmt.Errorf("%q: %w", e.Path, err)
		}
	}
	return nil
}

func mkdirBeneath(root *os.File, rel string) error {
	dir, err := openBeneath(root, path.Dir(rel))
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	if err := unix.Mkdirat(dir, path.Base(rel), 0o700); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	// An ordinary user has to be able to write to it.
	if os.Geteuid() != 0 {
		return unix.Fchmodat(dir, path.Base(rel), 0o700, 0)
	}
	return nil
}

// renameBeneath moves the file rel below one folder to the same name below
// another. One that is not there was moved before.
func renameBeneath(from, to *os.File, rel string) error {
	src, err := openBeneath(from, path.Dir(rel))
	if err != nil {
		if errors.Is(err, unix.ENOENT) {
			return nil
		}
		return err
	}
	defer unix.Close(src)
	dst, err := openBeneath(to, path.Dir(rel))
	if err != nil {
		return err
	}
	defer unix.Close(dst)
	err = unix.Renameat(src, path.Base(rel), dst, path.Base(rel))
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}

// removeBeneath removes rel below root with all it holds, and follows no link.
func removeBeneath(root *os.File, rel string) error {
	dir, err := openBeneath(root, path.Dir(rel))
	if err != nil {
		if errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) {
			return nil
		}
		return err
	}
	defer unix.Close(dir)
	if os.Geteuid() != 0 {
		// The plan of the rollback gives the folder its mode back.
		if err := unix.Fchmod(dir, 0o700); err != nil {
			return err
		}
	}
	return removeAt(dir, path.Base(rel), 0)
}

func removeAt(dir int, name string, depth int) error {
	err := unix.Unlinkat(dir, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	fd, e := open(dir, name, folderFlags, 0)
	if errors.Is(e, unix.EACCES) && unix.Fchmodat(dir, name, 0o700, 0) == nil {
		fd, e = open(dir, name, folderFlags, 0)
	}
	if e != nil {
		return errors.Join(err, e)
	}
	if depth > maxDepth {
		unix.Close(fd)
		return tooLarge(name, fmt.Sprintf("its folders are nested deeper than %d", maxDepth))
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	if os.Geteuid() != 0 {
		_ = unix.Fchmod(fd, 0o700)
	}
	names, err := f.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, n := range names {
		if err := removeAt(fd, n, depth+1); err != nil {
			return err
		}
	}
	if err := unix.Unlinkat(dir, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return err
	}
	return nil
}

// walkTree calls fn for everything below root, parents first, and goes into
// the folders for which it returns true. It follows no link.
func walkTree(root *os.File, fn func(rel string, st *unix.Stat_t) (bool, error)) error {
	left := maxEntries
	for stack := []string{"."}; len(stack) > 0; {
		rel := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		fd, err := openBeneath(root, rel)
		if err != nil {
			if rel != "." && vanished(err) {
				continue
			}
			return err
		}
		f := os.NewFile(uintptr(fd), rel)
		names, err := f.Readdirnames(-1)
		for _, name := range names {
			var st unix.Stat_t
			if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			if left--; left < 0 {
				err = tooLarge("the workspace", fmt.Sprintf("it holds more than %d entries", maxEntries))
				break
			}
			var enter bool
			if enter, err = fn(path.Join(rel, name), &st); err != nil {
				break
			}
			if enter && kindOf(&st) == typeDir {
				stack = append(stack, path.Join(rel, name))
			}
		}
		f.Close()
		if err != nil && !vanished(err) {
			return err
		}
	}
	return nil
}

// Layers are folders that show one another's files, the topmost first.
type Layers struct {
	Folders     []string // the last one may be a host folder
	Base        string   // that host folder, or empty
	XattrPrefix string   // of overlayfs's extended attributes in them
}

// Tree returns the layers of the workspace of the checkpoint ref. One folder
// alone is a full tree.
func (s *Store) Tree(ref string) (Layers, error) {
	r, err := s.find(ref, nil)
	if err != nil {
		return Layers{}, err
	}
	t, ok := r.tree(WorkspaceTree)
	if !ok {
		return Layers{}, sandbox.Errorf(sandbox.CodeUnavailable, "find checkpoint", "the checkpoint %s has no workspace", r.ID)
	}
	l := Layers{XattrPrefix: overlayPrefix(r.UserXattr)}
	for _, layer := range t.Layers {
		l.Folders = append(l.Folders, s.layerFS(layer.ID))
	}
	if t.overBase() {
		l.Base = t.Base
		l.Folders = append(l.Folders, t.Base)
	}
	return l, nil
}

// overBase reports whether the layers of the tree show a host folder.
func (t Tree) overBase() bool { return t.Base != "" && t.BaseLayer == "" }

// view opens what the layers of a tree show together, as files of the owner o.
func (s *Store) view(r Record, t Tree, o workspace.Owner) (*os.File, workspace.Owner, error) {
	if len(t.Layers) == 1 && !t.overBase() {
		f, err := openFolder(s.layerFS(t.Layers[0].ID))
		return f, t.Layers[0].Owner, err
	}
	spare, done, err := s.scratch("view")
	if err != nil {
		return nil, o, err
	}
	defer done()
	m := overlay{spare: spare, source: "checkpoint-view", userxattr: r.UserXattr}
	for _, l := range t.Layers {
		m.lowers = append(m.lowers, lower{path: s.layerFS(l.ID), from: l.Owner, to: o})
	}
	if t.overBase() {
		m.lowers = append(m.lowers, lower{path: t.Base, from: t.BaseOwner, to: o})
	}
	f, err := m.mount()
	if err != nil {
		return nil, o, &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "read checkpoint", Resource: r.ID, Err: err,
			Message: "the layers of the checkpoint cannot be put together without an overlay", Hint: "run as root on Linux 6.7 or later",
		}
	}
	defer f.Close()
	// The descriptor of the mount only names it.
	fd, err := unix.Openat(int(f.Fd()), ".", folderFlags, 0)
	if err != nil {
		return nil, o, err
	}
	return os.NewFile(uintptr(fd), r.ID), o, nil
}

// flatten copies what a tree shows to a full layer in the folder stage.
func (s *Store) flatten(ctx context.Context, r Record, t Tree, stage string, o workspace.Owner) error {
	src, from, err := s.view(r, t, o)
	if err != nil {
		return err
	}
	defer src.Close()
	means := Copy
	if s.canReflink() {
		means = Reflink
	}
	_, err = s.copyLayer(ctx, &copier{src: src, name: r.ID, owner: swapOwners(from, o)}, stage, means)
	return err
}
