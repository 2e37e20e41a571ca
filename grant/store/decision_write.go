package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// newPrefix begins the names of files that are being written, or were when
// their process was killed.
const newPrefix = ".new-"

// errGone means that a concurrent sweep removed the entry.
var errGone = errors.New("the entry went away")

// create gives the entry e its name. It returns fs.ErrExist when the name
// exists, whichever call made it.
func (k *Keys) create(path string, e entry) error {
	shard := filepath.Dir(path)
	if err := os.Mkdir(shard, 0o700); err == nil {
		if err := statedir.SyncDir(k.dir); err != nil {
			return err
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return err
	}
	tmp, err := writeNew(shard, e)
	if err != nil {
		return err
	}
	if err = os.Link(tmp, path); errors.Is(err, fs.ErrNotExist) {
		return errGone // as old, by a clock that was set
	}
	if gone := os.Remove(tmp); err == nil && !errors.Is(gone, fs.ErrNotExist) {
		err = gone
	}
	if err != nil {
		return err
	}
	k.tidy(shard)
	return statedir.SyncDir(shard)
}

// extend keeps the entry had of a call until e says, where that is later: a
// grant that was derived may use the key before the one it is of.
func (k *Keys) extend(path string, had, e entry) error {
	if had.Until >= e.Until {
		return nil
	}
	shard := filepath.Dir(path)
	unlock, err := lock(shard)
	if err != nil {
		return err
	}
	defer unlock()
	switch now, err := read(path); {
	case errors.Is(err, fs.ErrNotExist):
		return errGone
	case err != nil:
		return err
	case now.Call != e.Call: // swept, and used by another call since
		return errGone
	case now.Until >= e.Until:
		return nil
	}
	tmp, err := writeNew(shard, e)
	if err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return statedir.SyncDir(shard)
}

// writeNew writes e to the disk under an unused name.
func writeNew(shard string, e entry) (path string, err error) {
	data, err := encodeDecision(e)
	if err != nil {
		return "", err
	}
	f, err := os.CreateTemp(shard, newPrefix)
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

func isNew(name string) bool { return strings.HasPrefix(name, newPrefix) }

// lock keeps other processes from changing entries of the shard; making new
// ones needs no lock. It is held for a few file operations at most.
func lock(shard string) (unlock func(), err error) {
	f, err := os.OpenFile(shard, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, err
	}
	for {
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}
