package checkpoint

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// A Head is what a workspace is made of now.
type Head struct {
	Name   string
	Means  Means
	Reason string          // why the means are no better ones
	Base   string          // host folder that the workspace is a private view of, or empty
	Owner  workspace.Owner // of the workspace's files
	Parent string          // id of the checkpoint that the workspace was at last, or empty

	// Layers are the folders below the upper one, the topmost first. With
	// [Overlay] they include Base as the last one. With the other means there
	// is one: a full tree of the state that the workspace began with, or had at
	// its last checkpoint.
	Layers []string
	// Upper has what changed since the layers. With [Overlay] it is the upper
	// folder, in which overlayfs keeps whiteouts and opaque folders; with the
	// other means it is the workspace itself.
	Upper string
	// Origin is, with other means than [Overlay], the copy of Base as it was when
	// the view was made.
	Origin string
	// XattrPrefix begins the names of overlayfs's extended attributes in Upper
	// and Layers ("trusted.overlay.").
	XattrPrefix string
	// Stale says that a sandbox may have another file system mounted than the one
	// that lies at the workspace; see [Store.Mount].
	Stale bool
	// Restore is the id of a checkpoint whose archives have yet to be put in place,
	// or empty; see [Store.Restored].
	Restore string
	// Unfinished says that an operation was interrupted, which the next one, or
	// [Store.Stale], completes or undoes.
	Unfinished bool
}

// A head is a Head as it is kept.
type head struct {
	Name      string          `json:"name"`
	Means     Means           `json:"means"`
	Reason    string          `json:"reason,omitempty"`
	Base      string          `json:"base,omitempty"`
	BaseOwner workspace.Owner `json:"baseOwner,omitzero"`
	BaseLayer string          `json:"baseLayer,omitempty"` // copy of Base as it was, where the means are not overlay
	Bases     string          `json:"bases,omitempty"`     // notes about Base; see [Store.Note]
	Owner     workspace.Owner `json:"owner"`
	Parent    string          `json:"parent,omitempty"`
	Layers    []Layer         `json:"layers"` // the topmost first; without Base
	Upper     string          `json:"upper,omitempty"`
	UserXattr bool            `json:"userXattr,omitempty"`
	Restore   string          `json:"restore,omitempty"` // see Head
	Changed   bool            `json:"changed,omitempty"` // Base is written to, and the overlay has not been renewed since; see BaseChanges
	Stale     bool            `json:"stale,omitempty"`   // see Head; of a pending head: it may be the one that the sandbox has
	Pending   *pending        `json:"pending,omitempty"`
}

// A pending is an operation that is not complete. Its head is already the new
// one.
type pending struct {
	Op     string  `json:"op"`               // "begin", "convert", "switch", "record" or "restore"
	Prev   *head   `json:"prev,omitempty"`   // the head before; nil for a plain folder or none
	Record string  `json:"record,omitempty"` // the operation is complete when this record exists
	New    *Record `json:"new,omitempty"`    // that record, of a pending "convert" or "switch"
	Stage  string  `json:"stage,omitempty"`  // "convert": the layer that the folder becomes; "restore": what has to be put in place
}

// refer adds the layers that h needs to refs.
func (h *head) refer(refs map[string]bool) {
	for _, l := range h.Layers {
		refs[l.ID] = true
	}
	for _, id := range []string{h.Upper, h.BaseLayer, h.Bases} {
		if id != "" {
			refs[id] = true
		}
	}
	if p := h.Pending; p != nil {
		if p.Stage != "" {
			refs[p.Stage] = true
		}
		if p.Prev != nil {
			p.Prev.refer(refs)
		}
		if p.New != nil {
			p.New.refer(refs)
		}
	}
}

func (s *Store) headPath(name string) string { return s.path("heads", name+".json") }

func (s *Store) readHead(name string) (*head, bool, error) {
	var h head
	ok, err := readJSON(s.headPath(name), &h)
	return &h, ok, err
}

func (s *Store) writeHead(h *head) error { return replaceJSON(s.headPath(h.Name), h) }

func (s *Store) removeHead(name string) error {
	if err := os.Remove(s.headPath(name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return statedir.Unavailable("write checkpoints", s.headPath(name), err)
	}
	_ = os.Remove(s.filesPath(name)) // without a head nothing reads it
	return nil
}

// heads reads all heads.
func (s *Store) heads() ([]*head, error) {
	entries, err := os.ReadDir(s.path("heads"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, statedir.Unavailable("read checkpoints", s.path("heads"), err)
	}
	var list []*head
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".json")
		if !ok || statedir.CheckName(name) != nil {
			continue
		}
		h, ok, err := s.readHead(name)
		if err != nil {
			return nil, err
		}
		if ok {
			list = append(list, h)
		}
	}
	return list, nil
}

// Head returns what the workspace of that name is made of. ok is false for a
// plain folder.
func (s *Store) Head(name string) (h Head, ok bool, err error) {
	if err := statedir.CheckName(name); err != nil {
		return Head{}, false, err
	}
	kept, ok, err := s.readHead(name)
	if err != nil || !ok {
		return Head{}, false, err
	}
	return s.public(kept), true, nil
}

func (s *Store) public(h *head) Head {
	out := Head{
		Name: h.Name, Means: h.Means, Reason: h.Reason, Base: h.Base, Owner: h.Owner, Parent: h.Parent,
		Upper: s.Path(h.Name), XattrPrefix: overlayPrefix(h.UserXattr), Stale: h.Stale, Restore: h.Restore, Unfinished: h.Pending != nil || h.Changed,
	}
	for _, l := range h.Layers {
		out.Layers = append(out.Layers, s.layerFS(l.ID))
	}
	if h.BaseLayer != "" {
		out.Origin = s.layerFS(h.BaseLayer)
	}
	if h.Means == Overlay {
		out.Upper = s.layerFS(h.Upper)
		if h.Base != "" {
			out.Layers = append(out.Layers, h.Base)
		}
	}
	return out
}

// source is what the table of mounts shows for the overlay of an upper layer.
func source(upper string) string { return "checkpoint-" + upper }

// mountHead returns a detached mount of the overlay of h.
func (s *Store) mountHead(h *head) (*os.File, error) {
	o := overlay{upper: s.layerFS(h.Upper), work: s.layerWork(h.Upper), spare: s.layerDir(h.Upper), source: source(h.Upper), userxattr: h.UserXattr}
	for _, l := range h.Layers {
		o.lowers = append(o.lowers, lower{path: s.layerFS(l.ID), from: l.Owner, to: h.Owner})
	}
	if h.Base != "" {
		o.lowers = append(o.lowers, lower{path: h.Base, from: h.BaseOwner, to: h.Owner})
	}
	return o.mount()
}

// settleMounts makes the overlay of h the only mount at the workspace, and does
// nothing for other means.
func (s *Store) settleMounts(h *head) error {
	const op = opMount
	dir := s.Path(h.Name)
	if h.Means != Overlay {
		return nil
	}
	if err := os.Mkdir(dir, 0); err != nil && !errors.Is(err, fs.ErrExist) {
		return fail(op, h.Name, err)
	}
	list, err := mountsAt(dir)
	if err != nil {
		return fail(op, h.Name, err)
	}
	want := source(h.Upper)
	if len(list) == 1 && list[0].source == want {
		return nil
	}
	for _, m := range list {
		if !strings.HasPrefix(m.source, source("")) {
			return fail(op, h.Name, errors.New("another file system is mounted there: "+m.fsType+" of "+m.source))
		}
	}
	// The mount that is wanted is kept with its file system, so that what a
	// sandbox has mounted stays the same one.
	var mnt *os.File
	for i := len(list) - 1; i >= 0; i-- {
		if list[i].source == want && mnt == nil {
			if mnt, err = cloneMount(dir); err != nil {
				return fail(op, h.Name, err)
			}
			defer mnt.Close()
		}
		release := s.holdMount(dir)
		defer release()
		if i == 0 && list[0].source != want && mnt != nil && attachBeneath(mnt, dir) == nil {
			// The path shows a workspace at any time.
			return fail(op, h.Name, detach(dir))
		}
		if err := detach(dir); err != nil {
			return fail(op, h.Name, err)
		}
	}
	if err := s.barFolder(h, dir); err != nil {
		return err
	}
	if mnt == nil {
		if mnt, err = s.mountHead(h); err != nil {
			return s.mountError(h, err)
		}
		defer mnt.Close()
	}
	return fail(op, h.Name, attach(mnt, dir))
}

// holdMount keeps the file system that path shows. release gives it up in the
// background: when an overlay is used no more, the kernel writes all that waits
// to be written to the file system of its upper folder.
func (s *Store) holdMount(path string) (release func()) {
	fd, err := unix.Open(path, pathOnly|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return func() {}
	}
	return func() {
		s.later(func() { unix.Close(fd) }) //nolint:errcheck // of a descriptor that was only held
	}
}

// barFolder makes sure that nothing can be written to the folder under the
// mount, so that a sandbox that would see it can write nowhere. It refuses to
// hide files.
func (s *Store) barFolder(h *head, dir string) error {
	f, err := openFolder(dir)
	if err != nil {
		return fail(opMount, h.Name, err)
	}
	defer f.Close()
	if names, _ := f.Readdirnames(1); len(names) > 0 {
		return &sandbox.Error{
			Code: sandbox.CodeBusy, Op: opMount, Resource: dir,
			Message: dir + " holds files that the mount of the workspace would hide",
			Hint:    "move them away and try again",
		}
	}
	if os.Geteuid() == 0 {
		if err := f.Chown(0, 0); err != nil {
			return fail(opMount, h.Name, err)
		}
	}
	return fail(opMount, h.Name, f.Chmod(0))
}

// mountError says why the overlay of h cannot be mounted.
func (s *Store) mountError(h *head, err error) error {
	var known *sandbox.Error
	if errors.As(err, &known) {
		return err
	}
	e := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: opMount, Resource: h.Name, Err: err,
		Message: "the overlay of " + s.Path(h.Name) + " cannot be mounted",
		Hint:    "run as root on Linux 6.7 or later",
	}
	if h.Base != "" {
		if fi, e2 := os.Stat(h.Base); e2 != nil || !fi.IsDir() {
			e.Hint = "the workspace is a private view of " + h.Base + ": put that folder back, or remove the sandbox"
		}
	}
	return e
}

// Ensure makes the workspace of that name be there: it settles what a killed
// process has left, and mounts the overlay again after a restart of the
// machine. For a plain folder it does nothing. A sandbox that sees the
// workspace is started after it.
func (s *Store) Ensure(ctx context.Context, name string) error {
	if err := statedir.CheckName(name); err != nil {
		return err
	}
	if _, ok, err := s.readHead(name); err != nil || !ok {
		return err
	}
	l, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer l.Release()
	h, ok, err := s.readHead(name)
	if err != nil || !ok {
		return err
	}
	return s.settleMounts(h)
}

// Drop forgets the workspace of that name: its overlay is unmounted, and the
// layers that no checkpoint needs are removed. Checkpoints stay. What is left
// is an empty folder, or the workspace itself where it is a plain folder.
func (s *Store) Drop(ctx context.Context, name string) error {
	if err := statedir.CheckName(name); err != nil {
		return err
	}
	if _, err := os.Lstat(s.headPath(name)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	l, err := s.lock(ctx, name)
	if err != nil {
		return err
	}
	defer l.Release()
	h, ok, err := s.readHead(name)
	if err != nil || !ok {
		return err
	}
	if h.Means == Overlay {
		if err := s.unmountAll(name); err != nil {
			return err
		}
		s.o.step("drop: unmounted")
	}
	if err := s.removeHead(name); err != nil {
		return err
	}
	s.o.step("drop: head removed")
	return s.sweep(ctx)
}

// filesPath is the list of the files of a workspace that equal those of its
// layer; see manifest.go.
func (s *Store) filesPath(name string) string { return s.path("heads", name+".files") }

// unmountAll unmounts what this package has mounted at a workspace.
func (s *Store) unmountAll(name string) error {
	dir := s.Path(name)
	for {
		list, err := mountsAt(dir)
		if err != nil {
			return fail("unmount workspace", name, err)
		}
		if len(list) == 0 || !strings.HasPrefix(list[len(list)-1].source, source("")) {
			return nil
		}
		if err := detach(dir); err != nil {
			return fail("unmount workspace", name, err)
		}
	}
}

// below reports whether path is dir or lies below it.
func below(path, dir string) bool {
	rel, err := filepath.Rel(dir, path)
	return err == nil && rel != ".." && !strings.HasPrefix(rel, "../")
}
