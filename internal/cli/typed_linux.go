package cli

import (
	"os"

	"golang.org/x/sys/unix"
)

// forgetTyped drops what was typed and not read yet.
func forgetTyped(f *os.File) {
	// A terminal that cannot do that just keeps it.
	_ = unix.IoctlSetInt(int(f.Fd()), unix.TCFLSH, unix.TCIFLUSH)
}
