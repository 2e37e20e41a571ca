//go:build linux

package server

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestFind(t *testing.T) {
	base, err := filepath.EvalSymlinks(t.TempDir())
	notifierMust(t, err)
	for _, dir := range []string{"d/e", "locked/in"} {
		notifierMust(t, os.MkdirAll(filepath.Join(base, dir), 0o755))
	}
	notifierMust(t, os.WriteFile(filepath.Join(base, "d/file"), nil, 0o600))
	for name, to := range map[string]string{
		"link": "d", "d/up": "../d/e", "air": "d/nothing", "far": base + "/none/x", "a": "b", "b": "a",
		"fd": "/proc/self/fd/0", "chain": "air",
	} {
		notifierMust(t, os.Symlink(to, filepath.Join(base, name)))
	}
	for _, tt := range []struct {
		path   string
		follow bool
		want   string // empty: no path
		exists bool
	}{
		{"/d/file", true, "/d/file", true}, {"/d//./file", true, "/d/file", true}, {"/link/file", true, "/d/file", true},
		{"/link", false, "/link", true}, {"/link", true, "/d", true}, {"/link/", true, "/d", true},
		{"/d/up/../file", true, "/d/file", true}, {"/d/new", true, "/d/new", false}, {"/link/new", true, "/d/new", false},
		{"/d/up/new", false, "/d/e/new", false}, {"/air", true, "/d/nothing", false}, {"/air", false, "/air", true},
		{"/chain", true, "/d/nothing", false}, {"/far", true, "/none/x", false},
		{"/none/none/new", true, "/none/none/new", false}, {"/link/none/../x", true, "/d/x", false},
		{"/d/file/new", true, "/d/file/new", false}, {"/a", true, "", false}, {"/fd", true, "", false}, {"/d/new/", true, "/d/new", false},
	} {
		got, ok := findNotifier(base+tt.path, tt.follow)
		if !ok {
			got.path = base
		}
		if ok != (tt.want != "") || got.path != base+tt.want || got.exists != tt.exists {
			t.Errorf("%s: %+v, %v", tt.path, got, ok)
		}
	}
	if got, ok := findNotifier("/", true); !ok || got.path != "/" {
		t.Errorf("the root: %+v", got)
	}
	for _, odd := range []string{"", "relative", strings.Repeat("/x", 3000), "/" + strings.Repeat("x", 300)} {
		if got, ok := findNotifier(odd, true); ok {
			t.Errorf("%.20q is found: %+v", odd, got)
		}
	}
}

// TestEverywhere holds that of the paths which are not looked at
// closer none could have been about anything.
func TestEverywhere(t *testing.T) {
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	notifierMust(t, err)
	defer f.Close()
	dir := "/proc/" + strconv.Itoa(os.Getpid()) + "/fd/"
	for _, p := range []string{dir + strconv.Itoa(int(f.Fd())), dir + "0", dir + "1000000", "/proc/999999999/fd/3", "/proc/0/fd/1", "/dev/null"} {
		if !everywhere(p) {
			t.Errorf("%s is not one of them", p)
		}
		for _, follow := range []bool{true, false} {
			if at, ok := findNotifier(p, follow); ok && !notifierHarmless(at.path) {
				t.Errorf("%s leads to %s", p, at.path)
			}
		}
	}
	for _, p := range []string{
		"/proc/self/fd/0", dir + "3/file", dir + "../cwd/file", dir, dir + "0/", "/proc/1/root/fd/0", "/proc/1/task/1/fd/0", "/proc/../fd/0",
		"/proc//fd/0", "//proc/1/fd/0", "/proc/1/fd/fd/0", "/workspace/proc/1/fd/0", "/proc/1/fd/-1", "",
		"/dev/null/", "/dev/../dev/null", "/dev/nullx", "/workspace/dev/null", "/dev",
	} {
		if everywhere(p) {
			t.Errorf("%q is one of them", p)
		}
	}
}

func notifierMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
