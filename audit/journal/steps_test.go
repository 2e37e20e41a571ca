package journal

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// keep copies the files of a journal that match, and returns a function that
// puts them back: the state after a crash before they were changed.
func keep(t *testing.T, j *Journal, patterns ...string) (restore func()) {
	t.Helper()
	kept := map[string][]byte{}
	for _, p := range patterns {
		names, err := filepath.Glob(filepath.Join(j.dir, p))
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range names {
			if kept[name], err = os.ReadFile(name); err != nil {
				t.Fatal(err)
			}
		}
	}
	return func() {
		for name, data := range kept {
			if err := os.WriteFile(name, data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCrashWhileRotating ends a rotation after each of its steps.
func TestCrashWhileRotating(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string   // what the rotation has not changed yet
		left   []string // what it has left lying around
	}{
		{"before the new file has a name", "*", []string{nextName}},
		{"before the head is written", headName, nil},
		{"before the old file is removed", fileName(1), nil},
		{"before either", headName + " " + fileName(1), []string{nextName}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := open(t, t.TempDir(), small(2))
			fill := strings.Repeat("x", 4<<10)
			appendNotes(t, j, "a", 0, 8, fill)
			if err := j.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			appendNotes(t, j, "a", 8, 15, fill)
			restore := keep(t, j, strings.Fields(tt.before)...)
			if err := j.Rotate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if tt.before == "*" {
				if err := os.Remove(filepath.Join(j.dir, fileName(3))); err != nil {
					t.Fatal(err)
				}
			}
			restore()
			for _, name := range tt.left {
				if err := os.WriteFile(filepath.Join(j.dir, name), []byte("half a head"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			wantWhole(t, j)
			first := 8 // the new header says that the first file is dropped
			if tt.before == "*" {
				first = 0
			}
			wantNotes(t, j, "a", first, 15)
			appendNotes(t, j, "a", 15, 16, "")
			wantWhole(t, j)
			wantNotes(t, j, "a", first, 16)
			appendNotes(t, j, "a", 16, 40, fill)
			wantWhole(t, j)
			if numbers, strangers, err := list(j.dir); len(numbers) > 2 || len(strangers) > 0 || err != nil {
				t.Errorf("left: %v, %v, %v", numbers, strangers, err)
			}
		})
	}
}

// TestCrashWhileClearing ends a clearing after each of its steps: all of it
// was done or nothing.
func TestCrashWhileClearing(t *testing.T) {
	for _, tt := range []struct {
		name   string
		before string
		done   bool
	}{
		{"before the new file has a name", "*", false},
		{"before the head is written", "*", true},
		{"before the old files are removed", "*.jsonl", true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := open(t, t.TempDir(), small(8))
			appendNotes(t, j, "a", 0, 20, strings.Repeat("x", 8<<10))
			restore := keep(t, j, tt.before)
			end, err := locate(j.dir)
			if err != nil {
				t.Fatal(err)
			}
			n, err := j.Clear(t.Context(), "me", "", func(r Record) bool {
				var n note
				return json.Unmarshal(r.Data, &n) != nil || n.N < 15
			})
			if n != 15 || err != nil {
				t.Fatalf("removed %d, %v", n, err)
			}
			restore()
			if !tt.done {
				made := filepath.Join(j.dir, fileName(end.file+1))
				if err := os.Rename(made, filepath.Join(j.dir, nextName)); err != nil {
					t.Fatal(err)
				}
			}
			first := 15
			if !tt.done {
				first = 0
			}
			wantWhole(t, j)
			wantNotes(t, j, "a", first, 20)
			appendNotes(t, j, "a", 20, 21, "")
			wantWhole(t, j)
			wantNotes(t, j, "a", first, 21)
		})
	}
}

// TestLinkForTheLock checks that nothing is written when the lock is not ours.
func TestLinkForTheLock(t *testing.T) {
	j := open(t, t.TempDir(), small(2))
	appendNotes(t, j, "a", 0, 1, "")
	link(t, filepath.Join(j.dir, lockName))
	wantCode(t, j.Append(t.Context(), note{}), sandbox.CodeUnavailable, "symbolic links")
	if err := os.Remove(filepath.Join(j.dir, lockName)); err != nil {
		t.Fatal(err)
	}
	appendNotes(t, j, "a", 1, 2, "")
	wantNotes(t, j, "a", 0, 2)
	wantWhole(t, j)
}

// TestPlantedNames plants the names that are used next.
func TestPlantedNames(t *testing.T) {
	j := open(t, t.TempDir(), small(4))
	appendNotes(t, j, "a", 0, 1, "")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	for _, name := range []string{nextName, fileName(2)} {
		if err := os.Symlink(elsewhere, filepath.Join(j.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := j.Rotate(t.Context()); err != nil {
		t.Fatal(err)
	}
	appendNotes(t, j, "a", 1, 2, "")
	wantNotes(t, j, "a", 0, 2)
	if _, err := os.Lstat(elsewhere); err == nil {
		t.Error("the link was written through")
	}
	if r := verify(t, j); len(r.Damage) != 1 || r.Damage[0].Kind != DamageStranger || !strings.Contains(r.Damage[0].File, asideMark) {
		t.Errorf("damage %v", r.Damage)
	}
}
