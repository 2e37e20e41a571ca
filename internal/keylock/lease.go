// Package keylock has locks by name. Its leases tell the processes of one host
// that a sandbox is in use.
//
// Every caller that runs a command, keeps a shell open or moves files in a
// sandbox holds its lease shared; a caller that removes or replaces the sandbox
// needs it exclusively. A second lock per name, the ensure lock, lets one
// process at a time find out whether a sandbox has to be made.
//
// The locks are flock(2) locks on files that are never unlinked. The kernel
// drops them with the process that holds them, however it ends, so nothing
// has to be cleaned up after a kill -9. A file that could be unlinked could
// be locked by two processes at once, one of them holding a name that no
// longer leads there; so one empty file per name stays.
package keylock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/gofrs/flock"
)

const (
	leaseSuffix  = ".lease"
	ensureSuffix = ".ensure"

	// retryDelay is how often a waiting call looks again. flock(2) itself
	// can block only without regard to a context.
	retryDelay = 5 * time.Millisecond

	// probes and probeDelay make a look at a lock immune against another
	// process that looks at the same moment: a look has to take the lock
	// for some microseconds.
	probes     = 4
	probeDelay = time.Millisecond
)

// A Dir is a folder of locks. It is safe for concurrent use; every
// acquisition opens the file anew, so goroutines of one process exclude each
// other exactly as processes do.
type Dir struct {
	path string

	// look serialises the attempts of this process that do not wait, so
	// that they do not mistake one another for a holder.
	look sync.Mutex
}

// Open returns the locks in the folder path, which must exist.
func Open(path string) *Dir { return &Dir{path: path} }

// A Locker has the locks of sandboxes, by name. It is safe for concurrent use. [Dir]
// is that of one machine; others reach further, and their locks can be lost: see
// [Lock.Release].
type Locker interface {
	Ensure(ctx context.Context, name string) (*Lock, error)
	TryEnsure(name string) (*Lock, error)
	Shared(ctx context.Context, name string) (*Lock, error)
	TryExclusive(name string) (*Lock, error)
	Held(name string) (bool, error)
}

// An Assumer is a Locker whose ensure locks are written down somewhere. EnsureNew is
// Ensure for a name of which nothing is kept, as far as this process knows: the lock is
// not written, and the first change of what is kept of the name makes it or is an error
// that wraps [ErrAssumed], because there was something after all. Until then only the
// callers of this process are kept out, so nothing else may be done for the name that two
// processes must not both do. It returns nil where the lock has to be written.
type Assumer interface {
	Locker
	EnsureNew(ctx context.Context, name string) (*Lock, error)
}

// ErrAssumed says that a name is not as new as was assumed.
var ErrAssumed = errors.New("something is kept of the name by now")

// A Lock is a lock that is held. It is safe for concurrent use.
type Lock struct {
	release func() error // once
}

// NewLock returns a lock that release gives up, which is called once.
func NewLock(release func() error) *Lock { return &Lock{sync.OnceValue(release)} }

// Release gives the lock up. Further calls return what the first returned. A lock
// that was lost meanwhile, because its holder could not be seen to live, is an error
// with [sandbox.CodeUnavailable].
func (l *Lock) Release() error { return l.release() }

// Shared takes the lease of the sandbox name together with any number of
// others, waiting for an exclusive holder until ctx ends. The error then has
// [sandbox.CodeBusy] and wraps that of ctx.
func (d *Dir) Shared(ctx context.Context, name string) (*Lock, error) {
	return d.wait(ctx, name, leaseSuffix, (*flock.Flock).TryRLock)
}

// Exclusive takes the lease of the sandbox name alone, waiting for all
// holders until ctx ends. It promises no order: a steady stream of shared
// holders can keep it waiting, so ctx should have a deadline.
func (d *Dir) Exclusive(ctx context.Context, name string) (*Lock, error) {
	return d.wait(ctx, name, leaseSuffix, (*flock.Flock).TryLock)
}

// TryExclusive takes the lease of the sandbox name alone, or returns an error
// with [sandbox.CodeBusy] when it is held.
func (d *Dir) TryExclusive(name string) (*Lock, error) {
	d.look.Lock()
	defer d.look.Unlock()
	return d.try(name, leaseSuffix)
}

// TryEnsure takes the ensure lock of the sandbox name, or returns an error with
// [sandbox.CodeBusy] when it is held.
func (d *Dir) TryEnsure(name string) (*Lock, error) {
	d.look.Lock()
	defer d.look.Unlock()
	return d.try(name, ensureSuffix)
}

// Ensure takes the lock under which the sandbox name is looked up, made and
// recorded, waiting until ctx ends. A caller that is to run something in the
// sandbox takes the lease before it releases the ensure lock, so that no sweep
// comes between. The order is always the ensure lock first.
func (d *Dir) Ensure(ctx context.Context, name string) (*Lock, error) {
	return d.wait(ctx, name, ensureSuffix, (*flock.Flock).TryLock)
}

// Held reports whether any process, this one included, holds the lease of the
// sandbox name. The answer may be out of date at once: decide under
// [Dir.TryExclusive]. It is true, too, when the lock cannot be read, since a
// lease that may exist must protect its sandbox; the error says why.
func (d *Dir) Held(name string) (bool, error) {
	if never, err := d.neverTaken(name); never || err != nil {
		return err != nil, err
	}
	d.look.Lock()
	defer d.look.Unlock()
	l, err := d.try(name, leaseSuffix)
	switch {
	case err == nil:
		return false, l.Release()
	case sandbox.CodeOf(err) == sandbox.CodeBusy:
		return true, nil
	}
	return true, err
}

// neverTaken reports whether there is no lease file for name, so that looking
// at many names leaves no files behind.
func (d *Dir) neverTaken(name string) (bool, error) {
	f, err := d.file(name, leaseSuffix)
	if err != nil {
		return false, err
	}
	if _, err := os.Lstat(f.Path()); !errors.Is(err, fs.ErrNotExist) {
		return false, statedir.Unavailable("look at lease", f.Path(), err)
	}
	_, err = os.Stat(d.path)
	return err == nil, statedir.Unavailable("look at lease", d.path, err)
}

// file returns the unlocked lock file of name.
func (d *Dir) file(name, suffix string) (*flock.Flock, error) {
	if err := statedir.CheckName(name); err != nil {
		return nil, err
	}
	return flock.New(filepath.Join(d.path, name+suffix)), nil
}

// try is called with d.look held.
func (d *Dir) try(name, suffix string) (*Lock, error) {
	f, err := d.file(name, suffix)
	if err != nil {
		return nil, err
	}
	for i := range probes {
		if i > 0 {
			time.Sleep(probeDelay)
		}
		ok, err := f.TryLock()
		if err != nil {
			return nil, statedir.Unavailable("take lease", f.Path(), err)
		}
		if ok {
			return NewLock(f.Unlock), nil
		}
	}
	return nil, Busy(name, nil)
}

// wait takes the lock with take until it succeeds or ctx ends.
func (d *Dir) wait(ctx context.Context, name, suffix string, take func(*flock.Flock) (bool, error)) (*Lock, error) {
	f, err := d.file(name, suffix)
	if err != nil {
		return nil, err
	}
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		if ctx.Err() != nil {
			return nil, Busy(name, ctx.Err())
		}
		ok, err := take(f)
		if err != nil {
			return nil, statedir.Unavailable("take lease", f.Path(), err)
		}
		if ok {
			return NewLock(f.Unlock), nil
		}
		timer.Reset(retryDelay)
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
	}
}

// Busy is the error of a lock that another caller holds; cause may be nil.
func Busy(name string, cause error) error {
	e := &sandbox.Error{
		Code: sandbox.CodeBusy, Op: "take lease", Resource: name, Err: cause, Retryable: true,
		Message: "sandbox " + name + " is in use",
		Hint:    "try again when what runs in it has ended",
	}
	if errors.Is(cause, context.Canceled) {
		e.Hint = ""
	}
	return e
}
