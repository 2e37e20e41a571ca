package journal

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// A scene is a journal that was appended to, and another one on its folder that
// keeps nothing open.
type scene struct {
	*Journal
	other *Journal
	older func() // puts the head back that was there before the last append
}

func (s scene) path(name string) string { return filepath.Join(s.dir, name) }

// newest is the path of the newest file of a scene.
func (s scene) newest() string { return s.path(fileName(1)) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// patch gives a file other bytes in place.
func patch(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path, change(data), 0o600))
}

// exchange puts a file with the same bytes into the place of another.
func exchange(t testing.TB, path string, change func([]byte) []byte) {
	t.Helper()
	data, err := os.ReadFile(path)
	must(t, err)
	must(t, os.WriteFile(path+".new", change(data), 0o600))
	must(t, os.Rename(path+".new", path))
}

func same(data []byte) []byte { return data }

// behind are things that happen to a journal while a process has it open.
var behind = map[string]func(t *testing.T, s scene){
	"nothing":            func(*testing.T, scene) {},
	"another appends":    func(t *testing.T, s scene) { appendNotes(t, s.other, "b", 0, 3, "") },
	"another rotates":    func(t *testing.T, s scene) { must(t, s.other.Rotate(t.Context())) },
	"another drops it":   func(t *testing.T, s scene) { appendNotes(t, s.other, "b", 0, 40, strings.Repeat("x", 8<<10)) },
	"another clears":     func(t *testing.T, s scene) { clearAll(t, s.other, nil) },
	"another clears one": func(t *testing.T, s scene) { clearAll(t, s.other, func(r Record) bool { return r.Seq == 3 }) },
	"a torn line": func(t *testing.T, s scene) {
		patch(t, s.newest(), func(b []byte) []byte { return append(b, beforeHash+"12"...) })
	},
	"a line of somebody": func(t *testing.T, s scene) {
		patch(t, s.newest(), func(b []byte) []byte { return append(b, "hello\n"...) })
	},
	"the end is cut": func(t *testing.T, s scene) {
		patch(t, s.newest(), func(b []byte) []byte { return b[:bytes.LastIndexByte(b[:len(b)-1], '\n')+1] })
	},
	"half a line is cut": func(t *testing.T, s scene) {
		patch(t, s.newest(), func(b []byte) []byte { return b[:len(b)-20] })
	},
	"the last line feed is overwritten": func(t *testing.T, s scene) {
		patch(t, s.newest(), func(b []byte) []byte { b[len(b)-1] = ' '; return b })
	},
	"it is emptied":   func(t *testing.T, s scene) { must(t, os.Truncate(s.newest(), 0)) },
	"it is removed":   func(t *testing.T, s scene) { must(t, os.Remove(s.newest())) },
	"it is exchanged": func(t *testing.T, s scene) { exchange(t, s.newest(), same) },
	"it is exchanged and edited": func(t *testing.T, s scene) {
		exchange(t, s.newest(), func(b []byte) []byte { b[len(b)-20] ^= 1; return b })
	},
	"a link takes its place": func(t *testing.T, s scene) {
		moved := filepath.Join(t.TempDir(), "moved")
		must(t, os.Rename(s.newest(), moved))
		must(t, os.Symlink(moved, s.newest()))
	},
	"a killed process has begun the next": func(t *testing.T, s scene) {
		restore := keep(t, s.Journal, headName)
		must(t, s.other.Rotate(t.Context()))
		restore()
	},
	"somebody plants the next": func(t *testing.T, s scene) {
		must(t, os.WriteFile(s.path(fileName(2)), []byte("hello\n"), 0o600))
	},
	"the head is removed": func(t *testing.T, s scene) { must(t, os.Remove(s.path(headName))) },
	"the head is damaged": func(t *testing.T, s scene) {
		patch(t, s.path(headName), func(b []byte) []byte { b[20] ^= 1; return b })
	},
	"the head is cut": func(t *testing.T, s scene) { must(t, os.Truncate(s.path(headName), 10)) },
	"the head is longer": func(t *testing.T, s scene) {
		patch(t, s.path(headName), func(b []byte) []byte { return append(b, "more"...) })
	},
	"the head is exchanged": func(t *testing.T, s scene) { exchange(t, s.path(headName), same) },
	"the head is behind":    func(_ *testing.T, s scene) { s.older() },
	"the head is a link": func(t *testing.T, s scene) {
		moved := filepath.Join(t.TempDir(), "moved")
		must(t, os.Rename(s.path(headName), moved))
		must(t, os.Symlink(moved, s.path(headName)))
	},
	"the lock is removed":   func(t *testing.T, s scene) { must(t, os.Remove(s.path(lockName))) },
	"the folder is removed": func(t *testing.T, s scene) { must(t, os.RemoveAll(s.dir)) },
	"the folder is exchanged": func(t *testing.T, s scene) {
		must(t, os.Rename(s.dir, s.dir+".old"))
		appendNotes(t, openBare(t, s.dir, s.options()), "c", 0, 5, "")
	},
	"the folder is a copy": func(t *testing.T, s scene) {
		must(t, os.Rename(s.dir, s.dir+".old"))
		must(t, os.CopyFS(s.dir, os.DirFS(s.dir+".old")))
		must(t, os.Chmod(s.dir, 0o700))
	},
}

func clearAll(t *testing.T, j *Journal, drop func(Record) bool) {
	t.Helper()
	if n, err := j.Clear(t.Context(), "me", "", drop); n == 0 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
}

// options are those of every journal of a scene, with a clock that stands.
func (scene) options() Options {
	o := small(2)
	o.Now = func() time.Time { return time.Unix(1e9, 0) }
	return o
}

// play has a journal appended to, what happens, and two more appends. It
// returns what then lies in the folder.
func play(t *testing.T, held *Held, happens func(*testing.T, scene)) map[string]string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "j")
	var s scene
	o := s.options()
	s.other = openBare(t, dir, o)
	o.Held = held
	s.Journal = openBare(t, dir, o)
	appendNotes(t, s.Journal, "a", 0, 4, "")
	s.older = keep(t, s.Journal, headName)
	appendNotes(t, s.Journal, "a", 4, 5, "")
	happens(t, s)
	for n := range 2 {
		if err := s.Append(t.Context(), note{"a", 5 + n, ""}); err != nil {
			t.Fatalf("append %d: %v", n, err)
		}
	}
	said := regexp.MustCompile(asideMark+"[0-9]+").ReplaceAllString(kinds(verify(t, s.Journal)), asideMark)
	out := map[string]string{"verify": said}
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, e := range entries {
		name, _, aside := strings.Cut(e.Name(), asideMark)
		if aside {
			name += asideMark
		}
		if e.Type().IsRegular() {
			data, err := os.ReadFile(filepath.Join(dir, e.Name()))
			must(t, err)
			out[name] = string(data)
		} else {
			out[name] = e.Type().String()
		}
	}
	return out
}

// TestBehindOpenFiles checks that a journal whose files are open notices
// whatever happens to it meanwhile, and leaves the same bytes as one that opens
// them anew.
func TestBehindOpenFiles(t *testing.T) {
	for _, name := range slices.Sorted(maps.Keys(behind)) {
		t.Run(name, func(t *testing.T) {
			held := patient()
			defer held.Close()
			want, got := play(t, nil, behind[name]), play(t, held, behind[name])
			for _, file := range slices.Sorted(maps.Keys(got)) {
				if got[file] != want[file] {
					t.Errorf("%s is, with files that stay open:\n%s\nand without:\n%s", file, got[file], want[file])
				}
			}
			if len(got) != len(want) {
				t.Errorf("%d files, want %d", len(got), len(want))
			}
		})
	}
}

// patient returns a Held that lets go of nothing because of time, however long
// a test is kept waiting.
func patient() *Held {
	h := NewHeld()
	h.timed = true
	return h
}

// TestKnownIsLocated checks that open files are used at all, and that they
// yield the same end as a look at the folder.
func TestKnownIsLocated(t *testing.T) {
	o := small(4)
	o.Held = patient()
	defer o.Held.Close()
	j := openBare(t, t.TempDir(), o)
	for n := range 60 {
		appendNotes(t, j, "a", n, n+1, strings.Repeat("x", 4<<10))
		k := j.held.take(j)
		got, ok := k.known()
		want, err := locate(j.dir)
		if !ok || got != want || err != nil {
			t.Fatalf("after %d: %+v, %v; want %+v, %v", n, got, ok, want, err)
		}
		j.held.put(j, k)
	}
	if r := wantWhole(t, j); r.Files < 4 {
		t.Errorf("%d files, so nothing rotated", r.Files)
	}
}
