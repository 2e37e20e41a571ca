package statedir

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestAgentSettings(t *testing.T) {
	d, err := Open(filepath.Join(t.TempDir(), "state"))
	if err != nil {
		t.Fatal(err)
	}
	const key = "0123456789abcdef0123456789abcdef"
	list := func(dir string) string {
		var out []string
		err := filepath.WalkDir(dir, func(p string, e fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			fi, err := e.Info()
			if err == nil && !e.IsDir() {
				text, _ := os.ReadFile(p)
				out = append(out, strings.TrimPrefix(p, dir+"/")+"="+string(text))
			}
			if want := map[bool]fs.FileMode{true: fs.ModeDir | 0o755, false: 0o644}[e.IsDir()]; err == nil && fi.Mode() != want {
				t.Errorf("%s has mode %v", p, fi.Mode())
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(out, " ")
	}
	put := func(files map[string]string, want string) string {
		t.Helper()
		data := map[string][]byte{}
		for name, text := range files {
			data[name] = []byte(text)
		}
		dir, err := d.AgentSettings(key, data)
		if err != nil {
			t.Fatal(err)
		}
		if got := list(dir); got != want || !strings.HasSuffix(dir, "/agents/"+key) {
			t.Errorf("%s has %q, want %q", dir, got, want)
		}
		return dir
	}
	put(map[string]string{".a/b": "1", ".a/c/d": "2"}, ".a/b=1 .a/c/d=2")
	dir := put(map[string]string{".a/b/x": "3", ".a/c": "4"}, ".a/b/x=3 .a/c=4") // a folder for a file, and the other way round
	before, err := os.Stat(dir + "/.a/c")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + "/.a/b/x"); err != nil {
		t.Fatal(err)
	}
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(secret, dir+"/.a/b/x"); err != nil {
		t.Fatal(err)
	}
	put(map[string]string{".a/b/x": "5", ".a/c": "4"}, ".a/b/x=5 .a/c=4")
	if text, _ := os.ReadFile(secret); string(text) != "secret" {
		t.Error("a link was written through")
	}
	if after, err := os.Stat(dir + "/.a/c"); err != nil || !os.SameFile(before, after) {
		t.Errorf("a file that has its content was replaced: %v", err)
	}
	for _, name := range []string{"../x", "/x", "a/../../x", "."} {
		if _, err := d.AgentSettings(key, map[string][]byte{name: nil}); err == nil {
			t.Errorf("%s is accepted", name)
		}
	}
}
