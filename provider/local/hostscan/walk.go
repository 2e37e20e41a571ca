package hostscan

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"golang.org/x/sys/unix"
)

// A walk is one scan.
type walk struct {
	ctx     context.Context
	s       *Scanner
	begin   time.Time
	end     time.Time
	id      uint64
	roots   []string
	skip    map[string]bool   // folders that are not looked into from above
	sealed  map[string]bool   // those of them that are denied for reading
	frozen  map[string]string // what is denied for writing alone, and the rule
	met     map[string]bool   // what of that a walk from above has come by
	opened  map[string]bool   // what stays open inside what yields
	denied  []plan.Deny
	devices map[uint64]device
	list    bool
	out     Result
	wanted  map[inode]*wanted
	relied  []relied
	open    folder
	buf     []byte // see names
}

// A folder is one that a walk has open, to look at names in it. Its zero value
// is none.
type folder struct {
	path string
	fd   int
}

// folder opens the folder at p, or has it open: what is denied by path mostly
// lies side by side. The descriptor is the walk's, and good until the next
// call.
func (w *walk) folder(p string) (fd int, err error) {
	if w.open.path == p {
		return w.open.fd, nil
	}
	w.close()
	if fd, err = hostpath.Folder(p, hostpath.PathOnly); err == nil {
		w.open = folder{p, fd}
	}
	return fd, err
}

// names is room for the names that the kernel lists. A walk that finds all as it
// was needs none.
func (w *walk) names() []byte {
	if w.buf == nil {
		w.buf = make([]byte, bufSize)
	}
	return w.buf
}

// close closes what the walk has open.
func (w *walk) close() {
	if w.open.path != "" {
		unix.Close(w.open.fd)
	}
	w.open = folder{}
}

func newWalk(ctx context.Context, s *Scanner, q Request) *walk {
	w := &walk{
		ctx: ctx, s: s, begin: time.Now(), denied: slices.Clone(q.Denied),
		skip: map[string]bool{}, sealed: map[string]bool{}, frozen: map[string]string{}, met: map[string]bool{}, opened: map[string]bool{},
		list: q.List, devices: map[uint64]device{}, wanted: map[inode]*wanted{},
	}
	w.end = w.begin.Add(s.limits.Time)
	w.id = uint64(w.begin.UnixNano())
	w.deny(q)
	for _, r := range q.Roots {
		w.roots = append(w.roots, path.Clean(r))
	}
	slices.Sort(w.roots)
	w.roots = slices.Compact(w.roots)
	return w
}

// all looks at every root, then at what is denied by path, then for aliases.
func (w *walk) all() error {
	for i, r := range w.roots {
		o, err := w.above(r)
		if err != nil {
			return err
		}
		if w.skip[r] || slices.ContainsFunc(w.roots[:i], func(o string) bool { return w.reaches(o, r) }) {
			continue // closed, not shown, or looked at already
		}
		if err := w.tree(r, w.meet(r, o)); err != nil {
			return err
		}
	}
	for i := 0; i < len(w.denied); i++ { // hits that are links add to it
		d := w.denied[i]
		if !d.Read && w.met[d.Path] {
			continue
		}
		if err := w.tree(d.Path, &origin{path: d.Path, rule: d.Rule, read: d.Read, yields: d.Yields}); err != nil {
			return err
		}
	}
	for p, n := range w.s.trees {
		if n.scan != w.id {
			delete(w.s.trees, p)
		}
	}
	return w.aliases()
}

// reaches reports whether a walk from root comes by p.
func (w *walk) reaches(root, p string) bool {
	if !strings.HasPrefix(p, strings.TrimSuffix(root, "/")+"/") {
		return false
	}
	for ; p != root; p = path.Dir(p) {
		if w.skip[p] {
			return false
		}
	}
	return true
}

// above reports a root, or a folder that it lies in, that a glob matches, and
// returns what that closes the root by.
func (w *walk) above(root string) (o *origin, err error) {
	for p := root; p != "/"; p = path.Dir(p) {
		glob, read := w.s.match.matches(path.Dir(p), []byte(path.Base(p)), true, false)
		if glob < 0 {
			continue
		}
		fd, err := hostpath.Folder(path.Dir(p), hostpath.PathOnly)
		if hostpath.Gone(err) {
			continue
		}
		if err != nil {
			return nil, w.lost(p, err)
		}
		before := len(w.out.Hits)
		err = w.hit(fd, path.Dir(p), match{path.Base(p), glob, read, false})
		unix.Close(fd)
		if err != nil {
			return nil, err
		}
		for _, h := range w.out.Hits[before:] {
			if h.Kind == plan.Dir && (o == nil || h.Read && !o.read) && !(h.Yields && w.openedBelow(root, p)) {
				o = &origin{path: p, rule: h.Rule, read: h.Read, search: !h.Read, yields: h.Yields}
			}
		}
	}
	return o, nil
}

// tree visits the folder at p and everything below it. A denied path may be
// a file: then it is only asked for the number of its names.
func (w *walk) tree(p string, o *origin) error {
	dir, name := path.Split(p)
	if name == "" {
		name = "."
	}
	fd, err := w.folder(dir)
	if err != nil {
		if hostpath.Gone(err) || o.shut() == sealed && closedTo(err) {
			return nil
		}
		return w.lost(p, err)
	}
	if o != nil {
		var st unix.Stat_t
		if err := hostpath.Stat(fd, name, &st); err != nil || kindOf(uint32(st.Mode)) == unix.DT_REG {
			if err == nil {
				w.want(&st, origin{path: p, rule: o.rule, read: o.read})
			}
			return nil
		}
	}
	key := p
	if o.shut() == sealed {
		key += "\x00"
	}
	n := w.s.trees[key]
	if n == nil {
		n = &node{}
		w.s.trees[key] = n
	}
	return w.visit(fd, name, p, n, o, 0)
}

// visit brings n up to date with the folder name in the folder parent, and
// all that lies below it. An origin means that the folder is a denied one.
func (w *walk) visit(parent int, name, p string, n *node, o *origin, depth int) error {
	if err := w.within(p, depth); err != nil {
		return err
	}
	if n.trusted && n.shut == free && o == nil && len(n.subs) == 0 && len(n.hits) == 0 {
		var st unix.Stat_t
		if err := hostpath.Stat(parent, name, &st); err == nil && kindOf(uint32(st.Mode)) == unix.DT_DIR && identify(&st) == n.id {
			return w.take(-1, p, n, o, depth)
		}
	}
	// A folder that is to be listed is opened for that at once. One that may not
	// be, or whose listing may still count, is opened to look at it first.
	how, readable := hostpath.PathOnly, false
	if !n.trusted || n.shut != o.shut() {
		how, readable = unix.O_RDONLY, true
	}
	fd, err := hostpath.At(parent, name, how)
	if readable && err != nil && closedTo(err) {
		readable = false
		fd, err = hostpath.At(parent, name, hostpath.PathOnly)
	}
	switch {
	case err == nil:
	case hostpath.Gone(err):
		n.forget()
		return nil
	case closedTo(err):
		return w.unreadable(p, n, o)
	default:
		return w.lost(p, err)
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if readable {
		// By the name ".", which takes the permission to look at names in the
		// folder: one that only lists its names is not read.
		err = hostpath.Stat(fd, ".", &st)
		readable = err == nil
	}
	if !readable {
		err = hostpath.Retry(func() error { return unix.Fstat(fd, &st) })
	}
	if err != nil {
		return w.lost(p, err)
	}
	if !n.trusted || n.shut != o.shut() || identify(&st) != n.id {
		if stop, err := w.read(fd, readable, &st, p, n, o); stop || err != nil {
			return err
		}
	}
	return w.take(fd, p, n, o, depth)
}

// take reports what n holds and goes on below it. The descriptor is not
// needed for a folder without folders and hits.
func (w *walk) take(fd int, p string, n *node, o *origin, depth int) error {
	n.scan = w.id
	if w.list {
		w.out.Folders = append(w.out.Folders, p)
	}
	if w.out.Entries += n.count; w.out.Entries > w.s.limits.Entries {
		return w.over(p, tooMany(w.s.limits.Entries))
	}
	if o != nil {
		if err := w.links(fd, p, n, *o); err != nil {
			return err
		}
	}
	for _, s := range n.sockets {
		w.out.Sockets = append(w.out.Sockets, join(p, s))
	}
	for _, f := range n.found {
		w.out.Found = append(w.out.Found, join(p, f))
	}
	for _, m := range n.hits {
		if err := w.hit(fd, p, m); err != nil {
			return err
		}
	}
	for _, s := range n.subs {
		at := join(p, s.name)
		if w.skip[at] {
			continue
		}
		if err := w.visit(fd, s.name, at, s.node, w.below(at, n, s, o), depth+1); err != nil {
			return err
		}
	}
	return nil
}

// within holds the bounds at the folder p.
func (w *walk) within(p string, depth int) error {
	if err := w.ctx.Err(); err != nil {
		return w.lost(p, err)
	}
	if depth > maxDepth {
		return w.over(p, fmt.Sprintf("folders lie more than %d deep in one another", maxDepth))
	}
	if time.Now().After(w.end) {
		return w.over(p, "looking through everything takes too long")
	}
	return nil
}

// unreadable notes a folder that could not be looked into. In a sealed one
// nothing had to be found but links, and whoever cannot get in here cannot
// get in through the wall.
func (w *walk) unreadable(p string, n *node, o *origin) error {
	n.forget()
	if o.shut() != sealed {
		w.out.Unreadable = append(w.out.Unreadable, p)
	}
	return nil
}

// over is the error of a scan that has met its bound at p. Tenants are told where
// below its root that is, and not what the host calls the root: that is in the
// cause. No command can put it right, since none runs before a scan that ends
// well.
func (w *walk) over(p, why string) error {
	root, at := w.where(p)
	if at != "" {
		why += ", at " + `"` + at + `"`
	}
	return failed(sandbox.CodeCapabilityBlocked, at, "the globs of filesystem.denyRead and denyWrite cannot be held: "+why,
		"allow a narrower folder in filesystem.allowRead or allowWrite, or remove from it what is not needed: on the host; "+
			"or give the sandbox up with its workspace (DELETE /v1/sandboxes/NAME?workspace=true of a daemon)", errors.New("in "+termsafe.Line(root)))
}

func tooMany(most int) string { return fmt.Sprintf("there are more than %d files and folders", most) }

// maxWhere bounds the path in a message, in bytes.
const maxWhere = 120

// where returns the root that p lies below, and where below it, by as much of the
// path as is enough to find it.
func (w *walk) where(p string) (root, at string) {
	for _, r := range w.roots {
		if rest, ok := strings.CutPrefix(p, strings.TrimSuffix(r, "/")+"/"); ok {
			if len(rest) > maxWhere {
				rest = strings.ToValidUTF8(rest[:maxWhere], "") + "…"
			}
			return r, termsafe.Line(rest)
		}
	}
	return p, ""
}

func (w *walk) lost(p string, cause error) error {
	return failed(sandbox.CodeUnavailable, p, p+" cannot be looked through for denied files", "", cause)
}

func join(dir, name string) string {
	if dir == "/" {
		return "/" + name
	}
	return dir + "/" + name
}
