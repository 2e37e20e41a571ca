package ledger

import (
	"context"
	"errors"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// probes is the number of accounts in its shard that making a new account
// examines. It removes the expired ones among them, so that even programs that
// open one account and end keep the ledger small: with more than a quarter
// expired it shrinks faster than it grows.
const probes = 4

// makeRoom makes the folder shard when it is missing. Otherwise it looks at some
// of the accounts in it, at random, and removes the expired ones; at all of
// them when it is full. It is called under the lock.
func (l *Ledger) makeRoom(shard string) error {
	names, err := list(shard)
	if err != nil {
		return err
	}
	if len(names) == 0 {
		if err := os.Mkdir(shard, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
		return nil
	}
	full := len(names) >= l.perShard
	passed, _ := l.passed.Advance(time.Minute) // as far as it is known: more stays
	if !full {
		rand.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
		names = names[:min(probes, len(names))]
	}
	removed := 0
	for _, name := range names {
		if expired(filepath.Join(shard, name), passed) == nil {
			if err := unix.Unlink(filepath.Join(shard, name)); err != nil && !isMissing(err) {
				return err
			}
			removed++
		}
	}
	if full && removed == 0 {
		return &sandbox.Error{
			Code: sandbox.CodeUnavailable, Op: "open budget account", Resource: shard, Retryable: true,
			Message: "there are too many budget accounts",
			Hint:    "wait until some have expired, or give those of sessions an expiry",
		}
	}
	return nil
}

// errStays: the account has not certainly expired.
var errStays = errors.New("it has not expired")

// expired returns nil when the account at path can go, as the time passed has
// passed, and otherwise why not: a file that cannot be read is not known to have
// expired.
func expired(path string, passed time.Time) error {
	f, err := openPath(path)
	if err != nil {
		return err
	}
	defer f.close()
	if f.rec.expires == 0 || passed.Before(time.UnixMilli(f.rec.expires).Add(grace)) {
		return errStays
	}
	return nil
}

// A Swept is the result of a sweep.
type Swept struct {
	Removed int
	Kept    int
	Damaged []string // paths of files that are not accounts, which stay
}

// Sweep removes all accounts that certainly expired some minutes ago. Each
// account delays the others of its root for microseconds only.
func (l *Ledger) Sweep(ctx context.Context) (Swept, error) {
	const op = "sweep budget accounts"
	var s Swept
	passed, late := l.passed.Advance(0)
	err := l.walk(ctx, op, func(root, path string) (bool, error) {
		if errors.Is(expired(path, passed), errStays) { // without the lock: most stay
			s.Kept++
			return true, nil
		}
		return true, l.locked(ctx, op, root, func() error { return s.remove(path, passed) })
	})
	return s, errors.Join(err, late)
}

// remove takes the account at path away if it has expired. It is called under
// the lock.
func (s *Swept) remove(path string, passed time.Time) error {
	switch err := expired(path, passed); {
	case err == nil:
		s.Removed++
		return unix.Unlink(path)
	case errors.Is(err, errStays):
		s.Kept++
	case !isMissing(err):
		s.Damaged = append(s.Damaged, path)
	}
	return nil
}

// Remove removes all accounts for which gone returns true, whatever their
// usage: accounts of owners that will never draw again. A process that has such
// an account open cannot draw from it any more.
func (l *Ledger) Remove(ctx context.Context, gone func(Entry) bool) (removed int, err error) {
	const op = "remove budget accounts"
	err = l.walk(ctx, op, func(root, path string) (bool, error) {
		f, err := openPath(path)
		if err != nil {
			return true, nil // it is gone, is written at this moment, or is damaged and stays
		}
		e := f.entry()
		f.close()
		if !gone(e) {
			return true, nil
		}
		removed++
		return true, l.locked(ctx, op, root, func() error {
			if err := unix.Unlink(path); err != nil && !isMissing(err) {
				return err
			}
			return nil
		})
	})
	return removed, err
}

// list returns the names in a folder; one that is missing is empty.
func list(dir string) ([]string, error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	names, err := f.Readdirnames(-1)
	kept := names[:0]
	for _, n := range names {
		if !strings.HasPrefix(n, ".") {
			kept = append(kept, n)
		}
	}
	return kept, err
}
