package fake_test

import (
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/faked"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// A recorder is a testing.TB on which a check may fail without failing the
// test around it.
type recorder struct {
	testing.TB
	mu       sync.Mutex
	failed   bool
	log      strings.Builder
	cleanups []func()
}

func (r *recorder) note(fail bool, text string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.failed = r.failed || fail
	r.log.WriteString(text + "\n")
}

func (r *recorder) Helper()                   {}
func (r *recorder) Log(a ...any)              { r.note(false, fmt.Sprint(a...)) }
func (r *recorder) Logf(f string, a ...any)   { r.note(false, fmt.Sprintf(f, a...)) }
func (r *recorder) Error(a ...any)            { r.note(true, fmt.Sprint(a...)) }
func (r *recorder) Errorf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)) }
func (r *recorder) Fail()                     { r.note(true, "failed") }
func (r *recorder) FailNow()                  { r.note(true, "failed"); runtime.Goexit() }
func (r *recorder) Fatal(a ...any)            { r.note(true, fmt.Sprint(a...)); runtime.Goexit() }
func (r *recorder) Fatalf(f string, a ...any) { r.note(true, fmt.Sprintf(f, a...)); runtime.Goexit() }
func (r *recorder) Skip(a ...any)             { r.note(false, fmt.Sprint(a...)); runtime.Goexit() }
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Failed() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.failed
}

// record runs one check and returns whether it failed and what it said.
func record(t *testing.T, c providertest.Check, h providertest.Harness) (bool, string) {
	t.Helper()
	r := &recorder{TB: t}
	inGoroutine(func() { c.Run(r, h) })
	for len(r.cleanups) > 0 {
		last := r.cleanups[len(r.cleanups)-1]
		r.cleanups = r.cleanups[:len(r.cleanups)-1]
		inGoroutine(last)
	}
	failed := r.Failed()
	r.mu.Lock() // what a check has given up on may still speak
	defer r.mu.Unlock()
	return failed, r.log.String()
}

// inGoroutine runs f where it may call Goexit.
func inGoroutine(f func()) {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	<-done
}

// TestMutants breaks the fake in one way at a time and holds that the check
// made for it fails, while it passes on the whole one. Most of the mutants fail
// by waiting in vain: one of each group runs always, the others with "make
// test-all". That a mutant names a check that exists is held for all.
func TestMutants(t *testing.T) {
	for _, group := range mutantGroups() {
		for i, m := range group {
			t.Run(m.name, func(t *testing.T) {
				check := checkNamed(t, m.check)
				if i > 0 {
					testenv.Exhaustive(t, "a further mutant of its group")
				}
				h := faked.Harness()
				with(broken{})(&h) // nothing of it is broken
				if failed, log := record(t, check, h); failed {
					t.Fatalf("the check fails on the fake when nothing is broken: %s", log)
				}
				m.apply(&h)
				h.Patience = 600 * time.Millisecond // a check that waits in vain waits this long
				failed, log := record(t, check, h)
				if !failed {
					t.Errorf("the check passes on the broken fake; it said: %s", log)
				}
				t.Log(log)
			})
		}
	}
}

// checkNamed returns the check of the suite that has this name.
func checkNamed(t *testing.T, name string) providertest.Check {
	t.Helper()
	for _, c := range providertest.Checks() {
		if c.Name == name {
			return c
		}
	}
	t.Fatalf("there is no check %q", name)
	return providertest.Check{}
}
