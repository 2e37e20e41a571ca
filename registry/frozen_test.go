package registry_test

import (
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry"
)

// TestFrozen checks that every read of a frozen sandbox's record reports that
// it is frozen, until the record is touched.
func TestFrozen(t *testing.T) {
	s, err := registry.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	const name = "sbx-a"
	if err := s.Put(registry.Record{Name: name, Kind: sandbox.KindSandbox, CreatedAt: made, LastUsedAt: made}); err != nil {
		t.Fatal(err)
	}
	use := func(at time.Time, want bool) {
		t.Helper()
		if frozen, _, err := s.Use(sandbox.KindSandbox, name, at); frozen != want || err != nil {
			t.Fatalf("Use = %v, %v; want %v", frozen, err, want)
		}
	}
	last := func(want time.Time) {
		t.Helper()
		if r, err := s.Get(sandbox.KindSandbox, name); err != nil || !r.LastUsedAt.Equal(want) {
			t.Fatalf("last used %s, %v; want %s", r.LastUsedAt, err, want)
		}
	}
	use(made.Add(time.Minute), false)
	last(made.Add(time.Minute))
	if err := s.Update(sandbox.KindSandbox, name, func(r *registry.Record) error { r.Frozen = true; return nil }); err != nil {
		t.Fatal(err)
	}
	use(made.Add(time.Hour), true)
	use(made.Add(time.Hour), true)
	last(made.Add(time.Minute)) // nothing has been run yet
	if err := s.Touch(sandbox.KindSandbox, name, made.Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	use(made.Add(time.Minute), false) // also where the touch has moved nothing
	if _, _, err := s.Use(sandbox.KindSandbox, "sbx-gone", made); !sandbox.IsNotFound(err) {
		t.Errorf("of no record: %v", err)
	}
}
