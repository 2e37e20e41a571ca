package hostscan

import (
	"time"

	"golang.org/x/sys/unix"
)

// settleTime is how old a folder's last change must have been when it was
// read for the reading to count later. A file system stamps changes with a
// clock that moves in steps, up to a second, so a name added within the same
// step as the reading would leave no trace.
const settleTime = 1500 * time.Millisecond

// linkAge is how long the link counts of files in a denied folder count. A
// link made to such a file changes neither its folder nor its name, so they
// have to be asked for one by one: after that time, and whenever a folder was
// read anew, as that of the new name is. Code in a wall cannot make one: a link
// does not cross the mount that closes the folder.
const linkAge = 2 * time.Second

// A node is what was seen in one folder. It holds as long as the folder is
// the same one (device and inode) and has not changed since: adding, removing
// and renaming a name changes a folder's times, and nobody can set the change
// time. What a file system of another machine, or of a program, says about
// its times is not relied on (see device).
type node struct {
	id      identity
	trusted bool // what follows holds while id does
	shut    shut // in all but free ones links are counted
	fold    bool // names that differ in case alone are one name here
	count   int  // names in it
	subs    []sub
	hits    []match
	sockets []string
	found   []string
	inodes  bool     // the folder tells inode numbers
	inos    []uint64 // of its files, if it does

	files  []string // of a denied folder
	linked []linked // of a denied folder: files with more than one name
	looked time.Time

	scan uint64 // the scan that last saw it, to be found again by the search for aliases
}

// A sub is a folder in a folder.
type sub struct {
	name string
	hit  shut // what the glob that it matches makes of it, if any does
	node *node
}

// A match is a name that a glob matches.
type match struct {
	name string
	glob int
	read bool
	fold bool // the folder disregards case
}

// A linked is a file that has several names.
type linked struct {
	name string
	st   unix.Stat_t
}

// An identity tells whether a folder is the one that was read, unchanged.
type identity struct {
	dev, ino     uint64
	mtime, ctime int64 // nanoseconds
}

func identify(st *unix.Stat_t) identity {
	return identity{uint64(st.Dev), st.Ino, st.Mtim.Nano(), st.Ctim.Nano()}
}

// settled reports whether the last change was long enough before the reading
// that began at now. A change in the future, by another machine's clock or
// after ours was set back, never counts as settled.
func (id identity) settled(now time.Time, settle time.Duration) bool {
	return max(id.mtime, id.ctime) < now.Add(-settle).UnixNano()
}

// forget empties n but keeps it in its tree.
func (n *node) forget() { *n = node{} }

// children indexes what is known of the folders in n.
func (n *node) children() map[string]sub {
	m := make(map[string]sub, len(n.subs))
	for _, s := range n.subs {
		m[s.name] = s
	}
	return m
}
