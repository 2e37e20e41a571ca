//go:build linux

package server

import (
	"strings"

	"github.com/bulkhead-dev/sandbox/guest/server/files"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"golang.org/x/sys/unix"
)

// listingStep is how much of a listing is made in one step, in bytes.
const listingStep = 32 << 10

// do does the operation. The answers that are no failure it sends itself.
func (o *fileOp) do() error {
	if strings.HasPrefix(o.req.Path, "/") || o.req.Op == wire.FileRename && strings.HasPrefix(o.req.Other, "/") {
		return errInvalid
	}
	switch o.req.Op {
	case wire.FileRead:
		return o.read()
	case wire.FileReadDir:
		return o.list()
	case wire.FileWatch:
		return o.watch()
	case wire.FileWrite:
		return o.done(o.inside(o.write))
	case wire.FileStat, wire.FileLstat, wire.FileReadLink:
		return o.look()
	case wire.FileSymlink, wire.FileMkdir, wire.FileRemove, wire.FileRename:
		return o.done(o.inside(o.change))
	}
	return errUnknownOp
}

// inRoot runs f with the mount as one of the few that may be in system calls. It is
// called within inside.
func (o *fileOp) inRoot(f func(r *files.Root) error) error {
	return o.work(func() error {
		r, err := o.conn.srv.files.roots.Get(o.req.Root)
		if err == nil && o.req.Flags&wire.FileNoLinks != 0 {
			r, err = r.WithoutLinks()
		}
		if err != nil {
			return err
		}
		return f(r)
	})
}

// reach is inRoot for an operation that is under way no longer than that.
func (o *fileOp) reach(f func(r *files.Root) error) error {
	return o.inside(func() error { return o.inRoot(f) })
}

// look describes something.
func (o *fileOp) look() error {
	var a wire.FileAnswer
	err := o.reach(func(r *files.Root) (err error) {
		switch o.req.Op {
		case wire.FileStat:
			a.Info, err = r.Stat(o.req.Path)
		case wire.FileLstat:
			a.Info, err = r.Lstat(o.req.Path)
		default:
			var target string
			target, err = r.ReadLink(o.req.Path)
			a.Content = []byte(target)
		}
		return err
	})
	if err == nil {
		o.answer(wire.TypeFileAnswer, 0, a.Encode())
	}
	return err
}

// change changes a name.
func (o *fileOp) change() error {
	return o.inRoot(func(r *files.Root) error {
		switch o.req.Op {
		case wire.FileSymlink:
			return r.Symlink(o.req.Other, o.req.Path)
		case wire.FileMkdir:
			return r.Mkdir(o.req.Path, o.req.Perm&0o777)
		case wire.FileRename:
			return r.Rename(o.req.Path, o.req.Other)
		}
		switch {
		case o.req.Flags&wire.FileRecursive != 0 && o.req.Flags&wire.FileClear != 0:
			return r.Clear(o.req.Path, o.pause)
		case o.req.Flags&wire.FileRecursive != 0:
			return r.RemoveAll(o.req.Path, o.pause)
		}
		return r.Remove(o.req.Path)
	})
}

// write replaces a file. Until the end of the content has come nothing is to
// be seen of it.
func (o *fileOp) write() error {
	release, err := o.keep()
	if err != nil {
		return err
	}
	defer release()
	var s *files.Staged
	err = o.inRoot(func(r *files.Root) (err error) {
		s, err = r.Stage(o.req.Path, o.req.Perm&0o777, o.req.Flags&wire.FileExclusive != 0)
		if err != nil || o.inbox != nil {
			return err
		}
		// The common small write is one step.
		defer s.Close()
		if _, err = s.Write(o.req.Content); err == nil {
			err = s.Commit(o.calledOff)
		}
		return err
	})
	if o.inbox == nil {
		return err
	}
	if err == nil {
		err = o.receive(s)
	}
	if err != nil {
		o.inbox.Discard() // what comes until the client knows
	}
	return err
}

// receive takes the content and puts the file in its place.
func (o *fileOp) receive(s *files.Staged) error {
	defer o.finally(s.Close)
	for {
		chunk, err := o.inbox.Take()
		if off := o.calledOff(); off != nil {
			return off
		}
		if err != nil {
			break // the end of the content
		}
		for len(chunk) > 0 {
			// In pieces, so that more is on its way while this is written.
			piece := chunk[:min(len(chunk), wire.MaxData)]
			chunk = chunk[len(piece):]
			if err := o.work(func() error { _, err := s.Write(piece); return err }); err != nil {
				return err
			}
			if n := o.inbox.Consumed(len(piece)); n > 0 {
				o.answer(wire.TypeCredit, wire.FileChannel, wire.Credit{N: n}.Encode())
			}
		}
	}
	return o.work(func() error { return s.Commit(o.calledOff) })
}

// read sends the content of a file.
func (o *fileOp) read() error {
	if o.req.Offset > 1<<62 {
		return unix.EINVAL
	}
	release, err := o.keep()
	if err != nil {
		return err
	}
	defer release()
	at, left, fd := int64(o.req.Offset), o.req.Limit, -1
	var about wire.FileInfo
	fill := func(b []byte) (n int, more bool, err error) {
		if uint64(len(b)) > left {
			b = b[:left]
		}
		n, err = files.ReadAt(fd, b, at)
		at, left = at+int64(n), left-uint64(n)
		return n, n == len(b) && left > 0, err
	}
	defer func() {
		if fd >= 0 {
			o.finally(func() { unix.Close(fd) })
		}
	}()
	return o.send(func(b []byte) (n int, more bool, err error) {
		err = o.reach(func(r *files.Root) (err error) {
			if fd, about, err = r.Open(o.req.Path); err != nil {
				return err
			}
			n, more, err = fill(b)
			if more && uint64(at) == about.Size {
				more, err = o.goesOn(fd, at) // sizes of /proc and the like are no sizes
			}
			return err
		})
		return n, more, err
	}, &about, func(b []byte) (n int, more bool, err error) {
		err = o.work(func() (err error) { n, more, err = fill(b); return err })
		return n, more, err
	})
}

// goesOn reports whether there is content at the offset at.
func (o *fileOp) goesOn(fd int, at int64) (bool, error) {
	var b [1]byte
	n, err := files.ReadAt(fd, b[:], at)
	return n > 0, err
}

// list sends the entries of a folder.
func (o *fileOp) list() error {
	release, err := o.keep()
	if err != nil {
		return err
	}
	defer release()
	var d *files.Dir
	defer func() {
		if d != nil {
			o.finally(d.Close)
		}
	}()
	var about wire.FileInfo
	var entries []byte // made and not sent yet
	fill := func(b []byte) (n int, more bool, err error) {
		if more = true; len(entries) == 0 {
			entries, more, err = d.Append(entries, listingStep)
		}
		n = copy(b, entries)
		if entries = entries[n:]; len(entries) == 0 {
			entries = nil
			return n, more, err
		}
		return n, true, err
	}
	return o.send(func(b []byte) (n int, more bool, err error) {
		err = o.reach(func(r *files.Root) (err error) {
			if d, err = r.OpenDir(o.req.Path); err != nil {
				return err
			}
			about = d.Info
			n, more, err = fill(b)
			return err
		})
		return n, more, err
	}, &about, func(b []byte) (n int, more bool, err error) {
		err = o.work(func() (err error) { n, more, err = fill(b); return err })
		return n, more, err
	})
}
