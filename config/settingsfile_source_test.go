package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// prefixed is a settings file whose docker.containerPrefix is p.
func settingsfilePrefixed(p string) string {
	return fmt.Sprintf(`{"agents": {"defaults": {"sandbox": {"docker": {"containerPrefix": %q}}}}}`, p)
}

// prefixOf is what such a file says, "none" of no file.
func prefixOf(s *Settings) string {
	if s == nil {
		return "none"
	}
	return *s.Agents.Defaults.Sandbox.Docker.ContainerPrefix
}

// put writes text into the file at path as it is.
func put(t testing.TB, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// source is the settings file at path, with how often it was parsed.
func source(t testing.TB, path string) (*Source, *atomic.Int64) {
	t.Helper()
	parsed := new(atomic.Int64)
	s, err := NewSource(path, func(name string, data []byte) (*Settings, error) {
		parsed.Add(1)
		return Parse(name, data)
	})
	if err != nil {
		t.Fatal(err)
	}
	return s, parsed
}

// current is what the source says, which has to be without a problem.
func current(t testing.TB, s *Source) *Settings {
	t.Helper()
	c, err := s.Current()
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// wantProblem checks that the settings are those with the prefix, and why.
func wantProblem(t *testing.T, s *Source, prefix, text string) error {
	t.Helper()
	c, err := s.Current()
	if prefixOf(c) != prefix || err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("the settings say %s, %v; want %s and %q", prefixOf(c), err, prefix, text)
	}
	return err
}

// TestSourceSeesEveryChange writes many changes of one size, many within
// one tick of the file system's clock, and asks after each.
func TestSourceSeesEveryChange(t *testing.T) {
	for name, change := range map[string]func(t *testing.T, path, text string){
		"written anew": func(t *testing.T, path, text string) { put(t, path, text) },
		"changed in place": func(t *testing.T, path, text string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte(text), 0)
			must(t, errors.Join(err, f.Close()))
		},
		"changed in place, with the time set back": func(t *testing.T, path, text string) {
			f, err := os.OpenFile(path, os.O_WRONLY, 0)
			must(t, err)
			_, err = f.WriteAt([]byte(text), 0)
			must(t, errors.Join(err, f.Close(), os.Chtimes(path, time.Unix(1e9, 5), time.Unix(1e9, 5))))
		},
		"renamed": func(t *testing.T, path, text string) {
			put(t, path+".new", text)
			must(t, os.Rename(path+".new", path))
		},
		"a link that is exchanged": func(t *testing.T, path, text string) {
			put(t, path+"."+text[len(text)-9:len(text)-6], text)
			_ = os.Remove(path + ".link")
			must(t, errors.Join(os.Symlink(path+"."+text[len(text)-9:len(text)-6], path+".link"), os.Rename(path+".link", path)))
		},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "sandbox.json")
			put(t, path, settingsfilePrefixed("first"))
			s, _ := source(t, path)
			slowest := time.Duration(0)
			rounds := testenv.Rounds(50, 50, 300)
			for i := range rounds {
				want := fmt.Sprintf("p%04d", i)
				change(t, path, settingsfilePrefixed(want))
				at := time.Now()
				if got := prefixOf(current(t, s)); got != want {
					t.Fatalf("after %s was written the settings say %s", want, got)
				}
				slowest = max(slowest, time.Since(at))
			}
			t.Logf("the slowest of %d changes was in force after %v", rounds, slowest)
		})
	}
}

// TestSourceKeepsThePointer checks that the pointer stays the same when the
// content does.
func TestSourceKeepsThePointer(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.json")
	put(t, path, settingsfilePrefixed("a"))
	s, parsed := source(t, path)
	first := current(t, s)
	for name, touch := range map[string]func(){
		"nothing":      func() {},
		"touched":      func() { must(t, os.Chtimes(path, time.Now(), time.Now())) },
		"same content": func() { put(t, path, settingsfilePrefixed("a")) },
		"another file": func() { put(t, path+"2", settingsfilePrefixed("a")); must(t, os.Rename(path+"2", path)) },
		"broken, and whole again": func() {
			put(t, path, "{")
			wantProblem(t, s, "a", "not valid")
			put(t, path, settingsfilePrefixed("a"))
		},
	} {
		touch()
		if current(t, s) != first {
			t.Errorf("%s: the settings are others", name)
		}
	}
	if n := parsed.Load(); n != 2 { // the first, and the broken one
		t.Errorf("parsed %d times", n)
	}
	put(t, path, settingsfilePrefixed("b"))
	if c := current(t, s); c == first || prefixOf(first) != "a" || prefixOf(c) != "b" {
		t.Error("settings that somebody holds were changed")
	}
	if s.Path() != path {
		t.Errorf("the path is %s", s.Path())
	}
}

// TestSourceProblems checks that the last valid settings stay in force, and
// that the problem is reported until it is fixed.
func TestSourceProblems(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "sub", "sandbox.json")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	restore := func(p string) func() { return func() { _ = os.Remove(path); put(t, path, settingsfilePrefixed(p)) } }
	for _, tt := range []struct {
		name, text   string
		damage, mend func()
	}{
		{"no JSON", "not valid", func() { put(t, path, "{") }, restore("b")},
		{"empty", "empty", func() { put(t, path, "") }, restore("b")},
		{"unknown key", "unknown key", func() { put(t, path, `{"agent":1}`) }, restore("b")},
		{"too large", "larger", func() { put(t, path, strings.Repeat(" ", maxSize+1)) }, restore("b")},
		{"others may write it", "other users", func() { must(t, os.Chmod(path, 0o666)) }, restore("b")},
		{"removed", "removed", func() { must(t, os.Remove(path)) }, restore("b")},
		{"removed with its folder", "removed", func() { must(t, os.RemoveAll(filepath.Dir(path))) },
			func() { must(t, os.Mkdir(filepath.Dir(path), 0o700)); put(t, path, settingsfilePrefixed("b")) }},
		{"a folder", "regular", func() { must(t, errors.Join(os.Remove(path), os.Mkdir(path, 0o700))) }, restore("b")},
		{"a link to nothing", "removed", func() { must(t, errors.Join(os.Remove(path), os.Symlink("/nowhere/at/all", path))) }, restore("b")},
		{"others may exchange it", "folder", func() { put(t, path, settingsfilePrefixed("b")); must(t, os.Chmod(filepath.Dir(path), 0o777)) },
			func() { must(t, os.Chmod(filepath.Dir(path), 0o700)) }},
	} {
		t.Run(tt.name, func(t *testing.T) {
			put(t, path, settingsfilePrefixed("a"))
			s, _ := source(t, path)
			tt.damage()
			first := wantProblem(t, s, "a", tt.text)
			if again := wantProblem(t, s, "a", tt.text); first != again {
				t.Errorf("the same problem is told as another: %v", again)
			}
			tt.mend()
			if got := prefixOf(current(t, s)); got != "b" {
				t.Errorf("mended, the settings say %s", got)
			}
		})
	}
}

// TestSourceFirstLoad holds that nothing begins with settings that are not good.
func TestSourceFirstLoad(t *testing.T) {
	dir := t.TempDir()
	bad := filepath.Join(dir, "bad.json")
	put(t, bad, "{")
	open := filepath.Join(dir, "open.json")
	put(t, open, "{}")
	must(t, os.Chmod(open, 0o666))
	for path, code := range map[string]sandbox.Code{
		bad: sandbox.CodeValidation, open: sandbox.CodePermissionDeny, filepath.Join(dir, "missing.json"): sandbox.CodeValidation,
	} {
		if s, err := NewSource(path, Parse); s != nil || sandbox.CodeOf(err) != code {
			t.Errorf("%s: %v; want %s", path, err, code)
		}
	}
}

// TestSourceWithoutFile checks that a file at the default path may appear
// later, and that its removal is reported.
func TestSourceWithoutFile(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("SANDBOX_CONFIG", "")
	t.Setenv("XDG_CONFIG_HOME", dir)
	s, _ := source(t, "")
	if c := current(t, s); c != nil || s.Path() != "" {
		t.Errorf("without a file: %v from %s", c, s.Path())
	}
	path := filepath.Join(dir, "sandbox", "sandbox.json")
	must(t, os.Mkdir(filepath.Dir(path), 0o700))
	put(t, path, "{")
	wantProblem(t, s, "none", "not valid")
	put(t, path, settingsfilePrefixed("a"))
	if got := prefixOf(current(t, s)); got != "a" {
		t.Errorf("a file that came says %s", got)
	}
	must(t, os.Remove(path))
	if err := wantProblem(t, s, "a", "removed"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	homeless, err := NewSource("", Parse)
	must(t, err)
	if c := current(t, homeless); c != nil {
		t.Errorf("without a home: %v", c)
	}
}

// TestSourceSeesPermanentGrants holds that what was permitted for good counts
// at once.
func TestSourceSeesPermanentGrants(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.json")
	put(t, path, settingsfilePrefixed("a"))
	s, _ := source(t, path)
	for i := range 20 {
		dir := fmt.Sprint("/srv/", i)
		must(t, AllowPermanent(path, "main", sandbox.Grant{Operation: sandbox.OpRead, Path: dir}))
		if got := current(t, s).Agents.Defaults.Sandbox.Filesystem.AllowRead; len(got) != i+1 {
			t.Fatalf("after %d grants: %v", i+1, got)
		}
	}
}

// TestSourceMakesAllWait holds that of 64 who ask after a change one reads it,
// and none goes on with what was before.
func TestSourceMakesAllWait(t *testing.T) {
	path := filepath.Join(t.TempDir(), "sandbox.json")
	put(t, path, settingsfilePrefixed("p00"))
	s, parsed := source(t, path)
	const changes = 20
	for i := 1; i <= changes; i++ {
		want := fmt.Sprintf("p%02d", i)
		put(t, path, settingsfilePrefixed(want))
		var wg sync.WaitGroup
		seen := make([]*Settings, 64)
		for g := range seen {
			wg.Go(func() { seen[g], _ = s.Current() })
		}
		wg.Wait()
		for _, c := range seen {
			if c != seen[0] || prefixOf(c) != want {
				t.Fatalf("after %s somebody got %s", want, prefixOf(c))
			}
		}
	}
	if n := parsed.Load(); n != changes+1 {
		t.Errorf("%d changes were parsed %d times", changes, n-1)
	}
}

func BenchmarkSource(b *testing.B) {
	path := filepath.Join(b.TempDir(), "sandbox.json")
	put(b, path, settingsfilePrefixed("a"))
	s, _ := source(b, path)
	for end := time.Now().Add(50 * time.Millisecond); time.Now().Before(end); {
		current(b, s) // until the file is old enough to be believed by its times
	}
	b.Run("unchanged", func(b *testing.B) {
		for b.Loop() {
			current(b, s)
		}
	})
	b.Run("changed", func(b *testing.B) {
		for i := 0; b.Loop(); i++ {
			b.StopTimer()
			put(b, path, settingsfilePrefixed(fmt.Sprint("p", i%1000)))
			b.StartTimer()
			current(b, s)
		}
	})
}

// TestWatchedSourceSeesEveryChange has Current answer from memory, changes the file
// or the way to it, and holds that the next call returns what is there then.
func TestWatchedSourceSeesEveryChange(t *testing.T) {
	const first, second = `{"agents":{"defaults":{"sandbox":{"mode":"all"}}}}`, `{"agents":{"defaults":{"sandbox":{"mode":"off"}}}}`
	for name, change := range map[string]func(dir, file string) error{
		"written in place": func(_, file string) error { return os.WriteFile(file, []byte(second), 0o600) },
		"replaced": func(_, file string) error {
			if err := os.WriteFile(file+".new", []byte(second), 0o600); err != nil {
				return err
			}
			return os.Rename(file+".new", file)
		},
		"the folder is exchanged": func(dir, _ string) error {
			if err := os.Mkdir(dir+".new", 0o700); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir+".new", "c.json"), []byte(second), 0o600); err != nil {
				return err
			}
			if err := os.Rename(dir, dir+".old"); err != nil {
				return err
			}
			return os.Rename(dir+".new", dir)
		},
		"the link leads elsewhere": func(dir, file string) error {
			if err := os.WriteFile(filepath.Join(dir, "other.json"), []byte(second), 0o600); err != nil {
				return err
			}
			if err := os.Symlink("other.json", file+".new"); err != nil {
				return err
			}
			return os.Rename(file+".new", file)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "settings")
			file := filepath.Join(dir, "c.json")
			if err := os.Mkdir(dir, 0o700); err != nil {
				t.Fatal(err)
			}
			real := filepath.Join(dir, "real.json")
			if err := os.WriteFile(real, []byte(first), 0o600); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink("real.json", file); err != nil {
				t.Fatal(err)
			}
			s, err := NewSource(file, Parse)
			if err != nil {
				t.Fatal(err)
			}
			w := &hostpath.Watch{}
			defer w.Close()
			s.Watch(w)
			before, err := s.Current()
			for range 1_000_000 {
				if seen := s.seen.Load(); err != nil || seen != nil && w.Unchanged(seen.mark, seen.at) {
					break
				}
				before, err = s.Current()
			}
			if seen := s.seen.Load(); err != nil || seen == nil {
				t.Fatalf("the file is examined each time: %v", err)
			}
			if err := change(dir, file); err != nil {
				t.Fatal(err)
			}
			after, err := s.Current()
			if err != nil || after == before {
				t.Errorf("the settings are those from before: %v", err)
			}
			res, err := Resolve(after, Who{Agent: DefaultAgent, Session: DefaultSession}, nil)
			if err != nil || res.Mode != "off" {
				t.Errorf("mode is %q: %v", res.Mode, err)
			}
		})
	}
}
