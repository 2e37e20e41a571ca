package hostscan

import (
	"bytes"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"

	"github.com/gofrs/flock"
	"golang.org/x/sys/unix"
)

// Versions before 2026-11-28 kept one record file for each stub, locked by its
// users. Such a version may still run, or may have been killed: the code here
// takes over and removes its stubs like others, and never creates such files.

// oldSuffix is the end of the names of such files; the beginning is a digest of
// the stub's path.
const oldSuffix = ".json"

// maxOld bounds such a file in bytes: a path of maximum length, escaped.
const maxOld = 64 << 10

func (d *Placeholders) oldFile(k string) string { return filepath.Join(d.path, k+oldSuffix) }

func (d *Placeholders) oldLock(k string) *flock.Flock {
	return flock.New(d.oldFile(k), flock.SetPermissions(0o600))
}

// readOld returns the old record k, or an error that is [fs.ErrNotExist].
func (d *Placeholders) readOld(k string) (record, error) {
	var r record
	name := d.oldFile(k)
	var st unix.Stat_t
	if err := unix.Lstat(name, &st); err != nil { // nearly every path has no record, so this check is a cheap call
		return r, err
	}
	data, err := hostpath.File(name, maxOld)
	if err != nil {
		return r, err
	}
	for dec := json.NewDecoder(bytes.NewReader(data)); ; {
		var next record
		if dec.Decode(&next) != nil {
			return r, nil // the end, or the rest of an incomplete write
		}
		r = next // the last record counts
	}
}

// takeOld makes u use the stub s, called name in the folder dir, if an old
// record says that it exists. Otherwise it removes that record.
func (d *Placeholders) takeOld(u *use, s plan.Placeholder, dir int, name string) (taken bool, err error) {
	k := key(s.Path)
	if _, err := d.readOld(k); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	l := d.oldLock(k)
	if ok, err := l.TryRLock(); err != nil || !ok {
		return false, errors.Join(errors.New("its lock cannot be taken"), err)
	}
	if r, err := d.readOld(k); err == nil && r.valid() && key(r.Path) == k && r.Dir == s.Dir && r.isAt(dir, name) {
		u.old, u.record = l, r
		return true, nil
	}
	if err := l.Unlock(); err != nil {
		return false, err
	}
	_, err = d.clearOld(k)
	return false, err
}

// clearOld removes the stub of the old record k unless another process holds
// it, and returns its path if it did. The caller has locked the folder of
// records.
func (d *Placeholders) clearOld(k string) (string, error) {
	if _, err := d.readOld(k); errors.Is(err, fs.ErrNotExist) {
		return "", nil
	}
	l := d.oldLock(k)
	if ok, err := l.TryLock(); err != nil || !ok {
		return "", err // another process holds it
	}
	defer l.Unlock()
	r, err := d.readOld(k)
	if err == nil && (!r.valid() || key(r.Path) != k) {
		return "", d.forgetOld(k) // never created, or an invalid record
	}
	if err != nil {
		return "", errors.Join(placeholderFailed(d.oldFile(k), err), d.forgetOld(k))
	}
	dir, err := openFolder(folderOf(r.Path))
	if hostpath.Gone(err) {
		return "", d.forgetOld(k) // its folder is gone too
	}
	if err != nil {
		return "", placeholderFailed(r.Path, err)
	}
	defer unix.Close(dir)
	removed, err := d.remove(dir, r)
	if err != nil {
		return "", placeholderFailed(r.Path, err)
	}
	if err := d.forgetOld(k); err != nil {
		return "", placeholderFailed(r.Path, err)
	}
	if !removed {
		return "", nil
	}
	return r.Path, nil
}

// forgetOld removes the old record k. The caller holds the exclusive lock of
// the record and the lock of the folder, so no other process opens it
// meanwhile.
func (d *Placeholders) forgetOld(k string) error {
	err := os.Remove(d.oldFile(k))
	d.step()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
