package prune

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/statedir"
	"golang.org/x/sys/unix"
)

// Due reports whether a sweep on use is due, that is, whether none has begun
// within every, and notes now in the file stamp if so. Of several processes
// that ask at once one is told yes. A stamp that holds no time, or one that
// lies ahead because the clock moved, counts as none. When every is zero or
// less sweeps on use are switched off.
func Due(stamp string, every time.Duration, now time.Time) (bool, error) {
	if every <= 0 {
		return false, nil
	}
	f, err := os.OpenFile(stamp, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return false, statedir.Unavailable("prune", stamp, err)
	}
	defer f.Close() // gives up the lock
	// The lock is taken on this open file itself: the stamp is read and
	// written through it and never replaced.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return false, nil // somebody else is deciding
		}
		return false, statedir.Unavailable("prune", stamp, err)
	}
	done, err := recent(f, every, now)
	if err != nil {
		return false, statedir.Unavailable("prune", stamp, err)
	}
	if done {
		return false, nil
	}
	text := now.UTC().Format(time.RFC3339Nano) + "\n"
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return false, statedir.Unavailable("prune", stamp, err)
	}
	return true, statedir.Unavailable("prune", stamp, f.Truncate(int64(len(text))))
}

// Overdue reports whether Due would say yes, and notes nothing. What cannot be
// read counts as due.
func Overdue(stamp string, every time.Duration, now time.Time) bool {
	if every <= 0 {
		return false
	}
	f, err := os.OpenFile(stamp, os.O_RDONLY|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return true
	}
	defer f.Close()
	done, err := recent(f, every, now)
	return err != nil || !done
}

// recent reports whether the stamp f tells of a sweep within every before now.
func recent(f *os.File, every time.Duration, now time.Time) (bool, error) {
	data, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return false, err
	}
	last, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(string(data)))
	return err == nil && !last.After(now) && now.Sub(last) < every, nil
}
