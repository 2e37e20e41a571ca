//go:build linux

// The dirwatch files report, with one system call, whether given folders have
// changed since they were last read.
//
// The kernel queues an inotify event before the call that made the change
// returns, so an empty queue means that there was no change. This holds only
// where all changes go through this kernel. A DirWatch therefore refuses
// folders on other file systems, and everything else that it cannot watch; the
// caller must then read them itself. A mount hides a folder without changing
// it, so a DirWatch also watches the mounts at these places.

package hostpath

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"
)

const (
	// dirwatchMaxFolders bounds the watches of one DirWatch: each takes about a
	// KiB in the kernel, and each user has a limited number.
	dirwatchMaxFolders = 4096
	// dirwatchBufSize has room for some hundred events. maxReads bounds the
	// buffers that Now reads before it reports Lost.
	dirwatchBufSize = 16 << 10
	maxReads        = 16
)

// changes is the inotify mask: names that are created, removed or replaced, and
// permission changes of folders.
const changes = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// ErrCannot reports that a folder cannot be watched reliably, or that there are
// too many folders.
var ErrCannot = errors.New("the folder cannot be watched")

// A DirWatch watches folders. It is not safe for concurrent use.
type DirWatch struct {
	events int // a descriptor
	mounts *mounts
	paths  map[string]int // folders
	names  map[int]names  // by the number of the watch
	files  fileWatches
	buf    []byte

	changed func(path string) // called for each watched name that has changed; may be nil
}

// names are the watched names of a folder.
type names struct {
	at   []string // paths of the folder: more than one where it is mounted twice
	all  bool
	some map[string]bool
}

func (n names) count(name string) bool { return n.all || n.some[name] }

// NewDirWatch returns a DirWatch that watches only the mounts. The caller must
// close it.
func NewDirWatch() (*DirWatch, error) {
	events, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	w := &DirWatch{events: events, paths: map[string]int{}, names: map[int]names{}, files: newFileWatches(), buf: make([]byte, dirwatchBufSize)}
	if w.mounts, err = openMounts(w.counts); err != nil {
		unix.Close(events)
		return nil, err
	}
	return w, nil
}

// Close ends the watch.
func (w *DirWatch) Close() {
	unix.Close(w.events)
	w.mounts.close()
}

// Folder watches every name in the folder at p and reports whether that is new.
// The path is absolute and clean, and no part of it is a link.
func (w *DirWatch) Folder(p string) (fresh bool, err error) {
	wd, fresh, err := w.add(p)
	if err != nil {
		return false, err
	}
	if w.names[wd].all {
		return fresh, nil
	}
	w.names[wd] = names{at: w.names[wd].at, all: true}
	w.mounts.forget()
	return true, nil
}

// Path watches the name of p and of each folder above it, for being created,
// removed or replaced. Nothing below a missing name needs a watch.
func (w *DirWatch) Path(p string) (fresh bool, err error) {
	if p == "/" {
		return false, nil
	}
	dir := path.Dir(p)
	if fresh, err = w.Path(dir); err != nil {
		return false, err
	}
	wd, added, err := w.add(dir)
	if Gone(err) {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFLNK {
			return false, ErrCannot // what is behind the link is not watched
		}
		return fresh, nil // the missing name itself is watched
	}
	if err != nil {
		return false, err
	}
	n := w.names[wd]
	if name := path.Base(p); !n.all && !n.some[name] {
		if n.some == nil {
			n.some = map[string]bool{}
		}
		n.some[name], added = true, true
		w.names[wd] = n
		w.mounts.forget()
	}
	return fresh || added, nil
}

// add watches the folder at p, if it is not watched yet.
func (w *DirWatch) add(p string) (wd int, fresh bool, err error) {
	if wd, ok := w.paths[p]; ok {
		return wd, false, nil
	}
	if w.full() {
		return 0, false, ErrCannot
	}
	fd, err := Folder(p, PathOnly)
	if err != nil {
		return 0, false, err
	}
	defer unix.Close(fd)
	if !tells(fd) {
		return 0, false, ErrCannot
	}
	wd, err = unix.InotifyAddWatch(w.events, Self(fd), changes|unix.IN_ONLYDIR)
	if err != nil {
		return 0, false, errors.Join(ErrCannot, err)
	}
	w.paths[p] = wd
	n := w.names[wd]
	n.at = append(n.at, p)
	w.names[wd] = n
	w.mounts.watched(p)
	return wd, true, nil
}

// counts reports whether p is a watched name in a watched folder.
func (w *DirWatch) counts(p string) bool {
	wd, watched := w.paths[path.Dir(p)]
	return watched && w.names[wd].count(path.Base(p))
}

// Numbers of file systems that package unix does not name.
const (
	dirwatchZfsMagic      = 0x2fc12fc1
	dirwatchBcachefsMagic = 0xca451a4e
)

// tells reports whether the folder fd lies on a file system that only this
// kernel's own calls can change.
func tells(fd int) bool {
	var st unix.Statfs_t
	if err := Retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, dirwatchZfsMagic, dirwatchBcachefsMagic:
		return true
	}
	return false
}
