package fsbridge

import (
	"context"
	"io/fs"
	"path"
	"strings"

	"github.com/bulkhead-dev/sandbox"
)

// A ChangeKind says what has happened to an entry, or to the watch.
type ChangeKind string

// The kinds of changes.
const (
	ChangeCreate ChangeKind = "create"
	ChangeWrite  ChangeKind = "write"
	ChangeRemove ChangeKind = "remove"
	ChangeRename ChangeKind = "rename"
	ChangeMode   ChangeKind = "chmod" // mode, owner or times

	// ChangeOverflow says that changes were dropped because they came faster than
	// they were taken. The watch goes on.
	ChangeOverflow ChangeKind = "overflow"
	// ChangeUnwatched says that what is in the folder Name is not watched, and Err
	// why.
	ChangeUnwatched ChangeKind = "unwatched"
)

// A Change is what a watch reports.
type Change struct {
	Kind ChangeKind
	Name string      // relative to the watched folder; "." is that folder
	To   string      // ChangeRename: the new name, empty where it lies outside of what is watched
	Info fs.FileInfo // of the thing itself just after the change, or nil
	Err  error       // ChangeUnwatched
}

// Changes are what happens in a folder. Next and Close may be called at the same
// time.
type Changes interface {
	// Entries is how many entries there were at the beginning, with the folder.
	Entries() int
	// Next waits for the next change. After an error there are no more. It returns
	// [sandbox.CodeNotFound] once the folder has gone.
	Next() (Change, error)
	Close() error
}

// A ChangeWatcher is a [sandbox.Files] whose transport is notified of changes.
type ChangeWatcher interface {
	// Changes begins to watch the folder at path, and with recursive those below
	// it, also those that come to be later. Links are not followed below path.
	// The end of ctx ends the watch. Where the transport is not notified the
	// error is [sandbox.CodeUnsupported], and [sandbox.CodeBudgetExceeded] for
	// more watches or folders than are served.
	Changes(ctx context.Context, path string, recursive bool) (Changes, error)
}

var (
	_ ChangeWatcher = (*Bridge)(nil)
	_ ChangeWatcher = (*ruledFiles)(nil)
)

// Changes implements [ChangeWatcher].
func (b *Bridge) Changes(ctx context.Context, path string, recursive bool) (out Changes, err error) {
	err = b.heard(ctx, OpList, path, "", func(Hearing) (err error) {
		out, err = b.changes(ctx, path, recursive)
		return err
	})
	return out, err
}

func (b *Bridge) changes(ctx context.Context, path string, recursive bool) (Changes, error) {
	p, err := b.place(path)
	if err != nil {
		return nil, err
	}
	w, ok := b.files.(ChangeWatcher)
	if !ok {
		return nil, lacks("watch", "is not notified of changes")
	}
	c, err := w.Changes(ctx, p.Path(), recursive)
	if err != nil || b.meter == nil {
		return c, err
	}
	return paidChanges{c, b.meter}, nil
}

// paidChanges are changes whose names are counted.
type paidChanges struct {
	Changes
	meter Meter
}

func (p paidChanges) Next() (Change, error) {
	c, err := p.Changes.Next()
	if err == nil {
		err = p.meter.Names(0, int64(len(c.Name)+len(c.To)))
	}
	return c, err
}

// Changes implements [ChangeWatcher]. What happens in a folder that is closed is
// left out, as its entries are refused.
func (f *ruledFiles) Changes(ctx context.Context, name string, recursive bool) (out Changes, err error) {
	err = f.at(ctx, sandbox.OpRead, "watch", name, true, func(files sandbox.Files, name string) (err error) {
		w, ok := files.(ChangeWatcher)
		if !ok {
			return lacks("watch", "is not notified of changes")
		}
		if out, err = w.Changes(ctx, name, recursive); err == nil {
			out = ruledChanges{out, f, path.Clean(name)}
		}
		return err
	})
	return out, err
}

// ruledChanges are the changes in folders that are not closed.
type ruledChanges struct {
	Changes
	f   *ruledFiles
	top string
}

func (r ruledChanges) Next() (Change, error) {
	for {
		c, err := r.Changes.Next()
		if err != nil || c.Kind == ChangeOverflow {
			return c, err
		}
		from, to := r.open(c.Name), c.To != "" && r.open(c.To)
		switch {
		case !from && to:
			return Change{Kind: ChangeCreate, Name: c.To, Info: c.Info}, nil
		case from && c.To != "" && !to:
			c.To, c.Info = "", nil
		}
		if from {
			return c, nil
		}
	}
}

// open reports whether every folder from the watched one to the entry name may
// be read.
func (r ruledChanges) open(name string) bool {
	at := r.top
	names := strings.Split(name, "/")
	for _, n := range names[:len(names)-1] {
		at = path.Join(at, n)
		if r.f.judge(sandbox.OpRead, at) != nil {
			return false
		}
	}
	return true
}
