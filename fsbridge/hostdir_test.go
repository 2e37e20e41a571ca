package fsbridge_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// open returns the files of a folder beside which lies another, "outside",
// with a file "secret".
func open(t testing.TB) (f *fsbridge.Files, dir, outside string) {
	t.Helper()
	base := t.TempDir()
	dir, outside = filepath.Join(base, "dir"), filepath.Join(base, "outside")
	hostdirMust(t, os.Mkdir(dir, 0o755))
	hostdirMust(t, os.Mkdir(outside, 0o755))
	hostdirMust(t, os.WriteFile(filepath.Join(outside, "secret"), []byte("secret"), 0o644))
	root, err := os.OpenRoot(dir)
	hostdirMust(t, err)
	t.Cleanup(func() { root.Close() })
	return fsbridge.NewHostFiles(root, "host:dir"), dir, outside
}

func hostdirMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func write(f *fsbridge.Files, name, content string) error {
	return f.Write(context.Background(), name, strings.NewReader(content), sandbox.WriteOptions{})
}

// names are those of everything in dir, hidden files included.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	hostdirMust(t, err)
	out := []string{}
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out
}

func TestView(t *testing.T) {
	f, dir, _ := open(t)
	hostdirMust(t, write(f, "a/b/c.txt", "c"))
	hostdirMust(t, write(f, "/top", "top"))
	hostdirMust(t, os.Symlink("b/c.txt", filepath.Join(dir, "a", "link")))
	if err := fstest.TestFS(fsbridge.SubFS(t.Context(), f, ""), "a/b/c.txt", "top", "a/link"); err != nil {
		t.Error(err)
	}
}

// TestNothingLeadsOut tries every operation through links that lead out.
func TestNothingLeadsOut(t *testing.T) {
	ctx := t.Context()
	f, dir, outside := open(t)
	hostdirMust(t, os.Symlink(outside, filepath.Join(dir, "abs")))
	hostdirMust(t, os.Symlink("../outside", filepath.Join(dir, "rel")))
	hostdirMust(t, os.Symlink("../outside/secret", filepath.Join(dir, "file")))
	read := func(name string) error {
		r, err := f.Read(ctx, name, 0, -1)
		if err == nil {
			r.Close()
		}
		return err
	}
	tests := []struct {
		name string
		do   func() error
	}{
		{"read through a folder", func() error { return read("abs/secret") }},
		{"read a link", func() error { return read("file") }},
		{"read above", func() error { return read("../outside/secret") }},
		{"write through a folder", func() error { return write(f, "rel/new", "x") }},
		{"write above", func() error { return write(f, "../outside/new", "x") }},
		{"make parents through a folder", func() error { return write(f, "abs/sub/new", "x") }},
		{"mkdir", func() error { return f.Mkdir(ctx, "abs/new", 0) }},
		{"remove", func() error { return f.Remove(ctx, "rel/secret", false) }},
		{"remove a tree", func() error { return f.Remove(ctx, "rel/secret", true) }},
		{"rename", func() error { return f.Rename(ctx, "abs/secret", "mine") }},
		{"rename out", func() error { hostdirMust(t, write(f, "x", "x")); return f.Rename(ctx, "x", "abs/x") }},
		{"stat", func() error { _, err := f.Stat(ctx, "abs/secret"); return err }},
		{"lstat", func() error { _, err := f.Lstat(ctx, "abs/secret"); return err }},
		{"list", func() error { _, err := f.ReadDir(ctx, "rel"); return err }},
		{"link", func() error { return f.Symlink(ctx, "x", "abs/new") }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do()
			if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !errors.Is(err, fs.ErrPermission) {
				t.Errorf("the error is %v", err)
			}
			if got := names(t, outside); len(got) != 1 || got[0] != "secret" {
				t.Errorf("outside there is %v", got)
			}
		})
	}
}

func TestErrorsAreThoseOfASandbox(t *testing.T) {
	ctx := t.Context()
	f, dir, _ := open(t)
	hostdirMust(t, write(f, "file", "x"))
	hostdirMust(t, write(f, "folder/full", "x"))
	hostdirMust(t, syscall.Mkfifo(filepath.Join(dir, "pipe"), 0o600))
	read := func(name string) error { _, err := f.Read(ctx, name, 0, -1); return err }
	tests := []struct {
		name string
		err  error
		code sandbox.Code
		is   error
	}{
		{"missing", read("nope"), sandbox.CodeNotFound, fs.ErrNotExist},
		{"read a folder", read("folder"), sandbox.CodeValidation, syscall.EISDIR},
		{"read a pipe", read("pipe"), sandbox.CodeCapabilityBlocked, nil},
		{"replace a pipe", write(f, "pipe", "x"), sandbox.CodeCapabilityBlocked, nil},
		{"replace a folder", write(f, "folder", "x"), sandbox.CodeValidation, syscall.EISDIR},
		{"through a file", write(f, "file/x", "x"), sandbox.CodeValidation, syscall.ENOTDIR},
		{"mkdir of what exists", f.Mkdir(ctx, "folder", 0), sandbox.CodeValidation, fs.ErrExist},
		{"mkdir of the folder itself", f.Mkdir(ctx, "/", 0), sandbox.CodeValidation, fs.ErrExist},
		{"remove a full folder", f.Remove(ctx, "folder", false), sandbox.CodeValidation, fs.ErrExist},
		{"remove what is not there", f.Remove(ctx, "nope", true), sandbox.CodeNotFound, fs.ErrNotExist},
		{"remove the folder itself", f.Remove(ctx, "", true), sandbox.CodeCapabilityBlocked, syscall.EBUSY},
		{"exclusive", f.Write(ctx, "file", strings.NewReader(""), sandbox.WriteOptions{Exclusive: true}), sandbox.CodeValidation, fs.ErrExist},
		{"negative offset", func() error { _, err := f.Read(ctx, "file", -1, -1); return err }(), sandbox.CodeValidation, syscall.EINVAL},
	}
	for _, tt := range tests {
		if sandbox.CodeOf(tt.err) != tt.code || tt.is != nil && !errors.Is(tt.err, tt.is) {
			t.Errorf("%s: %v, want %s", tt.name, tt.err, tt.code)
		}
	}
}

func TestWriteKeepsModesAndReplacesLinks(t *testing.T) {
	f, dir, outside := open(t)
	hostdirMust(t, write(f, "file", "old"))
	hostdirMust(t, os.Chmod(filepath.Join(dir, "file"), 0o640))
	hostdirMust(t, write(f, "file", "new"))
	info, err := os.Stat(filepath.Join(dir, "file"))
	hostdirMust(t, err)
	if info.Mode() != 0o640 {
		t.Errorf("the mode became %v", info.Mode())
	}
	hostdirMust(t, os.Symlink(filepath.Join(outside, "secret"), filepath.Join(dir, "link")))
	hostdirMust(t, write(f, "link", "mine"))
	if b, _ := os.ReadFile(filepath.Join(outside, "secret")); string(b) != "secret" {
		t.Errorf("the link was followed: %q", b)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "link")); string(b) != "mine" {
		t.Errorf("the link leads to %q", b)
	}
}

// failing gives some bytes and then an error.
type failing struct {
	then     func() error
	reported bool
}

func (r *failing) Read(p []byte) (int, error) {
	if r.reported {
		return 0, r.then()
	}
	r.reported = true
	return copy(p, "half"), nil
}

func TestWriteThatFailsLeavesTheOld(t *testing.T) {
	f, dir, _ := open(t)
	hostdirMust(t, write(f, "file", "old"))
	boom := errors.New("boom")
	err := f.Write(t.Context(), "file", &failing{then: func() error { return boom }}, sandbox.WriteOptions{})
	if !errors.Is(err, boom) {
		t.Errorf("the error is %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = f.Write(ctx, "file", &failing{then: func() error { cancel(); return io.EOF }}, sandbox.WriteOptions{})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("given up at the end of the content: %v", err)
	}
	if b, _ := os.ReadFile(filepath.Join(dir, "file")); string(b) != "old" {
		t.Errorf("it holds %q", b)
	}
	if got := names(t, dir); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
}

// TestSwapRace exchanges a folder for a link that leads out, over and over,
// while files are written, read and listed through it.
func TestSwapRace(t *testing.T) {
	f, dir, outside := open(t)
	hostdirMust(t, os.Mkdir(filepath.Join(dir, "real"), 0o755))
	hostdirMust(t, os.Symlink(outside, filepath.Join(dir, "evil")))
	hostdirMust(t, os.Symlink("real", filepath.Join(dir, "sub")))
	stop, swapped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(swapped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
			}
			tmp := filepath.Join(dir, "next")
			os.Symlink([]string{"real", outside}[i%2], tmp)
			os.Rename(tmp, filepath.Join(dir, "sub"))
		}
	}()
	in, refused := 0, 0
	for deadline := time.Now().Add(time.Minute); (in < 500 || refused < 500) && time.Now().Before(deadline); {
		if write(f, "sub/secret", "mine") == nil {
			in++
		} else {
			refused++
		}
		if r, err := f.Read(t.Context(), "sub/secret", 0, -1); err == nil {
			if b, _ := io.ReadAll(r); string(b) != "mine" {
				t.Fatalf("read %q", b)
			}
			r.Close()
		}
		f.ReadDir(t.Context(), "sub")
		f.Mkdir(t.Context(), "sub/new", 0)
		f.Remove(t.Context(), "sub/new", true)
	}
	close(stop)
	<-swapped
	if in < 500 || refused < 500 {
		t.Errorf("%d writes came in and %d were refused; the race was not run", in, refused)
	}
	if b, _ := os.ReadFile(filepath.Join(outside, "secret")); string(b) != "secret" {
		t.Errorf("the file outside holds %q", b)
	}
	if got := names(t, outside); len(got) != 1 {
		t.Errorf("outside there is %v", got)
	}
}
