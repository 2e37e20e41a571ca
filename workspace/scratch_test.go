package workspace

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func names(t *testing.T, s *Store) string {
	t.Helper()
	entries, err := s.Scratch(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	out := ""
	for _, e := range entries {
		if e.Path != filepath.Join(s.Root(), e.Name) || time.Since(e.ModTime) > time.Hour {
			t.Errorf("%+v", e)
		}
		out += e.Name + " "
	}
	return out
}

func TestScratch(t *testing.T) {
	s := open(t)
	if got := names(t, s); got != "" {
		t.Errorf("an empty store lists %s", got)
	}
	b, a := ensure(t, s, "sbx-b"), ensure(t, s, "sbx-a")
	write(t, filepath.Join(s.Root(), "foreign/SOUL.md"), "x")
	write(t, filepath.Join(s.Root(), metaDir, "foreign.json"), "{") // damaged
	write(t, filepath.Join(s.Root(), metaDir, ".tmp.json"), `{"madeAt":"2026-01-01T00:00:00Z"}`)
	write(t, filepath.Join(s.Root(), metaDir, "sbx-c"), "x")
	if got := names(t, s); got != "sbx-a sbx-b " {
		t.Errorf("lists %s", got)
	}
	later := time.Now().Add(time.Minute).Truncate(time.Second)
	if err := os.Chtimes(a, later, later); err != nil {
		t.Fatal(err)
	}
	entries, err := s.Scratch(t.Context())
	if err != nil || !entries[0].ModTime.Equal(later) {
		t.Errorf("%+v, %v; want %v", entries, err, later)
	}
	if err := s.Remove(t.Context(), b); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s); got != "sbx-a " {
		t.Errorf("after the removal it lists %s", got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Scratch(ctx); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRemoveForgetsBeforeItEmpties holds that a slow removal does not undo
// what is made under the same name meanwhile.
func TestRemoveForgetsBeforeItEmpties(t *testing.T) {
	s := open(t)
	p := ensure(t, s, "sbx-a")
	write(t, filepath.Join(p, "file"), "x")
	ctx, cancel := context.WithCancel(t.Context())
	cancel() // the emptying stops at its first entry
	if err := s.Remove(ctx, p); !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	if got := names(t, s); got != "" {
		t.Errorf("still noted: %s", got)
	}
	ensure(t, s, "sbx-a")
	if got := names(t, s); got != "sbx-a " {
		t.Errorf("noted: %s", got)
	}
	if err := s.Remove(t.Context(), p); err != nil {
		t.Errorf("the second one cannot be removed: %v", err)
	}
}

func TestForgetLeavesALaterWorkspaceAlone(t *testing.T) {
	s := open(t)
	p := ensure(t, s, "sbx-a")
	was, err := s.readMeta("sbx-a")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(p); err != nil {
		t.Fatal(err)
	}
	ensure(t, s, "sbx-a")
	if err := s.forget("sbx-a", was); err != nil {
		t.Fatal(err)
	}
	if got := names(t, s); got != "sbx-a " {
		t.Errorf("noted: %s", got)
	}
	now, err := s.readMeta("sbx-a")
	if err != nil || s.forget("sbx-a", now) != nil || names(t, s) != "" {
		t.Errorf("its own notes stay: %v", err)
	}
	wantError(t, s.Remove(t.Context(), p), sandbox.CodeCapabilityBlocked, "not made by this program")
}
