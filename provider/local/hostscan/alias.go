package hostscan

import (
	"errors"
	"strings"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

type inode struct{ dev, ino uint64 }

// A wanted is a denied file that has more names than one.
type wanted struct {
	origin
	links uint64
	names map[string]bool // the denied names; true where reading is denied
	other map[string]bool // the other names found
}

// want records a denied file whose other names are to be found.
func (w *walk) want(st *unix.Stat_t, o origin) {
	if st.Nlink < 2 {
		return
	}
	key := inode{uint64(st.Dev), st.Ino}
	f := w.wanted[key]
	if f == nil {
		f = &wanted{origin: o, names: map[string]bool{}, other: map[string]bool{}}
		w.wanted[key] = f
	}
	if o.read && !f.read {
		f.origin = o
	}
	f.links = max(f.links, uint64(st.Nlink))
	f.names[o.path] = f.names[o.path] || o.read
}

// A relied is a denied folder whose link counts this scan took from the cache.
type relied struct {
	path string
	n    *node
	origin
}

// links records the files of the denied folder n that have several names.
func (w *walk) links(fd int, p string, n *node, o origin) error {
	switch now := time.Now(); {
	case len(n.files) == 0:
	case !n.trusted || now.Sub(n.looked) > linkAge:
		n.looked = now
		if err := w.count(fd, p, n); err != nil {
			return err
		}
	default:
		w.relied = append(w.relied, relied{p, n, o})
	}
	w.wantLinked(p, n, o)
	return nil
}

// count finds the files of the denied folder n that have several names.
func (w *walk) count(fd int, p string, n *node) error {
	n.linked = nil
	for _, name := range n.files {
		var st unix.Stat_t
		switch err := hostpath.Stat(fd, name, &st); {
		case err == nil && st.Nlink > 1:
			n.linked = append(n.linked, linked{name, st})
		case err != nil && !hostpath.Gone(err) && !closedTo(err):
			return w.lost(join(p, name), err)
		}
	}
	return nil
}

func (w *walk) wantLinked(p string, n *node, o origin) {
	for _, l := range n.linked {
		if at := join(p, l.name); !w.opens(at, &o) {
			o.path = at
			w.want(&l.st, o)
		}
	}
}

// recount reads the link counts that the scan took from the cache. Creating a
// name changes the folder that it is created in, so recount does so only when
// the scan had to read a folder.
func (w *walk) recount() error {
	if w.out.Listed == 0 {
		return nil
	}
	for _, r := range w.relied {
		fd, err := hostpath.Folder(r.path, hostpath.PathOnly)
		if err != nil {
			if hostpath.Gone(err) {
				continue
			}
			return w.lost(r.path, err)
		}
		r.n.looked = time.Now()
		err = w.count(fd, r.path, r.n)
		unix.Close(fd)
		if err != nil {
			return err
		}
		w.wantLinked(r.path, r.n, r.origin)
	}
	return nil
}

// aliases looks for the other names of denied files in every folder that this
// scan visited.
func (w *walk) aliases() error {
	if err := w.recount(); err != nil {
		return err
	}
	inos := map[uint64]bool{}
	for key, f := range w.wanted {
		if err := w.nearly(key, f); err != nil {
			return err
		}
		if uint64(len(f.names)) < f.links {
			inos[key.ino] = true
		}
	}
	if len(inos) == 0 {
		return nil
	}
	for _, r := range w.roots { // a root may be a file
		var st unix.Stat_t
		if err := unix.Lstat(r, &st); err == nil && kindOf(uint32(st.Mode)) == unix.DT_REG {
			if err := w.alias(r, &st); err != nil {
				return err
			}
		}
	}
	for p, n := range w.s.trees {
		if err := w.search(strings.TrimSuffix(p, "\x00"), n, inos); err != nil {
			return err
		}
	}
	for _, f := range w.wanted {
		if seen := uint64(len(f.names) + len(f.other)); seen < f.links {
			w.out.Unseen += int(f.links - seen)
		}
	}
	return nil
}

// nearly reports the names of a file denied for reading that are themselves
// denied for writing only.
func (w *walk) nearly(key inode, f *wanted) error {
	for p, read := range f.names {
		if f.read && !read {
			if err := w.another(p, key, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// search looks for the inodes in n, which lies at p, and below it.
func (w *walk) search(p string, n *node, inos map[uint64]bool) error {
	if n.scan != w.id {
		return nil // not visited by this scan: removed, or no longer requested
	}
	if err := w.within(p); err != nil {
		return err
	}
	for _, l := range n.linked {
		if err := w.alias(join(p, l.name), &l.st); err != nil {
			return err
		}
	}
	if look := !n.inodes && n.shut == free; look || holds(n.inos, inos) {
		if err := w.name(p, inos, look); err != nil {
			return err
		}
	}
	for _, s := range n.subs {
		if err := w.search(join(p, s.name), s.node, inos); err != nil {
			return err
		}
	}
	return nil
}

func holds(list []uint64, inos map[uint64]bool) bool {
	for _, i := range list {
		if inos[i] {
			return true
		}
	}
	return false
}

// name reads the folder at p again to find the names of the inodes. all says
// that the folder does not report inode numbers, so that name calls stat on
// every file.
func (w *walk) name(p string, inos map[uint64]bool, all bool) error {
	fd, err := hostpath.Folder(p, unix.O_RDONLY)
	if err != nil {
		if hostpath.Gone(err) {
			return nil
		}
		return w.lost(p, err)
	}
	defer unix.Close(fd)
	err = list(fd, w.names(), func(name []byte, kind uint8, ino uint64) error {
		if kind != unix.DT_REG && kind != unix.DT_UNKNOWN || !all && !inos[ino] {
			return nil
		}
		var st unix.Stat_t
		switch err := hostpath.Stat(fd, string(name), &st); {
		case err == nil && kindOf(uint32(st.Mode)) == unix.DT_REG:
			return w.alias(join(p, string(name)), &st)
		case err != nil && !hostpath.Gone(err):
			return w.lost(join(p, string(name)), err)
		}
		return nil
	})
	return w.explain(p, err)
}

// alias reports the file at p if it is another name of a wanted file.
func (w *walk) alias(p string, st *unix.Stat_t) error {
	key := inode{uint64(st.Dev), st.Ino}
	f := w.wanted[key]
	if f == nil || f.other[p] {
		return nil
	}
	if _, denied := f.names[p]; denied {
		return nil
	}
	f.other[p] = true
	return w.another(p, key, f)
}

// another reports p as a further name of the file f, whose inode is key.
func (w *walk) another(p string, key inode, f *wanted) error {
	if err := w.room(p); err != nil {
		return err
	}
	w.out.Aliases = append(w.out.Aliases, Alias{Path: p, Of: f.path, Dev: key.dev, Ino: key.ino, Read: f.read, Rule: f.rule})
	return nil
}

// explain converts a system error at p into an error of this package.
func (w *walk) explain(p string, err error) error {
	var ours *sandbox.Error
	switch {
	case err == nil || errors.As(err, &ours):
		return err
	case hostpath.Gone(err):
		return nil
	}
	return w.lost(p, err)
}
