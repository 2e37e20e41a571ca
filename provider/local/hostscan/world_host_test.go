package hostscan_test

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// TestPlaceholdersCountAsMissing verifies that the records are consulted for every
// kind of stub: an unrecognized stub would make each plan differ from the one
// before.
func TestPlaceholdersCountAsMissing(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	for name, text := range map[string]string{"empty": "", "commondir": ".\n", "a.json": "{}\n"} {
		if err := os.WriteFile(at(name), []byte(text), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(at("folder/with/stubs"), 0o755); err != nil {
		t.Fatal(err)
	}
	all := hostscan.Disk{Placeholder: func(string) bool { return true }}
	for _, name := range []string{"empty", "commondir", "a.json", "folder"} {
		if got, err := all.Kind(at(name)); err != nil || got != plan.Missing {
			t.Errorf("the stub %s is %v, %v", name, got, err)
		}
		if got, err := (hostscan.Disk{}).Kind(at(name)); err != nil || got == plan.Missing {
			t.Errorf("without records %s is %v, %v", name, got, err)
		}
	}
	if err := os.WriteFile(at("long"), []byte("long"), 0o444); err != nil {
		t.Fatal(err)
	}
	asked := hostscan.Disk{Placeholder: func(p string) bool { t.Errorf("asked for %s", p); return false }}
	if got, err := asked.Kind(at("long")); err != nil || got != plan.File {
		t.Errorf("a file is %v, %v", got, err)
	}
}
