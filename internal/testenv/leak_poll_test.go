package testenv_test

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A recorder is a test that notes how it ended.
type recorder struct {
	testing.TB
	said string
}

func (r *recorder) Helper() {}

func (r *recorder) Fatalf(format string, args ...any) {
	r.said = fmt.Sprintf(format, args...)
	panic(r)
}

// watched runs one watch in a bubble and returns what its test said and how
// long it took.
func watched(t *testing.T, watch func(testing.TB)) (said string, took time.Duration) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		r := &recorder{TB: t}
		began := time.Now()
		func() {
			defer func() {
				if p := recover(); p != nil && p != r {
					panic(p)
				}
			}()
			watch(r)
		}()
		said, took = r.said, time.Since(began)
	})
	return said, took
}

func TestPoll(t *testing.T) {
	never := errors.New("nobody came")
	for name, tt := range map[string]struct {
		from time.Duration // when it is so
		want string
	}{
		"at once":      {0, ""},
		"later":        {testenv.Patience - time.Second, ""},
		"at the limit": {testenv.Patience, ""},
		"never":        {time.Hour, "not within 1m0s: nobody came"},
	} {
		for kind, watch := range map[string]func(testing.TB, func() bool){
			"Until": func(t testing.TB, so func() bool) { testenv.Until(t, "nobody came", so) },
			"Success": func(t testing.TB, so func() bool) {
				testenv.Success(t, func() error {
					if so() {
						return nil
					}
					return never
				})
			},
		} {
			t.Run(name+"/"+kind, func(t *testing.T) {
				looks := 0
				said, took := watched(t, func(t testing.TB) {
					began := time.Now()
					watch(t, func() bool { looks++; return time.Since(began) >= tt.from })
				})
				if said != tt.want || took < min(tt.from, testenv.Patience) || took > min(tt.from, testenv.Patience)+time.Second {
					t.Errorf("said %q after %v", said, took)
				}
				if tt.from == 0 && looks != 1 {
					t.Errorf("%d looks", looks)
				}
			})
		}
	}
}
