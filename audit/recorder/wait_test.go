package recorder

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestLongWait checks that a long Wait for evidence that is not required also
// applies to evidence that is required.
func TestLongWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const stands = 2 * testenv.Patience
		g := newRig(t, t.TempDir(), Options{Wait: stands + time.Second})
		gate := make(chan struct{})
		g.file.set(nil, gate)
		time.AfterFunc(stands, func() { close(gate) })
		began := time.Now()
		end(t, g.begin(t, true), wrote())
		if took := time.Since(began); took < stands {
			t.Errorf("it began after %s, before it could be on record", took)
		}
	})
}
