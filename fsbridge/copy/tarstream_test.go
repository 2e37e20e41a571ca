package copy_test

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge/copy"
)

// A memory records which paths are written; it is no file system.
type memory struct {
	sandbox.Files
	paths []string
	links map[string]string
}

func (m *memory) Write(_ context.Context, p string, r io.Reader, _ sandbox.WriteOptions) error {
	m.paths = append(m.paths, p)
	_, err := io.Copy(io.Discard, r)
	return err
}

func (m *memory) Mkdir(_ context.Context, p string, _ fs.FileMode) error {
	m.paths = append(m.paths, p)
	return nil
}

func (m *memory) Read(_ context.Context, p string, _, _ int64) (io.ReadCloser, error) {
	return io.NopCloser(strings.NewReader("")), nil
}

func (m *memory) Stat(context.Context, string) (fs.FileInfo, error) { return size(0), nil }

func (m *memory) Lstat(context.Context, string) (fs.FileInfo, error) { return size(0), nil }

func (m *memory) ReadLink(context.Context, string) (string, error) { return "", fs.ErrInvalid }

func (m *memory) Symlink(_ context.Context, target, p string) error {
	m.paths = append(m.paths, p)
	m.links[p] = target
	return nil
}

// FuzzUnpack holds that whatever an archive says, paths stay below the
// destination and links point below it.
func FuzzUnpack(f *testing.F) {
	for _, h := range []tar.Header{
		{Name: "a/b", Typeflag: tar.TypeReg}, {Name: "../x", Typeflag: tar.TypeReg}, {Name: "/x", Typeflag: tar.TypeDir},
		{Name: "l", Linkname: "a/../b", Typeflag: tar.TypeSymlink}, {Name: "h", Linkname: "a", Typeflag: tar.TypeLink},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		w.Close()
		f.Add(b.Bytes())
	}
	f.Fuzz(func(t *testing.T, archive []byte) {
		m := &memory{links: map[string]string{}}
		_ = copy.UnpackTree(t.Context(), m, "/workspace/into", bytes.NewReader(archive), copy.Limits{Entries: 100, File: 1 << 20})
		for _, p := range m.paths {
			if clean := path.Clean(p); clean != "/workspace/into" && !strings.HasPrefix(clean, "/workspace/into/") {
				t.Fatalf("%q is beyond the destination", p)
			}
		}
		for p, target := range m.links {
			full := path.Join(path.Dir(p), target)
			if path.IsAbs(target) || full != "/workspace/into" && !strings.HasPrefix(full, "/workspace/into/") {
				t.Fatalf("the link %q leads to %q", p, target)
			}
		}
	})
}

type size int64

func (s size) Name() string     { return "f" }
func (s size) Size() int64      { return int64(s) }
func (size) Mode() fs.FileMode  { return 0o644 }
func (size) IsDir() bool        { return false }
func (size) Sys() any           { return nil }
func (size) ModTime() time.Time { return time.Time{} }

func ExampleUnpack() {
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	w.WriteHeader(&tar.Header{Name: "../escape", Typeflag: tar.TypeReg})
	w.Close()
	err := copy.UnpackTree(context.Background(), &memory{}, "/workspace", &archive, copy.Limits{})
	fmt.Println(err)
	// Output: SANDBOX.CAPABILITY_BLOCKED: unpack: archive: entry ../escape has ".." in its name
}

// TestNamesAreBounded holds that an archive of nothing but names, which are
// held until its end, cannot have as many as its entries allow.
func TestNamesAreBounded(t *testing.T) {
	segment := strings.Repeat("n", 250)
	deep := strings.Repeat(segment+"/", 15)
	for _, tt := range []struct {
		name string
		h    tar.Header
		n    int
		want sandbox.Code
	}{
		{"links with long names", tar.Header{Name: deep + "%d", Linkname: deep, Typeflag: tar.TypeSymlink}, 150, sandbox.CodeBudgetExceeded},
		{"files with long names", tar.Header{Name: deep + "%d", Typeflag: tar.TypeReg}, 290, sandbox.CodeBudgetExceeded},
		{"control: as many of usual length", tar.Header{Name: "src/module/%d", Linkname: "x", Typeflag: tar.TypeSymlink}, 290, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, w := io.Pipe()
			go func() {
				out := tar.NewWriter(w)
				for i := range tt.n {
					h := tt.h
					h.Name = fmt.Sprintf(h.Name, i)
					if out.WriteHeader(&h) != nil {
						return // it reads no more
					}
				}
				_ = w.CloseWithError(out.Close())
			}()
			defer r.Close()
			err := copy.UnpackTree(t.Context(), &memory{links: map[string]string{}}, "/workspace", r, copy.Limits{Names: 1 << 20})
			if sandbox.CodeOf(err) != tt.want {
				t.Error(err)
			}
		})
	}
}
