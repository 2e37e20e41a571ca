//go:build linux

package launch

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/guest/enter"
)

// A Limit is one of setrlimit(2) for everything in a wall.
type Limit = enter.Limit

// limit puts limits on the wall's first process, which waits to execute the
// guest; who may not raise a hard limit keeps the one that he has. On the way
// down from root, package enter does that: some machines let not even root
// touch the limits of another user's processes.
func limit(pid int, limits []Limit) error {
	for _, l := range limits {
		var have unix.Rlimit
		if err := unix.Prlimit(pid, l.Resource, nil, &have); err != nil {
			return fmt.Errorf("read limit %d: %w", l.Resource, err)
		}
		want := unix.Rlimit{Cur: l.Soft, Max: l.Hard}
		err := unix.Prlimit(pid, l.Resource, &want, nil)
		if err == unix.EPERM && want.Max > have.Max {
			want.Max = have.Max
			want.Cur = min(want.Cur, want.Max)
			err = unix.Prlimit(pid, l.Resource, &want, nil)
		}
		if err != nil {
			return fmt.Errorf("set limit %d: %w", l.Resource, err)
		}
	}
	return nil
}

// A latch is a pipe on which bubblewrap waits before it executes the guest.
type latch struct{ write *os.File }

// add gives the child its end.
func (l *latch) add(files *descriptors) (number int, err error) {
	read, write, err := os.Pipe()
	if err != nil {
		return 0, err
	}
	l.write = write
	return files.add(read), nil
}

// open lets the guest start, or lets a child that has failed end.
func (l *latch) open() {
	if l.write != nil {
		l.write.Close()
		l.write = nil
	}
}
