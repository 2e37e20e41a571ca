//go:build linux

package launch

import (
	"fmt"
	"os"
	"slices"
	"sync"

	"golang.org/x/sys/unix"
)

// descriptors are the files that a child gets beside the usual three, in the
// order of their numbers there.
type descriptors struct {
	list     []*os.File
	borrowed []*os.File // those of them that another owner closes
}

// add gives f a number in the child.
func (d *descriptors) add(f *os.File) (number int) {
	d.list = append(d.list, f)
	return len(d.list) + 2
}

// borrow gives f a number in the child; f stays the caller's.
func (d *descriptors) borrow(f *os.File) (number int) {
	number = d.add(f)
	d.borrowed = append(d.borrowed, f)
	return number
}

// memory makes an empty file in memory.
func memory(name string) (*os.File, error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, fmt.Errorf("make a file in memory: %w", err)
	}
	return os.NewFile(uintptr(fd), name), nil
}

// fill writes a file in memory, for good. Who has a descriptor of it already
// reads it from the start.
func fill(f *os.File, content []byte) error {
	_, err := f.Write(content)
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err == nil {
		// A child that could write to it would change it for us and for others.
		_, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		return fmt.Errorf("write a file in memory: %w", err)
	}
	return nil
}

// close closes our side of all of them but those that were borrowed.
func (d *descriptors) close() {
	for _, f := range d.list {
		if !slices.Contains(d.borrowed, f) {
			f.Close()
		}
	}
	d.list = nil
}

// A tail is a writer that keeps the last limit bytes.
type tail struct {
	limit int
	mu    sync.Mutex
	b     []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.b = append(t.b, p...)
	if over := len(t.b) - t.limit; over > 0 {
		t.b = append(t.b[:0], t.b[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return string(t.b)
}
