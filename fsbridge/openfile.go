package fsbridge

import (
	"io"
	"io/fs"
	"sync"
)

// An openFile is a regular file of a view.
type openFile struct {
	name string
	info fs.FileInfo

	mu     sync.Mutex
	r      io.ReadCloser
	closed bool
}

func (f *openFile) Stat() (fs.FileInfo, error) { return f.info, nil }

func (f *openFile) Read(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return 0, pathError("read", f.name, fs.ErrClosed)
	}
	n, err := f.r.Read(p)
	if err != nil && err != io.EOF {
		err = pathError("read", f.name, err)
	}
	return n, err
}

func (f *openFile) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closed {
		return pathError("close", f.name, fs.ErrClosed)
	}
	f.closed = true
	return f.r.Close()
}

// An openDir is a folder of a view. It is listed once, when first read.
type openDir struct {
	view *view
	name string
	info fs.FileInfo

	mu     sync.Mutex
	listed bool
	rest   []fs.DirEntry
	closed bool
}

var _ fs.ReadDirFile = (*openDir)(nil)

func (d *openDir) Stat() (fs.FileInfo, error) { return d.info, nil }

func (d *openDir) Read([]byte) (int, error) {
	return 0, pathError("read", d.name, fs.ErrInvalid)
}

func (d *openDir) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return pathError("close", d.name, fs.ErrClosed)
	}
	d.closed = true
	return nil
}

// ReadDir implements [fs.ReadDirFile].
func (d *openDir) ReadDir(n int) ([]fs.DirEntry, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return nil, pathError("readdir", d.name, fs.ErrClosed)
	}
	if !d.listed {
		entries, err := d.view.ReadDir(d.name)
		if err != nil {
			return nil, err
		}
		d.rest, d.listed = entries, true
	}
	if n <= 0 || n > len(d.rest) {
		if n > 0 && len(d.rest) == 0 {
			return nil, io.EOF
		}
		n = len(d.rest)
	}
	out := d.rest[:n:n]
	d.rest = d.rest[n:]
	return out, nil
}
