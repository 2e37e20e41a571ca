package hostscan

import (
	"time"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"golang.org/x/sys/unix"
)

// read lists the folder fd, whose status is st, into n. readable says that fd
// is open for listing. read returns stop if there is nothing to report.
func (w *walk) read(fd int, readable bool, st *unix.Stat_t, p string, n *node, o *origin) (stop bool, err error) {
	dev, err := w.device(fd, uint64(st.Dev))
	if err != nil {
		return true, w.lost(p, err)
	}
	if dev.kernel {
		n.forget()
		w.out.Skipped = append(w.out.Skipped, p)
		return true, nil
	}
	open := fd
	if !readable {
		open, err = hostpath.At(fd, ".", unix.O_RDONLY)
		if err != nil {
			if hostpath.Gone(err) { // removed, although fd still holds it
				n.forget()
				return true, nil
			}
			if closedTo(err) {
				return true, w.unreadable(p, n, o)
			}
			return true, w.lost(p, err)
		}
		defer unix.Close(open)
	}
	now := time.Now()
	w.out.Listed++
	next := node{id: identify(st), shut: o.shut(), inodes: dev.inodes, fold: dev.fold || dev.folds && foldsHere(open)}
	next.trusted = dev.times && next.id.settled(now, w.s.settle)
	r := reading{w: w, dir: p, fd: fd, old: n.children(), n: &next}
	if err := list(open, w.names(), r.entry); err != nil {
		n.forget()
		return true, w.explain(p, err)
	}
	*n = next
	return false, nil
}

func (w *walk) device(fd int, number uint64) (device, error) {
	if d, ok := w.devices[number]; ok {
		return d, nil
	}
	d, err := deviceOf(fd)
	if err == nil {
		w.devices[number] = d
	}
	return d, err
}

// A reading converts the names of one folder into a node.
type reading struct {
	w   *walk
	dir string
	fd  int
	old map[string]sub // the known subfolders
	n   *node
}

func (r *reading) entry(name []byte, kind uint8, ino uint64) error {
	if r.n.count++; r.n.count+r.w.out.Entries > r.w.s.limits.Entries {
		return r.w.over(r.dir, tooMany(r.w.s.limits.Entries))
	}
	if kind == unix.DT_UNKNOWN {
		var st unix.Stat_t
		if err := hostpath.Stat(r.fd, string(name), &st); err != nil {
			if hostpath.Gone(err) {
				return nil
			}
			return r.w.lost(join(r.dir, string(name)), err)
		}
		kind = kindOf(uint32(st.Mode))
	}
	hit := free
	if r.n.shut != sealed {
		if glob, read := r.w.s.match.matches(r.dir, name, kind == unix.DT_DIR, r.n.fold); read || glob >= 0 && r.n.shut == free {
			if hit = frozen; read {
				hit = sealed
			}
			r.n.hits = append(r.n.hits, match{string(name), glob, read, r.n.fold})
		}
	}
	if r.n.shut == free && r.w.s.match.finds(name, r.n.fold) {
		r.n.found = append(r.n.found, string(name))
	}
	switch kind {
	case unix.DT_DIR:
		s := sub{string(name), hit, &node{}}
		if old, ok := r.old[s.name]; ok && old.hit == hit {
			s.node = old.node
		}
		r.n.subs = append(r.n.subs, s)
	case unix.DT_SOCK:
		if hit != sealed && r.n.shut != sealed { // connecting does not write to a mount
			r.n.sockets = append(r.n.sockets, string(name))
		}
	case unix.DT_REG:
		if r.n.shut != free {
			r.n.files = append(r.n.files, string(name))
		} else if r.n.inodes {
			r.n.inos = append(r.n.inos, ino)
		}
	}
	return nil
}
