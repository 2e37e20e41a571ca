package operation

import (
	"bytes"
	"context"
	"errors"
	"io/fs"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// A claimer is an [operation.Space] in which room can be reserved, so that two
// concurrent writes do not use the same room.
type claimer interface {
	// Claim reserves room for bytes at path until release is called, which is
	// due when the next look sees the written file. When there is less room,
	// Claim returns how much there is.
	Claim(ctx context.Context, path string, bytes int64) (release func(), room int64, err error)
}

// write replaces or creates a file. It checks for a file that must not be
// replaced before it counts anything, so that the error names that file also
// when a budget is used up.
func (e *filesExecutor) write(ctx context.Context, c *Call, v grant.Vetted) (Output, error) {
	size := int64(len(v.Data))
	if !v.Overwrite {
		if _, err := e.files.Stat(ctx, v.Path); err == nil {
			return Output{}, exists(v)
		}
	}
	if err := c.Meter.Add(budget.Files, 1); err != nil {
		return Output{}, err
	}
	if err := c.Meter.Add(budget.BytesOut, size); err != nil {
		return Output{}, err
	}
	release, err := claim(ctx, c.Space, v.Path, size)
	if err != nil {
		return Output{}, err
	}
	defer release()
	digest := evidence.DigestOf(v.Data)
	err = e.files.Write(ctx, v.Path, bytes.NewReader(v.Data), sandbox.WriteOptions{Exclusive: !v.Overwrite})
	if err == nil || unsure(ctx, err) {
		c.Effect(evidence.Effect{Kind: grant.EffectWrite, Path: v.Path, BytesOut: size, Digest: digest})
	}
	switch {
	case err != nil && !v.Overwrite && errors.Is(err, fs.ErrExist):
		return Output{}, exists(v)
	case err != nil:
		return Output{}, err
	}
	return Output{Path: v.Path, Digest: digest}, nil
}

// unsure reports whether a write that failed with err may have been completed:
// the cancellation may have reached the sandbox too late.
func unsure(ctx context.Context, err error) bool {
	code := sandbox.CodeOf(err)
	return ctx.Err() != nil || code == sandbox.CodeUnavailable || code == sandbox.CodeTimeout
}

// claim takes room for a write where path lies in the call's temporary space.
func claim(ctx context.Context, in Space, path string, bytes int64) (release func(), err error) {
	release = func() {}
	var room int64
	within := true
	switch s := in.(type) {
	case nil:
		return release, nil
	case claimer:
		release, room, err = s.Claim(ctx, path, bytes)
	default:
		room, within, err = in.Room(ctx, path)
	}
	if err != nil {
		return nil, err
	}
	if within && room < bytes {
		release()
		return nil, &sandbox.Error{
			Code: sandbox.CodeBudgetExceeded, Op: "write", Field: "space", Resource: path,
			Message: "the temporary space has no room for the file", Hint: "remove files from it, or ask for more",
			Err: &space{room},
		}
	}
	return release, nil
}
