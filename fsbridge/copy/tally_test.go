package copy

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"
)

// FuzzPass holds that whatever goes in, what comes out is an archive of
// files, folders and links that stay, with plain modes.
func FuzzPass(f *testing.F) {
	for _, h := range []tar.Header{
		{Name: "../x", Typeflag: tar.TypeReg, Size: 1}, {Name: "l", Linkname: "../y", Typeflag: tar.TypeSymlink},
		{Name: "./", Typeflag: tar.TypeDir, Mode: 0o7777}, {Name: "n", Typeflag: tar.TypeChar}, {Name: "h", Linkname: "x", Typeflag: tar.TypeLink},
	} {
		var b bytes.Buffer
		w := tar.NewWriter(&b)
		if err := w.WriteHeader(&h); err != nil {
			f.Fatal(err)
		}
		if h.Size > 0 {
			w.Write(make([]byte, h.Size))
		}
		w.Close()
		f.Add(b.Bytes(), "name", false)
		f.Add(b.Bytes(), "", true)
	}
	f.Fuzz(func(t *testing.T, archive []byte, name string, single bool) {
		var out bytes.Buffer
		var tally Tally
		err := tally.pass(bytes.NewReader(archive), &limited{w: &out, left: 8 << 20}, label{name, single}, maxPath)
		in := tar.NewReader(&out)
		for err == nil {
			h, next := in.Next()
			if next == io.EOF {
				return
			}
			if next != nil {
				t.Fatalf("the output is no archive: %v", next)
			}
			switch {
			case h.Typeflag == tar.TypeSymlink && name == "" && !linkStays(h.Name, h.Linkname):
				t.Fatalf("%q leads out to %q", h.Name, h.Linkname)
			case h.Typeflag != tar.TypeReg && h.Typeflag != tar.TypeDir && h.Typeflag != tar.TypeSymlink && h.Typeflag != tar.TypeLink:
				t.Fatalf("%q is of type %q", h.Name, h.Typeflag)
			case h.Mode&^0o777 != 0:
				t.Fatalf("%q has mode %o", h.Name, h.Mode)
			}
		}
	})
}

// A limited writer takes so much and no more: a sparse file can be huge.
type limited struct {
	w    io.Writer
	left int
}

func (l *limited) Write(p []byte) (int, error) {
	if l.left -= len(p); l.left < 0 {
		return 0, io.ErrShortWrite
	}
	return l.w.Write(p)
}
