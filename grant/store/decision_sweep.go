package store

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// tidying is the time between two sweeps of one shard by one process.
const decisionTidying = 10 * time.Minute

// A decisionSwept is the result of a sweep.
type decisionSwept struct {
	Removed int
	Kept    int
	Damaged []string // paths of unreadable files, which stay and count
}

// Sweep removes the keys of grants that certainly expired more than an hour
// ago, and the leftovers of killed processes. New entries remove old ones
// without it; it is for explicit cleanup.
func (k *Keys) Sweep() (decisionSwept, error) {
	var s decisionSwept
	passed, late := k.passed.Advance(0)
	shards, err := os.ReadDir(k.dir)
	for _, d := range shards {
		if err == nil && d.IsDir() {
			err = k.sweep(filepath.Join(k.dir, d.Name()), passed, &s)
		}
	}
	return s, errors.Join(statedir.Unavailable("sweep decision keys", k.dir, err), late)
}

// sweep is Sweep for one shard, of what has expired at the time passed.
func (k *Keys) sweep(shard string, passed time.Time, s *decisionSwept) error {
	entries, err := os.ReadDir(shard)
	if err != nil {
		return err
	}
	for _, d := range entries {
		path := filepath.Join(shard, d.Name())
		over, err := k.over(path, d, passed)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			continue // by another sweep
		case errors.Is(err, errDecisionDamaged):
			s.Damaged = append(s.Damaged, path)
			continue
		case err != nil:
			return err
		case !over:
			s.Kept++
			continue
		}
		gone, err := k.remove(shard, path, d, passed)
		if err != nil {
			return err
		}
		if gone {
			s.Removed++
		} else {
			s.Kept++
		}
	}
	return nil
}

// remove takes the file at path away, unless it was extended meanwhile.
func (k *Keys) remove(shard, path string, d fs.DirEntry, passed time.Time) (gone bool, err error) {
	unlock, err := lock(shard)
	if err != nil {
		return false, err
	}
	defer unlock()
	if over, err := k.over(path, d, passed); err != nil || !over {
		return errors.Is(err, fs.ErrNotExist), nil
	}
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	return true, nil
}

// over reports whether a file has served its time.
func (k *Keys) over(path string, d fs.DirEntry, passed time.Time) (bool, error) {
	if isNew(d.Name()) {
		fi, err := d.Info()
		return err == nil && k.now().Sub(fi.ModTime()) > decisionGrace, err
	}
	e, err := read(path)
	return err == nil && passed.Sub(time.UnixMilli(e.Until)) > decisionGrace, err
}

// tidy sweeps a shard now and then. It reports no error, because the current
// caller does not depend on the result.
func (k *Keys) tidy(shard string) {
	now := k.now()
	k.mu.Lock()
	due := now.Sub(k.swept[shard]) > decisionTidying
	if due {
		k.swept[shard] = now
	}
	k.mu.Unlock()
	if due {
		passed, _ := k.passed.Advance(time.Minute)
		_ = k.sweep(shard, passed, &decisionSwept{})
	}
}
