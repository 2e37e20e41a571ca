//go:build linux

package files

import (
	"path"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// maxRoots bounds the mounts that are kept open.
const maxRoots = 256

// Roots are the mounts that have been asked for. Each is opened once and
// stays open: a mount stays what it is, also when user code renames a
// folder above it and puts something else there. Its methods are safe for
// concurrent use.
type Roots struct {
	k       Kernel
	staging *staging

	mu   sync.Mutex
	open map[string]*Root
}

// NewRoots returns an empty set.
func NewRoots(k Kernel) *Roots { return &Roots{k: k, staging: &staging{}, open: map[string]*Root{}} }

// Get returns the mount at the absolute path target.
func (r *Roots) Get(target string) (*Root, error) {
	if root, err := r.known(target); root != nil || err != nil {
		return root, err
	}
	root, err := openRoot(r.k, target) // not locked: a disk may hang
	if err != nil {
		return nil, err
	}
	root.staging = r.staging
	r.mu.Lock()
	defer r.mu.Unlock()
	if first := r.open[target]; first != nil {
		unix.Close(root.fd)
		return first, nil
	}
	r.open[target] = root
	return root, nil
}

// MountOf returns the kernel's number of the mount at target, which it opens, or
// 0 where that is not known.
func (r *Roots) MountOf(target string) uint64 {
	root, err := r.Get(target)
	if err != nil {
		return 0
	}
	var st unix.Statx_t
	if err := unix.Statx(root.fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st); err != nil || st.Mask&unix.STATX_MNT_ID == 0 {
		return 0
	}
	return st.Mnt_id
}

// Reopen opens the mount at target anew, because another file system lies there.
// No operation may be under way in it, and a [Watch] has to be given the new one
// by [Watch.Moved] before it does anything else. With an error the mount is not
// open any more.
func (r *Roots) Reopen(target string) (*Root, error) {
	root, err := openRoot(r.k, target)
	r.mu.Lock()
	defer r.mu.Unlock()
	if old := r.open[target]; old != nil {
		delete(r.open, target)
		unix.Close(old.fd)
	}
	if err != nil {
		return nil, err
	}
	root.staging = r.staging
	r.open[target] = root
	return root, nil
}

// known returns the mount if it is open, and an error when too many are.
func (r *Roots) known(target string) (*Root, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	root := r.open[target]
	if root == nil && len(r.open) >= maxRoots {
		return nil, unix.EMFILE
	}
	return root, nil
}

// A Root is a mount below which paths are resolved. Its methods are safe
// for concurrent use. Paths are relative to it and may be empty, which is
// the mount itself.
type Root struct {
	k      Kernel
	fd     int        // of the folder; O_PATH
	single string     // when a single file is mounted: its name in the folder fd
	names  [][]string // the absolute paths of the root, by elements

	linked bool // the way to the root has links
	plain  bool // no link is followed

	// named is set where files cannot be made without a name. Views of one
	// mount share it.
	named *atomic.Bool

	staging *staging // names of content on its way, of all mounts
}

// WithoutLinks returns the mount as one in which no link is followed: what
// would be is ErrLink. What acts on a name acts on a link itself.
func (r *Root) WithoutLinks() (*Root, error) {
	if r.linked {
		return nil, ErrLink
	}
	view := *r
	view.plain = true
	return &view, nil
}

// openRoot opens the folder, or the single file, at target.
func openRoot(k Kernel, target string) (*Root, error) {
	if !path.IsAbs(target) || path.Clean(target) != target || target == "/" {
		return nil, ErrNoRoot
	}
	r := &Root{k: k, names: [][]string{elements(target)}, named: new(atomic.Bool)}
	r.named.Store(!k.Proc)
	fd, linked, err := k.openFolder(target)
	if err == unix.ENOTDIR {
		return r.openSingle(target)
	}
	if err != nil {
		return nil, ErrNoRoot
	}
	r.fd, r.linked = fd, linked
	// The mount may have been asked for by a path that has links in it.
	if real, err := readlink(unix.AT_FDCWD, procFD(fd)); err == nil && path.IsAbs(real) && real != target {
		if real == "/" {
			unix.Close(fd)
			return nil, ErrNoRoot
		}
		r.names = append(r.names, elements(real))
	}
	return r, nil
}

// openSingle opens the folder of a file that is mounted by itself. The
// folder is not served.
func (r *Root) openSingle(target string) (*Root, error) {
	dir, name := path.Split(target)
	fd, linked, err := r.k.openFolder(dir)
	if err != nil {
		return nil, ErrNoRoot
	}
	r.linked = linked
	if st, err := lstat(fd, name); err != nil || kind(&st) != unix.S_IFREG {
		unix.Close(fd)
		return nil, ErrNoRoot
	}
	r.fd, r.single = fd, name
	return r, nil
}

// openFolder opens a folder by its absolute path. User code can put a link into
// the path of a mount when it may rename a folder above it. Then it gets what
// it could read itself; but in /proc the guest is another process than user
// code, so nothing is served from there. Linked says that links were on the
// way.
func (k Kernel) openFolder(target string) (fd int, linked bool, err error) {
	if fd, err = k.openPlain(target); err != nil {
		linked = true
		fd, err = k.openat2(unix.AT_FDCWD, target, unix.O_PATH|unix.O_DIRECTORY, unix.RESOLVE_NO_MAGICLINKS)
	}
	if err == unix.ENOSYS {
		fd, err = unix.Open(target, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	}
	if err != nil {
		return -1, false, err
	}
	var st unix.Statfs_t
	if err = unix.Fstatfs(fd, &st); err == nil && st.Type == unix.PROC_SUPER_MAGIC {
		err = unix.EACCES
	}
	if err != nil {
		unix.Close(fd)
		return -1, false, err
	}
	return fd, linked, nil
}

// openPlain opens a folder by an absolute path without links.
func (k Kernel) openPlain(target string) (int, error) {
	const flags = unix.O_PATH | unix.O_DIRECTORY
	fd, err := k.openat2(unix.AT_FDCWD, target, flags, unix.RESOLVE_NO_SYMLINKS)
	if err != unix.ENOSYS {
		return fd, err
	}
	if fd, err = unix.Open("/", flags|unix.O_CLOEXEC, 0); err != nil {
		return -1, err
	}
	for _, name := range elements(target) {
		next, err := openat(fd, name, flags)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// procFD is the path of one of our own descriptors. The guest cannot be traced,
// so no other process can open it.
func procFD(fd int) string { return "/proc/self/fd/" + strconv.Itoa(fd) }

// elements are the names of a path, without empty and "." ones.
func elements(p string) []string {
	var list []string
	for e := range strings.SplitSeq(p, "/") {
		if e != "" && e != "." {
			list = append(list, e)
		}
	}
	return list
}

// split returns the folder and the last name of a relative path. The name is
// "." where the path names a folder through the root itself or through "..",
// so that it cannot be removed or replaced.
func split(rel string) (dir, base string) {
	i := strings.LastIndexByte(rel, '/')
	if base = rel[i+1:]; base == "" || base == "." || base == ".." {
		return rel, "."
	}
	return rel[:max(i, 0)], base
}

// A place is a name in a folder that lies in the mount. The folder is held
// open.
type place struct {
	dir   int
	owned bool // dir is not the root's own
	base  string
}

func (p place) close() {
	if p.owned {
		unix.Close(p.dir)
	}
}

// beneath is how paths are resolved.
const beneath = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS

// resolve is how paths are resolved in this view.
func (r *Root) resolve() uint64 {
	if r.plain {
		return beneath | unix.RESOLVE_NO_SYMLINKS
	}
	return beneath
}

// unsure reports whether err of openat2 is no verdict: what openat2 takes
// for an escape can be a link into the mount by its absolute path.
func unsure(err error) bool {
	return err == unix.EXDEV || err == unix.ELOOP || err == unix.EAGAIN || err == unix.ENOSYS
}

// parent opens the folder of rel, following links. With make, folders that
// are missing on the way are made.
func (r *Root) parent(rel string, make bool) (place, error) {
	if r.single != "" {
		if rel != "" {
			return place{}, unix.ENOTDIR
		}
		return place{dir: r.fd, base: r.single}, nil
	}
	dir, base := split(rel)
	if dir == "" {
		return place{dir: r.fd, base: base}, nil
	}
	fd, err := r.k.openat2(r.fd, dir, unix.O_PATH|unix.O_DIRECTORY, r.resolve())
	if err == nil {
		return place{dir: fd, owned: true, base: base}, nil
	}
	if !unsure(err) && !(make && err == unix.ENOENT) {
		return place{}, err
	}
	p, err := r.walk(dir+"/.", make)
	p.base = base
	return p, err
}

// follow finds the place that rel means when links are followed: its name
// is no link, or was none a moment ago.
func (r *Root) follow(rel string, make bool) (place, error) {
	if r.single == "" {
		return r.walk(rel, make)
	}
	p, err := r.parent(rel, false)
	if err != nil {
		return p, err
	}
	if st, err := lstat(p.dir, p.base); err == nil && kind(&st) == unix.S_IFLNK {
		p.close()
		return place{}, ErrEscape
	}
	return p, nil
}
