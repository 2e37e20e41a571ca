package cli

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
)

// A text is the value of a flag. It remembers whether the flag was given, so
// that a default is distinguishable from the same word written out. Two flags
// may share one text: the one before and the one after the command's name.
type text struct {
	value string
	given bool
	check func(string) error // nil accepts everything
}

// Set implements flag.Value.
func (t *text) Set(s string) error {
	if t.check != nil {
		if err := t.check(s); err != nil {
			return err
		}
	}
	t.value, t.given = s, true
	return nil
}

// String implements flag.Value.
func (t *text) String() string { return t.value }

// A texts collects the values of a flag that may be repeated. Values are
// taken as they are: a comma does not separate.
type texts struct {
	values []string
	check  func(string) error // nil accepts everything
}

// Set implements flag.Value.
func (t *texts) Set(s string) error {
	if t.check != nil {
		if err := t.check(s); err != nil {
			return err
		}
	}
	t.values = append(t.values, s)
	return nil
}

// String implements flag.Value.
func (t *texts) String() string { return strings.Join(t.values, " ") }

// A names collects words of a list, separated by commas in a flag that may be
// repeated.
type names struct {
	values  []string
	allowed []string
	word    func(string) string // the name that is meant
}

// Set implements flag.Value.
func (n *names) Set(s string) error {
	for _, w := range strings.Split(s, ",") {
		w = n.word(strings.TrimSpace(w))
		if !slices.Contains(n.allowed, w) {
			return errors.New("it must be a list of " + strings.Join(n.allowed, ", ") + ", separated by commas")
		}
		if !slices.Contains(n.values, w) {
			n.values = append(n.values, w)
		}
	}
	return nil
}

// String implements flag.Value.
func (n *names) String() string { return strings.Join(n.values, ",") }

// A span is the value of a flag that holds a duration.
type span struct {
	written  string
	value    time.Duration
	given    bool
	positive bool // zero is not allowed
}

// Set implements flag.Value.
func (s *span) Set(v string) error {
	d, err := config.ParseDuration(v)
	if err != nil {
		return err
	}
	if s.positive && d == 0 {
		return errors.New("it must be longer than nothing")
	}
	s.written, s.value, s.given = v, time.Duration(d), true
	return nil
}

// String implements flag.Value.
func (s *span) String() string { return s.written }

// ptr returns the value when it was given and nil otherwise.
func (s *span) ptr() *time.Duration {
	if !s.given {
		return nil
	}
	return &s.value
}

// A moment is the value of a flag that holds a time: an age, a day or a time
// of day. Its zero value is no time.
type moment struct {
	written string
	age     time.Duration // before now
	time    time.Time     // zero: age counts
}

// Set implements flag.Value.
func (m *moment) Set(v string) error {
	for _, layout := range []string{time.RFC3339, time.DateTime, time.DateOnly} {
		if t, err := time.ParseInLocation(layout, v, time.Local); err == nil {
			*m = moment{written: v, time: t}
			return nil
		}
	}
	d, err := config.ParseDuration(v)
	if err != nil {
		return fmt.Errorf("%q is no time; write an age like 10m, 24h or 7d, or a time like 2026-11-21 or 2026-11-21T06:12:15Z", v)
	}
	*m = moment{written: v, age: time.Duration(d)}
	return nil
}

// String implements flag.Value.
func (m *moment) String() string { return m.written }

// at returns the time that is meant at now, the zero one when none was given.
func (m *moment) at(now time.Time) time.Time {
	if m.written == "" || !m.time.IsZero() {
		return m.time
	}
	return now.Add(-m.age)
}

func oneOf(words ...string) func(string) error {
	return func(s string) error {
		for _, w := range words {
			if s == w {
				return nil
			}
		}
		return errors.New("it must be one of " + strings.Join(words, ", "))
	}
}

func notEmpty(s string) error {
	if s == "" {
		return errors.New("it must not be empty")
	}
	return nil
}

func absolute(s string) error {
	if !strings.HasPrefix(s, "/") {
		return errors.New("it must be an absolute path inside the sandbox")
	}
	return nil
}
