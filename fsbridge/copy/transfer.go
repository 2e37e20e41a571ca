// Package transfer moves trees between two places that have the files
// interface: the sandbox and a folder of the host, either way, or a tar stream
// and one of them.
//
// A tree travels as a tar stream. The packing and unpacking code trusts
// neither side. Between the two a filter renames the tree, counts, and leaves
// out what must not arrive: links that lead out of the tree, pipes, sockets
// and devices. It also leaves out what a rule closes on either side, unless
// that is the very path to be copied. Everything left out is reported, never
// dropped silently. Small files are written in parallel, because each costs a
// wait for the disk.
//
// Each file arrives as one step: when a transfer is given up or fails, files
// are there whole or not at all.
package copy

import (
	"context"
	"io"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// A Source is a file or folder to be moved.
type Source struct {
	Files  sandbox.Files
	Path   string
	Limits Limits // of what is packed; zero values are the defaults
}

// A Target is the place where it arrives.
type Target struct {
	Files sandbox.Files
	Dir   string // a folder; made when missing
	Name  string // of the file or folder in Dir; empty puts a folder's content into Dir itself

	Limits Limits // of what is unpacked; zero values are the defaults
}

// longest is the length in bytes of the longest name below the target.
func (t Target) longest() int { return maxPath - len(strings.TrimSuffix(t.Dir, "/")) - 1 }

// Copy copies the source to the target. A folder that exists is merged with,
// a file replaced; modes are kept, owners and times are not. t hears of what
// passes. An error leaves behind what had arrived before it.
func Copy(ctx context.Context, from Source, to Target, t *Tally) error {
	as, err := from.as(ctx, to.Name)
	if err != nil {
		return err
	}
	return chain(ctx,
		func(ctx context.Context, w io.Writer) error { return pack(ctx, from, w, t) },
		func(r io.Reader, w io.Writer) error { return t.pass(r, w, as, to.longest()) },
		func(ctx context.Context, r io.Reader) error { return unpack(ctx, r, to, as, t) })
}

// Pack writes the source to w as a tar archive, in which it is called name.
// An empty name gives a folder's content the names that it has there.
func Pack(ctx context.Context, from Source, name string, w io.Writer, t *Tally) error {
	as, err := from.as(ctx, name)
	if err != nil {
		return err
	}
	return chain(ctx,
		func(ctx context.Context, w io.Writer) error { return pack(ctx, from, w, t) },
		func(r io.Reader, w io.Writer) error { return t.pass(r, w, as, maxPath) },
		func(_ context.Context, r io.Reader) error { return move(w, r) })
}

// Unpack makes what the tar archive r holds below the target's folder; the
// target's name is not used. r is closed when the transfer ends, and Close
// must wake a Read that waits.
func Unpack(ctx context.Context, r io.ReadCloser, to Target, t *Tally) error {
	return chain(ctx,
		func(ctx context.Context, w io.Writer) error {
			defer context.AfterFunc(ctx, func() { r.Close() })()
			return move(w, r)
		},
		func(r io.Reader, w io.Writer) error { return t.pass(r, w, label{}, to.longest()) },
		func(ctx context.Context, r io.Reader) error { return unpack(ctx, r, to, label{}, t) })
}

// as is what the source is called in the archive.
func (s Source) as(ctx context.Context, name string) (label, error) {
	info, err := s.Files.Stat(ctx, s.Path)
	if err != nil {
		return label{}, err
	}
	return label{name: name, single: !info.IsDir()}, nil
}

func pack(ctx context.Context, from Source, w io.Writer, t *Tally) error {
	return PackTree(ctx, from.Files, from.Path, w, from.Limits, t.leave)
}

func unpack(ctx context.Context, r io.Reader, to Target, as label, t *Tally) error {
	top := to.Dir
	if as.name != "" {
		top = strings.TrimSuffix(to.Dir, "/") + "/" + as.name
	}
	a := newAhead(ctx, sparing{Files: to.Files, top: top, tally: t})
	err := UnpackTree(ctx, a, to.Dir, r, to.Limits)
	if late := a.settle(); late != nil {
		return late // err is the same or follows from it
	}
	return err
}

func move(w io.Writer, r io.Reader) error {
	_, err := io.Copy(w, r)
	return err
}
