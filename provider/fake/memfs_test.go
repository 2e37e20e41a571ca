package fake

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"syscall"
	"testing"
	"time"
)

const user = 1000

// world is a root of the superuser with /work, /small (10 bytes) and /ro of the
// user's, and one file in /ro.
func world(t *testing.T) (*memfsFS, *memfsVolume) {
	t.Helper()
	d := newDisk(time.Now)
	root, small, ro := d.Tree(0, 0o755, 0), d.Tree(user, 0o755, 10), d.Tree(user, 0o755, 0)
	memfsMust(t, newFS(ro, user, false).Free().Touch("/file", 0o644))
	f := newFS(root, user, false)
	memfsMust(t, f.Mount("/data", d.Tree(user, 0o755, 0), false))
	memfsMust(t, f.Mount("/small", small, false))
	memfsMust(t, f.Mount("/ro", ro, true))
	memfsMust(t, f.Mount("/etc/one", d.File(0, 0o644, "one"), true))
	return f, small
}

func memfsMust(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func memfsPut(v memfsView, name, content string) error {
	h, err := v.Open(name, memfsWrite|memfsCreate|memfsTruncate, 0o644)
	if err != nil {
		return err
	}
	defer h.Close()
	_, err = io.WriteString(h, content)
	return err
}

func get(v memfsView, name string) (string, error) {
	h, err := v.Open(name, 0, 0)
	if err != nil {
		return "", err
	}
	defer h.Close()
	b, err := io.ReadAll(h)
	return string(b), err
}

func TestErrnos(t *testing.T) {
	f, _ := world(t)
	v := f.Free()
	memfsMust(t, memfsPut(v, "/data/file", "x"))
	memfsMust(t, v.Mkdir("/data/dir", 0o755))
	memfsMust(t, v.Mkdir("/data/full", 0o755))
	memfsMust(t, memfsPut(v, "/data/full/f", ""))
	memfsMust(t, v.Mkdir("/data/closed", 0o755))
	memfsMust(t, memfsPut(v, "/data/closed/f", ""))
	memfsMust(t, v.Chmod("/data/closed", 0))
	memfsMust(t, v.Symlink("loop", "/data/loop"))
	memfsMust(t, v.Mkfifo("/data/pipe", 0o644))
	for what, tt := range map[string]struct {
		got  error
		want syscall.Errno
	}{
		"missing":                   {memfsPut(v, "/data/no/f", ""), syscall.ENOENT},
		"below a file":              {memfsPut(v, "/data/file/f", ""), syscall.ENOTDIR},
		"file with a slash":         {second(v.Stat("/data/file/")), syscall.ENOTDIR},
		"write to a folder":         {memfsPut(v, "/data/dir", ""), syscall.EISDIR},
		"access to nothing":         {v.Access("/data/no", 4), syscall.ENOENT},
		"access denied":             {v.Access("/data/closed", 1), syscall.EACCES},
		"write access to read-only": {v.Access("/ro/file", 2), syscall.EROFS},
		"mkdir again":               {v.Mkdir("/data/dir/", 0), syscall.EEXIST},
		"link over":                 {v.Symlink("x", "/data/file"), syscall.EEXIST},
		"link to nothing":           {v.Symlink("", "/data/l"), syscall.ENOENT},
		"loop":                      {second(v.Stat("/data/loop")), syscall.ELOOP},
		"closed folder":             {second(v.Stat("/data/closed/f")), syscall.EACCES},
		"somebody's folder":         {v.Mkdir("/dir", 0), syscall.EACCES},
		"somebody's mode":           {v.Chmod("/etc", 0), syscall.EPERM},
		"read-only":                 {memfsPut(v, "/ro/file", ""), syscall.EROFS},
		"read-only name":            {v.Mkdir("/ro/dir", 0), syscall.EROFS},
		"read-only mode":            {v.Chmod("/ro/file", 0), syscall.EROFS},
		"read-only file of a mount": {memfsPut(v, "/etc/one", ""), syscall.EROFS},
		"full folder":               {v.Remove("/data/full", false), syscall.ENOTEMPTY},
		"a mount":                   {v.Remove("/small", true), syscall.EBUSY},
		"onto a mount":              {v.Rename("/data/dir", "/small"), syscall.EBUSY},
		"across mounts":             {v.Rename("/data/file", "/small/f"), syscall.EXDEV},
		"hard link across":          {v.Link("/data/file", "/small/f"), syscall.EXDEV},
		"hard link of a folder":     {v.Link("/data/dir", "/data/d2"), syscall.EPERM},
		"folder into itself":        {v.Rename("/data/dir", "/data/dir/in"), syscall.EINVAL},
		"folder over file":          {v.Rename("/data/dir", "/data/file"), syscall.ENOTDIR},
		"file over folder":          {v.Rename("/data/file", "/data/dir"), syscall.EISDIR},
		"over a full folder":        {v.Rename("/data/dir", "/data/full"), syscall.ENOTEMPTY},
		"too full":                  {memfsPut(v, "/small/f", "12345678901"), syscall.ENOSPC},
		"pipe":                      {second(get(v, "/data/pipe")), syscall.EOPNOTSUPP},
		"long name":                 {v.Mkdir("/data/"+strings.Repeat("n", 256), 0), syscall.ENAMETOOLONG},
		"dot dot":                   {v.Remove("/data/dir/..", true), syscall.EBUSY},
		"no link":                   {second(v.ReadLink("/data/file")), syscall.EINVAL},
		"relative":                  {second(v.Stat("work")), syscall.EINVAL},
	} {
		if tt.got != tt.want {
			t.Errorf("%s: %v, want %v", what, tt.got, tt.want)
		}
	}
}

func second[T any](_ T, err error) error { return err }

// TestRoom holds that room is given back when the last name and handle go.
func TestRoom(t *testing.T) {
	f, small := world(t)
	v := f.Free()
	used := func(want int64) {
		t.Helper()
		if got := small.Used(); got != want {
			t.Errorf("%d bytes are used, want %d", got, want)
		}
	}
	if err := memfsPut(v, "/small/a", "0123456789abc"); err != syscall.ENOSPC {
		t.Errorf("overfilling: %v", err)
	}
	used(10)
	memfsMust(t, memfsPut(v, "/small/a", "12"))
	used(2)
	memfsMust(t, v.Link("/small/a", "/small/b"))
	h, err := v.Open("/small/a", 0, 0)
	memfsMust(t, err)
	memfsMust(t, v.Remove("/small/a", false))
	memfsMust(t, v.Remove("/small/b", false))
	used(2)
	if b, err := io.ReadAll(h); err != nil || string(b) != "12" {
		t.Errorf("a file without names holds %q, %v", b, err)
	}
	memfsMust(t, h.Close())
	used(0)

	s, err := v.Stage("/small/c", 0o644, false)
	memfsMust(t, err)
	io.WriteString(s, "123")
	used(3)
	s.Discard()
	used(0)
	for range 2 {
		s, err = v.Stage("/small/c", 0o644, false)
		memfsMust(t, err)
		io.WriteString(s, "123")
		memfsMust(t, s.Commit())
	}
	used(3)
	memfsMust(t, v.Remove("/small/c", true))
	used(0)
}

func TestConfined(t *testing.T) {
	f, _ := world(t)
	free := f.Free()
	memfsMust(t, memfsPut(free, "/small/f", "secret"))
	for link, target := range map[string]string{"abs": "/small/f", "rel": "../small/f", "dir": "/small", "home": "/data/in", "root": "/", "new": "/small/new"} {
		memfsMust(t, free.Symlink(target, "/data/"+link))
	}
	memfsMust(t, memfsPut(free, "/data/in", "mine"))
	v, err := f.Confined("/data")
	memfsMust(t, err)
	for _, name := range []string{"/data/abs", "/data/rel", "/data/dir/f", "/data/root/small/f", "/small/f", "/data/../small/f"} {
		if got, err := get(v, name); !errors.Is(err, errEscape) {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	for _, name := range []string{"/data/new", "/data/dir/new", "/data/dir/a/b"} {
		if _, err := v.Stage(name, 0o644, false); !errors.Is(err, errEscape) {
			t.Errorf("staging %s: %v", name, err)
		}
	}
	for _, name := range []string{"/data/in", "/data/home", "/data/root/data/in", "/small/../data/in"} {
		if got, err := get(v, name); err != nil || got != "mine" {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	if _, err := f.Confined("/data/in"); err == nil {
		t.Error("a folder that is no mount confines")
	}
}

// TestStageKeeps holds what replacing keeps and what it leaves alone.
func TestStageKeeps(t *testing.T) {
	f, _ := world(t)
	v := f.Free()
	memfsMust(t, memfsPut(v, "/data/f", "old"))
	memfsMust(t, v.Chmod("/data/f", 0o600))
	memfsMust(t, v.Link("/data/f", "/data/other"))
	memfsMust(t, v.Symlink("f", "/data/link"))
	s, err := v.Stage("/data/link", 0o644, false)
	memfsMust(t, err)
	io.WriteString(s, "new")
	if got, _ := get(v, "/data/f"); got != "old" {
		t.Errorf("before the end the file holds %q", got)
	}
	memfsMust(t, s.Commit())
	for name, want := range map[string]string{"/data/f": "new", "/data/link": "new", "/data/other": "old"} {
		if got, err := get(v, name); err != nil || got != want {
			t.Errorf("%s: %q, %v", name, got, err)
		}
	}
	info, err := v.Stat("/data/f")
	if err != nil || info.Mode() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
	if _, err := v.Stage("/data/f", 0o644, true); err != syscall.EEXIST {
		t.Errorf("exclusive: %v", err)
	}
}

func TestReal(t *testing.T) {
	f, _ := world(t)
	v := f.Free()
	memfsMust(t, v.Mkdir("/data/a", 0o755))
	memfsMust(t, v.Symlink("/data/a", "/data/l"))
	for name, want := range map[string]string{
		"/": "/", "/data": "/data", "/data/l": "/data/a", "/data/l/..": "/data", "/data/../small/.": "/small", "/../..": "/", "/etc": "/etc",
	} {
		if got, err := v.Real(name); err != nil || got != want {
			t.Errorf("%s is %q, %v; want %q", name, got, err, want)
		}
	}
}

// FuzzWalk holds that no path leads a confined view out, and none hangs.
func FuzzWalk(f *testing.F) {
	for _, seed := range []string{"a/../b", "l/../..", "up/up/small/f", "abs/../x", "../../small", "a//./b/"} {
		f.Add(seed, "../small")
	}
	f.Fuzz(func(t *testing.T, name, target string) {
		all, _ := world(t)
		free := all.Free()
		memfsMust(t, memfsPut(free, "/small/f", "secret"))
		memfsMust(t, free.Mkdir("/data/a", 0o755))
		if target != "" {
			memfsMust(t, free.Symlink(target, "/data/l"))
			memfsMust(t, free.Symlink(target, "/data/a/up"))
		}
		v, err := all.Confined("/data")
		memfsMust(t, err)
		if got, err := get(v, path.Clean("/data")+"/"+name); err == nil && got == "secret" {
			t.Fatalf("%q with a link to %q leads out", name, target)
		}
		if s, err := v.Stage("/data/"+name, 0o644, false); err == nil {
			io.WriteString(s, "x")
			s.Commit() // may fail; what counts is where it went
		}
		if entries, err := free.ReadDir("/small"); err != nil || len(entries) != 1 {
			t.Fatalf("%q with a link to %q wrote beyond the mount", name, target)
		}
		var info fs.FileInfo
		if info, err = v.Stat("/data/" + name); err == nil && info.Size() < 0 {
			t.Fatal("a negative size")
		}
	})
}
