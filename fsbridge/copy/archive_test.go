package copy

import (
	"archive/tar"
	"bytes"
	"io"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
)

func TestArchiveAndBack(t *testing.T) {
	from, to := filled(t), newFolder(t)
	var archive bytes.Buffer
	must(t, Pack(t.Context(), Source{Files: from, Path: "top"}, "top", &archive, &Tally{}))
	must(t, Unpack(t.Context(), io.NopCloser(&archive), Target{Files: to, Dir: "here"}, &Tally{}))
	direct := newFolder(t)
	must(t, Copy(t.Context(), Source{Files: from, Path: "top"}, Target{Files: direct, Dir: "here", Name: "top"}, &Tally{}))
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
			err := Unpack(t.Context(), io.NopCloser(bytes.NewReader(tt.archive)), Target{Files: to, Dir: "in"}, &Tally{})
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
	var tally Tally
	must(t, Unpack(t.Context(), io.NopCloser(bytes.NewReader(archive)), Target{Files: to, Dir: "in"}, &tally))
	if d := cmp.Diff([]string{"in/", `in/fine -rw-r--r-- "x"`}, to.tree(t)); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if n := len(tally.Left()); n != 2 {
		t.Errorf("%d were left out: %v", n, tally.Left())
	}
}

// TestUnpackDoesNotWaitForTheEndOfInput unpacks an input that stays open, as a
// pipe does while a process keeps its other end.
func TestUnpackDoesNotWaitForTheEndOfInput(t *testing.T) {
	to := newFolder(t)
	r, w := io.Pipe()
	go w.Write(entries(t, tar.Header{Name: "fine", Typeflag: tar.TypeReg}))
	done := make(chan error, 1)
	go func() {
		done <- Unpack(t.Context(), r, Target{Files: to}, &Tally{})
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
