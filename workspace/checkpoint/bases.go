package checkpoint

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// Bounds of what is kept of the host folder of a private workspace.
const (
	maxBaseFile   = 1 << 20 // bytes of a file whose content is kept
	maxBaseTotal  = 1 << 30 // bytes of all contents
	maxBaseHidden = 100_000 // files below folders that the workspace removed or replaced
)

// Types of an [Entry] of the bases beside those of a manifest.
const (
	typeAbsent  = 'a' // the base had nothing there
	typeSpecial = 's' // a pipe, a socket or a device
	typeUnknown = 'u' // the base changed after the workspace did, so how it was is not known
)

// Note keeps, for each file of the private workspace of that name that changed
// since the last call, how it was in the base: its identity, and the content of
// a regular file of at most 1 MiB. It is called after each command, so that a
// later merge has the version that the workspace's file began with. For other
// workspaces it does nothing. Note returns how many files were added.
func (s *Store) Note(ctx context.Context, name string) (int, error) {
	if h, ok, err := s.readHead(name); err != nil || !ok || h.Base == "" {
		return 0, err
	}
	l, err := s.lock(ctx, name)
	if err != nil {
		return 0, err
	}
	defer l.Release()
	h, ok, err := s.readHead(name)
	if err != nil || !ok {
		return 0, err
	}
	return s.note(ctx, h)
}

func (s *Store) note(ctx context.Context, h *head) (int, error) {
	if h.Base == "" || h.Means != Overlay {
		return 0, nil
	}
	const op = "note base files"
	dir := s.basesDir(h.Bases)
	if err := os.MkdirAll(filepath.Join(dir, "content"), 0o700); err != nil {
		return 0, statedir.Unavailable(op, dir, err)
	}
	n := &noter{ctx: ctx, dir: dir, opaque: opaqueName(h.UserXattr), known: map[string]bool{}, buf: make([]byte, maxXattrs)}
	_, _, err := readManifest(filepath.Join(dir, "index"), func(e Entry) {
		n.known[e.Path] = true
		n.entries = append(n.entries, e)
		if e.Type == typeFile && e.Digest != "" {
			n.total += e.Size
		}
	})
	if err != nil {
		return 0, statedir.Unavailable(op, dir, err)
	}
	before := len(n.entries)
	if n.upper, err = openFolder(s.layerFS(h.Upper)); err != nil {
		return 0, fail(op, h.Name, err)
	}
	defer n.upper.Close()
	if n.base, err = openFolder(h.Base); err != nil {
		return 0, fail(op, h.Base, err)
	}
	defer n.base.Close()
	if err := n.run(); err != nil {
		return 0, fail(op, h.Name, err)
	}
	if len(n.entries) == before {
		return 0, nil
	}
	slices.SortFunc(n.entries, func(a, b Entry) int { return compareStrings(a.Path, b.Path) })
	if err := writeManifest(filepath.Join(dir, "index"), "", n.entries); err != nil {
		return 0, statedir.Unavailable(op, dir, err)
	}
	return len(n.entries) - before, nil
}

func compareStrings(a, b string) int { return bytes.Compare([]byte(a), []byte(b)) }

// A noter is one run of Note.
type noter struct {
	ctx         context.Context
	dir, opaque string
	upper, base *os.File
	known       map[string]bool
	entries     []Entry
	total       int64
	hidden      int
	seen        int
	buf         []byte
}

// run walks over the upper folder.
func (n *noter) run() error {
	for stack := []string{"."}; len(stack) > 0; {
		rel := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		fd, err := openBeneath(n.upper, rel)
		if err != nil {
			if vanished(err) {
				continue
			}
			return err
		}
		f := os.NewFile(uintptr(fd), rel)
		names, err := f.Readdirnames(-1)
		if err == nil {
			for _, name := range names {
				sub := path.Join(rel, name)
				var st unix.Stat_t
				if unix.Fstatat(fd, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
					continue // removed meanwhile
				}
				if n.seen++; n.seen > maxEntries {
					f.Close()
					return tooLarge("the workspace", "more files changed than can be looked at")
				}
				if err = n.changed(fd, name, sub, &st); err != nil {
					break
				}
				if st.Mode&unix.S_IFMT == unix.S_IFDIR {
					stack = append(stack, sub)
				}
			}
		}
		f.Close()
		if err != nil && !vanished(err) {
			return err
		}
	}
	return nil
}

func vanished(err error) bool {
	return errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ENOTDIR) || errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EXDEV)
}

// changed notes the base of one file of the upper folder.
func (n *noter) changed(dir int, name, rel string, st *unix.Stat_t) error {
	if err := n.ctx.Err(); err != nil {
		return err
	}
	if n.known[rel] {
		return nil
	}
	e, hidden, err := n.look(rel, bornAt(dir, name, st))
	if err != nil {
		return err
	}
	n.add(e)
	if !hidden {
		return nil
	}
	// The base has a folder there. If it does not show through any more, what
	// is below it changed as well.
	if st.Mode&unix.S_IFMT == unix.S_IFDIR {
		fd, err := open(dir, name, folderFlags, 0)
		if err != nil {
			return nil //nolint:nilerr // exchanged: seen by the next call
		}
		k, err := unix.Fgetxattr(fd, n.opaque, n.buf)
		unix.Close(fd)
		if err != nil || string(n.buf[:k]) != "y" {
			return nil //nolint:nilerr // it shows through
		}
	}
	return n.below(rel)
}

func (n *noter) add(e Entry) {
	n.known[e.Path] = true
	n.entries = append(n.entries, e)
}

// below notes what a folder of the base holds that the workspace has removed.
func (n *noter) below(rel string) error {
	for stack := []string{rel}; len(stack) > 0; {
		at := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		fd, err := openBeneath(n.base, at)
		if err != nil {
			continue // removed from the base meanwhile, or a mount point
		}
		f := os.NewFile(uintptr(fd), at)
		names, _ := f.Readdirnames(-1)
		f.Close()
		for _, name := range names {
			sub := path.Join(at, name)
			if n.known[sub] {
				continue
			}
			if n.hidden++; n.hidden > maxBaseHidden {
				return nil // how the rest was is not known, which a merge treats as a conflict
			}
			e, dir, err := n.look(sub, 0)
			if err != nil {
				return err
			}
			n.add(e)
			if dir {
				stack = append(stack, sub)
			}
		}
	}
	return nil
}

// look returns the entry of a file of the base, and whether it is a folder. born
// is when the workspace's version came to be, or 0.
func (n *noter) look(rel string, born int64) (e Entry, dir bool, err error) {
	parent, err := openBeneath(n.base, path.Dir(rel))
	if err != nil {
		if vanished(err) {
			return Entry{Path: rel, Type: typeAbsent}, false, nil
		}
		return e, false, err
	}
	defer unix.Close(parent)
	name := path.Base(rel)
	var st unix.Stat_t
	if err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		if vanished(err) {
			return Entry{Path: rel, Type: typeAbsent}, false, nil
		}
		return e, false, err
	}
	kind := byte(typeSpecial)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		return entryOf(rel, typeDir, &st), true, nil
	case unix.S_IFREG:
		kind = typeFile
	case unix.S_IFLNK:
		kind = typeLink
	}
	if born != 0 && nanos(st.Ctim) > born {
		kind = typeUnknown
	}
	e = entryOf(rel, kind, &st)
	switch kind {
	case typeLink:
		k, err := unix.Readlinkat(parent, name, n.buf)
		if err != nil {
			return Entry{Path: rel, Type: typeUnknown}, false, nil //nolint:nilerr // exchanged just now
		}
		e.Link = string(n.buf[:k])
	case typeFile:
		err = n.keep(parent, name, &e)
	}
	return e, false, err
}

// keep copies the content of a small regular file of the base.
func (n *noter) keep(dir int, name string, e *Entry) error {
	if e.Size > maxBaseFile || n.total+e.Size > maxBaseTotal {
		return nil
	}
	fd, err := open(dir, name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	if err != nil {
		if vanished(err) || errors.Is(err, unix.EACCES) {
			return nil
		}
		return err
	}
	f := os.NewFile(uintptr(fd), name)
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxBaseFile+1))
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if !e.unchanged(&st) || int64(len(data)) != e.Size {
		e.Type = typeUnknown
		return nil
	}
	sum := sha256.Sum256(data)
	e.Digest = hex.EncodeToString(sum[:])
	n.total += e.Size
	target := filepath.Join(n.dir, "content", e.Digest)
	if _, err := os.Lstat(target); err == nil {
		return nil
	}
	tmp := target + ".new"
	if err := os.WriteFile(tmp, data, 0o600); err != nil {
		return err
	}
	return os.Rename(tmp, target)
}

// Bases tell how the files of a base were before the workspace changed them.
type Bases struct {
	entries map[string]Entry
	content func(e Entry) (io.ReadCloser, error)
}

// Bases returns what is known of the base of the workspace of that name.
func (s *Store) Bases(name string) (*Bases, error) {
	const op = "read base files"
	h, ok, err := s.readHead(name)
	if err != nil {
		return nil, err
	}
	b := &Bases{entries: map[string]Entry{}}
	if !ok || h.Base == "" {
		return b, nil
	}
	add := func(e Entry) { b.entries[e.Path] = e }
	if h.Means == Overlay {
		dir := s.basesDir(h.Bases)
		b.content = func(e Entry) (io.ReadCloser, error) {
			return os.OpenFile(filepath.Join(dir, "content", e.Digest), os.O_RDONLY|unix.O_NOFOLLOW, 0)
		}
		_, _, err := readManifest(filepath.Join(dir, "index"), add)
		return b, statedir.Unavailable(op, dir, err)
	}
	// A copy has all of its base as the layer that it began with.
	if h.BaseLayer == "" {
		return b, nil
	}
	root := s.layerFS(h.BaseLayer)
	b.content = func(e Entry) (io.ReadCloser, error) {
		r, err := os.OpenRoot(root)
		if err != nil {
			return nil, err
		}
		defer r.Close()
		return r.Open(e.Path)
	}
	_, _, err = readManifest(s.manifestPath(h.BaseLayer), add)
	return b, statedir.Unavailable(op, root, err)
}

// Base returns the entry of the file at path as the base had it. ok is false
// where that is not known: the workspace has not changed the file, or the base
// changed it first. An entry of type 'a' says that there was nothing. content is
// nil unless it is a regular file whose content is kept; the caller closes it.
func (b *Bases) Base(path string) (content io.ReadCloser, info Entry, ok bool) {
	e, ok := b.entries[path]
	if !ok || e.Type == typeUnknown || e.Type == typeLeftOut {
		return nil, Entry{}, false
	}
	if e.Type == typeFile && e.Digest != "" && b.content != nil {
		if f, err := b.content(e); err == nil {
			content = f
		}
	}
	return content, e, true
}

func (s *Store) basesDir(id string) string { return s.path("bases", id) }

// copyBases copies notes and returns the id of the copy; the contents are hard
// links. It is called under the lock of the references. Without notes there is
// no copy, and a new id for notes to come.
func (s *Store) copyBases(id string) (string, error) {
	const op = "note base files"
	made := newID()
	from, to := s.basesDir(id), s.basesDir(made)
	index := filepath.Join(from, "index")
	if _, err := os.Lstat(index); id == "" || errors.Is(err, fs.ErrNotExist) {
		return made, nil
	}
	if err := os.MkdirAll(filepath.Join(to, "content"), 0o700); err != nil {
		return "", statedir.Unavailable(op, to, err)
	}
	var entries []Entry
	if _, _, err := readManifest(index, func(e Entry) { entries = append(entries, e) }); err != nil {
		return "", statedir.Unavailable(op, from, err)
	}
	for _, e := range entries {
		if e.Type != typeFile || e.Digest == "" {
			continue
		}
		err := os.Link(filepath.Join(from, "content", e.Digest), filepath.Join(to, "content", e.Digest))
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return "", statedir.Unavailable(op, to, err)
		}
	}
	return made, statedir.Unavailable(op, to, writeManifest(filepath.Join(to, "index"), "", entries))
}
