package copy

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
)

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
	return Copy(ctx, Source{Files: from, Path: "a"}, Target{Files: to, Name: "a"}, &Tally{})
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
	must(t, Unpack(t.Context(), io.NopCloser(&b), Target{Files: to}, &Tally{}))
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
