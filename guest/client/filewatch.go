package client

import (
	"bytes"
	"context"
	"io"
	"math"
	"path"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

var _ fsbridge.ChangeWatcher = (*Files)(nil)

// Changes implements [fsbridge.ChangeWatcher]. A guest that cannot is
// [sandbox.CodeUnsupported].
func (f *Files) Changes(ctx context.Context, name string, recursive bool) (fsbridge.Changes, error) {
	if !f.c.hello.Has(wire.FeatureFilesWatch) {
		return nil, f.c.named(&sandbox.Error{
			Code: sandbox.CodeUnsupported, Op: "watch", Message: "the guest is from before watches, or its kernel has no inotify",
			Hint: "recreate the sandbox to get the current guest",
		})
	}
	m := wire.File{Op: wire.FileWatch}
	if recursive {
		m.Flags = wire.FileRecursive
	}
	k, err := f.call("watch", name, m)
	if err != nil {
		return nil, err
	}
	k.asks, k.flows, k.limit = true, true, math.MaxUint64
	if err := k.do(ctx); err != nil {
		return nil, err
	}
	if !k.goesOn() {
		return nil, k.strange("the guest ended the watch at once")
	}
	c := &fileChanges{s: newFileStream(ctx, k)}
	first, err := c.record()
	if err == nil && first.Kind != wire.ChangeReady {
		err = k.strange("the guest did not say that the watch is ready")
	}
	if err != nil {
		c.Close()
		return nil, err
	}
	c.entries = int(min(first.Info.Size, math.MaxInt32))
	return c, nil
}

// fileChanges are the records of a watch.
type fileChanges struct {
	s       *fileStream
	pending []byte
	entries int
	err     error
}

// Entries implements [fsbridge.Changes].
func (c *fileChanges) Entries() int { return c.entries }

// Close implements [fsbridge.Changes].
func (c *fileChanges) Close() error { return c.s.Close() }

// record returns the next record.
func (c *fileChanges) record() (wire.FileChange, error) {
	for {
		m, rest, ok, err := wire.DecodeFileChange(c.pending)
		if err != nil {
			return m, c.s.k.strange("the guest reported what can be no change")
		}
		if ok {
			c.pending = rest
			return m, nil
		}
		switch err := c.s.next(); {
		case err == io.EOF:
			return m, c.s.k.strange("the guest ended the watch without saying why")
		case err != nil:
			return m, err
		}
		c.pending = append(bytes.Clone(c.pending), c.s.rest...)
		c.s.rest = nil
	}
}

// Next implements [fsbridge.Changes].
func (c *fileChanges) Next() (fsbridge.Change, error) {
	if c.err != nil {
		return fsbridge.Change{}, c.err
	}
	m, err := c.record()
	var out fsbridge.Change
	if err == nil {
		out, err = c.change(m)
	}
	c.err = err
	return out, err
}

// kinds are those of entries.
var changeKinds = [...]fsbridge.ChangeKind{
	wire.ChangeCreate: fsbridge.ChangeCreate, wire.ChangeWrite: fsbridge.ChangeWrite, wire.ChangeRemove: fsbridge.ChangeRemove,
	wire.ChangeRename: fsbridge.ChangeRename, wire.ChangeMode: fsbridge.ChangeMode,
}

func (c *fileChanges) change(m wire.FileChange) (fsbridge.Change, error) {
	out := fsbridge.Change{Name: m.Name, To: m.To}
	switch m.Kind {
	case wire.ChangeOverflow:
		out.Kind = fsbridge.ChangeOverflow
	case wire.ChangeUnwatched:
		out.Kind = fsbridge.ChangeUnwatched
		out.Err = c.s.k.failed(wire.Failed{Kind: wire.KindFile, Errno: uint32(m.Info.Size)})
	case wire.ChangeGone:
		return out, c.s.k.c.named(&sandbox.Error{Code: sandbox.CodeNotFound, Op: "watch", Field: "path", Resource: termsafe.Line(c.s.k.path),
			Message: "the watched folder has been removed, renamed or unmounted", Hint: "watch the folder above it"})
	default:
		if int(m.Kind) >= len(changeKinds) || changeKinds[m.Kind] == "" {
			return out, c.s.k.strange("the guest reported a change of an unknown kind")
		}
		out.Kind = changeKinds[m.Kind]
		if m.Info.Mode != 0 {
			name := m.Name
			if m.To != "" {
				name = m.To
			}
			out.Info = infoOf(path.Base(name), m.Info)
		}
	}
	return out, nil
}
