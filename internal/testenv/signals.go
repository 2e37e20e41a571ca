package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// HearSignals is for tests of what the program does with signals. The parent of
// a test run can have signals ignored (nohup; a shell without job control, in
// its background), which the program, and those that tests start, would
// inherit. A signal that is not ignored stays as it is.
func HearSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // what is caught, a child finds at its default
		}
	}
}
