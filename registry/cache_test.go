package registry

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
)

// cachedStore returns a store that keeps records in memory, with a second one on
// the same folder that does not, as another process has it.
func cachedStore(t *testing.T) (s, other *Store, root string) {
	t.Helper()
	root = t.TempDir()
	s, err := Open(root)
	if err != nil {
		t.Fatal(err)
	}
	w := &hostpath.Watch{}
	t.Cleanup(w.Close)
	s.Watch(w)
	if other, err = Open(root); err != nil {
		t.Fatal(err)
	}
	return s, other, root
}

// settle looks for the record of a provider until the answer is kept in memory.
func settle(t *testing.T, s *Store, provider, name string) {
	t.Helper()
	v := s.Of(provider)
	for range 20_000 {
		if _, err := v.Look(sandbox.KindSandbox, name); err != nil && !sandbox.IsNotFound(err) {
			t.Fatal(err)
		}
		if _, ok := v.cache.get(cacheKey{filepath.Join(s.root, containersDir, name+".json"), provider}); ok {
			return
		}
	}
	t.Fatal("the record is never kept")
}

// TestCacheSeesEveryChange has another process change a record and reads it once:
// the first call after the change returns what a store without memory returns.
func TestCacheSeesEveryChange(t *testing.T) {
	now := time.Now()
	rec := func(provider, session string) Record {
		return Record{Name: "sbx-a", Kind: sandbox.KindSandbox, Provider: provider, Session: session, CreatedAt: now, LastUsedAt: now}
	}
	for name, change := range map[string]func(s *Store, root string) error{
		"touched":                 func(s *Store, _ string) error { return s.Touch(sandbox.KindSandbox, "sbx-a", now.Add(time.Hour)) },
		"written again":           func(s *Store, _ string) error { return s.Put(rec("docker", "other")) },
		"removed":                 func(s *Store, _ string) error { return s.Delete(sandbox.KindSandbox, "sbx-a") },
		"one of another provider": func(s *Store, _ string) error { return s.Put(rec("local", "other")) },
		"frozen": func(s *Store, _ string) error {
			return s.Update(sandbox.KindSandbox, "sbx-a", func(r *Record) error { r.Frozen = true; return nil })
		},
		"removed and of another provider": func(s *Store, _ string) error {
			if err := s.Delete(sandbox.KindSandbox, "sbx-a"); err != nil {
				return err
			}
			return s.Put(rec("local", "other"))
		},
		"damaged in place": func(_ *Store, root string) error {
			return os.WriteFile(filepath.Join(root, containersDir, "sbx-a.json"), []byte("{}"), 0o600)
		},
		"a link in its place": func(_ *Store, root string) error {
			path := filepath.Join(root, containersDir, "sbx-a.json")
			if err := os.Rename(path, path+".old"); err != nil {
				return err
			}
			return os.Symlink(path+".old", path)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s, other, root := cachedStore(t)
			if err := other.Put(rec("docker", "first")); err != nil {
				t.Fatal(err)
			}
			providers := []string{"", "docker", "local"}
			for _, provider := range providers {
				settle(t, s, provider, "sbx-a")
			}
			if err := change(other, root); err != nil {
				t.Fatal(err)
			}
			for _, provider := range providers {
				got, gotErr := s.Of(provider).Look(sandbox.KindSandbox, "sbx-a")
				want, wantErr := other.Of(provider).Look(sandbox.KindSandbox, "sbx-a")
				if got != want || (gotErr == nil) != (wantErr == nil) { // the first reader sets a damaged record aside
					t.Errorf("of %q it is %+v, %v\nwant %+v, %v", provider, got, gotErr, want, wantErr)
				}
			}
		})
	}
}

// TestUseSeesThatItWasFrozen has another process freeze the sandbox between two
// uses.
func TestUseSeesThatItWasFrozen(t *testing.T) {
	s, other, _ := cachedStore(t)
	now := time.Now()
	if err := other.Put(Record{Name: "sbx-a", Kind: sandbox.KindSandbox, Provider: "docker", CreatedAt: now, LastUsedAt: now}); err != nil {
		t.Fatal(err)
	}
	settle(t, s, "docker", "sbx-a")
	if frozen, _, err := s.Of("docker").Use(sandbox.KindSandbox, "sbx-a", now); frozen || err != nil {
		t.Fatal(frozen, err)
	}
	if err := other.Update(sandbox.KindSandbox, "sbx-a", func(r *Record) error { r.Frozen = true; return nil }); err != nil {
		t.Fatal(err)
	}
	if frozen, _, err := s.Of("docker").Use(sandbox.KindSandbox, "sbx-a", now); !frozen || err != nil {
		t.Errorf("frozen is %v, %v", frozen, err)
	}
}
