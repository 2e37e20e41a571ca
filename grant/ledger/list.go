package ledger

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// An Entry is an account as it lies on disk. Bounds are not there.
type Entry struct {
	ID      string
	Root    bool
	Used    budget.Amount // what is reserved included
	Expires time.Time     // until when it stays at least; zero is for ever
}

// Entries calls fn for every account, in no order, until fn returns false.
// Accounts may change meanwhile: each is reported as it was when it was read.
// Files that are not accounts are left out; [Ledger.Sweep] reports them.
func (l *Ledger) Entries(ctx context.Context, fn func(Entry) bool) error {
	const op = "list budget accounts"
	return l.walk(ctx, op, func(root, path string) (bool, error) {
		f, err := openPath(path)
		if err != nil { // it may have been written at that moment
			err := l.locked(ctx, op, root, func() error { f, _ = openPath(path); return nil })
			if err != nil || f == nil {
				return true, err
			}
		}
		defer f.close()
		return fn(f.entry()), nil
	})
}

func (f *file) entry() Entry {
	e := Entry{ID: f.rec.id, Root: f.rec.parent == key{}, Used: f.rec.used}
	if f.rec.expires != 0 {
		e.Expires = time.UnixMilli(f.rec.expires)
	}
	return e
}

// walk calls fn for every file that may be an account's until it returns false.
func (l *Ledger) walk(ctx context.Context, op string, fn func(root, path string) (bool, error)) error {
	roots, err := list(l.dir)
	if err != nil {
		return l.unavailable(op, err)
	}
	for _, name := range roots {
		root := filepath.Join(l.dir, name)
		if fi, err := os.Lstat(root); err != nil || !fi.IsDir() {
			continue
		}
		shards, err := list(root)
		if err != nil {
			return l.unavailable(op, err)
		}
		for _, shard := range shards {
			if len(shard) != 2 {
				continue // the lock, and what is being written
			}
			names, err := list(filepath.Join(root, shard))
			if err != nil {
				return l.unavailable(op, err)
			}
			for _, name := range names {
				if ctx.Err() != nil {
					return busy(op, l.dir, ctx.Err())
				}
				if more, err := fn(root, filepath.Join(root, shard, name)); err != nil || !more {
					return l.unavailable(op, err)
				}
			}
		}
	}
	return nil
}
