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

// A walk is the state of one scan.
type walk struct {
	ctx     context.Context
	s       *Scanner
	begin   time.Time
	end     time.Time
	id      uint64
	roots   []string
	skip    map[string]bool   // folders that a walk from above does not enter
	sealed  map[string]bool   // those of skip that are denied for reading
	frozen  map[string]string // what is denied for writing only, and the rule
	met     map[string]bool   // those of frozen that a walk from above has reached
	opened  map[string]bool   // what stays open inside yielding denies
	denied  []plan.Deny
	devices map[uint64]device
	list    bool
	out     Result
	wanted  map[inode]*wanted
	relied  []relied
	open    folder
	buf     []byte // see names
}

// A folder is an open folder in which a walk looks up names. Its zero value is
// no folder.
type folder struct {
	path string
	fd   int
}

// folder returns a descriptor of the folder at p and caches it, because paths
// denied by path mostly lie side by side. The walk owns the descriptor; it is
// valid until the next call.
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

// names returns the buffer for the names that the kernel lists. A walk that
// finds everything unchanged needs none.
func (w *walk) names() []byte {
	if w.buf == nil {
		w.buf = make([]byte, bufSize)
	}
	return w.buf
}

// close closes the descriptors of the walk.
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

// all walks every root, then what is denied by path, and then finds aliases.
func (w *walk) all() error {
	for i, r := range w.roots {
		o, err := w.above(r)
		if err != nil {
			return err
		}
		if w.skip[r] || slices.ContainsFunc(w.roots[:i], func(o string) bool { return w.reaches(o, r) }) {
			continue // closed, not shown, or already visited
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

// reaches reports whether a walk from root reaches p.
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

// above reports a root, or a folder above it, that a glob matches, and returns
// what closes the root because of it.
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

// tree visits the folder at p and everything below it. A denied path may be a
// file: then tree only reads its link count.
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

// visit updates n to the folder name in the folder parent, and everything below
// it. An origin means that the folder is a denied one.
func (w *walk) visit(parent int, name, p string, n *node, o *origin, depth int) error {
	if err := w.within(p); err != nil {
		return err
	}
	if depth > maxDepth || len(p) > maxPath {
		if o != nil { // closing it leaves other names of denied files in it open
			return w.over(p, fmt.Sprintf("folders lie more than %d deep in one another", maxDepth))
		}
		return w.unreadable(p, n, o)
	}
	if n.trusted && n.shut == free && o == nil && len(n.subs) == 0 && len(n.hits) == 0 {
		var st unix.Stat_t
		if err := hostpath.Stat(parent, name, &st); err == nil && kindOf(uint32(st.Mode)) == unix.DT_DIR && identify(&st) == n.id {
			return w.take(-1, p, n, o, depth)
		}
	}
	// A folder to be listed is opened for listing at once. A folder that may
	// not be listed, or whose cached listing may be valid, is first opened for
	// stat.
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
		// The name "." requires search permission on the folder: the scan does
		// not read a folder that allows only listing.
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

// take reports the content of n and continues below it. It does not use the
// descriptor for a folder without subfolders and hits.
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

// within checks the bounds at the folder p.
func (w *walk) within(p string) error {
	if err := w.ctx.Err(); err != nil {
		return w.lost(p, err)
	}
	if time.Now().After(w.end) {
		return w.over(p, "looking through everything takes too long")
	}
	return nil
}

// unreadable records a folder that could not be read, or that lies too deep. A
// sealed folder is not recorded: the scan searches it only for links, and code
// in the sandbox cannot enter it either.
func (w *walk) unreadable(p string, n *node, o *origin) error {
	n.forget()
	if o.shut() == sealed {
		return nil
	}
	if err := w.room(p); err != nil {
		return err
	}
	w.out.Unreadable = append(w.out.Unreadable, p)
	return nil
}

// room checks that one more path can be closed.
func (w *walk) room(p string) error {
	if len(w.out.Hits)+len(w.out.Aliases)+len(w.out.Unreadable) >= w.s.limits.Hits {
		return w.over(p, fmt.Sprintf("more than %d files and folders must be closed", w.s.limits.Hits))
	}
	return nil
}

// over returns the error of a scan that has reached a bound at p. The message
// names the place relative to the root, because a tenant may read it; only the
// cause names the root's host path. No command in the sandbox can fix the
// problem, since no command runs before a scan has succeeded.
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

// where returns the root that p lies below, and p relative to it, cut to a
// length that is enough to find it.
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
