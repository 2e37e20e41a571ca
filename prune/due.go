package prune

import (
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"golang.org/x/sys/unix"
)

// givenUp follows the time in a stamp where the last sweep that ended was given
// up.
const givenUp = "given up"

// Due reports whether a sweep on use is due, that is, whether none has begun
// within every, and notes now in the file stamp if so. Of several processes
// that call Due at once, one gets true. A stamp that holds no time, or one that
// lies ahead because the clock moved, counts as none. When every is zero or
// less, sweeps on use are switched off.
//
// A caller that gets true calls Finished, GaveUp or Forgo to report the result.
func Due(stamp string, every time.Duration, now time.Time) (bool, error) {
	if every <= 0 {
		return false, nil
	}
	due := false
	err := change(stamp, func(m mark) mark {
		if due = !m.within(every, now); due {
			m.begun = now
		}
		return m
	})
	return due && err == nil, err
}

// Finished notes that a sweep has come to its end.
func Finished(stamp string) error {
	return change(stamp, func(m mark) mark { m.givenUp = false; return m })
}

// GaveUp notes that a sweep was given up before its end, and reports whether the
// one that ended before it was too. The next one is due when it would have been.
func GaveUp(stamp string) (again bool, err error) {
	err = change(stamp, func(m mark) mark {
		again, m.givenUp = m.givenUp, true
		return m
	})
	return again, err
}

// Forgo takes back what Due noted at the time now, unless another sweep has
// begun since: one is due at the next use.
func Forgo(stamp string, now time.Time) error {
	return change(stamp, func(m mark) mark {
		if m.begun.Equal(now) {
			m.begun = time.Time{}
		}
		return m
	})
}

// A mark is what a stamp holds.
type mark struct {
	begun   time.Time // the last sweep; zero when that is not known
	givenUp bool
}

// within reports whether a sweep has begun within every before now.
func (m mark) within(every time.Duration, now time.Time) bool {
	return !m.begun.IsZero() && !m.begun.After(now) && now.Sub(m.begun) < every
}

func (m mark) text() string {
	text := "\n"
	if !m.begun.IsZero() {
		text = m.begun.UTC().Format(time.RFC3339Nano) + text
	}
	if m.givenUp {
		text += givenUp + "\n"
	}
	return text
}

// change replaces the mark in the file stamp by what next returns for it. While
// another process does so, change changes nothing and does not call next.
func change(stamp string, next func(mark) mark) error {
	f, err := os.OpenFile(stamp, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0o600)
	if err != nil {
		return statedir.Unavailable("prune", stamp, err)
	}
	defer f.Close()
	// The lock is taken on this open file itself: the stamp is read and
	// written through it and never replaced.
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil
		}
		return statedir.Unavailable("prune", stamp, err)
	}
	// Close alone would leave the lock to a program that is just being started,
	// which has a copy of the descriptor until it runs.
	defer func() { _ = unix.Flock(int(f.Fd()), unix.LOCK_UN) }()
	was, err := read(f)
	if err != nil {
		return statedir.Unavailable("prune", stamp, err)
	}
	m := next(was)
	if m == was {
		return nil
	}
	text := m.text()
	if _, err := f.WriteAt([]byte(text), 0); err != nil {
		return statedir.Unavailable("prune", stamp, err)
	}
	return statedir.Unavailable("prune", stamp, f.Truncate(int64(len(text))))
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
	m, err := read(f)
	return err != nil || !m.within(every, now)
}

// read returns what the stamp f tells.
func read(f *os.File) (mark, error) {
	data, err := io.ReadAll(io.LimitReader(f, 64))
	if err != nil {
		return mark{}, err
	}
	first, rest, _ := strings.Cut(string(data), "\n")
	m := mark{givenUp: strings.TrimSpace(rest) == givenUp}
	if last, err := time.Parse(time.RFC3339Nano, strings.TrimSpace(first)); err == nil {
		m.begun = last
	}
	return m, nil
}
