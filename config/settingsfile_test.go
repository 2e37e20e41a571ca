package config

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func write(t *testing.T, path, text string, mode os.FileMode) string {
	t.Helper()
	must(t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(t, os.WriteFile(path, []byte(text), 0o600))
	must(t, os.Chmod(path, mode))
	return path
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestDiscovery holds which place wins.
func TestDiscovery(t *testing.T) {
	dir := t.TempDir()
	flag := write(t, filepath.Join(dir, "flag.json"), "flag", 0o600)
	env := write(t, filepath.Join(dir, "env.json"), "env", 0o600)
	user := write(t, filepath.Join(dir, "config/sandbox/sandbox.json"), "user", 0o644)
	t.Setenv("XDG_CONFIG_HOME", filepath.Join(dir, "config"))
	for _, tt := range []struct {
		name, flag, env, want string
	}{
		{"flag over all", flag, env, "flag"},
		{"environment over the user's", "", env, "env"},
		{"the user's", "", "", "user"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Setenv("SANDBOX_CONFIG", tt.env)
			f, err := Load(tt.flag)
			must(t, err)
			if string(f.Data) != tt.want {
				t.Errorf("read %q from %s, want %q", f.Data, f.Path, tt.want)
			}
		})
	}
	must(t, os.Remove(user))
	t.Setenv("SANDBOX_CONFIG", "")
	system := filepath.Join(dir, "etc/sandbox.json")
	own := filepath.Join(dir, "config/sandbox/sandbox.json")
	if path, named, err := locateSettingsfile("", system); err != nil || named || path != own {
		t.Errorf("without either: %s, %v, %v", path, named, err)
	}
	write(t, system, "system", 0o644)
	if path, named, err := locateSettingsfile("", system); err != nil || named || path != system {
		t.Errorf("without the user's: %s, %v, %v", path, named, err)
	}
	write(t, own, "user", 0o644)
	if path, _, err := locateSettingsfile("", system); err != nil || path != own {
		t.Errorf("with both: %s, %v", path, err)
	}
	must(t, os.Remove(own))
	if f, err := Load(""); err != nil || f.Path != "" || f.Data != nil {
		t.Errorf("missing and not named: %+v, %v", f, err)
	}
	t.Setenv("XDG_CONFIG_HOME", "")
	t.Setenv("HOME", "")
	if f, err := Load(""); err != nil || f.Path != "" {
		t.Errorf("no home: %+v, %v", f, err)
	}
}

// TestRefused holds what is not read, and that the fix is named.
func TestRefused(t *testing.T) {
	root := os.Geteuid() == 0
	tests := []struct {
		name string
		make func(t *testing.T, dir string) string
		code sandbox.Code
		hint string
	}{
		{"missing", func(_ *testing.T, dir string) string { return filepath.Join(dir, "none.json") }, sandbox.CodeValidation, "make it"},
		{"dangling link", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, "link.json")
			must(t, os.Symlink("nowhere", p))
			return p
		}, sandbox.CodeValidation, "make it"},
		{"folder", func(_ *testing.T, dir string) string { return dir }, sandbox.CodeValidation, "file"},
		{"pipe", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, "pipe.json")
			must(t, unix.Mkfifo(p, 0o600))
			return p
		}, sandbox.CodeValidation, "file"},
		{"device", func(*testing.T, string) string { return "/dev/zero" }, sandbox.CodeValidation, "file"},
		{"socket", func(t *testing.T, dir string) string {
			p := filepath.Join(dir, "s")
			l, err := net.Listen("unix", p)
			must(t, err)
			t.Cleanup(func() { l.Close() })
			return p
		}, sandbox.CodeUnavailable, ""},
		{"writable by the group", func(t *testing.T, dir string) string { return write(t, filepath.Join(dir, "a"), "{}", 0o664) }, sandbox.CodePermissionDeny, "chmod go-w"},
		{"writable by all", func(t *testing.T, dir string) string { return write(t, filepath.Join(dir, "a"), "{}", 0o646) }, sandbox.CodePermissionDeny, "chmod go-w"},
		{"folder writable by all", func(t *testing.T, dir string) string {
			p := write(t, filepath.Join(dir, "open/a"), "{}", 0o600)
			must(t, os.Chmod(filepath.Dir(p), 0o777))
			return p
		}, sandbox.CodePermissionDeny, "chmod go-w"},
		{"link to a file that others can write", func(t *testing.T, dir string) string {
			p := write(t, filepath.Join(dir, "open"), "{}", 0o666)
			must(t, os.Symlink(p, filepath.Join(dir, "link")))
			return filepath.Join(dir, "link")
		}, sandbox.CodePermissionDeny, "chmod go-w"},
		{"somebody else's", func(t *testing.T, dir string) string {
			p := write(t, filepath.Join(dir, "a"), "{}", 0o600)
			if !root {
				testenv.Lack(t, "root", "only root can give a file away")
			}
			must(t, os.Chown(p, 12345, 12345))
			return p
		}, sandbox.CodePermissionDeny, "chown"},
		{"too large", func(t *testing.T, dir string) string {
			return write(t, filepath.Join(dir, "a"), strings.Repeat(" ", maxSize+1), 0o600)
		}, sandbox.CodeValidation, "another file"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := tt.make(t, t.TempDir())
			f, err := Load(path)
			var e *sandbox.Error
			if !errors.As(err, &e) {
				t.Fatalf("read %d bytes, error %v", len(f.Data), err)
			}
			if e.Code != tt.code || !strings.Contains(e.Hint, tt.hint) || f.Data != nil {
				t.Errorf("%s (hint %q), want %s with %q", e, e.Hint, tt.code, tt.hint)
			}
		})
	}
}

// TestAccepted holds what is read although it is near a refusal.
func TestAccepted(t *testing.T) {
	dir := t.TempDir()
	whole := strings.Repeat(" ", maxSize)
	plain := write(t, filepath.Join(dir, "plain"), whole, 0o644)
	must(t, os.Symlink(plain, filepath.Join(dir, "link")))
	sticky := write(t, filepath.Join(dir, "sticky/a"), "{}", 0o600)
	must(t, os.Chmod(filepath.Dir(sticky), 0o777|os.ModeSticky))
	for name, tt := range map[string]struct{ path, canonical, want string }{
		"largest":               {plain, plain, whole},
		"through a link":        {filepath.Join(dir, "link"), plain, whole},
		"in a folder like /tmp": {sticky, sticky, "{}"},
		"with dots and slashes": {dir + "//./sticky/../plain", plain, whole},
	} {
		t.Run(name, func(t *testing.T) {
			f, err := Load(tt.path)
			must(t, err)
			if string(f.Data) != tt.want || f.Path != canonical(t, tt.canonical) {
				t.Errorf("%d bytes of %s", len(f.Data), f.Path)
			}
		})
	}
}

func canonical(t *testing.T, p string) string {
	t.Helper()
	c, err := filepath.EvalSymlinks(p)
	must(t, err)
	return c
}

// TestCause checks that callers can recognise a missing file by its cause.
func TestCause(t *testing.T) {
	_, err := Load(filepath.Join(t.TempDir(), "none"))
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the cause of %v is lost", err)
	}
}

func ExampleLoad() {
	dir, err := os.MkdirTemp("", "settings-")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "sandbox.json")
	if err := os.WriteFile(path, []byte(`{"agents": {}}`), 0o600); err != nil {
		panic(err)
	}
	f, err := Load(path)
	fmt.Println(string(f.Data), err)
	// Output: {"agents": {}} <nil>
}
