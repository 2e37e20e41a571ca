package testenv

import (
	"testing"

	"golang.org/x/sys/unix"
)

// Scarce runs do while this process can have only so many descriptors open at
// one time beside those that it has. It is for tests that run alone in their
// process, because the limit holds for all goroutines.
func Scarce(t testing.TB, spare int, do func()) {
	t.Helper()
	var had unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &had); err != nil {
		t.Fatal(err)
	}
	var free []int // the lowest numbers, which come next
	for range spare + 1 {
		fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		free = append(free, fd)
	}
	for _, fd := range free {
		_ = unix.Close(fd)
	}
	set := func(l unix.Rlimit) {
		if err := unix.Setrlimit(unix.RLIMIT_NOFILE, &l); err != nil {
			t.Fatal(err)
		}
	}
	set(unix.Rlimit{Cur: uint64(free[spare]), Max: had.Max})
	defer set(had)
	do()
}
