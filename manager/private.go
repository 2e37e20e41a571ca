package manager

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/workspace"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// viewOf returns the mount of the private view of s, if it has one.
func viewOf(s sandbox.Spec) (sandbox.Mount, bool) {
	for _, m := range s.Mounts {
		if m.Base != "" {
			return m, true
		}
	}
	return sandbox.Mount{}, false
}

// sameView reports whether a sandbox of have has the private view that want asks
// for, if it asks for one.
func sameView(want, have sandbox.Spec) bool {
	v, ok := viewOf(want)
	h, _ := viewOf(have)
	return !ok || v.Source == h.Source && v.Base == h.Base
}

// prepareView makes the private view that the sandbox of s mounts, or mounts the
// one that is there. A view of another folder, or of another owner, gives way
// where nothing was changed in it; else it is kept, and the call is refused.
func (b *builder) prepareView(ctx context.Context, w *want, s sandbox.Spec, m sandbox.Mount) error {
	if w.quota > 0 {
		return errUnbounded(s.Name)
	}
	store, err := b.m.checkpoints.store(filepath.Dir(m.Source), w.res.Checkpoint.Means)
	if err != nil {
		return err
	}
	name, own := filepath.Base(m.Source), workspace.Owner{UID: s.UID, GID: s.GID}
	h, ok, err := store.Head(name)
	if err != nil {
		return err
	}
	if ok && (h.Base != m.Base || h.Owner != own) {
		if err := store.Ensure(ctx, name); err != nil {
			return err
		}
		n, err := unapplied(ctx, h)
		if err != nil {
			return err
		}
		if n > 0 {
			what := "of " + h.Base
			if h.Base == m.Base {
				what += fmt.Sprintf(" for uid %d, and the folder's owner has changed", h.Owner.UID)
			}
			return &sandbox.Error{
				Code: sandbox.CodeBusy, Op: "make private workspace", Field: "workspaceAccess", Resource: s.Name,
				Message: fmt.Sprintf("the session has a private view %s with %s", what, changesText(n)),
				Hint:    "apply or discard them, use another --session, or remove the sandbox with its workspace",
			}
		}
		if err := store.Drop(ctx, name); err != nil {
			return err
		}
	}
	return store.Private(ctx, name, m.Base, own)
}

// errUnbounded refuses a private view where the settings want a bounded workspace:
// the layers of all views share one file system, so none can be given its own part.
func errUnbounded(name string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "make private workspace", Field: "workspaceQuota", Resource: name,
		Message: "no quota bounds what is written to a private view", Hint: "set workspaceQuota to 0 for the agent, or leave workspaceAccess private out",
	}
}

// noteShare is how many times as long as the last note of a view took no other one
// is taken, so that commands in a view with very many changes are not slowed by it.
const noteShare = 10

// noteLimit bounds one note.
const noteLimit = 30 * time.Second

// A noted says when the changes of a view were noted last, and how long it took.
type noted struct {
	at   time.Time
	took time.Duration
}

// noteView keeps how the files that were changed in the private view of l are in
// the folder now, as what a later merge begins with. A failure is logged: the
// command has run, and its result stands.
func (b *builder) noteView(ctx context.Context, l *acquired) {
	m, ok := viewOf(l.spec)
	if !ok {
		return
	}
	start := b.m.now()
	if last, ok := b.m.describer.notes.Load(m.Source); ok && start.Sub(last.(noted).at) < noteShare*last.(noted).took {
		return
	}
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), noteLimit)
	defer done()
	store, err := b.m.checkpoints.store(filepath.Dir(m.Source), config.MeansAuto)
	if err == nil {
		_, err = store.Note(ctx, filepath.Base(m.Source))
	}
	if err != nil {
		b.m.log.WithError(err).WithField("sandbox", l.name()).Warn("cannot note what was changed in the private view")
	}
	end := b.m.now()
	b.m.describer.notes.Store(m.Source, noted{end, end.Sub(start)})
}

// changesText is a number of unapplied changes for people.
func changesText(n int) string {
	if n == 1 {
		return "1 unapplied change"
	}
	return fmt.Sprintf("%d unapplied changes", n)
}

// dropView removes the private view of the sandbox that is known on the host by
// that name, and what was changed in it. It returns what was lost, for people, or
// "". The sandbox is gone.
func (u *pruner) dropView(ctx context.Context, root, hostIdentity string) (lost string, err error) {
	store, err := u.m.checkpoints.store(root, config.MeansAuto)
	if err != nil {
		return "", err
	}
	name := hardening.PrivateName(hostIdentity)
	h, ok, err := store.Head(name)
	if err != nil || !ok || h.Base == "" {
		return "", err
	}
	lost = lostText(ctx, h)
	if err := store.Drop(ctx, name); err != nil {
		return "", err
	}
	// With an overlay an empty folder is left, else the copy.
	if err := removeView(root, name); err != nil {
		return "", err
	}
	if lost != "" {
		u.m.log.WithField("sandbox", hostIdentity).Warn("the private view was removed with " + lost)
	}
	return lost, nil
}

// wouldLose returns what [pruner.dropView] would.
func (u *pruner) wouldLose(ctx context.Context, root, hostIdentity string) string {
	store, err := u.m.checkpoints.store(root, config.MeansAuto)
	if err != nil {
		return ""
	}
	h, ok, err := store.Head(hardening.PrivateName(hostIdentity))
	if err != nil || !ok || h.Base == "" {
		return ""
	}
	return lostText(ctx, h)
}

// lostText says how many changes go with the view of h, or "" where none does.
func lostText(ctx context.Context, h checkpoint.Head) string {
	n, err := unapplied(ctx, h)
	switch {
	case err != nil:
		return fmt.Sprintf("unapplied changes to %s whose number is not known: %v", h.Base, err)
	case n > 0:
		return changesText(n) + " to " + h.Base
	}
	return ""
}

// removeView removes what is left at the place of a private view.
func removeView(root, name string) error {
	r, err := os.OpenRoot(root)
	if err != nil {
		return err
	}
	defer r.Close()
	if fi, err := r.Lstat(name); err == nil && fi.IsDir() && fi.Mode().Perm()&0o700 != 0o700 {
		if err := r.Chmod(name, 0o700); err != nil {
			return err
		}
	}
	if err := r.RemoveAll(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "remove workspace", Resource: filepath.Join(root, name), Message: "the private view cannot be removed", Err: err}
	}
	return nil
}

// unapplied returns how many files, links and folders differ between the
// workspace of h and what it was made from. A file that was opened for writing
// counts where its content was not compared.
func unapplied(ctx context.Context, h checkpoint.Head) (int, error) {
	upper, err := os.OpenRoot(h.Upper)
	if err != nil {
		return 0, err
	}
	defer upper.Close()
	c := counter{ctx: ctx, head: h, upper: upper}
	for _, l := range h.Layers {
		lower, err := os.OpenRoot(l)
		if err != nil {
			return 0, err
		}
		defer lower.Close()
		c.lowers = append(c.lowers, lower)
	}
	if h.Means == checkpoint.Overlay {
		err = c.overlay(".")
		return c.n, err
	}
	if base, err := os.OpenRoot(h.Base); err == nil { // a folder that has gone has nothing that was applied
		defer base.Close()
		c.base = base
	}
	if err = c.differing("."); err == nil {
		err = c.missing(".")
	}
	return c.n, err
}

// A counter counts changes. It follows no link: what lies in a workspace was made
// by code inside.
type counter struct {
	ctx    context.Context
	head   checkpoint.Head
	upper  *os.Root
	lowers []*os.Root // the topmost first
	base   *os.Root   // of a copy: the folder of the host, which has what was applied; or nil
	n      int
}

// below returns the entries of a folder of r, and false where it is none.
func below(r *os.Root, dir string) ([]fs.DirEntry, bool, error) {
	f, err := r.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	defer f.Close()
	list, err := f.ReadDir(-1)
	return list, true, err
}

// lower returns what the layers show at p, or nil.
func (c *counter) lower(p string) fs.FileInfo {
	for _, r := range c.lowers {
		if fi, err := r.Lstat(p); err == nil {
			return fi
		}
	}
	return nil
}

// overlay counts what the upper folder of an overlay has in dir: each file, link
// and whiteout is a change, and so is a folder that is new, that hides the one
// below it, or that has other permissions.
func (c *counter) overlay(dir string) error {
	list, _, err := below(c.upper, dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		p := path.Join(dir, e.Name())
		if !e.IsDir() {
			c.n++
			continue
		}
		fi, err := e.Info()
		if err != nil {
			return err
		}
		was := c.lower(p)
		if was == nil || !was.IsDir() || was.Mode() != fi.Mode() || opaque(c.upper, p, c.head.XattrPrefix) {
			c.n++
		}
		if err := c.overlay(p); err != nil {
			return err
		}
	}
	return nil
}

// opaque reports whether the folder p of an upper folder hides those below it.
func opaque(r *os.Root, p, prefix string) bool {
	f, err := r.OpenFile(p, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return true
	}
	defer f.Close()
	value := make([]byte, 4)
	n, err := unix.Fgetxattr(int(f.Fd()), prefix+"opaque", value)
	return err == nil && n > 0 && value[0] == 'y'
}

// differing counts what a copy has in dir that its layer has not, or has
// otherwise.
func (c *counter) differing(dir string) error {
	list, _, err := below(c.upper, dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := c.ctx.Err(); err != nil {
			return err
		}
		p := path.Join(dir, e.Name())
		fi, err := e.Info()
		if err != nil {
			return err
		}
		same, err := c.same(c.lowers[0], p, fi)
		if err == nil && !same && c.base != nil {
			same, err = c.same(c.base, p, fi)
		}
		if err != nil {
			return err
		}
		if !same {
			c.n++
		}
		if e.IsDir() {
			if err := c.differing(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// missing counts what the layer of a copy has in dir and the copy has not.
func (c *counter) missing(dir string) error {
	list, _, err := below(c.lowers[0], dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		p := path.Join(dir, e.Name())
		if _, err := c.upper.Lstat(p); errors.Is(err, fs.ErrNotExist) {
			if c.base != nil {
				_, err = c.base.Lstat(p)
			}
			if c.base == nil || !errors.Is(err, fs.ErrNotExist) {
				c.n++
			}
			continue
		}
		if e.IsDir() {
			if err := c.missing(p); err != nil {
				return err
			}
		}
	}
	return nil
}

// same reports whether r, the layer of a copy or the folder of the host, has at p what
// the copy has.
func (c *counter) same(r *os.Root, p string, fi fs.FileInfo) (bool, error) {
	was, err := r.Lstat(p)
	if err != nil || was.Mode() != fi.Mode() {
		return false, nil //nolint:nilerr // nothing is there
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0:
		a, err := c.upper.Readlink(p)
		if err != nil {
			return false, err
		}
		b, err := r.Readlink(p)
		return a == b, err
	case !fi.Mode().IsRegular():
		return true, nil
	case was.Size() != fi.Size():
		return false, nil
	}
	return c.equal(r, p)
}

// equal compares the content of a regular file with that in r.
func (c *counter) equal(r *os.Root, p string) (bool, error) {
	var files [2]*os.File
	for i, r := range []*os.Root{c.upper, r} {
		f, err := r.OpenFile(p, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
		if err != nil {
			return false, err
		}
		defer f.Close()
		files[i] = f
	}
	a, b := make([]byte, 256<<10), make([]byte, 256<<10)
	for {
		n, err := io.ReadFull(files[0], a)
		m, err2 := io.ReadFull(files[1], b)
		switch {
		case n != m || !bytes.Equal(a[:n], b[:m]):
			return false, nil
		case err == nil && err2 == nil:
		case (errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)) && (errors.Is(err2, io.EOF) || errors.Is(err2, io.ErrUnexpectedEOF)):
			return true, nil
		default:
			return false, errors.Join(err, err2)
		}
	}
}

// A ViewPlan says what a private workspace is.
type ViewPlan struct {
	Base    string           `json:"base"`             // the folder that is seen
	Means   checkpoint.Means `json:"means"`            // by what it is seen
	Reason  string           `json:"reason,omitempty"` // why by no better means
	Upper   string           `json:"upper,omitempty"`  // where changes are kept; empty while there is no view
	Mapped  bool             `json:"mapped,omitempty"` // files of the folder's owner appear as the sandbox's
	Problem string           `json:"problem,omitempty"`
}

// explainView says what the private view of s is, or would be, where the settings
// bound a workspace to so many bytes.
func (x *explainer) explainView(ctx context.Context, s sandbox.Spec, m sandbox.Mount, quota int64) *ViewPlan {
	v := &ViewPlan{Base: m.Base}
	store, err := x.m.checkpoints.store(filepath.Dir(m.Source), config.MeansAuto)
	if err == nil {
		name := filepath.Base(m.Source)
		if v.Means, v.Reason, err = store.MeansOf(ctx, name); err == nil {
			var h checkpoint.Head
			var ok bool
			if h, ok, err = store.Head(name); ok && h.Base == m.Base {
				v.Upper = h.Upper
			}
		}
	}
	if err == nil && quota > 0 {
		err = errUnbounded(s.Name)
	}
	if err != nil {
		v.Problem = err.Error()
	}
	var st unix.Stat_t
	if unix.Stat(m.Base, &st) == nil {
		v.Mapped = int(st.Uid) != s.UID
	}
	return v
}

// Text describes v for people.
func (v *ViewPlan) Text(place string) string {
	text := "private view of " + v.Base + " by " + string(v.Means)
	if v.Reason != "" {
		text += " (" + v.Reason + ")"
	}
	if v.Mapped {
		text += ", with the files of its owner as the sandbox's"
	}
	where := v.Upper
	if where == "" {
		where = filepath.Join(filepath.Dir(place), ".layers")
	}
	text += "; changes are kept in " + where + " and shown at " + place
	if v.Problem != "" {
		text += "; problem: " + v.Problem
	}
	return text
}

// viewNames returns the names of the private views below root, with the names of
// their sandboxes on the host. It leaves out those of the greatest length, which
// may be cut: they say not whose they are.
func viewNames(root string) (map[string]string, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	out := map[string]string{}
	suffix := strings.TrimPrefix(hardening.PrivateName("x"), "x")
	for _, e := range entries {
		if identity, ok := strings.CutSuffix(e.Name(), suffix); ok && identity != "" && len(e.Name()) < hardening.MaxViewName {
			out[e.Name()] = identity
		}
	}
	return out, nil
}
