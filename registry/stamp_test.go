package registry_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/registry"
)

// settling is less than the time for which folders must have been left alone.
const settling = 1500 * time.Millisecond

// TestStamp holds that a change of any kind makes a stamp another, and that
// nothing makes it another where nothing is recorded.
func TestStamp(t *testing.T) {
	root := t.TempDir()
	s, err := registry.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	// age makes it long ago that anything was recorded, as time does, and returns
	// the stamp.
	age := func() registry.Stamp {
		t.Helper()
		for _, sub := range []string{"containers", "browsers"} {
			fi, err := os.Stat(filepath.Join(root, sub))
			if err != nil {
				t.Fatal(err)
			}
			if at := fi.ModTime(); time.Since(at) < time.Minute {
				if err := os.Chtimes(filepath.Join(root, sub), time.Time{}, at.Add(-time.Hour)); err != nil {
					t.Fatal(err)
				}
			}
		}
		return stamp(t, s)
	}
	testenv.Until(t, "a look just after a change", func() bool {
		now := time.Now()
		for _, sub := range []string{"containers", "browsers"} {
			if err := os.Chtimes(filepath.Join(root, sub), time.Time{}, now); err != nil {
				t.Fatal(err)
			}
		}
		fresh := stamp(t, s)
		soon := time.Since(now) < settling
		if soon && fresh.Same(fresh) {
			t.Error("a registry that was changed just now is taken for one that has been left alone")
		}
		return soon
	})
	record := registry.Record{Kind: sandbox.KindSandbox, Name: "sbx-a", Provider: "fake", CreatedAt: time.Now(), LastUsedAt: time.Now().Add(-time.Hour)}
	browser := record
	browser.Kind, browser.Name = sandbox.KindBrowser, "sbx-b"
	before := age()
	if !before.Same(stamp(t, s)) {
		t.Error("nothing was recorded, and the stamp is another")
	}
	if (registry.Stamp{}).Same(registry.Stamp{}) || before.Same(registry.Stamp{}) {
		t.Error("no stamp is the same as one")
	}
	for _, c := range []struct {
		name   string
		change func() error
	}{
		{"put", func() error { return s.Put(record) }},
		{"touch", func() error { return s.Touch(record.Kind, record.Name, time.Now()) }},
		{"update", func() error {
			return s.Update(record.Kind, record.Name, func(r *registry.Record) error { r.Frozen = true; return nil })
		}},
		{"put a browser", func() error { return s.Put(browser) }},
		{"delete", func() error { return s.Delete(record.Kind, record.Name) }},
		{"delete a browser", func() error { return s.Delete(browser.Kind, browser.Name) }},
	} {
		before := age()
		if err := c.change(); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		if before.Same(stamp(t, s)) || before.Same(age()) {
			t.Errorf("%s: the stamp is the same", c.name)
		}
	}
	ahead := time.Now().Add(time.Hour)
	if err := os.Chtimes(filepath.Join(root, "containers"), ahead, ahead); err != nil {
		t.Fatal(err)
	}
	if after := stamp(t, s); after.Same(after) {
		t.Error("a time of the future is taken for one that tells of changes")
	}
	if err := os.RemoveAll(filepath.Join(root, "browsers")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Stamp(); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("without a folder: %v", err)
	}
}

func stamp(t *testing.T, s *registry.Store) registry.Stamp {
	t.Helper()
	got, err := s.Stamp()
	if err != nil {
		t.Fatal(err)
	}
	return got
}
