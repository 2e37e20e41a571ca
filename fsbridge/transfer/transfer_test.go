package transfer_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge/hostdir"
	"github.com/bulkhead-dev/sandbox/fsbridge/transfer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A folder is one side of a transfer.
type folder struct {
	*hostdir.Files
	dir string
}

func newFolder(t testing.TB) folder {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { root.Close() })
	return folder{hostdir.New(root, "dir"), dir}
}

func (f folder) put(t testing.TB, name, content string, mode fs.FileMode) {
	t.Helper()
	p := filepath.Join(f.dir, name)
	must(t, os.MkdirAll(filepath.Dir(p), 0o755))
	must(t, os.WriteFile(p, []byte(content), 0o600))
	must(t, os.Chmod(p, mode))
}

// tree describes everything in the folder, one line each.
func (f folder) tree(t testing.TB) []string {
	t.Helper()
	out := []string{}
	must(t, filepath.WalkDir(f.dir, func(p string, d fs.DirEntry, err error) error {
		if err != nil || p == f.dir {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(p, f.dir+"/")
		switch {
		case d.IsDir():
			name += "/"
		case d.Type() == fs.ModeSymlink:
			target, _ := os.Readlink(p)
			name += " -> " + target
		case d.Type().IsRegular():
			b, err := os.ReadFile(p)
			if err != nil {
				return err
			}
			name += fmt.Sprintf(" %v %q", info.Mode(), b)
		}
		out = append(out, name)
		return nil
	}))
	return out
}

// filled is a tree with everything that can be in one.
func filled(t *testing.T) folder {
	f := newFolder(t)
	f.put(t, "top/bin", "\x00\xff\n", 0o755)
	f.put(t, "top/sub/deep/-dash", "x", 0o600)
	f.put(t, "top/sub/we ird\nname", "", 0o644)
	f.put(t, "top/big", strings.Repeat("0123456789abcdef", 40_000), 0o644)
	must(t, os.Mkdir(filepath.Join(f.dir, "top/empty"), 0o755))
	must(t, os.Symlink("sub/deep/-dash", filepath.Join(f.dir, "top/in")))
	must(t, os.Symlink("../bin", filepath.Join(f.dir, "top/sub/up")))
	must(t, os.Symlink("/etc/passwd", filepath.Join(f.dir, "top/abs")))
	must(t, os.Symlink("../../x", filepath.Join(f.dir, "top/sub/out")))
	must(t, syscall.Mkfifo(filepath.Join(f.dir, "top/pipe"), 0o600))
	return f
}

func TestCopy(t *testing.T) {
	big := fmt.Sprintf("%q", strings.Repeat("0123456789abcdef", 40_000))
	content := []string{
		`big -rw-r--r-- ` + big, `bin -rwxr-xr-x "\x00\xff\n"`, `empty/`, `in -> sub/deep/-dash`,
		`sub/`, `sub/deep/`, `sub/deep/-dash -rw------- "x"`, `sub/up -> ../bin`, "sub/we ird\nname -rw-r--r-- \"\"",
	}
	under := func(name string) []string {
		out := []string{name + "/"}
		for _, line := range content {
			out = append(out, name+"/"+line)
		}
		return out
	}
	tests := []struct {
		name, from, dir, as string
		want                []string
	}{
		{"under its name", "top", "", "top", under("top")},
		{"under another name", "top", "", "new", under("new")},
		{"its content", "top", "", "", content},
		{"into a folder that is made", "top", "x", "y", append([]string{"x/"}, under("x/y")...)},
		{"a file under another name", "top/bin", "", "other", []string{`other -rwxr-xr-x "\x00\xff\n"`}},
		{"a file under its name", "top/bin", "", "", []string{`bin -rwxr-xr-x "\x00\xff\n"`}},
		{"what a link leads to", "top/in", "", "l", []string{`l -rw------- "x"`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			from, to := filled(t), newFolder(t)
			var tally transfer.Tally
			must(t, transfer.Copy(t.Context(), transfer.Source{Files: from, Path: tt.from}, transfer.Target{Files: to, Dir: tt.dir, Name: tt.as}, &tally))
			if d := cmp.Diff(tt.want, to.tree(t)); d != "" {
				t.Errorf("-want +got:\n%s", d)
			}
		})
	}
}

func TestTallyTellsWhatPassedAndWhatDidNot(t *testing.T) {
	from, to := filled(t), newFolder(t)
	var tally transfer.Tally
	must(t, transfer.Copy(t.Context(), transfer.Source{Files: from, Path: "top"}, transfer.Target{Files: to, Name: "x"}, &tally))
	if got, want := tally.Count(), (transfer.Count{Files: 4, Folders: 4, Links: 2, Bytes: 640_004}); got != want {
		t.Errorf("counted %+v, want %+v", got, want)
	}
	left := []string{}
	for _, l := range tally.Left() {
		left = append(left, l.Path+": "+l.Reason)
	}
	slices.Sort(left)
	want := []string{
		"top/pipe: it is a pipe, a socket or a device",
		"x/abs: it is a link that leads out, to /etc/passwd",
		"x/sub/out: it is a link that leads out, to ../../x",
	}
	if d := cmp.Diff(want, left); d != "" {
		t.Errorf("left out (-want +got):\n%s", d)
	}
}

func TestMergeReplacesFilesAndKeepsOthers(t *testing.T) {
	from, to := newFolder(t), newFolder(t)
	from.put(t, "a/f", "new", 0o644)
	to.put(t, "a/f", "old", 0o640)
	to.put(t, "a/other", "stays", 0o644)
	must(t, transfer.Copy(t.Context(), transfer.Source{Files: from, Path: "a"}, transfer.Target{Files: to, Name: "a"}, &transfer.Tally{}))
	want := []string{"a/", `a/f -rw-r----- "new"`, `a/other -rw-r--r-- "stays"`}
	if d := cmp.Diff(want, to.tree(t)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestArchiveAndBack(t *testing.T) {
	from, to := filled(t), newFolder(t)
	var archive bytes.Buffer
	must(t, transfer.Pack(t.Context(), transfer.Source{Files: from, Path: "top"}, "top", &archive, &transfer.Tally{}))
	must(t, transfer.Unpack(t.Context(), io.NopCloser(&archive), transfer.Target{Files: to, Dir: "here"}, &transfer.Tally{}))
	direct := newFolder(t)
	must(t, transfer.Copy(t.Context(), transfer.Source{Files: from, Path: "top"}, transfer.Target{Files: direct, Dir: "here", Name: "top"}, &transfer.Tally{}))
	if d := cmp.Diff(direct.tree(t), to.tree(t)); d != "" {
		t.Errorf("-copied +unpacked:\n%s", d)
	}
}

// entries is an archive with the given headers; files hold "x".
func entries(t testing.TB, headers ...tar.Header) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range headers {
		if h.Typeflag == tar.TypeReg {
			h.Size, h.Mode = 1, 0o644
		}
		must(t, w.WriteHeader(&h))
		if h.Typeflag == tar.TypeReg {
			w.Write([]byte("x"))
		}
	}
	must(t, w.Close())
	return b.Bytes()
}

func TestHostileArchives(t *testing.T) {
	tests := []struct {
		name    string
		archive []byte
		code    sandbox.Code
	}{
		{"climbs", entries(t, tar.Header{Name: "../x", Typeflag: tar.TypeReg}), sandbox.CodeCapabilityBlocked},
		{"climbs later", entries(t, tar.Header{Name: "a/../../x", Typeflag: tar.TypeReg}), sandbox.CodeCapabilityBlocked},
		{"absolute", entries(t, tar.Header{Name: "/x", Typeflag: tar.TypeReg}), sandbox.CodeCapabilityBlocked},
		{"hard link out", entries(t, tar.Header{Name: "x", Linkname: "../../etc/passwd", Typeflag: tar.TypeLink}), sandbox.CodeCapabilityBlocked},
		{"through its own link", entries(t, tar.Header{Name: "l", Linkname: "sub", Typeflag: tar.TypeSymlink}, tar.Header{Name: "l/x", Typeflag: tar.TypeReg}), sandbox.CodeCapabilityBlocked},
		{"cut short", entries(t, tar.Header{Name: "x", Typeflag: tar.TypeReg})[:512], sandbox.CodeValidation},
		{"garbage", bytes.Repeat([]byte("garbage "), 200), sandbox.CodeValidation},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			to := newFolder(t)
			err := transfer.Unpack(t.Context(), io.NopCloser(bytes.NewReader(tt.archive)), transfer.Target{Files: to, Dir: "in"}, &transfer.Tally{})
			if sandbox.CodeOf(err) != tt.code {
				t.Errorf("the error is %v", err)
			}
			for _, line := range to.tree(t) {
				if line != "in/" {
					t.Errorf("there is %s", line)
				}
			}
		})
	}
}

func TestArchiveWithWhatIsLeftOut(t *testing.T) {
	to := newFolder(t)
	archive := entries(t,
		tar.Header{Name: "null", Typeflag: tar.TypeChar, Devmajor: 1, Devminor: 3},
		tar.Header{Name: "evil", Linkname: "/etc", Typeflag: tar.TypeSymlink},
		tar.Header{Name: "fine", Typeflag: tar.TypeReg})
	var tally transfer.Tally
	must(t, transfer.Unpack(t.Context(), io.NopCloser(bytes.NewReader(archive)), transfer.Target{Files: to, Dir: "in"}, &tally))
	if d := cmp.Diff([]string{"in/", `in/fine -rw-r--r-- "x"`}, to.tree(t)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if n := len(tally.Left()); n != 2 {
		t.Errorf("%d were left out: %v", n, tally.Left())
	}
}

// TestUnpackDoesNotWaitForTheEndOfInput is about an input that stays open, as
// a pipe does whose other end somebody keeps.
func TestUnpackDoesNotWaitForTheEndOfInput(t *testing.T) {
	to := newFolder(t)
	r, w := io.Pipe()
	go w.Write(entries(t, tar.Header{Name: "fine", Typeflag: tar.TypeReg}))
	done := make(chan error, 1)
	go func() {
		done <- transfer.Unpack(t.Context(), r, transfer.Target{Files: to}, &transfer.Tally{})
	}()
	select {
	case err := <-done:
		must(t, err)
	case <-time.After(20 * time.Second):
		t.Fatal("it waits for more")
	}
	if got := to.tree(t); len(got) != 1 {
		t.Errorf("there is %v", got)
	}
}

// A troubled folder calls a hook before each write and each read.
type troubled struct {
	folder
	write func(path string) error
	read  func(path string) error
}

func (f troubled) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	if f.write != nil {
		if err := f.write(path); err != nil {
			return err
		}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	return f.folder.Write(ctx, path, r, o)
}

func (f troubled) Read(ctx context.Context, path string, offset, limit int64) (io.ReadCloser, error) {
	if f.read != nil {
		if err := f.read(path); err != nil {
			return nil, err
		}
	}
	return f.folder.Read(ctx, path, offset, limit)
}

func many(t *testing.T, n int) folder {
	f := newFolder(t)
	for i := range n {
		f.put(t, fmt.Sprintf("a/f%03d", i), strings.Repeat("x", 4096), 0o644)
	}
	return f
}

func copyAll(ctx context.Context, from, to sandbox.Files) error {
	return transfer.Copy(ctx, transfer.Source{Files: from, Path: "a"}, transfer.Target{Files: to, Name: "a"}, &transfer.Tally{})
}

func TestTheFirstFailureIsTheReason(t *testing.T) {
	full := &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Message: "full", Err: syscall.ENOSPC}
	gone := &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "gone"}
	t.Run("writing", func(t *testing.T) {
		to := troubled{folder: newFolder(t), write: func(p string) error {
			if strings.HasSuffix(p, "f007") {
				return full
			}
			return nil
		}}
		if err := copyAll(t.Context(), many(t, 100), to); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("the error is %v", err)
		}
	})
	t.Run("reading", func(t *testing.T) {
		to := newFolder(t)
		from := troubled{folder: many(t, 100), read: func(p string) error {
			if strings.HasSuffix(p, "f050") {
				return gone
			}
			return nil
		}}
		if err := copyAll(t.Context(), from, to); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("the error is %v", err)
		}
		whole(t, to)
	})
	t.Run("given up", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		to := newFolder(t)
		err := copyAll(ctx, many(t, 100), troubled{folder: to, write: func(p string) error {
			if strings.HasSuffix(p, "f020") {
				cancel()
			}
			return nil
		}})
		if !errors.Is(err, context.Canceled) {
			t.Errorf("the error is %v", err)
		}
		whole(t, to)
	})
}

// whole checks that every file is complete and nothing else is there.
func whole(t *testing.T, f folder) {
	t.Helper()
	lines := f.tree(t)
	for _, line := range lines {
		if line != "a/" && !strings.HasSuffix(line, fmt.Sprintf(" -rw-r--r-- %q", strings.Repeat("x", 4096))) {
			t.Errorf("there is %.60s", line)
		}
	}
	if len(lines) < 2 || len(lines) > 100 {
		t.Errorf("%d lines; the copy was not cut in the middle", len(lines))
	}
}

// TestSmallFilesAreWrittenSideBySide holds writes until several have come.
func TestSmallFilesAreWrittenSideBySide(t *testing.T) {
	var now, most atomic.Int64
	enough := make(chan struct{})
	to := troubled{folder: newFolder(t), write: func(string) error {
		n := now.Add(1)
		defer now.Add(-1)
		if n > most.Load() {
			most.Store(n)
		}
		if n == 8 {
			select {
			case <-enough:
			default:
				close(enough)
			}
		}
		select {
		case <-enough:
			return nil
		case <-time.After(20 * time.Second):
			return errors.New("the others do not come")
		}
	}}
	from := many(t, 100)
	must(t, copyAll(t.Context(), from, to))
	if n := most.Load(); n > 8 {
		t.Errorf("%d at once", n)
	}
	if d := cmp.Diff(from.tree(t), to.tree(t)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

// TestOrderOfOnePathIsKept unpacks an archive that names one file many times
// and links to it in between.
func TestOrderOfOnePathIsKept(t *testing.T) {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for i := range 50 {
		text := fmt.Sprintf("%02d", i)
		must(t, w.WriteHeader(&tar.Header{Name: "f", Typeflag: tar.TypeReg, Size: 2, Mode: 0o644}))
		w.Write([]byte(text))
		must(t, w.WriteHeader(&tar.Header{Name: "at" + text, Typeflag: tar.TypeLink, Linkname: "f"}))
	}
	must(t, w.Close())
	to := newFolder(t)
	must(t, transfer.Unpack(t.Context(), io.NopCloser(&b), transfer.Target{Files: to}, &transfer.Tally{}))
	for i := range 50 {
		name := fmt.Sprintf("at%02d", i)
		if got, _ := os.ReadFile(filepath.Join(to.dir, name)); string(got) != name[2:] {
			t.Errorf("%s holds %q", name, got)
		}
	}
	if got, _ := os.ReadFile(filepath.Join(to.dir, "f")); string(got) != "49" {
		t.Errorf("f holds %q", got)
	}
}
