package manager

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// A guest is waited for, but no longer than until it is frozen. One that answers
// costs no look at a record.
func TestEndWithin(t *testing.T) {
	failed := errors.New("failed")
	for what, tt := range map[string]struct {
		ends, freezes time.Duration
		want          time.Duration
		looks         int
		err           error
	}{
		"answers":         {firstLook / 2, time.Hour, firstLook / 2, 0, failed},
		"answers in time": {firstLook + 5*frozenLook/2, time.Hour, firstLook + 5*frozenLook/2, 3, failed},
		"frozen before":   {time.Minute, 0, firstLook, 1, nil},
		"frozen between":  {time.Minute, firstLook + 4*frozenLook + time.Millisecond, firstLook + 5*frozenLook, 6, nil},
	} {
		t.Run(what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began := time.Now()
				looks := 0
				done, err := drainAndClose(func() bool { looks++; return time.Since(began) >= tt.freezes }, func() error {
					time.Sleep(tt.ends)
					return failed
				})
				if took := time.Since(began); took != tt.want || !errors.Is(err, tt.err) {
					t.Errorf("after %s: %v", took, err)
				}
				if looks != tt.looks {
					t.Errorf("%d looks, want %d", looks, tt.looks)
				}
				<-done
				if took := time.Since(began); took != tt.ends {
					t.Errorf("it has ended after %s", took)
				}
			})
		})
	}
}
