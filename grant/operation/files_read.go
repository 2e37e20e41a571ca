package operation

import (
	"context"
	"errors"
	"io"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// firstLook is the number of bytes that are read before the size of the file is
// queried, so that a small file needs no query, and a large one uses no budget.
const firstLook = 64 << 10

// read reads a file or a part of it.
func (e *filesExecutor) read(ctx context.Context, c *Call, v grant.Vetted) (Output, error) {
	most := c.Guard.Profile().Limits.MaxBytesIn
	whole := v.Length == 0
	limit := v.Length
	if whole || limit > most {
		limit = most + 1 // one more byte shows that there is more
	}
	content, err := e.files.Read(ctx, v.Path, v.Offset, limit)
	if err != nil {
		return Output{}, err
	}
	defer content.Close()
	in := &intake{keep: c.Keep, digest: evidence.NewHash()}
	err = e.take(ctx, c.Meter.Reader(budget.BytesIn, content), in, v, most)
	out := Output{Digest: in.digest.Digest()}
	if out.Digest.Size > 0 || err == nil {
		c.Effect(evidence.Effect{Kind: grant.EffectRead, Path: v.Path, BytesIn: out.Digest.Size, Digest: out.Digest})
	}
	if err != nil {
		return out, err
	}
	out.Data, out.Truncated = in.kept, int64(len(in.kept)) < out.Digest.Size
	return out, nil
}

// take reads all of r, at most the bound.
func (e *filesExecutor) take(ctx context.Context, r io.Reader, in *intake, v grant.Vetted, most int64) error {
	n, err := io.CopyN(in, r, min(firstLook, most))
	if err == nil && n < most && v.Length == 0 {
		err = e.fits(ctx, v, most)
	}
	if err == nil {
		_, err = io.CopyN(in, r, most-n)
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil {
		return err
	}
	// The bound is reached; check whether more follows. The byte that shows it
	// counts as well, because it was transferred.
	switch n, err := io.CopyN(in, r, 1); {
	case n > 0:
		return filesTooLarge(v, most)
	case errors.Is(err, io.EOF):
		return nil
	default:
		return err
	}
}

// fits refuses early what is known to be too large. The size is a hint only: a
// file may grow or be gone by now, and some have no size.
func (e *filesExecutor) fits(ctx context.Context, v grant.Vetted, most int64) error {
	info, err := e.files.Stat(ctx, v.Path)
	if err == nil && info.Mode().IsRegular() && info.Size()-v.Offset > most {
		return filesTooLarge(v, most)
	}
	return nil
}

// An intake keeps the first bytes of what is written to it, and the digest of
// all.
type intake struct {
	keep   int64
	kept   []byte
	digest *evidence.Hash
}

func (i *intake) Write(p []byte) (int, error) {
	if room := i.keep - int64(len(i.kept)); room > 0 {
		i.kept = append(i.kept, p[:min(int64(len(p)), room)]...)
	}
	return i.digest.Write(p)
}
