package server

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/bulkhead-dev/sandbox/tenant"
)

// TestObserveQueue holds the names by which a cluster adds daemons, and that they say
// how it is when they are asked.
func TestObserveQueue(t *testing.T) {
	reg := prometheus.NewRegistry()
	now := tenant.Load{Held: 2, Waiting: 5}
	if err := ObserveQueue(reg, func() tenant.Load { return now }); err != nil {
		t.Fatal(err)
	}
	now.Waiting = 7
	want := `
# HELP sandbox_queue_slots_held Slots of daemon.fair.slots that are held by commands that begin.
# TYPE sandbox_queue_slots_held gauge
sandbox_queue_slots_held 2
# HELP sandbox_queue_waiting Commands that wait for their turn to begin, see daemon.fair.
# TYPE sandbox_queue_waiting gauge
sandbox_queue_waiting 7
`
	if err := testutil.GatherAndCompare(reg, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
	if err := ObserveQueue(reg, func() tenant.Load { return now }); err == nil {
		t.Error("the same names are registered twice")
	}
}
