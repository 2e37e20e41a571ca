//go:build !linux

package checkpoint

import (
	"errors"

	"golang.org/x/sys/unix"
)

func openAtOnce(int, string) (fd int, err error, done bool) { return -1, nil, false }

func cloneFile(int, int) error { return errors.ErrUnsupported }

func nextData(_ int, at, size int64) (from, to int64, err error) { return at, size, nil }

func isWhiteout(*unix.Stat_t) bool { return false }

func makeWhiteout(int, string) error { return errors.ErrUnsupported }

// probeReflink refuses: clonefile(2) makes a file and does not fill an open one.
func probeReflink(string) error {
	return errors.New("this system has no FICLONE")
}

func ordersRenames(string) bool { return false }

// pathOnly opens a file to name it alone.
const pathOnly = 0
