package config

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// TestReplaceLeavesChangedFilesAlone checks that an edit never undoes a change
// that was written after the file was read.
func TestReplaceLeavesChangedFilesAlone(t *testing.T) {
	for _, tt := range []struct{ name, read, now string }{
		{"changed", "{}", `{"agents": {}}`}, {"made meanwhile", "", "{}"}, {"removed", "{}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "s.json")
			if tt.now != "" {
				if err := os.WriteFile(path, []byte(tt.now), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			f := settingsfileFile{Path: path}
			if tt.read != "" {
				f.Data = []byte(tt.read)
			}
			if err := replace(f, []byte("{ }")); err == nil || tt.now != "" && sandbox.CodeOf(err) != sandbox.CodeBusy {
				t.Errorf("got %v", err)
			}
			if got, _ := os.ReadFile(path); string(got) != tt.now {
				t.Errorf("it became %q", got)
			}
			if left, _ := filepath.Glob(filepath.Dir(path) + "/.*"); len(left) != 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
