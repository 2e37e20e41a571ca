package change

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

const opCompare = "compare trees"

// Bounds of a comparison.
const (
	maxEntries = 1_000_000 // names in a folder, and changes
	maxDepth   = 256       // folders below each other
)

// Options say what [Compare] looks at.
type Options struct {
	// Paths are the files and folders to compare, with what lies below them;
	// none means all. Of a file that was renamed from or to another place, the
	// other side is seen as removed or added.
	Paths []string
	// MaxFile is the length in bytes up to which the content of files is read,
	// 1 GiB if it is 0. A longer file counts as changed wherever its size or
	// identity differs, and its entry has Unread set.
	MaxFile int64
	// Unchanged reports that the file at path is known to be as in the base,
	// for example by a manifest with sizes, times and inodes. It may be nil.
	Unchanged func(path string, current Info) bool
	// NoRenames leaves removed and added files of the same or similar content
	// as they are.
	NoRenames bool
}

// Compare returns what differs in current from base, sorted by path. Times,
// owners, extended attributes and hard links are no differences. A folder that
// was added or removed has an entry of its own beside those of its content.
//
// Where the layers of base are the lower layers of current, Compare reads the
// layers above them and looks up in base what it finds there. Otherwise it
// reads both trees; a file with the same inode in both has not changed.
//
// Another process may write in current meanwhile: then Compare returns a mixture
// of states, and never an entry whose digest does not belong to content that
// was there.
func Compare(ctx context.Context, base, current *Tree, o Options) ([]Entry, error) {
	if o.MaxFile == 0 {
		o.MaxFile = 1 << 30
	}
	for _, p := range o.Paths {
		if err := checkPath(opCompare, p); err != nil {
			return nil, err
		}
	}
	c := comparer{ctx: ctx, o: o, base: base, current: current, buffer: make([]byte, 64<<10)}
	c.extra, c.layered = current.above(base)
	if err := c.folder(".", 0, base.root(), current.root()); err != nil {
		return nil, err
	}
	entries := c.entries
	if !o.NoRenames {
		var err error
		if entries, err = c.renames(entries); err != nil {
			return nil, err
		}
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	if err := findRisks(ctx, entries, base, current); err != nil {
		return nil, err
	}
	return entries, nil
}

// A comparer is one run of Compare.
type comparer struct {
	ctx           context.Context
	o             Options
	base, current *Tree
	layered       bool // the layers of base are the lower ones of current
	extra         int  // number of layers of current above them
	entries       []Entry
	buffer        []byte
}

// folder compares a folder, which one of the trees may not have (nil), and
// closes the nodes.
func (c *comparer) folder(rel string, depth int, base, current *node) error {
	defer base.close()
	defer current.close()
	if err := c.ctx.Err(); err != nil {
		return stopped(opCompare, err)
	}
	if depth > maxDepth {
		return tooMuch(rel, "folders are nested deeper than 256")
	}
	names, err := c.names(base, current)
	if errors.Is(err, errTooMany) {
		return tooMuch(rel, "there are more than a million names in it")
	}
	if err != nil {
		return failed(opCompare, rel, err)
	}
	for _, name := range names {
		if err := c.name(path.Join(rel, name), name, depth, base, current); err != nil {
			return failed(opCompare, path.Join(rel, name), err)
		}
	}
	return nil
}

// names returns the names that may differ.
func (c *comparer) names(base, current *node) ([]string, error) {
	set := map[string]bool{}
	limit := len(c.current.layers)
	whole := true // the names of base have to be read
	if base != nil && current != nil && c.layered && c.covers(base, current) {
		limit, whole = c.extra, false
	}
	if current != nil {
		if err := current.names(limit, set, maxEntries); err != nil {
			return nil, err
		}
	}
	if whole && base != nil {
		if err := base.names(len(c.base.layers), set, maxEntries); err != nil {
			return nil, err
		}
	}
	out := make([]string, 0, len(set))
	for name := range set {
		out = append(out, name)
	}
	slices.Sort(out)
	return out, nil
}

// covers reports whether all that base has in a folder is seen in current,
// unless a layer above has the name.
func (c *comparer) covers(base, current *node) bool {
	var lower []int
	for _, d := range current.dirs {
		if d.layer >= c.extra {
			lower = append(lower, d.layer-c.extra)
		}
	}
	return slices.EqualFunc(lower, base.dirs, func(layer int, d dirAt) bool { return layer == d.layer })
}

// name compares one name of a folder.
func (c *comparer) name(rel, name string, depth int, base, current *node) error {
	if !c.concerns(rel) {
		return nil
	}
	old, hasOld, err := c.side(base, name)
	if err != nil {
		return err
	}
	now, hasNow, err := c.side(current, name)
	if err != nil {
		return err
	}
	if !hasOld && !hasNow {
		return nil
	}
	same := hasOld && hasNow && old.Dev == now.Dev && old.Ino == now.Ino && old.Mode == now.Mode && old.Size == now.Size
	switch {
	case same && !now.Mode.IsDir():
		return nil
	case hasOld && hasNow && now.Mode.IsRegular() && old.Mode == now.Mode && c.o.Unchanged != nil && c.o.Unchanged(rel, now):
		return nil
	case len(rel) > maxPath:
		return tooMuch(rel, "its path is too long")
	}
	if err := c.compare(rel, name, old, now, hasOld, hasNow, base, current); err != nil {
		return err
	}
	return c.descend(rel, name, depth, hasOld && old.Mode.IsDir(), hasNow && now.Mode.IsDir(), base, current)
}

// descend compares what lies below a name.
func (c *comparer) descend(rel, name string, depth int, inOld, inNow bool, base, current *node) (err error) {
	var b, n *node
	if inOld {
		if b, err = base.child(name); err != nil {
			return err
		}
	}
	if inNow {
		if n, err = current.child(name); err != nil {
			b.close()
			if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrNotFolder) {
				return nil // it changes while it is read
			}
			return err
		}
	}
	if b == nil && n == nil {
		return nil
	}
	if b != nil && n != nil && c.layered && c.covers(b, n) && len(n.dirs) == len(b.dirs) {
		b.close()
		n.close()
		return nil // no layer above has the folder
	}
	return c.folder(rel, depth+1, b, n)
}

// side describes a name of a folder of one tree.
func (c *comparer) side(n *node, name string) (Info, bool, error) {
	if n == nil {
		return Info{}, false, nil
	}
	info, err := n.lookup(name)
	if errors.Is(err, fs.ErrNotExist) {
		return info, false, nil
	}
	return info, err == nil, err
}

// concerns reports whether rel is one of the paths to compare, or lies below or
// above one.
func (c *comparer) concerns(rel string) bool {
	return len(c.o.Paths) == 0 || slices.ContainsFunc(c.o.Paths, func(p string) bool { return within(rel, p) || within(p, rel) })
}

// selected reports whether rel is one of the paths to compare or lies below
// one.
func (c *comparer) selected(rel string) bool {
	return len(c.o.Paths) == 0 || slices.ContainsFunc(c.o.Paths, func(p string) bool { return within(rel, p) })
}

// within reports whether rel is the folder or lies below it.
func within(rel, folder string) bool {
	return folder == "." || rel == folder || strings.HasPrefix(rel, folder) && rel[len(folder)] == '/'
}

// compare adds the entry of one path if its two sides differ.
func (c *comparer) compare(rel, name string, old, now Info, hasOld, hasNow bool, base, current *node) error {
	if !c.selected(rel) {
		return nil
	}
	e := Entry{Path: rel}
	if hasOld {
		e.OldMode = old.Mode
		if err := c.read(&e, false, base, name, old); err != nil {
			return err
		}
		if hasOld = !e.vanished; !hasOld {
			e = Entry{Path: rel} // the base is a folder of the host, where it was removed
		}
	}
	if hasNow {
		e.Mode = now.Mode
		if err := c.read(&e, true, current, name, now); err != nil {
			return err
		}
		hasNow = !e.vanished
		e.shared = c.current.overlay && now.layer == 0 && now.Mode.IsRegular() && now.Links > 1
	}
	switch {
	case !hasOld && !hasNow:
		return nil
	case !hasOld:
		e.Kind = Added
	case !hasNow:
		e.Kind = Removed
	case e.Mode.Type() != e.OldMode.Type():
		e.Kind = Type
	case e.Digest != e.OldDigest || e.Link != e.OldLink || e.Unread && (e.Size != e.OldSize || old.Dev != now.Dev || old.Ino != now.Ino):
		e.Kind = Modified
	case e.Mode != e.OldMode && !(e.Mode.Type() == fs.ModeSymlink): // the permissions of a link have no meaning
		e.Kind = Mode
	default:
		return nil
	}
	if len(c.entries) >= maxEntries {
		return tooMuch(rel, "there are more than a million changes")
	}
	c.entries = append(c.entries, e)
	return nil
}

// read fills in one side of e. A path that is gone or has become something else
// since it was looked at counts as missing.
func (c *comparer) read(e *Entry, now bool, n *node, name string, info Info) error {
	size, link, digest, kind := &e.OldSize, &e.OldLink, &e.OldDigest, &e.OldType
	if now {
		size, link, digest, kind = &e.Size, &e.Link, &e.Digest, &e.Type
	}
	var err error
	switch {
	case info.Mode.Type() == fs.ModeSymlink:
		*link, err = n.readlink(name)
	case info.Mode.IsRegular():
		*size = info.Size
		var s sum
		if s, err = c.sum(n, name, info); err == nil {
			*size, *digest = s.size, s.digest
			e.Unread = e.Unread || s.unread
			if e.Binary = e.Binary || s.binary; s.binary {
				*kind = s.mime
			}
		}
	}
	if err != nil && (errors.Is(err, fs.ErrNotExist) || errors.Is(err, errIrregular) || errors.Is(err, fs.ErrInvalid)) {
		if e.vanished = true; now {
			e.Mode, e.Size, e.Digest, e.Link = 0, 0, "", ""
		}
		return nil
	}
	return err
}

// sum digests a file of a folder.
func (c *comparer) sum(n *node, name string, info Info) (sum, error) {
	if info.Size > c.o.MaxFile {
		return sum{size: info.Size, unread: true}, nil
	}
	f, info, err := n.open(name)
	if errors.Is(err, fs.ErrPermission) {
		return sum{size: info.Size, unread: true}, nil
	}
	if err != nil {
		return sum{}, err
	}
	defer f.Close()
	return digestOf(c.ctx, f, c.o.MaxFile, c.buffer)
}

// tooMuch is the error for a tree that is larger than the bounds.
func tooMuch(rel, why string) error {
	return &sandbox.Error{
		Code: sandbox.CodeCapabilityBlocked, Op: opCompare, Resource: rel, Message: Quote(rel) + " cannot be compared: " + why,
		Hint: "remove or move what is not needed, or name paths",
	}
}

// stopped is the error for a context that has ended.
func stopped(op string, err error) error {
	code := sandbox.CodeExecution
	if errors.Is(err, context.DeadlineExceeded) {
		code = sandbox.CodeTimeout
	}
	return &sandbox.Error{Code: code, Op: op, Message: "it was stopped before it was complete", Err: err, Retryable: true}
}
