package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// An opened is an open file and the path that it was opened at.
type opened struct {
	f    *os.File // nil: there is none
	path string
	was  unix.Stat_t // when it was opened
}

// take makes f, which was opened at path, the file of o.
func (o *opened) take(path string, f *os.File) error {
	*o = opened{f: f, path: path}
	if err := unix.Fstat(int(f.Fd()), &o.was); err != nil {
		o.close()
		return os.NewSyscallError("fstat", err)
	}
	return nil
}

// there reports whether the path still refers to the open file, so that opening
// the path now would return the same file, and the size of the file.
func (o *opened) there() (size int64, ok bool, err error) {
	var now unix.Stat_t
	err = unix.Lstat(o.path, &now)
	for errors.Is(err, unix.EINTR) {
		err = unix.Lstat(o.path, &now)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil || now.Dev != o.was.Dev || now.Ino != o.was.Ino {
		return 0, false, os.NewSyscallError("lstat", err)
	}
	return now.Size, true, nil
}

func (o *opened) close() {
	if o.f != nil {
		o.f.Close()
	}
	*o = opened{}
}

// kept are the open files of a journal that a writer has used. It uses head and
// last only under the lock, and relies on files opened earlier only after known
// has confirmed that nothing has changed.
type kept struct {
	lock opened
	head opened
	last opened // the newest file
	next string // path of the one behind it
	tail tail   // as head says and where last ends
	text []byte // of head
	used time.Time
}

// known returns the end of the journal when it is still where the last append
// through k left it: the same files under the same names, the same head, the
// same length, a complete line at the end and no newer file. The result is what
// locate would find. When anything differs or cannot be checked, known closes
// the files and the caller has to call locate.
func (k *kept) known() (end, bool) {
	if k.head.f != nil && k.last.f != nil && k.unchanged() {
		return end{tail: k.tail, usable: true, length: k.tail.size, stray: k.tail.size}, true
	}
	k.forget()
	return end{}, false
}

func (k *kept) unchanged() bool {
	if size, ok, err := k.last.there(); !ok || err != nil || size != k.tail.size || size == 0 {
		return false
	}
	if size, ok, err := k.head.there(); !ok || err != nil || size != headSize {
		return false
	}
	var text [headSize]byte
	if n, err := k.head.f.ReadAt(text[:], 0); err != nil || !bytes.Equal(text[:n], k.text) {
		return false
	}
	if _, err := k.last.f.ReadAt(text[:1], k.tail.size-1); err != nil || text[0] != '\n' {
		return false
	}
	var next unix.Stat_t
	return errors.Is(unix.Lstat(k.next, &next), fs.ErrNotExist)
}

// file returns the newest file of the journal in dir, which has that number,
// for reading and appending.
func (k *kept) file(dir string, number uint64) (*os.File, error) {
	if k.last.f == nil {
		path := filepath.Join(dir, fileName(number))
		f, err := openRegular(path, os.O_RDWR|os.O_APPEND)
		if err == nil {
			err = k.last.take(path, f)
		}
		if err != nil {
			return nil, err
		}
		k.next = filepath.Join(dir, fileName(number+1))
	}
	return k.last.f, nil
}

// note writes t into the head. When that fails the head stays behind and the
// next writer catches up; the records are there.
func (k *kept) note(dir string, t tail) {
	if err := k.writeHead(dir, t); err != nil {
		k.head.close()
	}
}

func (k *kept) writeHead(dir string, t tail) error {
	if k.head.f == nil {
		f, err := openHead(dir)
		if err == nil {
			err = k.head.take(f.Name(), f)
		}
		if err != nil {
			return err
		}
	}
	k.tail, k.text = t, appendHead(k.text[:0], t)
	if _, err := k.head.f.WriteAt(k.text, 0); err != nil {
		return err
	}
	if k.head.was.Size > headSize { // as it was found
		return k.head.f.Truncate(headSize)
	}
	return nil
}

// forget closes the files in which records and their end are.
func (k *kept) forget() {
	k.head.close()
	k.last.close()
}

func (k *kept) close() {
	k.forget()
	k.lock.close()
}
