package manager

import (
	"errors"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/grant"
)

// TestCallsAreForgottenForCertain holds that a call that has ended is not
// forgotten because of one reading of the clock: it would go on when that is set
// back.
func TestCallsAreForgottenForCertain(t *testing.T) {
	begin := time.Now()
	s := calls{of: map[string]*call{"g": {grant: grant.Grant{ID: "g", Expires: begin.Add(time.Hour)}, over: true}}}
	const year = 365 * 24 * time.Hour
	for n, tt := range []struct {
		what   string
		passed time.Time
		err    error
		kept   bool
	}{
		{"the clock has jumped", begin, nil, true},
		{"nobody can tell", time.Time{}, errors.New("no folder"), true},
		{"a while later", begin.Add(time.Hour), nil, true},
		{"it has expired", begin.Add(time.Hour + time.Second), nil, false},
	} {
		s.sweep(begin.Add(year+time.Duration(n)*time.Hour), func() (time.Time, error) { return tt.passed, tt.err })
		if kept := s.of["g"] != nil; kept != tt.kept {
			t.Errorf("%s: kept %v", tt.what, kept)
		}
	}
}
