package client

import (
	"context"
	"io"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// Write implements [sandbox.Files]. Links in the mount are followed and
// stay; a hard link is broken, its other names keep the old content. Owner
// and attributes of a replaced file are not kept, its permission bits are.
//
// When Write returns nil the content and the name have reached the disk.
// Until the guest has the last byte nothing is to be seen of it; when r
// fails, ctx ends, or the connection or this process do, the old content
// stays and nothing is left over. Only where the file system cannot make
// files without a name may a guest that is killed leave a file .sbx-*.tmp
// behind. A Read of r that waits when ctx ends is not interrupted, and not
// waited for.
func (f *Files) Write(ctx context.Context, path string, r io.Reader, o sandbox.WriteOptions) error {
	m := wire.File{Op: wire.FileWrite, Perm: uint32(o.Perm.Perm())}
	if m.Perm == 0 {
		m.Perm = 0o644
	}
	if o.Exclusive {
		m.Flags = wire.FileExclusive
	}
	k, err := f.call("write", path, m)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return k.gaveUp(ctx)
	}
	src := newSource(r)
	defer src.close()
	head, end, err := k.content(ctx, src)
	if err != nil {
		return err
	}
	if end && len(head) <= wire.MaxInline {
		return f.writeInline(ctx, k, head)
	}
	return k.stream(ctx, src, head, end)
}

// writeInline sends the content with the request. Only so many do at once,
// because each is in the guest's memory until it is done.
func (f *Files) writeInline(ctx context.Context, k *fileCall, content []byte) error {
	select {
	case f.inline <- struct{}{}:
	case <-ctx.Done():
		return k.gaveUp(ctx)
	}
	defer func() { <-f.inline }()
	k.req.Flags |= wire.FileInline
	k.req.Content = content
	return k.do(ctx)
}

// content returns the next piece of content, and whether it is the last one.
// An end that comes after the end of ctx may be its consequence and does not
// count. It returns early, with nothing, when the operation has ended.
func (k *fileCall) content(ctx context.Context, src *source) (b []byte, end bool, err error) {
	b, err = src.next(ctx.Done(), k.ended)
	switch {
	case ctx.Err() != nil:
		return nil, false, k.gaveUp(ctx)
	case err == io.EOF:
		return b, true, nil
	case err != nil:
		path := termsafe.Line(k.path)
		return nil, false, &sandbox.Error{
			Code: sandbox.CodeExecution, Op: k.op, Field: "content", Resource: path,
			Message: "the content could not be read; " + path + " is unchanged", Err: err,
		}
	}
	return b, false, nil
}

// stream sends the content in Data frames.
func (k *fileCall) stream(ctx context.Context, src *source, piece []byte, end bool) error {
	k.credits = wire.NewCredits()
	k.sending.Store(true)
	if err := k.open(ctx); err != nil {
		return err
	}
	defer context.AfterFunc(ctx, k.callOff)()
	for {
		if !k.push(ctx, piece, end) || end {
			return k.await(ctx, k.ended)
		}
		src.done(piece)
		var err error
		if piece, end, err = k.content(ctx, src); err != nil {
			k.settle()
			return err
		}
	}
}

// push sends a piece. It reports false when the operation is over, or about
// to be.
func (k *fileCall) push(ctx context.Context, piece []byte, end bool) bool {
	select {
	case <-k.ended:
		return false
	default:
	}
	defer k.c.watch()()
	for {
		n := 0
		if len(piece) > 0 {
			var err error
			if n, err = k.credits.Take(min(len(piece), wire.MaxData)); err != nil {
				return false
			}
		}
		f := wire.Frame{Type: wire.TypeData, Flags: wire.FileChannel, Payload: piece[:n]}
		if piece = piece[n:]; end && len(piece) == 0 {
			f.Flags |= wire.FlagEOF
			k.sending.Store(false)
		}
		if n > 0 || end {
			if k.control(ctx, f) != nil {
				return false
			}
		}
		if len(piece) == 0 {
			return true
		}
	}
}
