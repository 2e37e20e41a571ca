// Leak: this part of the package is for tests that check that no goroutine stays behind.
//
// By default goleak waits half a second, in which a goroutine that is about to
// end may not have run on a busy machine. Here only a goroutine that stays is a
// leak, and only a failing test waits longer.

package testenv

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and ends its process, with status 1 when
// they pass and goroutines stay behind.
func Main(m *testing.M, o ...goleak.Option) { MainAfter(m, func() {}, o...) }

// MainAfter is [Main] for a package that has something to remove once its tests
// have ended: it calls remove before it looks for goroutines.
func MainAfter(m *testing.M, remove func(), o ...goleak.Option) {
	status := m.Run()
	remove()
	if status == 0 {
		if err := Find(Patience, o...); err != nil {
			fmt.Fprintln(os.Stderr, "the tests have passed, and goroutines stay behind:", err)
			status = 1
		}
	}
	os.Exit(status)
}

// None marks the test as failed when goroutines stay behind.
func None(t testing.TB, o ...goleak.Option) {
	t.Helper()
	if err := Find(Patience, o...); err != nil {
		t.Error(err)
	}
}

// Find returns an error that names the goroutines that are there after all of
// the time within. It looks at least once.
func Find(within time.Duration, o ...goleak.Option) error {
	for began := time.Now(); ; {
		err := goleak.Find(o...)
		if err == nil || time.Since(began) > within {
			return err
		}
	}
}
