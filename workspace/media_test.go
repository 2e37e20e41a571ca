package workspace

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/iotest"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

func TestStage(t *testing.T) {
	r := newRig(t)
	content := "\x89PNG\r\n\x1a\nand the rest"
	ref := r.put(t, "in/Holiday photo.png", content)
	got, err := r.stage(t, ref, r.put(t, "note", "hello"))
	must(t, err)
	sum := sha256.Sum256([]byte(content))
	want := Staged{
		Ref: ref, Original: "Holiday photo.png", Path: "/workspace/media/inbound/Holiday_photo.png",
		Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:]), MIME: "image/png",
	}
	if got[0] != want || got[1].MIME != "text/plain; charset=utf-8" {
		t.Fatalf("Stage = %+v, want %+v first", got, want)
	}
	if data, err := os.ReadFile(r.host(t, got[0])); err != nil || string(data) != content {
		t.Errorf("content %q, %v", data, err)
	}
	for _, p := range []string{r.host(t, got[0]), filepath.Join(r.work, "media"), filepath.Join(r.work, "media/inbound")} {
		fi, err := os.Lstat(p)
		must(t, err)
		st := fi.Sys().(*syscall.Stat_t)
		if int(st.Uid) != owner().UID || int(st.Gid) != owner().GID {
			t.Errorf("%s belongs to %d:%d", p, st.Uid, st.Gid)
		}
		if want := os.FileMode(0o644); !fi.IsDir() && (fi.Mode() != want || st.Nlink != 1) {
			t.Errorf("%s: mode %v with %d names", p, fi.Mode(), st.Nlink)
		}
	}
	if names := r.inbound(t); !slices.Equal(names, []string{"Holiday_photo.png", "note"}) {
		t.Errorf("there are %q", names)
	}
}

func TestNothingToStage(t *testing.T) {
	r := newRig(t)
	if got, err := r.stage(t); got != nil || err != nil {
		t.Errorf("Stage = %v, %v", got, err)
	}
	if _, err := os.Lstat(filepath.Join(r.work, "media")); !os.IsNotExist(err) {
		t.Error("a folder was made for nothing")
	}
}

func TestTakenNamesStay(t *testing.T) {
	r := newRig(t)
	ref := r.put(t, "a.txt", "new")
	must(t, os.MkdirAll(filepath.Join(r.work, "media/inbound/a-2.txt"), 0o755))
	must(t, os.Symlink("/etc/passwd", filepath.Join(r.work, "media/inbound/a.txt")))
	got, err := r.stage(t, ref, ref)
	must(t, err)
	if got[0].Path != InboundDir+"/a-3.txt" || got[1].Path != InboundDir+"/a-4.txt" {
		t.Errorf("Stage = %+v", got)
	}
	if target, err := os.Readlink(filepath.Join(r.work, "media/inbound/a.txt")); err != nil || target != "/etc/passwd" {
		t.Errorf("what the sandbox had was changed: %q, %v", target, err)
	}
}

func TestTooMuch(t *testing.T) {
	r := newRig(t, func(o *Options) { o.MaxFile, o.MaxTotal, o.MaxFiles = 10, 15, 3 })
	small, ten, eleven := r.put(t, "s", "12345"), r.put(t, "t", strings.Repeat("x", 10)), r.put(t, "e", strings.Repeat("x", 11))
	sparse := r.put(t, "sparse", "")
	must(t, os.Truncate(sparse, 1<<40))
	for name, refs := range map[string][]string{
		"a file": {eleven}, "a sparse file": {sparse}, "all together": {ten, small, small}, "their number": {small, small, small, small},
	} {
		_, err := r.stage(t, refs...)
		wantCode(t, name, err, sandbox.CodeCapabilityBlocked)
	}
	if names := r.inbound(t); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
	if _, err := r.stage(t, ten, small); err != nil {
		t.Errorf("exactly the bounds: %v", err)
	}
}

func TestAllOrNothing(t *testing.T) {
	r := newRig(t)
	_, err := r.stage(t, r.put(t, "a", "a"), filepath.Join(r.folder, "none"))
	wantCode(t, "missing", err, sandbox.CodeNotFound)
	if names := r.inbound(t); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
}

// endless is a file that grows as fast as it is read.
type endless struct{ read int64 }

func (e *endless) Read(p []byte) (int, error) { e.read += int64(len(p)); return len(p), nil }
func (e *endless) Close() error               { return nil }

func TestSourcesThatSayOtherwise(t *testing.T) {
	broken := iotest.ErrReader(errors.New("line cut"))
	for _, tt := range []struct {
		name string
		r    io.Reader
		size int64
		want sandbox.Code
	}{
		{"grows while it is copied", &endless{}, 5, sandbox.CodeUnavailable},
		{"endless of unknown size", &endless{}, -1, sandbox.CodeCapabilityBlocked},
		{"shrinks", strings.NewReader("abc"), 5, sandbox.CodeUnavailable},
		{"fails", io.MultiReader(strings.NewReader("ab"), broken), 5, sandbox.CodeUnavailable},
		{"one byte at a time", iotest.OneByteReader(strings.NewReader("abcde")), 5, ""},
		{"unknown size", strings.NewReader("abcde"), -1, ""},
		{"empty", strings.NewReader(""), 0, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(o *Options) { o.MaxFile = 1 << 20 })
			src := source(func(context.Context, string) (io.ReadCloser, Info, error) {
				return io.NopCloser(tt.r), Info{Name: "x", Size: tt.size}, nil
			})
			got, err := r.stager.Stage(t.Context(), src, []string{"x"})
			wantCode(t, "Stage", err, tt.want)
			if want := len(got); len(r.inbound(t)) != want {
				t.Errorf("there are %q", r.inbound(t))
			}
			if e, ok := tt.r.(*endless); ok && e.read > 2<<20 {
				t.Errorf("%d bytes were read of it", e.read)
			}
		})
	}
}

// TestCancel ends a call in the middle of a copy.
func TestCancel(t *testing.T) {
	r := newRig(t)
	ctx, cancel := context.WithCancel(t.Context())
	src := source(func(context.Context, string) (io.ReadCloser, Info, error) {
		cancel()
		return io.NopCloser(&endless{}), Info{Name: "x", Size: 1 << 20}, nil
	})
	_, err := r.stager.Stage(ctx, src, []string{"x"})
	wantCode(t, "Stage", err, sandbox.CodeTimeout)
	if names := r.inbound(t); len(names) != 0 {
		t.Errorf("left behind: %q", names)
	}
}

func TestOptions(t *testing.T) {
	ok := Options{Workspace: "/w", Owner: owner()}
	for name, change := range map[string]func(*Options){
		"Workspace": func(o *Options) { o.Workspace = "w" },
		"Owner":     func(o *Options) { o.Owner.UID = 0 },
		"MaxFile":   func(o *Options) { o.MaxFile = 1<<63 - 1 },
		"MaxTotal":  func(o *Options) { o.MaxTotal = -1 },
		"MaxFiles":  func(o *Options) { o.MaxFiles = -1 },
		"Timeout":   func(o *Options) { o.Timeout = -time.Second },
	} {
		o := ok
		change(&o)
		_, err := New(o)
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := New(ok); err != nil {
		t.Error(err)
	}
}

func TestNoWorkspace(t *testing.T) {
	r := newRig(t, func(o *Options) { o.Workspace += "-none" })
	_, err := r.stage(t, r.put(t, "a", "a"))
	wantCode(t, "no workspace", err, sandbox.CodeNotFound)
}

func Example() {
	base, _ := os.MkdirTemp("", "media-")
	defer os.RemoveAll(base)
	base, _ = filepath.EvalSymlinks(base)
	work, received := filepath.Join(base, "work"), filepath.Join(base, "received")
	_, _ = os.Mkdir(work, 0o700), os.Mkdir(received, 0o700)
	ref := filepath.Join(received, "-rf \u202e.gif")
	_ = os.WriteFile(ref, bytes.Join([][]byte{[]byte("GIF89a"), {1, 0}}, nil), 0o600)

	src, _ := NewFolders(received)
	stager, _ := New(Options{Workspace: work, Owner: owner()})
	staged, err := stager.Stage(context.Background(), src, []string{ref})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(staged[0].Path, staged[0].MIME, staged[0].Size)
	// Output: /workspace/media/inbound/rf.gif image/gif 8
}
