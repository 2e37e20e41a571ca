package operation

import (
	"context"
	"io/fs"
	"strconv"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// MaxEntries is how many entries of a folder are handed back. The digest is of
// all.
const maxEntries = 10_000

// list lists a folder. The digest is that of a text with a line for each entry,
// sorted by name: type, size and the quoted name, with a blank between; its
// size is what counts as bytes in.
func (e *filesExecutor) list(ctx context.Context, c *Call, v grant.Vetted) (Output, error) {
	found, err := e.files.ReadDir(ctx, v.Path)
	if err != nil {
		return Output{}, err
	}
	digest := evidence.NewHash()
	list := make([]Entry, 0, min(len(found), maxEntries))
	more := false
	var line []byte
	for _, d := range found {
		entry, ok, err := described(d)
		if err != nil {
			return Output{}, err
		}
		if !ok {
			continue
		}
		line = append(append(line[:0], entry.Type...), ' ')
		line = append(strconv.AppendInt(line, entry.Size, 10), ' ')
		line = append(strconv.AppendQuote(line, entry.Name), '\n')
		_, _ = digest.Write(line) // does not fail
		if more = len(list) == maxEntries; !more {
			list = append(list, entry)
		}
	}
	sum := digest.Digest()
	if most := c.Guard.Profile().Limits.MaxBytesIn; sum.Size > most {
		err := filesTooLarge(v, most).(*sandbox.Error)
		err.Hint = "list a folder that is smaller"
		return Output{}, err
	}
	if err := c.Meter.Add(budget.BytesIn, sum.Size); err != nil {
		return Output{}, err
	}
	c.Effect(evidence.Effect{Kind: grant.EffectRead, Path: v.Path, BytesIn: sum.Size, Digest: sum})
	return Output{Entries: list, Truncated: more, Digest: sum}, nil
}

// described describes an entry itself, also when it is a link. One that is gone
// is left out.
func described(d fs.DirEntry) (entry Entry, ok bool, err error) {
	entry = Entry{Name: d.Name()}
	switch kind := d.Type(); {
	case kind.IsDir():
		entry.Type = "folder"
	case kind&fs.ModeSymlink != 0:
		entry.Type = "link"
	case !kind.IsRegular():
		entry.Type = "other"
	default:
		info, err := d.Info()
		if sandbox.IsNotFound(err) {
			return entry, false, nil
		}
		if err != nil {
			return entry, false, err
		}
		entry.Type, entry.Size = "file", info.Size()
	}
	return entry, true, nil
}
