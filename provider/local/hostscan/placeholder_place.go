package hostscan

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"

	"golang.org/x/sys/unix"
)

// Modes of stubs. A stub folder is writable for its owner, so that stubs can be
// created in it without root.
const (
	fileMode = 0o444
	dirMode  = 0o755
)

// maxSize is the maximum size in bytes of a stub that is a file. Callers that
// check many paths can skip longer files.
const maxSize = 3

// content returns the content of a stub file at path that makes programs treat
// it as missing. Git takes hooks and configuration from the folder that
// "commondir" names, and fails with an empty one; "." is the folder where they
// are anyway.
func content(path string) string {
	switch name := filepath.Base(path); {
	case name == "commondir":
		return ".\n"
	case strings.HasSuffix(name, ".json"):
		return "{}\n"
	}
	return ""
}

// A group is a set of stubs in one folder.
type group struct {
	folder       string
	placeholders []plan.Placeholder
}

// groups groups stubs by the folder that they lie in. A stub that is a folder
// comes before the stubs in it.
func groups(placeholders []plan.Placeholder) ([]group, error) {
	var all []group
	for _, s := range placeholders {
		if len(s.Path) < 2 || s.Path[0] != '/' || filepath.Clean(s.Path) != s.Path || strings.IndexByte(s.Path, 0) >= 0 {
			return nil, sandbox.Errorf(sandbox.CodeValidation, op, "the path %q is not absolute and clean", s.Path)
		}
		folder := folderOf(s.Path)
		i := slices.IndexFunc(all, func(g group) bool { return g.folder == folder })
		if i < 0 {
			i = len(all)
			all = append(all, group{folder: folder})
		}
		all[i].placeholders = append(all[i].placeholders, s)
	}
	return all, nil
}

// take creates the missing stubs of g and makes h hold all of them. After an
// error h holds those that take had reached. The caller has locked the folder
// of records.
func (h *Held) take(g group) error {
	dir, err := openFolder(g.folder)
	if err != nil {
		return placeholderFailed(g.placeholders[0].Path, err)
	}
	defer unix.Close(dir)
	l, err := h.d.list(key(g.folder))
	if err != nil {
		return placeholderFailed(g.placeholders[0].Path, err)
	}
	var missing []record
	var uses []int // indexes into h.uses, parallel to missing
	for _, s := range g.placeholders {
		if err := hold(h.locks, s.Path); err != nil {
			return placeholderFailed(s.Path, errors.Join(errors.New("its lock cannot be taken"), err))
		}
		h.uses = append(h.uses, use{path: s.Path})
		u := &h.uses[len(h.uses)-1]
		if i := slices.IndexFunc(missing, func(r record) bool { return r.Path == s.Path }); i >= 0 {
			if r := missing[i]; r.Dir != s.Dir {
				return placeholderFailed(s.Path, appeared(s.Path))
			}
			h.uses = h.uses[:len(h.uses)-1] // a duplicate
			continue
		}
		name := filepath.Base(s.Path)
		old, err := h.d.takeOld(u, s, dir, name)
		if err != nil {
			return placeholderFailed(s.Path, err)
		}
		if old {
			continue
		}
		// A stub that is on record but not in its place was removed or
		// replaced.
		if r, ok := l.find(s.Path); ok {
			if r.Dir == s.Dir && r.isAt(dir, name) {
				u.record = r
				continue
			}
			if _, err := h.d.tidy(dir, r); err != nil {
				return placeholderFailed(s.Path, err)
			}
		}
		var st unix.Stat_t
		switch err := hostpath.Stat(dir, name, &st); {
		case err == nil:
			return appeared(s.Path)
		case !errors.Is(err, unix.ENOENT):
			return placeholderFailed(s.Path, err)
		}
		missing, uses = append(missing, newRecord(s)), append(uses, len(h.uses)-1)
	}
	if len(missing) == 0 {
		return nil
	}
	if path, err := h.d.make(dir, &l, missing); err != nil {
		return placeholderFailed(path, err)
	}
	for i, r := range missing {
		h.uses[uses[i]].record = r
	}
	return nil
}

func appeared(path string) error {
	e := sandbox.Errorf(sandbox.CodeBusy, op, "%s has appeared meanwhile", path)
	e.Resource, e.Retryable = path, true
	return e
}

// make runs the steps in the file comment of placeholder_stub.go for stubs in
// the folder dir, each step for all of them, and completes their records. It
// returns an error together with the path that it concerns.
func (d *Placeholders) make(dir int, l *placeholderList, records []record) (path string, err error) {
	path = records[0].Path
	if l.lines > 2*len(l.records)+100 { // most lines are obsolete
		if err := d.save(l); err != nil {
			return path, err
		}
	}
	fd, err := l.open()
	if err != nil {
		return path, err
	}
	defer unix.Close(fd)
	if err := l.append(fd, records); err != nil {
		return path, err
	}
	d.step()
	for i := range records {
		r := &records[i]
		if err := r.create(dir); err != nil {
			return r.Path, err
		}
		if d.Owned && os.Geteuid() == 0 {
			if err := handOver(dir, r.Temp); err != nil {
				return r.Path, err
			}
		}
		st, err := lookPlaceholder(dir, r.Temp)
		if err != nil {
			return r.Path, err
		}
		r.Dev, r.Ino, r.Mtime, r.Birth = st.dev, st.ino, st.mtime, st.birth
		d.step()
	}
	if err := l.append(fd, records); err != nil {
		return path, err
	}
	d.step()
	for _, r := range records {
		if err := rename(dir, r.Temp, filepath.Base(r.Path)); errors.Is(err, fs.ErrExist) {
			return r.Path, appeared(r.Path)
		} else if err != nil {
			return r.Path, err
		}
		d.step()
	}
	return "", nil
}

// handOver changes the owner of name in the folder dir to the folder's owner.
func handOver(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	return hostpath.Retry(func() error {
		return unix.Fchownat(dir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	})
}

// create creates the stub under its random name.
func (r record) create(dir int) error {
	if r.Dir {
		if err := hostpath.Retry(func() error { return unix.Mkdirat(dir, r.Temp, dirMode) }); err != nil {
			return err
		}
		var st unix.Stat_t
		if hostpath.Stat(dir, r.Temp, &st) == nil && st.Mode == unix.S_IFDIR|dirMode {
			return nil // the umask removes no bit of the mode
		}
		fd, err := hostpath.At(dir, r.Temp, unix.O_RDONLY)
		if err != nil {
			return err
		}
		return widen(os.NewFile(uintptr(fd), r.Temp)) // whatever the umask
	}
	if r.Sock { // mode 0, whatever the umask
		return hostpath.Retry(func() error { return makeSocket(dir, r.Temp) })
	}
	fd := -1
	err := hostpath.Retry(func() (err error) {
		fd, err = unix.Openat(dir, r.Temp, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC, fileMode)
		return err
	})
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	if text := content(r.Path); text != "" {
		if n, err := unix.Write(fd, []byte(text)); err != nil || n != len(text) {
			return errors.Join(errors.New("it cannot be written"), err)
		}
	}
	var st unix.Stat_t
	if unix.Fstat(fd, &st) == nil && st.Mode == unix.S_IFREG|fileMode {
		return nil // the umask removes no bit of the mode
	}
	return unix.Fchmod(fd, fileMode)
}

// widen gives a new folder the mode of a stub and closes the file. It leaves
// any other folder that a process put in its place between two steps as it is,
// because its mode may be restrictive for a reason: such a folder is not empty
// or has another owner.
func widen(dir *os.File) error {
	defer dir.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(dir.Fd()), &st); err != nil || st.Mode == unix.S_IFDIR|dirMode {
		return err
	}
	if names, err := dir.Readdirnames(1); len(names) > 0 || !errors.Is(err, io.EOF) || int(st.Uid) != os.Geteuid() {
		return errors.New("something else was put in its place")
	}
	return unix.Fchmod(int(dir.Fd()), dirMode)
}

// clear removes the stubs of the list k whose paths are in want, or all of them
// if want is nil, except those that an owner other than locks holds. It returns
// the paths of the removed stubs. The caller has locked the folder of records.
func (d *Placeholders) clear(locks int, k string, want []string) (removed []string, err error) {
	l, err := d.list(k)
	if err != nil {
		err = placeholderFailed(l.name, err)
		if errors.Is(err, hostpath.ErrOdd) { // not a list of this package
			err = errors.Join(err, os.Remove(l.name))
		}
		return nil, err
	}
	if len(l.records) == 0 {
		if !l.there {
			return nil, nil
		}
		return nil, d.save(&l)
	}
	dir, err := openFolder(folderOf(l.records[0].Path))
	gone := hostpath.Gone(err) // with everything in it
	if err != nil && !gone {
		return nil, placeholderFailed(l.records[0].Path, err)
	}
	if !gone {
		defer unix.Close(dir)
	}
	var errs []error
	var left []record
	for _, r := range slices.Backward(l.records) {
		if want != nil && !slices.Contains(want, r.Path) {
			left = append(left, r)
			continue
		}
		if held, err := isHeld(locks, r.Path); err != nil || held {
			if err != nil {
				errs = append(errs, placeholderFailed(r.Path, err))
			}
			left = append(left, r)
			continue
		}
		if gone {
			continue
		}
		ok, err := d.remove(dir, r)
		if err != nil {
			errs = append(errs, placeholderFailed(r.Path, err))
			left = append(left, r)
		}
		if ok {
			removed = append(removed, r.Path)
		}
	}
	if len(left) < len(l.records) {
		slices.Reverse(left)
		l.records = left
		if err := d.save(&l); err != nil {
			errs = append(errs, placeholderFailed(l.name, err))
		}
	}
	return removed, errors.Join(errs...)
}

// remove removes the stub of r from the folder dir if it is in its place and
// unchanged.
func (d *Placeholders) remove(dir int, r record) (removed bool, err error) {
	name := filepath.Base(r.Path)
	if !r.isAt(dir, name) {
		_, err := d.tidy(dir, r)
		if err != nil || !r.isAt(dir, name) {
			return false, err
		}
	}
	// Under a name that no other process knows, tidy can check the stub once
	// more before removing it: a process that replaces it now uses the old
	// name.
	if err := rename(dir, name, r.Temp); err != nil {
		return false, ignoreGone(err)
	}
	d.step()
	return d.tidy(dir, r)
}

// tidy removes the random name of r. It removes an unchanged stub. If a process
// replaced the stub just before the rename, tidy renames the replacement back.
func (d *Placeholders) tidy(dir int, r record) (removed bool, err error) {
	st, err := lookPlaceholder(dir, r.Temp)
	if err != nil {
		return false, ignoreGone(err)
	}
	if r.Ino == 0 || r.is(st) {
		flags := 0
		if r.Dir {
			flags = unix.AT_REMOVEDIR
		}
		err := hostpath.Retry(func() error { return unix.Unlinkat(dir, r.Temp, flags) })
		d.step()
		full := errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST)
		if full && r.Ino == 0 {
			return false, nil // not created by this package, and never under the other name
		}
		if !full {
			return err == nil, ignoreGone(err)
		}
	}
	return false, ignoreGone(rename(dir, r.Temp, filepath.Base(r.Path)))
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
