package copy

import (
	"archive/tar"
	"errors"
	"io"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
)

// A Tally counts what passes. Its methods are safe for concurrent use, and
// one may serve several transfers after each other.
type Tally struct {
	files, folders, links, bytes atomic.Int64

	mu   sync.Mutex
	left []Left
}

// A Count is what has passed so far. What has passed the filter is about to
// be written; after the end of a transfer without error it has been.
type Count struct {
	Files   int64 `json:"files"`
	Folders int64 `json:"folders"`
	Links   int64 `json:"links"`
	Bytes   int64 `json:"bytes"` // content of files
}

// A Left is a file that was not copied. The author of the tree chose its path:
// make it safe before showing it.
type Left struct {
	Path   string `json:"path"`
	Reason string `json:"reason"`
}

// Count tells what has passed so far.
func (t *Tally) Count() Count {
	return Count{Files: t.files.Load(), Folders: t.folders.Load(), Links: t.links.Load(), Bytes: t.bytes.Load()}
}

// Left tells what was left out so far.
func (t *Tally) Left() []Left {
	t.mu.Lock()
	defer t.mu.Unlock()
	return append([]Left(nil), t.left...)
}

// maxLeft bounds what is remembered; more are summed up in one entry.
const maxLeft = 1000

func (t *Tally) leave(path, reason string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case len(t.left) < maxLeft:
		t.left = append(t.left, Left{Path: path, Reason: reason})
	case len(t.left) == maxLeft:
		t.left = append(t.left, Left{Path: "and more", Reason: "only the first are listed"})
	}
}

// A label is what the moved thing is called where it arrives.
type label struct {
	name   string // empty keeps the names
	single bool   // it is one file
}

// maxPadding is how much is read after the end of an archive, in bytes: tar
// programs fill up their last block.
const maxPadding = 1 << 20

// pass copies the archive r to w. Every header is made anew from the few
// things that matter, under its new name. Entries that must not arrive are
// left out.
//
// Names may have most bytes. A folder whose name is longer is left out with all
// that is in it, and named once.
func (t *Tally) pass(r io.Reader, w io.Writer, as label, most int) error {
	deep := "\x00" // the folder that was left out last; no name begins with it
	in, out := tar.NewReader(r), tar.NewWriter(w)
	for {
		h, err := in.Next()
		if err == io.EOF {
			if err := out.Close(); err != nil {
				return err
			}
			if _, err = io.CopyN(io.Discard, r, maxPadding); err == io.EOF {
				err = nil
			}
			return err
		}
		if err != nil {
			return malformed(err)
		}
		name := strings.TrimSuffix(as.of(h), "/")
		if len(name) > most {
			if !strings.HasPrefix(name, deep+"/") {
				deep = name
				t.leave(briefTarstream(name), leftDeep)
			}
			continue
		}
		fresh := t.header(h, as)
		if fresh == nil {
			continue
		}
		if err := out.WriteHeader(fresh); err != nil {
			return err
		}
		if fresh.Typeflag != tar.TypeReg {
			continue
		}
		if _, err := io.Copy(&counted{out, &t.bytes}, in); errors.Is(err, io.ErrUnexpectedEOF) {
			return malformed(err)
		} else if err != nil {
			return err
		}
		t.files.Add(1)
	}
}

func malformed(err error) error {
	return &sandbox.Error{Code: sandbox.CodeValidation, Op: "copy", Field: "archive", Message: "the archive is malformed", Err: err}
}

// header is what becomes of the entry h, nil when it is left out.
func (t *Tally) header(h *tar.Header, as label) *tar.Header {
	fresh := &tar.Header{Name: as.of(h), Mode: h.Mode & 0o777, ModTime: h.ModTime, Format: tar.FormatPAX}
	switch h.Typeflag {
	case tar.TypeReg, tar.TypeGNUSparse:
		fresh.Typeflag, fresh.Size = tar.TypeReg, h.Size
	case tar.TypeDir:
		if fresh.Name == "./" {
			return nil // the target's own folder
		}
		fresh.Typeflag = tar.TypeDir
		t.folders.Add(1)
	case tar.TypeLink:
		fresh.Typeflag, fresh.Linkname = tar.TypeLink, h.Linkname
		t.files.Add(1)
	case tar.TypeSymlink:
		if !linkStays(h.Name, h.Linkname) {
			t.leave(fresh.Name, "it is a link that leads out, to "+h.Linkname)
			return nil
		}
		fresh.Typeflag, fresh.Linkname = tar.TypeSymlink, h.Linkname
		t.links.Add(1)
	case tar.TypeXGlobalHeader:
		return nil
	default:
		t.leave(fresh.Name, "it is neither a file, a folder nor a link")
		return nil
	}
	return fresh
}

// of is the new name of the entry h. Nothing is cleaned away: a name that
// leads somewhere else must still be seen and refused.
func (l label) of(h *tar.Header) string {
	inner := h.Name
	if h.Typeflag == tar.TypeDir && path.Clean(inner) == "." {
		inner = ""
	}
	switch {
	case l.name == "" && inner == "":
		return "./"
	case l.name == "":
		return inner
	case l.single:
		return l.name
	}
	return l.name + "/" + inner
}

// A counted writer adds up what passes it.
type counted struct {
	w io.Writer
	n *atomic.Int64
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.w.Write(p)
	c.n.Add(int64(n))
	return n, err
}
