package hostscan

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// System returns the views and links that every sandbox shows of this host.
func System() (views []plan.View, links []plan.Symlink, err error) {
	for _, dir := range systemFolders() {
		st, err := os.Lstat(dir)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue
		case err != nil:
			return nil, nil, err
		case st.Mode()&fs.ModeSymlink != 0:
			to, err := os.Readlink(dir)
			if err != nil {
				return nil, nil, err
			}
			links = append(links, plan.Symlink{Target: dir, To: to})
		case st.IsDir():
			views = append(views, plan.View{Source: dir, Target: dir, Optional: true, Why: "programs and settings of the system"})
		}
	}
	return views, links, nil
}

// Telling returns the files of /proc that reveal the host's users and kernel in
// every namespace and that every user may read. The names of keys belong to the
// user, not to one sandbox.
func Telling() []string {
	var there []string
	for _, p := range []string{"/proc/keys", "/proc/latency_stats", "/proc/timer_list", "/proc/timer_stats", "/proc/sched_debug"} {
		if st, err := os.Lstat(p); err == nil && st.Mode().IsRegular() {
			there = append(there, p)
		}
	}
	return there
}

// A Disk is a [plan.Host] that reads the host's file system.
type Disk struct {
	// Placeholder reports whether the file at path is a stub that only keeps the path
	// from being taken. Nil means that there are none.
	Placeholder func(path string) bool
}

// Kind implements [plan.Host].
func (d Disk) Kind(path string) (plan.Kind, error) {
	var st unix.Stat_t // the plain call: a plan makes some hundred of them
	err := hostpath.Retry(func() error { return unix.Lstat(path, &st) })
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		return plan.Missing, nil
	case errors.Is(err, fs.ErrPermission):
		return plan.Missing, unreachable(path)
	case err != nil:
		return plan.Missing, &os.PathError{Op: "lstat", Path: path, Err: err}
	case d.Placeholder != nil && mayBePlaceholder(&st) && d.Placeholder(path):
		return plan.Missing, nil
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return plan.File, nil
	case unix.S_IFDIR:
		return plan.Dir, nil
	case unix.S_IFLNK:
		return plan.Link, nil
	case unix.S_IFSOCK:
		return plan.Socket, nil
	}
	return plan.Other, nil
}

// mayBePlaceholder avoids a look-up in the records for files that cannot be stubs. A
// folder may be one whatever its link count: stubs lie in stubs, and file
// systems count the links of folders differently.
func mayBePlaceholder(st *unix.Stat_t) bool {
	kind := st.Mode & unix.S_IFMT
	return kind == unix.S_IFDIR || kind == unix.S_IFSOCK || kind == unix.S_IFREG && st.Size <= maxSize
}

// unreachable returns nil for a path below another user's folder that this
// process may not enter: no process that it starts can reach the path either.
// Below a folder of this process's own user it returns an error, because code
// inside could open that folder again.
func unreachable(p string) error {
	for dir := path.Dir(p); ; dir = path.Dir(dir) {
		st, err := os.Lstat(dir)
		if errors.Is(err, fs.ErrPermission) && dir != "/" {
			continue
		}
		if err != nil {
			return err
		}
		if sys, ok := st.Sys().(*syscall.Stat_t); ok && int(sys.Uid) != os.Geteuid() {
			return nil
		}
		return &sandbox.Error{
			Code: sandbox.CodeCapabilityBlocked, Op: "plan", Resource: dir, Message: "it is not known what is in the folder, and code inside could open it",
			Hint: "make it passable: chmod u+x " + dir,
		}
	}
}

// Names implements [plan.Host].
func (d Disk) Names(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	slices.Sort(names)
	return names, err
}

// Link implements [plan.Host].
func (d Disk) Link(path string) (plan.Target, error) {
	text, err := os.Readlink(path)
	if err != nil {
		return plan.Target{}, err
	}
	real, err := hostpath.Canonical(path)
	return plan.Target{Text: text, Real: real}, err
}
