package config

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestAllowPermanent(t *testing.T) {
	dir := t.TempDir()
	file := write(t, filepath.Join(dir, "real/sandbox.json"), commented, 0o640)
	link := filepath.Join(dir, "link.json")
	must(t, os.Symlink(file, link))
	must(t, AllowPermanent(link, "main", permission(sandbox.OpWrite, "/data/c")))
	got, err := os.ReadFile(file)
	must(t, err)
	st, err := os.Lstat(file)
	must(t, err)
	if !strings.Contains(string(got), `"/data/c"`) || !strings.Contains(string(got), "// the end") || st.Mode() != 0o640 {
		t.Errorf("%s with mode %s", got, st.Mode())
	}
	if l, err := os.Readlink(link); err != nil || l != file {
		t.Errorf("the link: %q, %v", l, err)
	}
	before, err := os.Stat(file)
	must(t, err)
	must(t, AllowPermanent(link, "main", permission(sandbox.OpWrite, "/data/c")))
	if after, err := os.Stat(file); err != nil || !os.SameFile(before, after) {
		t.Error("a rule that is there already replaced the file")
	}
	onlyFile(t, filepath.Dir(file), "sandbox.json")
}

// onlyFile holds that nothing was left in a folder.
func onlyFile(t *testing.T, dir, name string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	if len(entries) != 1 || entries[0].Name() != name {
		t.Errorf("in the folder: %v", entries)
	}
}

func TestAllowPermanentMakesTheFile(t *testing.T) {
	t.Setenv("SANDBOX_CONFIG", "")
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(t.TempDir(), "config"))
	must(t, AllowPermanent("", "main", permission(sandbox.OpRead, "/data")))
	path, _, err := locateSettingsfile("", systemFile)
	must(t, err)
	st, err := os.Stat(path)
	must(t, err)
	f, err := Load("")
	if err != nil || st.Mode().Perm() != 0o600 || !strings.Contains(string(f.Data), `"/data"`) {
		t.Errorf("%s, %v, %s", f.Data, err, st.Mode())
	}
	onlyFile(t, filepath.Dir(path), "sandbox.json")
}

func TestAllowPermanentRefuses(t *testing.T) {
	tests := []struct {
		name string
		make func(t *testing.T, dir string) string
		code sandbox.Code
	}{
		{"others may write", func(t *testing.T, dir string) string { return write(t, dir+"/s.json", "{}", 0o666) }, sandbox.CodePermissionDeny},
		{"several names", func(t *testing.T, dir string) string {
			must(t, os.Link(write(t, dir+"/other.json", "{}", 0o600), dir+"/s.json"))
			return dir + "/s.json"
		}, sandbox.CodeUnsupported},
		{"not valid", func(t *testing.T, dir string) string { return write(t, dir+"/s.json", "{", 0o600) }, sandbox.CodeValidation},
		{"dangling link", func(t *testing.T, dir string) string {
			must(t, os.Symlink(dir+"/none", dir+"/s.json"))
			return dir + "/s.json"
		}, sandbox.CodeValidation},
		{"folder of others", func(t *testing.T, dir string) string {
			must(t, os.Mkdir(dir+"/open", 0o700))
			must(t, os.Chmod(dir+"/open", 0o777))
			return dir + "/open/s.json"
		}, sandbox.CodePermissionDeny},
		{"somebody else's", func(t *testing.T, dir string) string {
			testenv.Require(t, "root") // which alone can give files away
			f := write(t, dir+"/s.json", "{}", 0o600)
			must(t, os.Chown(f, 4711, 4711))
			return f
		}, sandbox.CodePermissionDeny},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.make(t, t.TempDir())
			before, _ := os.ReadFile(path)
			err := AllowPermanent(path, "main", permission(sandbox.OpRead, "/data"))
			if sandbox.CodeOf(err) != tt.code {
				t.Errorf("got %v", err)
			}
			if after, _ := os.ReadFile(path); string(after) != string(before) {
				t.Errorf("it became %q", after)
			}
		})
	}
}

// TestAllowPermanentAtOnce holds that edits of several callers all arrive.
func TestAllowPermanentAtOnce(t *testing.T) {
	file := write(t, filepath.Join(t.TempDir(), "s.json"), commented, 0o600)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			allow := func() error {
				return AllowPermanent(file, "main", permission(sandbox.OpRead, fmt.Sprint("/data/", i)))
			}
			err := allow()
			for end := time.Now().Add(testenv.Patience); sandbox.CodeOf(err) == sandbox.CodeBusy && time.Now().Before(end); {
				err = allow() // each of the others may have waited for the disk
			}
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	got, err := os.ReadFile(file)
	must(t, err)
	for i := range 8 {
		if n := strings.Count(string(got), fmt.Sprintf(`"/data/%d"`, i)); n != 1 {
			t.Errorf("/data/%d is there %d times", i, n)
		}
	}
}
