package checkpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/workspace"
	"github.com/klauspost/compress/zstd"
)

// CreateOptions say what a checkpoint keeps besides the workspace.
type CreateOptions struct {
	Name string // see [CheckLabel]; may be empty
	Auto bool

	// MaxBytes bounds what the checkpoint takes of the disk, beside
	// [Options].MaxBytes; 0 is no bound.
	MaxBytes int64

	// Busy says that commands run in the workspace or may hold files of it
	// open, so that its file system cannot be exchanged: what changed since the
	// last checkpoint is copied.
	Busy bool

	Target   string // path of the workspace in the sandbox; default sandbox.WorkspaceDir
	Sandbox  string
	Tenant   string
	Agent    string
	Session  string
	SpecHash string
	Image    string
	Shells   []sandbox.ShellState
	Running  []sandbox.RunningCommand
	Archives []Archive

	// Progress, if it is not nil, is called with how many entries and bytes of the
	// workspace were copied since the call before. Calls overlap.
	Progress func(entries, bytes int64)
}

// An Archive is a further folder that is kept as a tar file.
type Archive struct {
	Name   string // "home" and the like; see [CheckLabel]
	Target string // path in the sandbox
	Open   func(context.Context) (io.ReadCloser, error)
}

// Create makes a checkpoint of the workspace of that name.
//
// A Switch that is not nil says that another file system lies at the workspace
// now, and the checkpoint exists when Commit has returned. Otherwise it exists
// when Create returns, and the workspace is as it was.
//
// With overlay nothing is copied: what changed becomes a layer, and a new empty
// folder the upper one. A plain folder becomes the first layer. With other
// means, and where the workspace is busy, files are copied.
func (s *Store) Create(ctx context.Context, name string, o CreateOptions) (Record, *Switch, error) {
	if err := s.checkCreate(name, o); err != nil {
		return Record{}, nil, err
	}
	l, err := s.lock(ctx, name)
	if err != nil {
		return Record{}, nil, err
	}
	r, w, err := s.create(ctx, name, o)
	if w != nil {
		w.lock = l
		return r, w, nil
	}
	if e := l.Release(); err == nil {
		err = fail(opCreate, name, e)
	}
	if err != nil {
		// What was made for it is removed. An error of that is none of Create:
		// the next removal tries again.
		_ = s.sweep(context.WithoutCancel(ctx))
		return Record{}, nil, err
	}
	return r, nil, nil
}

const opCreate = "create checkpoint"

func (s *Store) checkCreate(name string, o CreateOptions) error {
	if err := statedir.CheckName(name); err != nil {
		return err
	}
	labels := []string{}
	if o.Name != "" {
		labels = append(labels, o.Name)
	}
	for _, a := range o.Archives {
		labels = append(labels, a.Name)
		if a.Name == WorkspaceTree {
			return invalid(opCreate, "archives", a.Name, "the workspace is no archive", "use another name")
		}
	}
	for _, l := range labels {
		if err := CheckLabel(l); err != nil {
			return err
		}
	}
	if fi, err := os.Lstat(s.Path(name)); errors.Is(err, fs.ErrNotExist) || err == nil && !fi.IsDir() {
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: opCreate, Resource: name, Message: "there is no workspace " + name, Err: fs.ErrNotExist}
	} else if err != nil {
		return fail(opCreate, name, err)
	}
	return nil
}

// create is Create for a caller that has the lock of the workspace.
func (s *Store) create(ctx context.Context, name string, o CreateOptions) (_ Record, _ *Switch, err error) {
	means, _, err := s.MeansOf(ctx, name) // which another Create can have settled before the lock was had
	if err != nil {
		return Record{}, nil, err
	}
	left, err := s.room(ctx, name, o)
	if err != nil {
		return Record{}, nil, err
	}
	c := &creation{s: s, left: left, name: name, progress: o.Progress}
	defer c.close()
	ctx, cancel := context.WithCancel(ctx)
	kept, err := c.archives(ctx, o.Archives)
	defer func() { cancel(); _, _ = kept() }()
	if err != nil {
		return Record{}, nil, err
	}
	h, ok, err := s.readHead(name)
	if err != nil {
		return Record{}, nil, err
	}
	freezes := ok && means == Overlay && !o.Busy
	var upper workspace.Usage
	if ok {
		if err := s.settleMounts(h); err != nil {
			return Record{}, nil, err
		}
		if _, err := s.note(ctx, h); err != nil {
			return Record{}, nil, err
		}
		c.h = h
	}
	if freezes {
		if upper, err = workspace.DiskUsage(ctx, s.layerFS(h.Upper)); err != nil {
			return Record{}, nil, err
		}
	}
	r := s.newRecord(name, means, c.h, o)
	c.r = &r
	trees, err := kept()
	if err != nil {
		return Record{}, nil, err
	}
	r.Trees = append(r.Trees, trees...)
	var w *Switch
	switch {
	case freezes:
		w, err = c.freeze(ctx, upper)
	case means == Overlay && !o.Busy:
		w, err = c.convert(ctx)
	case means == Overlay:
		err = c.copyDelta(ctx)
	default:
		err = c.copyTree(ctx, means)
	}
	return r, w, err
}

func (s *Store) newRecord(name string, means Means, h *head, o CreateOptions) Record {
	if o.Target == "" {
		o.Target = sandbox.WorkspaceDir
	}
	r := Record{
		ID: newID(), Name: o.Name, Workspace: name, Sandbox: o.Sandbox, Tenant: o.Tenant, Agent: o.Agent, Session: o.Session,
		CreatedAt: s.o.Now().UTC(), Auto: o.Auto, Busy: o.Busy, Means: means, UserXattr: inUserNamespace(),
		Trees:  []Tree{{Name: WorkspaceTree, Target: o.Target}},
		Shells: o.Shells, Running: o.Running, SpecHash: o.SpecHash, Image: o.Image,
	}
	if h != nil {
		r.Parent, r.UserXattr = h.Parent, h.UserXattr
		r.Trees[0].Base, r.Trees[0].BaseOwner, r.Trees[0].BaseLayer = h.Base, h.BaseOwner, h.BaseLayer
	}
	return r
}

// room returns how many bytes further layers may take, 0 for any number, or an
// error when there may be no further checkpoint.
func (s *Store) room(ctx context.Context, name string, o CreateOptions) (int64, error) {
	if o.Name == "" && s.o.MaxCheckpoints <= 0 && s.o.MaxBytes <= 0 {
		return 0, nil // a store of many checkpoints is not read for nothing
	}
	list, err := s.records()
	if err != nil {
		return 0, err
	}
	if s.o.MaxCheckpoints > 0 && len(list) >= s.o.MaxCheckpoints {
		return 0, &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: opCreate, Field: "checkpoint.maxCheckpoints", Resource: name,
			Message: fmt.Sprintf("there are %d checkpoints, as many as the setting allows", len(list)),
			Hint:    "remove some with: sandbox checkpoint rm, or raise the setting",
		}
	}
	if o.Name != "" && slices.ContainsFunc(list, func(r Record) bool { return r.Name == o.Name && r.Workspace == name && r.Tenant == o.Tenant }) {
		return 0, invalid(opCreate, "name", o.Name, fmt.Sprintf("there is a checkpoint called %q of this workspace", o.Name), "use another name, or remove it first")
	}
	if s.o.MaxBytes <= 0 {
		return o.MaxBytes, nil
	}
	used, err := s.used(ctx, list)
	if err != nil {
		return 0, err
	}
	if used >= s.o.MaxBytes {
		return 0, overQuota(name)
	}
	left := s.o.MaxBytes - used
	if o.MaxBytes > 0 {
		left = min(left, o.MaxBytes)
	}
	return left, nil
}

// A creation is one run of Create.
type creation struct {
	s      *Store
	name   string
	r      *Record
	h      *head  // the head now, nil for a plain folder without one
	left   int64  // bytes that the layers may take, 0 for any number
	bases  string // notes that the new head begins with a copy of, or empty for those it has
	staged []staged
	undo   []func()

	progress func(entries, bytes int64) // see [CreateOptions]
}

// A staged layer lies in the folder dir until a record or a head refers to it.
type staged struct{ dir, id string }

func (c *creation) close() {
	for _, f := range c.undo {
		f()
	}
}

// stage makes the folder of a new layer.
func (c *creation) stage() (staged, error) {
	dir, done, err := c.s.scratch("layer")
	if err != nil {
		return staged{}, err
	}
	c.undo = append(c.undo, done)
	st := staged{dir, newID()}
	c.staged = append(c.staged, st)
	return st, nil
}

// publish gives the staged layers their names and calls write, which refers to
// them.
func (c *creation) publish(ctx context.Context, write func() error) error {
	refs, err := c.s.lockRefs(ctx)
	if err != nil {
		return err
	}
	for _, st := range c.staged {
		if err = statedir.Unavailable("make layer", st.dir, os.Rename(st.dir, c.s.layerDir(st.id))); err != nil {
			break
		}
	}
	c.s.o.step("create: layers published")
	if t := &c.r.Trees; err == nil && len(*t) > 0 && (*t)[0].Base != "" && c.h != nil {
		(*t)[0].Bases, err = c.s.copyBases(c.h.Bases)
	}
	if err == nil {
		err = write()
	}
	if e := refs.Release(); err == nil {
		err = fail(opCreate, c.name, e)
	}
	return err
}

// archives begins to keep the further folders: commands pack them in the sandbox,
// while the caller looks at the workspace. The result, which is never nil, waits
// for the end of that; after it c.left is what the folders have left.
func (c *creation) archives(ctx context.Context, list []Archive) (func() ([]Tree, error), error) {
	var dirs []staged
	for range list {
		st, err := c.stage()
		if err != nil {
			return func() ([]Tree, error) { return nil, err }, err
		}
		dirs = append(dirs, st)
	}
	var (
		trees []Tree
		err   error
		left  = c.left
		done  = make(chan struct{})
	)
	go func() {
		defer close(done)
		for i, a := range list {
			if left, err = archive(ctx, a, filepath.Join(dirs[i].dir, archiveName), left); err != nil {
				err = fail(opCreate, a.Name, err)
				return
			}
			trees = append(trees, Tree{Name: a.Name, Target: a.Target, Archive: dirs[i].id})
		}
	}()
	return sync.OnceValues(func() ([]Tree, error) {
		<-done
		c.left = left
		for range trees {
			c.s.o.step("create: archive kept")
		}
		return trees, err
	}), nil
}

// archiveName is the file of a layer that is an archive.
const archiveName = "tar.zst"

func (s *Store) archivePath(id string) string { return filepath.Join(s.layerDir(id), archiveName) }

// archive writes the folder a to the file path, which takes at most left bytes, or
// any number if left is 0. It returns what is left of them.
func archive(ctx context.Context, a Archive, path string, left int64) (_ int64, err error) {
	in, err := a.Open(ctx)
	if err != nil {
		return left, err
	}
	defer in.Close()
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return left, err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	limited := &limitedWriter{w: f, left: left, err: overQuota(a.Name)}
	z, err := zstd.NewWriter(limited, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1))
	if err != nil {
		return left, err
	}
	if _, err := io.Copy(z, contextReader{ctx, in}); err != nil {
		return left, errors.Join(err, z.Close())
	}
	if err := z.Close(); err != nil {
		return left, err
	}
	if left > 0 {
		left = max(limited.left, 1)
	}
	fi, err := f.Stat()
	if err != nil {
		return left, err
	}
	return left, writeJSON(filepath.Join(filepath.Dir(path), "layer.json"), layerInfo{Files: 1, Bytes: fi.Size()})
}

// A limitedWriter fails with err after left bytes, unless left is 0 at first.
type limitedWriter struct {
	w    io.Writer
	left int64
	err  error
}

func (l *limitedWriter) Write(p []byte) (int, error) {
	if l.left == 0 {
		return l.w.Write(p)
	}
	if int64(len(p)) >= l.left {
		return 0, l.err
	}
	n, err := l.w.Write(p)
	l.left -= int64(n)
	return n, err
}

type contextReader struct {
	ctx context.Context
	r   io.Reader
}

func (c contextReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// rootOf returns the mode and the owner of the workspace's folder.
func (c *creation) rootOf() (fs.FileMode, workspace.Owner, error) {
	fi, err := os.Lstat(c.s.Path(c.name))
	if err != nil {
		return 0, workspace.Owner{}, fail(opCreate, c.name, err)
	}
	return fi.Mode().Perm() | fi.Mode()&fs.ModeSticky, ownerOf(fi), nil
}

// convert makes a plain folder the first layer of an overlay.
func (c *creation) convert(ctx context.Context) (*Switch, error) {
	s := c.s
	mode, owner, err := c.rootOf()
	if err != nil {
		return nil, err
	}
	if c.left > 0 {
		u, err := workspace.DiskUsage(ctx, s.Path(c.name))
		if err != nil {
			return nil, err
		}
		if u.Bytes > c.left {
			return nil, overQuota(c.name)
		}
	}
	layer := Layer{ID: newID(), Owner: owner}
	c.r.Trees[0].Layers = []Layer{layer}
	c.r.Files, c.r.Bytes = -1, -1 // measured when they are asked for
	return s.exchange(ctx, c, &head{
		Name: c.name, Means: Overlay, Owner: owner, Parent: c.r.ID, Layers: []Layer{layer}, Upper: newID(), UserXattr: inUserNamespace(),
		Pending: &pending{Op: "convert", Stage: layer.ID, Record: c.r.ID},
	}, mode)
}

// freeze makes the upper folder, which takes u, a layer.
func (c *creation) freeze(ctx context.Context, u workspace.Usage) (*Switch, error) {
	s, h := c.s, c.h
	mode, _, err := c.rootOf()
	if err != nil {
		return nil, err
	}
	if c.left > 0 && u.Bytes > c.left {
		return nil, overQuota(c.name)
	}
	c.r.Files, c.r.Bytes = u.Files, u.Bytes
	layers, err := c.squash(ctx, append([]Layer{{ID: h.Upper, Owner: h.Owner, Weight: 1}}, h.Layers...))
	if err != nil {
		return nil, err
	}
	c.r.Trees[0].Layers = layers
	next := *h
	next.Layers, next.Upper, next.Parent = layers, newID(), c.r.ID
	next.Pending = &pending{Op: "switch", Prev: h, Record: c.r.ID}
	return s.exchange(ctx, c, &next, mode)
}

// exchange writes the new head, which is pending, and mounts its overlay over
// what lies at the workspace. After an error everything is as it was.
func (s *Store) exchange(ctx context.Context, c *creation, next *head, mode fs.FileMode) (*Switch, error) {
	next.Stale = false
	err := c.publish(ctx, func() (err error) {
		if next.Pending.Record != "" {
			next.Pending.New = c.r
		}
		if c.bases != "" {
			if next.Bases, err = s.copyBases(c.bases); err != nil {
				return err
			}
		}
		if err := s.newUpper(next.Upper, mode, next.Owner); err != nil {
			return err
		}
		if next.Pending.Op == "convert" {
			if err := os.Mkdir(s.layerDir(next.Pending.Stage), 0o700); err != nil {
				return fail(opCreate, c.name, err)
			}
		}
		s.o.step("exchange: folders made")
		return s.writeHead(next)
	})
	if err != nil {
		return nil, err
	}
	s.o.step("exchange: head written")
	if err := s.mountOver(next); err != nil {
		return nil, also(err, s.recover(c.name))
	}
	s.o.step("exchange: mounted")
	return &Switch{s: s, h: next}, nil
}

// mountOver mounts the overlay of the pending head over the workspace.
func (s *Store) mountOver(h *head) error {
	dir := s.Path(h.Name)
	if h.Pending.Op == "convert" {
		if err := os.Rename(dir, s.layerFS(h.Pending.Stage)); err != nil {
			return fail(opCreate, h.Name, err)
		}
		s.o.step("exchange: folder moved")
		if err := os.Mkdir(dir, 0); err != nil {
			return fail(opCreate, h.Name, err)
		}
		s.o.step("exchange: mount point made")
	}
	m, err := s.mountHead(h)
	if err != nil {
		return s.mountError(h, err)
	}
	defer m.Close()
	return fail(opCreate, h.Name, attach(m, dir))
}

// copyDelta copies the upper folder of a workspace in use, or all of a plain
// one, to a layer.
func (c *creation) copyDelta(ctx context.Context) error {
	s := c.s
	_, owner, err := c.rootOf()
	if err != nil {
		return err
	}
	from, layer := s.Path(c.name), Layer{Owner: owner}
	cp := &copier{name: c.name, maxBytes: c.left, progress: c.progress}
	if c.h != nil {
		from = s.layerFS(c.h.Upper)
		layer.Owner, layer.Weight = c.h.Owner, 1
		cp.overlay = overlayPrefix(c.h.UserXattr)
	}
	st, err := c.stage()
	if err != nil {
		return err
	}
	layer.ID = st.id
	src, err := openFolder(from)
	if err != nil {
		return fail(opCreate, c.name, err)
	}
	defer src.Close()
	cp.src = src
	means := Copy
	if s.canReflink() {
		means = Reflink
	}
	done, err := s.copyLayer(ctx, cp, st.dir, means)
	if err != nil {
		return fail(opCreate, c.name, err)
	}
	s.o.step("create: files copied")
	c.report(done)
	layers := []Layer{layer}
	if c.h != nil {
		if layers, err = c.squashStaged(ctx, append(layers, c.h.Layers...)); err != nil {
			return err
		}
	}
	c.r.Trees[0].Layers = layers
	return c.complete(ctx, nil, func() error { return nil })
}

func (c *creation) report(done copied) {
	c.r.Files, c.r.Bytes, c.r.LeftOut = int64(len(done.entries)), done.bytes, done.leftOut
}

// complete publishes the layers and writes the record, then calls after. The
// head next, unless it is nil, is pending before and complete afterwards.
func (c *creation) complete(ctx context.Context, next *head, after func() error) error {
	s := c.s
	err := c.publish(ctx, func() error {
		if next != nil {
			next.Pending = &pending{Op: "record", Prev: c.h, Record: c.r.ID}
			if err := s.writeHead(next); err != nil {
				return err
			}
			s.o.step("create: head written")
		}
		if err := writeJSON(s.recordPath(c.r.ID), c.r); err != nil {
			return err
		}
		s.o.step("create: record written")
		return after()
	})
	if err == nil && next != nil {
		err = s.commit(next, nil)
	}
	if err != nil {
		return also(err, s.recover(c.name))
	}
	s.o.step("create: complete")
	return nil
}

// copyTree makes a layer that is a full tree. Files that did not change since
// the last one are hard links to it.
func (c *creation) copyTree(ctx context.Context, means Means) error {
	s := c.s
	_, owner, err := c.rootOf()
	if err != nil {
		return err
	}
	st, err := c.stage()
	if err != nil {
		return err
	}
	src, err := openFolder(s.Path(c.name))
	if err != nil {
		return fail(opCreate, c.name, err)
	}
	defer src.Close()
	cp := &copier{src: src, name: c.name, maxBytes: c.left, progress: c.progress}
	prev, done, err := s.unchangedFiles(c.name, cp)
	if err != nil {
		return err
	}
	defer done()
	cp.prev = prev
	begun := s.o.Now()
	made, err := s.copyLayer(ctx, cp, st.dir, means)
	if err != nil {
		return fail(opCreate, c.name, err)
	}
	s.o.step("create: files copied")
	c.report(made)
	layer := Layer{ID: st.id, Owner: owner}
	c.r.Trees[0].Layers = []Layer{layer}
	next := head{Name: c.name, Means: means, Owner: owner}
	if c.h != nil {
		next = *c.h
	}
	next.Parent, next.Layers = c.r.ID, []Layer{layer}
	if next.Reason == "" {
		_, next.Reason, _ = s.MeansOf(ctx, c.name)
	}
	return c.complete(ctx, &next, func() error {
		distrust(made.entries, begun)
		if err := writeManifest(s.filesPath(c.name), layer.ID, made.entries); err != nil {
			return fail(opCreate, c.name, err)
		}
		s.o.step("create: files listed")
		return nil
	})
}
