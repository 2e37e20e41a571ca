//go:build linux

package launch

import (
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// A Limit is one of setrlimit(2) for everything in an instance. The guest sets it,
// as its configuration says; to raise a hard one takes rights that the guest
// has not, and is done from outside.
type Limit = wire.Rlimit

// higher returns those of limits that are above what a child of ours has.
func higher(limits []Limit) []Limit {
	return slices.DeleteFunc(slices.Clone(limits), func(l Limit) bool {
		var have unix.Rlimit
		return unix.Getrlimit(int(l.Resource), &have) != nil || l.Hard <= have.Max
	})
}

// raise raises hard limits of the instance's first process, which waits to execute
// the guest. Who may not, which some machines deny to root too, keeps the ones
// that there are.
func raise(pid int, limits []Limit) error {
	for _, l := range limits {
		var have unix.Rlimit
		if err := unix.Getrlimit(int(l.Resource), &have); err != nil {
			return os.NewSyscallError("getrlimit", err)
		}
		err := unix.Prlimit(pid, int(l.Resource), &unix.Rlimit{Cur: have.Cur, Max: l.Hard}, nil)
		if err != nil && err != unix.EPERM {
			return os.NewSyscallError("prlimit", err)
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
