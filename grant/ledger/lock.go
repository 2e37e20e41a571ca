package ledger

import (
	"context"
	"errors"
	"hash/maphash"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// stripes is how many queues for locks a process has. Roots that share one
// only wait a little longer.
const stripes = 64

const lockName = "lock"

// The time between two looks at a lock that another process holds. flock(2)
// itself can wait only without regard to a context. A draw holds the lock for
// some ten microseconds.
const (
	firstWait = 20 * time.Microsecond
	longWait  = 500 * time.Microsecond
)

// locked calls fn while this is the only one that works on the accounts below
// root. Waiting ends with ctx; fn is not interrupted.
func (l *Ledger) locked(ctx context.Context, op, root string, fn func() error) error {
	turn := l.turn(root)
	select {
	case turn <- struct{}{}:
	default:
		select {
		case turn <- struct{}{}:
		case <-ctx.Done():
			return busy(op, root, ctx.Err())
		}
	}
	defer func() { <-turn }()
	for {
		fd, err := l.openLock(root)
		if err != nil {
			return l.unavailable(op, err)
		}
		err = wait(ctx, op, root, fd)
		var current bool
		if err == nil {
			if current, err = linked(fd); err == nil && current {
				err = fn()
			}
		}
		// Unlocked by name, too: a program that is being started this moment
		// holds a copy of the descriptor until it runs.
		_ = unix.Flock(fd, unix.LOCK_UN)
		unix.Close(fd)
		if err != nil || current {
			return l.unavailable(op, err)
		}
	}
}

// turn is the queue of this process for the lock of root.
func (l *Ledger) turn(root string) chan struct{} {
	return l.turns[maphash.String(l.seed, root)%stripes]
}

// openLock opens the lock file of root; the folder is made when it is missing.
func (l *Ledger) openLock(root string) (int, error) {
	path := filepath.Join(root, lockName)
	fd, err := openat(path, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK)
	if !isMissing(err) {
		return fd, err
	}
	if err := os.MkdirAll(root, 0o700); err != nil {
		return -1, err
	}
	return openat(path, unix.O_RDWR|unix.O_CREAT|unix.O_NONBLOCK)
}

// wait takes the lock or returns an error when ctx ends before.
func wait(ctx context.Context, op, root string, fd int) error {
	var timer *time.Timer
	for delay := firstWait; ; delay = min(2*delay, longWait) {
		_, err := again(func() (int, error) { return 0, unix.Flock(fd, unix.LOCK_EX|unix.LOCK_NB) })
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
			return busy(op, root, ctx.Err())
		case <-timer.C:
		}
	}
}

// linked reports whether the file still has a name. After the file was removed,
// other processes lock a new one.
func linked(fd int) (bool, error) {
	var st unix.Stat_t
	err := unix.Fstat(fd, &st)
	return st.Nlink > 0, err
}

func busy(op, root string, cause error) error {
	return &sandbox.Error{
		Code: sandbox.CodeBusy, Op: op, Resource: root, Err: cause, Retryable: true,
		Message: "others work on the same accounts",
	}
}
