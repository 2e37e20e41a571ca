package browser

import (
	"context"
	"testing"
	"time"

	"github.com/sirupsen/logrus/hooks/test"

	"github.com/bulkhead-dev/sandbox"
)

// TestRevoked checks that a password that could not be revoked is logged, and
// that none is if the container was removed, whatever the error.
func TestRevoked(t *testing.T) {
	for name, gone := range map[string]bool{"the container was removed": true, "nobody answers": false} {
		t.Run(name, func(t *testing.T) {
			d := newDisplay(t)
			log, said := test.NewNullLogger()
			removed := make(chan struct{})
			w := openWatch(t, d, func(o *WatchOptions) {
				o.Log = log
				o.Gone = func(ctx context.Context) error {
					select {
					case <-removed:
						return nil
					case <-ctx.Done():
						return ctx.Err()
					}
				}
			})
			d.mu.Lock()
			d.fail = sandbox.Errorf(sandbox.CodeUnavailable, "write", "the guest is away")
			d.mu.Unlock()
			if gone {
				close(removed)
			} else {
				w.Close()
			}
			select {
			case <-w.Done():
			case <-time.After(watchWithin):
				t.Fatal("the watch does not end")
			}
			if reported := len(said.AllEntries()) > 0; reported == gone {
				t.Errorf("told %v of the password", reported)
			}
		})
	}
}
