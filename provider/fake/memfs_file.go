package fake

import (
	"io"
	"io/fs"
	"path"
	"syscall"
)

// A Flag says how a file is opened.
type memfsFlag int

// The flags. Without Write and Append a file can only be read.
const (
	memfsWrite memfsFlag = 1 << iota
	memfsAppend
	memfsCreate
	memfsExclusive
	memfsTruncate
)

// Names of devices, which [FS.Device] makes.
const (
	deviceNull = "null" // empty, and takes everything
	deviceZero = "zero" // zeros without end, and takes everything
)

// Device enters a device at name, whose folder exists, read-only or not.
func (f *memfsFS) Device(name, device string) error {
	f.disk.mu.Lock()
	defer f.disk.mu.Unlock()
	at, err := f.walk(path.Dir(name), true)
	if err != nil || at.at.n == nil {
		return syscall.ENOENT
	}
	n := at.at.n.vol.newNode(fs.ModeDevice|fs.ModeCharDevice|0o666, 0)
	n.target = device
	at.at.n.put(path.Base(name), n)
	return nil
}

// A Handle is an open file. Reading and writing go on where the last of them
// ended. Like a descriptor it is not for several goroutines that care about
// the order of what they do.
type memfsHandle struct {
	n      *node
	flags  memfsFlag
	offset int64
	closed bool
}

// Open opens a regular file or a device. A pipe is EOPNOTSUPP, because it has
// no process at its other end.
func (v memfsView) Open(name string, flags memfsFlag, perm fs.FileMode) (*memfsHandle, error) {
	v.f.disk.mu.Lock()
	defer v.f.disk.mu.Unlock()
	at, err := v.find(name, flags&memfsExclusive == 0)
	if err != nil {
		return nil, err
	}
	if at.at.n == nil {
		if flags&memfsCreate == 0 {
			return nil, syscall.ENOENT
		}
		if err := v.changeable(at); err != nil {
			return nil, err
		}
		n := at.dir.n.vol.newNode(perm.Perm(), v.f.uid)
		at.dir.n.put(at.name, n)
		n.links++
		return &memfsHandle{n: n, flags: flags}, nil
	}
	if flags&memfsExclusive != 0 {
		return nil, syscall.EEXIST
	}
	if err := v.openable(at.at, flags); err != nil {
		return nil, err
	}
	n := at.at.n
	n.links++
	if flags&memfsTruncate != 0 && n.mode.IsRegular() {
		if err := n.grow(0); err != nil {
			return nil, err
		}
		n.data = nil
		n.touch()
	}
	return &memfsHandle{n: n, flags: flags}, nil
}

func (v memfsView) openable(p position, flags memfsFlag) error {
	want, change := fs.FileMode(4), flags&(memfsWrite|memfsAppend) != 0
	if change {
		want = 2
	}
	switch {
	case p.n.mode.IsDir() && change:
		return syscall.EISDIR
	case p.n.mode.Type() == fs.ModeNamedPipe:
		return syscall.EOPNOTSUPP
	case change && p.m.readOnly && p.n.mode.IsRegular():
		return syscall.EROFS
	case !v.f.may(p.n, want):
		return syscall.EACCES
	}
	return nil
}

// Read implements [io.Reader].
func (h *memfsHandle) Read(b []byte) (int, error) {
	n, err := h.ReadAt(b, h.offset)
	h.offset += int64(n)
	return n, err
}

// ReadAt implements [io.ReaderAt].
func (h *memfsHandle) ReadAt(b []byte, off int64) (int, error) {
	d := h.n.vol.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case h.closed || h.flags&(memfsWrite|memfsAppend) != 0:
		return 0, syscall.EBADF
	case h.n.mode.IsDir():
		return 0, syscall.EISDIR
	case h.n.target == deviceZero:
		clear(b)
		return len(b), nil
	case off >= int64(len(h.n.data)):
		return 0, io.EOF
	}
	return copy(b, h.n.data[off:]), nil
}

// Write implements [io.Writer]. A volume that fills takes what it can.
func (h *memfsHandle) Write(b []byte) (int, error) {
	d := h.n.vol.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.closed || h.flags&(memfsWrite|memfsAppend) == 0 {
		return 0, syscall.EBADF
	}
	if !h.n.mode.IsRegular() {
		return len(b), nil
	}
	if h.flags&memfsAppend != 0 {
		h.offset = int64(len(h.n.data))
	}
	whole := len(b)
	if v := h.n.vol; v.size > 0 {
		room := v.size - v.used + max(int64(len(h.n.data))-h.offset, 0)
		b = b[:max(min(int64(len(b)), room), 0)]
	}
	if end := h.offset + int64(len(b)); end > int64(len(h.n.data)) {
		if err := h.n.grow(end); err != nil {
			return 0, err
		}
	}
	copy(h.n.data[h.offset:], b)
	h.offset += int64(len(b))
	h.n.touch()
	if len(b) < whole {
		return len(b), syscall.ENOSPC
	}
	return whole, nil
}

// Next is where the next Write goes. Of a device ok is false.
func (h *memfsHandle) Next() (offset int64, ok bool) {
	d := h.n.vol.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.flags&memfsAppend != 0 {
		return int64(len(h.n.data)), h.n.mode.IsRegular()
	}
	return h.offset, h.n.mode.IsRegular()
}

// Close lets go of the file. A file without names is gone then.
func (h *memfsHandle) Close() error {
	d := h.n.vol.disk
	d.mu.Lock()
	defer d.mu.Unlock()
	if h.closed {
		return syscall.EBADF
	}
	h.closed = true
	h.n.release()
	return nil
}
