//go:build !sandbox_front

package orchestrator_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

func TestOpen(t *testing.T) {
	testenv.Require(t, "local")
	dir := t.TempDir()
	file := filepath.Join(dir, "settings.json")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(`{"agents": {"defaults": {"sandbox": {"provider": "nothing"}}}}`)
	if _, err := orchestrator.Open(orchestrator.Options{ConfigFile: file, StateDir: dir}); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("settings that cannot be taken: %v", err)
	}
	write(`{}`)
	h, err := orchestrator.Open(orchestrator.Options{ConfigFile: file, StateDir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	first, err := h.Manager()
	if err != nil {
		t.Fatal(err)
	}
	if again, err := h.Manager(); err != nil || again != first {
		t.Errorf("another manager, %v", err)
	}
	if _, err := h.Violations(); err != nil {
		t.Error(err)
	}
	if _, err := h.Evidence(); err != nil {
		t.Error(err)
	}
	if c, err := h.Control(); err != nil || c == nil {
		t.Error(err)
	}
	for _, name := range []string{"docker", "local", "host"} {
		if _, err := h.Providers().Get(name); err != nil {
			t.Error(err)
		}
	}
	h.Close()
	h.Close()
}

// TestWorldFollowsSettings holds that what sandboxes can write by the settings of
// now is what sandboxes go by: a folder that was opened since is mounted nowhere.
func TestWorldFollowsSettings(t *testing.T) {
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	file, shared := filepath.Join(dir, "settings.json"), filepath.Join(dir, "shared")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file+".new", []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(file+".new", file); err != nil {
			t.Fatal(err)
		}
	}
	write(`{}`)
	h, err := orchestrator.Open(orchestrator.Options{ConfigFile: file, StateDir: filepath.Join(dir, "state")})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if got := h.World().Exposed; slices.Contains(got, shared) {
		t.Fatalf("exposed before: %q", got)
	}
	write(`{"agents": {"defaults": {"sandbox": {"filesystem": {"allowWrite": ["` + shared + `"]}}}}}`)
	if got := h.World().Exposed; !slices.Contains(got, shared) {
		t.Errorf("exposed: %q", got)
	}
}
