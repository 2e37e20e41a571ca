// This file is for tests that wait for something that sends no notification: it
// polls. Waiting for a channel, a stream or an event of the kernel is better,
// and where the clock is ours a bubble of testing/synctest.

package testenv

import (
	"errors"
	"testing"
	"time"
)

const (
	// Patience is how long something may take. It is far more than anything
	// takes on a busy machine, and only what fails waits for so long.
	Patience = time.Minute

	// Between two looks: what comes soon is seen soon, and what takes longer is
	// not slowed down by looking.
	first, most = time.Millisecond, 20 * time.Millisecond
)

// Until returns when so says yes. After [Patience] it ends the test, which
// says that what did not happen. It looks at least once, and is for the test's
// own goroutine.
func Until(t testing.TB, what string, so func() bool) {
	t.Helper()
	Success(t, func() error {
		if !so() {
			return errors.New(what)
		}
		return nil
	})
}

// Success returns when try returns no error. After [Patience] it ends the test
// with the error that was the last. It tries at least once, and is for the
// test's own goroutine.
func Success(t testing.TB, try func() error) {
	t.Helper()
	for began, pause := time.Now(), first; ; pause = min(2*pause, most) {
		err := try()
		if err == nil {
			return
		}
		if time.Since(began) > Patience {
			t.Fatalf("not within %v: %v", Patience, err)
		}
		time.Sleep(pause)
	}
}
