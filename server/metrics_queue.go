package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/tenant"
)

// ObserveQueue registers how busy the queue of commands is, which load returns: what
// a cluster adds and removes daemons by.
func ObserveQueue(reg prometheus.Registerer, load func() tenant.Load) error {
	for _, c := range []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sandbox_queue_waiting", Help: "Commands that wait for their turn to begin, see daemon.fair."}, func() float64 { return float64(load().Waiting) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "sandbox_queue_slots_held", Help: "Slots of daemon.fair.slots that are held by commands that begin."}, func() float64 { return float64(load().Held) }),
	} {
		if err := reg.Register(c); err != nil {
			return &sandbox.Error{Code: sandbox.CodeInternal, Op: "register metrics", Message: "the registry does not take them", Err: err}
		}
	}
	return nil
}
