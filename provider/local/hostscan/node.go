package hostscan

import (
	"time"

	"golang.org/x/sys/unix"
)

// settleTime is the minimum age of a folder's last change at the time of a
// reading that may be cached. A file system stamps changes with a clock that
// advances in steps of up to a second, so a name added in the same step as the
// reading would leave no trace.
const settleTime = 1500 * time.Millisecond

// linkAge is how long the link counts of files in a denied folder are cached. A
// new link to such a file changes neither its folder nor its name, so the scan
// must call stat on each file: after linkAge, and whenever it read a changed
// folder, because the new name changes its own folder. Code in a sandbox cannot
// create such a link: a link cannot cross the mount that closes the folder.
const linkAge = 2 * time.Second

// A node is the cached content of one folder. It is valid while the folder has
// the same device and inode and has not changed: adding, removing and renaming
// a name changes a folder's times, and no process can set the change time.
// Times that a remote or user-space file system reports do not count (see
// device).
type node struct {
	id      identity
	trusted bool // the other fields are valid while id is
	shut    shut // except in free folders, links are counted
	fold    bool // names that differ only in case are one name here
	count   int  // number of names
	subs    []sub
	hits    []match
	sockets []string
	found   []string
	inodes  bool     // the folder lists inode numbers
	inos    []uint64 // of its files, if inodes is true

	files  []string // of a denied folder
	linked []linked // of a denied folder: files with more than one name
	looked time.Time

	scan uint64 // the last scan that saw it; the search for aliases uses it
}

// A sub is a subfolder.
type sub struct {
	name string
	hit  shut // the effect of the glob that it matches, if there is one
	node *node
}

// A match is a name that a glob matches.
type match struct {
	name string
	glob int
	read bool
	fold bool // the folder ignores case
}

// A linked is a file that has several names.
type linked struct {
	name string
	st   unix.Stat_t
}

// An identity identifies an unchanged folder.
type identity struct {
	dev, ino     uint64
	mtime, ctime int64 // nanoseconds
}

func identify(st *unix.Stat_t) identity {
	return identity{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Ctim.Nano()}
}

// settled reports whether the last change was long enough before the reading
// that began at now. A change in the future, by another machine's clock or
// after this clock was set back, never counts as settled.
func (id identity) settled(now time.Time, settle time.Duration) bool {
	return max(id.mtime, id.ctime) < now.Add(-settle).UnixNano()
}

// forget clears n but keeps it in its tree.
func (n *node) forget() { *n = node{} }

// children indexes the known subfolders of n by name.
func (n *node) children() map[string]sub {
	m := make(map[string]sub, len(n.subs))
	for _, s := range n.subs {
		m[s.name] = s
	}
	return m
}
