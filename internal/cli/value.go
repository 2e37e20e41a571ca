package cli

import (
	"errors"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
)

// A text is the value of a flag. It remembers whether it was given, so that
// a default can be told from the same word written out, and it may stand
// behind two flags at once: the one before and the one after the command's
// name.
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
