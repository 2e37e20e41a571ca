package ledger

import (
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// shards is how many folders the accounts below one root are spread over, by
// the first two digits of their key.
const shards = 256

// newName is the file that an account is written to before it gets its name,
// so that no file of an account is ever short. It is used under the lock.
const newName = "new"

func (k key) shard() string { return k.String()[:2] }

// path is where the account lies below the folder of its root.
func (k key) path(root string) string { return filepath.Join(root, k.shard(), k.String()[2:]) }

// A file is the open file of an account, under the lock of its root. It is a
// plain descriptor: a draw opens one for each account of its chain, and
// [os.File] would cost more than the draw.
type file struct {
	fd   int
	path string
	rec  record
	had  budget.Amount // what it had used when it was opened
}

// openFile opens and reads the account c. The error is fs.ErrNotExist for a
// missing one, and has the code [sandbox.CodeUnavailable] for an invalid one.
func openFile(c *link) (*file, error) {
	f, err := openPath(c.path)
	if err != nil {
		return nil, err
	}
	switch {
	case f.rec.id != c.ID:
		err = damaged(c.path, errors.New("belongs to another account"))
	case f.rec.parent != c.parent:
		err = &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "open budget account", Resource: c.ID,
			Message: "the account " + c.ID + " stands below another account than the chain says",
			Hint:    "an account stays below the one that it was made under",
		}
	}
	if err != nil {
		f.close()
		return nil, err
	}
	return f, nil
}

// errNotRegular completes the same sentence as errCorrupt.
var errNotRegular = errors.New("is not a regular file")

// openPath opens and reads the account's file at path, whichever it is.
func openPath(path string) (*file, error) {
	fd, err := openat(path, unix.O_RDWR|unix.O_NONBLOCK)
	if err != nil {
		if errors.Is(err, unix.ELOOP) || errors.Is(err, unix.EISDIR) || errors.Is(err, unix.ENXIO) {
			return nil, damaged(path, errNotRegular)
		}
		return nil, err
	}
	f := &file{fd: fd, path: path}
	if f.rec, err = f.read(); err != nil {
		f.close()
		switch {
		case errors.Is(err, errCorrupt):
			err = damaged(path, err)
		case errors.Is(err, unix.ESPIPE):
			err = damaged(path, errNotRegular)
		}
		return nil, err
	}
	f.had = f.rec.used
	return f, nil
}

// charge makes used what the account has used.
func (f *file) charge(used budget.Amount, sync bool) error {
	if f.rec.used == used {
		return nil
	}
	r := f.rec
	r.used = used
	return f.write(r, sync)
}

func (f *file) close() { unix.Close(f.fd) }

func (f *file) read() (record, error) {
	var data [fileSize + 1]byte
	n, err := again(func() (int, error) { return unix.Pread(f.fd, data[:], 0) })
	if err != nil {
		return record{}, err
	}
	return newest(data[:n])
}

// write puts r, with the next number, over the older slot.
func (f *file) write(r record, sync bool) error {
	r.seq = f.rec.seq + 1
	slot := encode(r)
	n, err := again(func() (int, error) { return unix.Pwrite(f.fd, slot[:], slotOf(r.seq)) })
	switch {
	case err != nil:
		return err
	case n != slotSize:
		return fmt.Errorf("wrote %d of %d bytes to %s", n, slotSize, f.path)
	}
	f.rec = r
	if sync {
		_, err = again(func() (int, error) { return 0, syncData(f.fd) })
	}
	return err
}

// create makes the file of r, and room for it in its shard. It always syncs an
// account that stays for ever, whatever the policy: such an account is made
// once, and damage to it by a loss of power would stop everything below it.
func (l *Ledger) create(root string, r record) error {
	k := keyOf(r.id)
	shard := filepath.Join(root, k.shard())
	if err := l.makeRoom(shard); err != nil {
		return err
	}
	sync := l.sync || r.expires == 0
	tmp := filepath.Join(root, newName)
	if err := writeNew(tmp, r, sync); err != nil {
		return err
	}
	if err := unix.Rename(tmp, k.path(root)); err != nil {
		return err
	}
	if !sync {
		return nil
	}
	return errors.Join(statedir.SyncDir(shard), statedir.SyncDir(root), statedir.SyncDir(l.dir))
}

// writeNew writes a whole file with r alone.
func writeNew(path string, r record, sync bool) error {
	fd, err := openat(path, unix.O_WRONLY|unix.O_CREAT|unix.O_TRUNC|unix.O_NONBLOCK)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	slot := encode(r)
	var data [fileSize]byte
	copy(data[slotOf(r.seq):], slot[:])
	n, err := again(func() (int, error) { return unix.Pwrite(fd, data[:], 0) })
	if err == nil && n != fileSize {
		err = unix.ENOSPC
	}
	if err == nil && sync {
		_, err = again(func() (int, error) { return 0, unix.Fsync(fd) })
	}
	return err
}

// openat opens path, of which the last part must not be a link.
func openat(path string, flags int) (int, error) {
	return again(func() (int, error) {
		return unix.Open(path, flags|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o600)
	})
}

// again repeats a system call that a signal has interrupted.
func again(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// damaged is the error for a file without valid contents.
func damaged(path string, cause error) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "read budget account", Resource: path, Err: cause,
		Message: "the account's file " + path,
		Hint:    "nothing is granted from it; move it away to begin the account anew with nothing used",
	}
}

// removed is the error about an account whose file went away while it was open.
func removed(id string) error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "draw from budget", Resource: id,
		Message: "the account " + id + " was removed while it was in use",
		Hint:    "open it again; it begins with nothing used",
	}
}

// unavailable says what cannot be used of the ledger.
func (l *Ledger) unavailable(op string, err error) error {
	return statedir.Unavailable(op, l.dir, err)
}
