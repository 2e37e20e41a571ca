// Package leak is for tests that hold that no goroutine stays behind.
//
// What goleak does by itself ends after half a second, in which a goroutine on
// its way out may not have run on a machine that is busy. Here only one that
// stays is a leak, and only what fails waits.
package leak

import (
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Main runs the tests of a package and ends its process, with status 1 when
// they pass and goroutines stay behind.
func Main(m *testing.M, o ...goleak.Option) {
	status := m.Run()
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
