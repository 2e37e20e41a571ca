package stub

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"

	"golang.org/x/sys/unix"
)

// Modes of stubs. A folder can be written by its owner, so that a stub in it
// can be made without being root.
const (
	fileMode = 0o444
	dirMode  = 0o755
)

// MaxSize is how many bytes a stub that is a file has at most; whoever asks
// for many paths whether they are stubs can leave out what is longer.
const MaxSize = 3

// content returns what a file at path has to hold so that programs which come
// across it meanwhile do as if it were missing. Git takes hooks and
// configuration from where "commondir" says, and does not work with an empty
// one; "." is where they are anyway.
func content(path string) string {
	switch name := filepath.Base(path); {
	case name == "commondir":
		return ".\n"
	case strings.HasSuffix(name, ".json"):
		return "{}\n"
	}
	return ""
}

// take makes the stub s unless it is there, and holds it. The caller has
// locked the folder of records.
func (d *Dir) take(s plan.Stub) (use, error) {
	if len(s.Path) < 2 || s.Path[0] != '/' || filepath.Clean(s.Path) != s.Path || strings.IndexByte(s.Path, 0) >= 0 {
		return use{}, sandbox.Errorf(sandbox.CodeValidation, op, "the path %q is not absolute and clean", s.Path)
	}
	k := key(s.Path)
	u := use{path: s.Path, lock: d.lockOf(k)}
	if ok, err := u.lock.TryRLock(); err != nil || !ok {
		return use{}, failed(s.Path, errors.Join(errors.New("its lock cannot be taken"), err))
	}
	var err error
	u.record, err = d.ensure(s, k)
	if err != nil {
		u.lock.Unlock()
		_, cleared := d.clear(k)
		return use{}, errors.Join(failed(s.Path, err), cleared)
	}
	return u, nil
}

// ensure has the stub be there, and returns what is on record of it. What is on
// record and not in its place is gone: somebody removed or replaced it.
func (d *Dir) ensure(s plan.Stub, k string) (record, error) {
	dir, name, err := parent(s.Path)
	if err != nil {
		return record{}, err
	}
	defer unix.Close(dir)
	if r, err := d.read(k); err == nil && r.valid(k) && r.Ino != 0 && r.Dir == s.Dir && r.isAt(dir, name) {
		return r, nil
	} else if err == nil && r.valid(k) {
		if err := d.tidy(dir, r); err != nil {
			return record{}, err
		}
	}
	var st unix.Stat_t
	switch err := hostpath.Stat(dir, name, &st); {
	case err == nil:
		return record{}, appeared(s.Path)
	case !errors.Is(err, unix.ENOENT):
		return record{}, err
	}
	return d.make(dir, name, newRecord(s))
}

func appeared(path string) error {
	e := sandbox.Errorf(sandbox.CodeBusy, op, "%s has appeared meanwhile", path)
	e.Resource, e.Retryable = path, true
	return e
}

// make goes through the steps in the package comment, and returns r with what
// was made.
func (d *Dir) make(dir int, name string, r record) (record, error) {
	f, err := d.begin(r)
	if err != nil {
		return r, err
	}
	defer f.Close()
	d.step()
	if err := r.create(dir); err != nil {
		return r, err
	}
	if d.Owned && os.Geteuid() == 0 {
		if err := handOver(dir, r.Temp); err != nil {
			return r, err
		}
	}
	d.step()
	var st unix.Stat_t
	if err := hostpath.Stat(dir, r.Temp, &st); err != nil {
		return r, err
	}
	r.Dev, r.Ino, r.Mtime = uint64(st.Dev), st.Ino, st.Mtim.Nano()
	r.Birth = birth(dir, r.Temp)
	if err := r.appendTo(f); err != nil {
		return r, err
	}
	d.step()
	if err := rename(dir, r.Temp, name); errors.Is(err, fs.ErrExist) {
		return r, appeared(r.Path)
	} else if err != nil {
		return r, err
	}
	d.step()
	return r, nil
}

// handOver gives what is called name in the folder dir to the folder's owner.
func handOver(dir int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(dir, &st); err != nil {
		return err
	}
	return hostpath.Retry(func() error {
		return unix.Fchownat(dir, name, int(st.Uid), int(st.Gid), unix.AT_SYMLINK_NOFOLLOW)
	})
}

// create makes the thing under its random name.
func (r record) create(dir int) error {
	if r.Dir {
		if err := hostpath.Retry(func() error { return unix.Mkdirat(dir, r.Temp, dirMode) }); err != nil {
			return err
		}
		var st unix.Stat_t
		if hostpath.Stat(dir, r.Temp, &st) == nil && st.Mode == unix.S_IFDIR|dirMode {
			return nil // the umask takes nothing
		}
		fd, err := hostpath.At(dir, r.Temp, unix.O_RDONLY)
		if err != nil {
			return err
		}
		return widen(os.NewFile(uintptr(fd), r.Temp)) // whatever the umask
	}
	if r.Sock { // closed to all, whatever the umask
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
	return unix.Fchmod(fd, fileMode)
}

// widen gives a new folder the mode of a stub and closes it. One that was put
// in the place of ours between two steps, which may be closed to others for a
// reason, is not empty or not ours, and is left as it is.
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

// clear removes the stub of the record k unless somebody holds it, and
// returns its path if it did. The caller has locked the folder of records.
func (d *Dir) clear(k string) (string, error) {
	l := d.lockOf(k)
	if ok, err := l.TryLock(); err != nil || !ok {
		return "", err // somebody holds it
	}
	defer l.Unlock()
	r, err := d.read(k)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !r.valid(k) {
		return "", d.forget(k) // never made, or no record of ours
	}
	if err != nil {
		return "", errors.Join(failed(d.file(k), err), d.forget(k))
	}
	removed, err := d.remove(r)
	if err != nil {
		return "", failed(r.Path, err)
	}
	if err := d.forget(k); err != nil {
		return "", failed(r.Path, err)
	}
	if !removed {
		return "", nil
	}
	return r.Path, nil
}

// remove removes the stub of r if it is in its place and untouched.
func (d *Dir) remove(r record) (removed bool, err error) {
	dir, name, err := parent(r.Path)
	if hostpath.Gone(err) {
		return false, nil // with its folder
	}
	if err != nil {
		return false, err
	}
	defer unix.Close(dir)
	if err := d.tidy(dir, r); err != nil || !r.isAt(dir, name) {
		return false, err
	}
	// Under a name that nobody else knows, it can be looked at once more
	// before it goes: whoever replaces it now does so under the old name.
	if err := rename(dir, name, r.Temp); err != nil {
		return false, ignoreGone(err)
	}
	d.step()
	if err := d.tidy(dir, r); err != nil {
		return false, err
	}
	var st unix.Stat_t
	return hostpath.Stat(dir, name, &st) != nil, nil
}

// tidy empties the random name of r: of the stub, which is removed when it is
// untouched, or of what somebody had put in its place just when it was to be
// removed, which gets its name back.
func (d *Dir) tidy(dir int, r record) error {
	var st unix.Stat_t
	if err := hostpath.Stat(dir, r.Temp, &st); err != nil {
		return ignoreGone(err)
	}
	if r.Ino == 0 || r.isAt(dir, r.Temp) {
		flags := 0
		if r.Dir {
			flags = unix.AT_REMOVEDIR
		}
		err := hostpath.Retry(func() error { return unix.Unlinkat(dir, r.Temp, flags) })
		d.step()
		full := errors.Is(err, unix.ENOTEMPTY) || errors.Is(err, unix.EEXIST)
		if full && r.Ino == 0 {
			return nil // not ours to remove, and nothing that ever had the other name
		}
		if !full {
			return ignoreGone(err)
		}
	}
	return ignoreGone(rename(dir, r.Temp, filepath.Base(r.Path)))
}

func ignoreGone(err error) error {
	if errors.Is(err, unix.ENOENT) {
		return nil
	}
	return err
}
