package recorder

import (
	"os"

	"golang.org/x/sys/unix"
)

func init() {
	shortPipe = func(f *os.File) error {
		_, err := unix.FcntlInt(f.Fd(), unix.F_SETPIPE_SZ, os.Getpagesize())
		return err
	}
}
