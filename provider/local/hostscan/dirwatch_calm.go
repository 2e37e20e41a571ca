//go:build linux

// Calm: this part of the package tells at the cost of one system call that nothing has changed
// in given folders since they were looked at.
//
// The kernel queues a change for a watch before the call that made it returns
// (inotify), so an empty queue means that there was none. That is so only
// where all changes come through this kernel; folders on other file systems
// are refused, as is whatever else cannot be watched, and who is refused looks
// for himself. A mount hides a folder without changing it, so the mounts at
// these places are watched too.

package hostscan

import (
	"errors"
	"path"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

const (
	// maxFolders bounds the watches of one Watch: each keeps about a kibibyte
	// in the kernel, and a user has a limited number.
	dirwatchMaxFolders = 4096
	// bufSize holds some hundred events, and maxReads bounds how many are
	// sorted out before they count as too much.
	dirwatchBufSize = 16 << 10
	maxReads        = 16
)

// changes are what is asked for: names that come, go or lead elsewhere, and
// folders that may be looked into or no more.
const changes = unix.IN_CREATE | unix.IN_DELETE | unix.IN_MOVED_FROM | unix.IN_MOVED_TO | unix.IN_ATTRIB | unix.IN_DELETE_SELF | unix.IN_MOVE_SELF

// ErrCannot says that a folder cannot be watched so that it could be relied
// on, or that there are too many.
var ErrCannot = errors.New("the folder cannot be watched")

// A Watch watches folders. It is not for concurrent use.
type DirWatch struct {
	events int // a descriptor
	mounts *mounts
	paths  map[string]int
	names  map[int]names // by the number of the watch
	buf    []byte
}

// names are those in a folder that count.
type names struct {
	all  bool
	some map[string]bool
}

func (n names) count(name string) bool { return n.all || n.some[name] }

// New returns a Watch that watches the mounts alone. Close ends it.
func NewDirWatch() (*DirWatch, error) {
	events, err := unix.InotifyInit1(unix.IN_NONBLOCK | unix.IN_CLOEXEC)
	if err != nil {
		return nil, err
	}
	w := &DirWatch{events: events, paths: map[string]int{}, names: map[int]names{}, buf: make([]byte, dirwatchBufSize)}
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

// Folder has every name in the folder at p count, and reports whether that is
// new. The path is absolute and clean, and no part of it is a link.
func (w *DirWatch) Folder(p string) (fresh bool, err error) {
	wd, fresh, err := w.add(p)
	if err != nil {
		return false, err
	}
	if w.names[wd].all {
		return fresh, nil
	}
	w.names[wd] = names{all: true}
	w.mounts.forget()
	return true, nil
}

// Path has p and each folder that it lies in count, as names: whether they are
// there, and are the same. What is missing has nothing below it.
func (w *DirWatch) Path(p string) (fresh bool, err error) {
	if p == "/" {
		return false, nil
	}
	dir := path.Dir(p)
	if fresh, err = w.Path(dir); err != nil {
		return false, err
	}
	wd, added, err := w.add(dir)
	if hostpath.Gone(err) {
		return fresh, nil // and the name that makes it so is watched
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
	if len(w.paths) == dirwatchMaxFolders {
		return 0, false, ErrCannot
	}
	fd, err := hostpath.Folder(p, hostpath.PathOnly)
	if err != nil {
		return 0, false, err
	}
	defer unix.Close(fd)
	if !tells(fd) {
		return 0, false, ErrCannot
	}
	wd, err = unix.InotifyAddWatch(w.events, hostpath.Self(fd), changes|unix.IN_ONLYDIR)
	if err != nil {
		return 0, false, errors.Join(ErrCannot, err)
	}
	w.paths[p] = wd
	w.mounts.watched(p)
	return wd, true, nil
}

// counts reports whether p is a name in a watched folder that counts.
func (w *DirWatch) counts(p string) bool {
	wd, watched := w.paths[path.Dir(p)]
	return watched && w.names[wd].count(path.Base(p))
}

// Numbers of file systems that package unix does not name.
const (
	dirwatchZfsMagic      = 0x2fc12fc1
	dirwatchBcachefsMagic = 0xca451a4e
)

// tells reports whether the folder fd lies on a file system that nobody
// changes but this kernel, by its own calls.
func tells(fd int) bool {
	var st unix.Statfs_t
	if err := hostpath.Retry(func() error { return unix.Fstatfs(fd, &st) }); err != nil {
		return false
	}
	switch uint32(st.Type) {
	case unix.EXT4_SUPER_MAGIC, unix.XFS_SUPER_MAGIC, unix.BTRFS_SUPER_MAGIC, unix.F2FS_SUPER_MAGIC, unix.TMPFS_MAGIC, dirwatchZfsMagic, dirwatchBcachefsMagic:
		return true
	}
	return false
}
