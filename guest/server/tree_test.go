//go:build linux

package server

import (
	"archive/tar"
	"bytes"
	"io"
	"strings"
	"testing"
	"time"
)

// TestTreeWriter holds that archives are such as others read.
func TestTreeWriter(t *testing.T) {
	times := []time.Time{time.Unix(0, 0), time.Unix(1, 1), time.Unix(-1, 0), time.Unix(-2, 500_000_000), time.Unix(-1, 999_999_999), time.Unix(1<<40, 123_000_000)}
	names := []string{"a", strings.Repeat("é", 60), strings.Repeat("x/", 1000) + "y", "\xff\n=", "with space "}
	for n := 75; n < 110; n++ { // where the length of a record gets another digit
		names = append(names, strings.Repeat("n", n), strings.Repeat("m", 900+n))
	}
	var b bytes.Buffer
	w := &treeWriter{w: &b}
	var want []*tar.Header
	for i, name := range names {
		h := &tar.Header{Name: name, Typeflag: tar.TypeReg, Mode: 0o1755, Size: int64(i * 100), ModTime: times[i%len(times)]}
		if i%3 == 1 {
			h.Typeflag, h.Size, h.Linkname = tar.TypeSymlink, 0, names[(i+1)%len(names)]
		}
		must := func(err error) {
			if err != nil {
				t.Fatal(err)
			}
		}
		must(w.header(h))
		_, err := io.CopyN(&b, zeros{}, h.Size)
		must(err)
		must(w.pad(h.Size))
		want = append(want, h)
	}
	if err := w.close(); err != nil {
		t.Fatal(err)
	}
	r := tar.NewReader(&b)
	for _, h := range want {
		got, err := r.Next()
		if err != nil {
			t.Fatalf("%.20q: %v", h.Name, err)
		}
		if got.Name != h.Name || got.Linkname != h.Linkname || got.Mode != h.Mode || got.Size != h.Size || !got.ModTime.Equal(h.ModTime) || got.Typeflag != h.Typeflag {
			t.Errorf("%+v became %+v", h, got)
		}
	}
	if _, err := r.Next(); err != io.EOF {
		t.Errorf("at the end: %v", err)
	}
	// A file of which the size does not fit into its field.
	large := &tar.Header{Name: "large", Typeflag: tar.TypeReg, Size: 1 << 40, ModTime: times[0]}
	b.Reset()
	if err := w.header(large); err != nil {
		t.Fatal(err)
	}
	if got, err := tar.NewReader(&b).Next(); err != nil || got.Size != large.Size {
		t.Errorf("%+v, %v", got, err)
	}
}
