package manager

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A guest is waited for, but no longer than until it is frozen.
func TestFarewell(t *testing.T) {
	failed := errors.New("failed")
	for what, tt := range map[string]struct {
		ends, freezes time.Duration
		want          time.Duration
		err           error
	}{
		"answers":        {time.Second, time.Hour, time.Second, failed},
		"frozen before":  {time.Minute, 0, 0, nil},
		"frozen between": {time.Minute, 5*frozenLook - time.Millisecond, 5 * frozenLook, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				done, err := farewell(func() bool { return time.Since(began) >= tt.freezes }, func() error {
					time.Sleep(tt.ends)
					return failed
				})
				if took := time.Since(began); took != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("after %s: %v", took, err)
				}
				<-done
				if took := time.Since(began); took != tt.ends {
					t.Errorf("it has ended after %s", took)
				}
			})
		})
	}
}
