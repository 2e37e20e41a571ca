package journal

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// The interval between attempts to take a lock that another process holds.
// flock(2) itself can only wait without regard to a context.
const (
	firstWait = 100 * time.Microsecond
	longWait  = time.Millisecond
)

// locked calls fn while no other writer is active. The files that fn leaves
// open in its argument are kept for the next call, unless there was an error.
func (j *Journal) locked(ctx context.Context, op string, fn func(*kept) error) error {
	select {
	case j.turn <- struct{}{}:
		defer func() { <-j.turn }()
	case <-ctx.Done():
		return j.busy(op, ctx.Err())
	}
	k := j.held.take(j)
	done := false
	defer func() {
		if !done { // closing gives the lock up as well, should fn have panicked
			k.close()
		}
	}()
	const flags = os.O_RDWR | os.O_CREATE | unix.O_NOFOLLOW | unix.O_NONBLOCK
	call := func() error { return fn(k) }
	err := j.holding(ctx, op, &k.lock, flags, unix.LOCK_EX, call)
	if errors.Is(err, fs.ErrNotExist) { // the folder was deleted
		k.close()
		if _, err := statedir.MakePrivate(j.dir); err != nil {
			return err
		}
		err = j.holding(ctx, op, &k.lock, flags, unix.LOCK_EX, call)
	}
	if err == nil {
		done = true
		j.held.put(j, k)
	}
	return err
}

// reading calls fn while no writer is active. It also works in a read-only
// folder: without a lock file there has never been a writer.
func (j *Journal) reading(ctx context.Context, op string, fn func() error) error {
	select {
	case j.turn <- struct{}{}:
		defer func() { <-j.turn }()
	case <-ctx.Done():
		return j.busy(op, ctx.Err())
	}
	var l opened
	defer l.close()
	err := j.holding(ctx, op, &l, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, unix.LOCK_SH, fn)
	if errors.Is(err, fs.ErrNotExist) {
		return statedir.Unavailable(op, j.dir, fn())
	}
	return err
}

// holding calls fn while it holds the lock of l, and opens the lock file when
// it is not open. When the lock file was removed, other processes lock a new
// file, and holding opens that one too.
func (j *Journal) holding(ctx context.Context, op string, l *opened, flags, how int, fn func() error) error {
	path := filepath.Join(j.dir, lockName)
	for {
		if l.f == nil {
			f, err := os.OpenFile(path, flags, 0o600)
			if err == nil {
				err = l.take(path, f)
			}
			if err != nil {
				return statedir.Unavailable(op, path, err)
			}
		}
		if err := j.wait(ctx, op, l.f, how); err != nil {
			return statedir.Unavailable(op, path, err)
		}
		_, current, err := l.there()
		if current {
			err = fn()
		}
		// By name: a program that is being started this moment has a copy of
		// the descriptor.
		err = errors.Join(err, flock(l.f, unix.LOCK_UN))
		if !current {
			l.close()
		}
		if err != nil || current {
			return statedir.Unavailable(op, j.dir, err)
		}
	}
}

// wait takes the lock or returns an error when ctx ends before.
func (j *Journal) wait(ctx context.Context, op string, f *os.File, how int) error {
	var timer *time.Timer
	for delay := firstWait; ; delay = min(2*delay, longWait) {
		err := flock(f, how|unix.LOCK_NB)
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return err
		}
		if timer == nil {
			timer = time.NewTimer(delay)
			defer timer.Stop()
		} else {
			timer.Reset(delay)
		}
		select {
		case <-ctx.Done():
			return j.busy(op, ctx.Err())
		case <-timer.C:
		}
	}
}

// flock is flock(2), which belongs to the open file: it works among the
// goroutines of a process as among processes.
func flock(f *os.File, how int) error {
	for {
		err := unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			return err
		}
	}
}

func (j *Journal) busy(op string, cause error) error {
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: op, Resource: j.dir, Err: cause, Retryable: true,
		Message: "others write to " + j.dir + ", and the time to wait for them has ended",
	}
}
