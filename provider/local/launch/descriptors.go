//go:build linux

package launch

import (
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// descriptors are the files that a child gets beside the usual three, in the
// order of their numbers there.
type descriptors struct{ list []*os.File }

// add gives f a number in the child.
func (d *descriptors) add(f *os.File) (number int) {
	d.list = append(d.list, f)
	return len(d.list) + 2
}

// memory gives a number to a file in memory that holds content.
func (d *descriptors) memory(name string, content []byte) (number int, err error) {
	fd, err := unix.MemfdCreate(name, unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return 0, fmt.Errorf("make a file in memory: %w", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err = f.Write(content); err == nil {
		_, err = f.Seek(0, 0)
	}
	if err == nil {
		// A child that could write to it would change it for us and for others.
		_, err = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_WRITE|unix.F_SEAL_GROW|unix.F_SEAL_SHRINK|unix.F_SEAL_SEAL)
	}
	if err != nil {
		f.Close()
		return 0, fmt.Errorf("write a file in memory: %w", err)
	}
	return d.add(f), nil
}

// close closes our side of all of them.
func (d *descriptors) close() {
	for _, f := range d.list {
		f.Close()
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
