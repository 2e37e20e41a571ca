package testenv

import (
	"os"
	"os/signal"
	"syscall"
)

// HearSignals is for tests of what the program does with signals. Whoever runs
// the tests can have them ignored (nohup; a shell without job control, in its
// background), which the program, and those that tests start, would abide by.
// A signal that is not ignored stays as it is.
func HearSignals() {
	for _, s := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGPIPE} {
		if signal.Ignored(s) {
			signal.Notify(make(chan os.Signal, 1), s) // what is caught, a child finds at its default
		}
	}
}
