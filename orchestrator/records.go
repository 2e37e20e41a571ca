//go:build !sandbox_front

package orchestrator

import (
	"errors"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	auditrecorder "github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// records opens the evidence, and what puts operations and commands on
// record there, when the first of them is needed: most commands need neither.
type records struct {
	openStore   func() (*evidence.Store, error) // the same answer every time, like openControl
	openControl func() (*Control, error)

	stored, controlled atomic.Bool
}

// newRecords prepares a records.
func (h *Orchestrator) newRecords() *records {
	r := &records{}
	r.openStore = sync.OnceValues(func() (*evidence.Store, error) {
		kept, err := h.evidenceOptions()
		if err != nil {
			return nil, err
		}
		kept.Written = h.o.Evidence
		return evidence.Open(h.state.Evidence(), kept)
	})
	r.openControl = sync.OnceValues(func() (*Control, error) {
		store, err := r.store()
		if err != nil {
			return nil, err
		}
		return OpenOperations(OperationsOptions{
			State: h.state, Log: h.o.Log, Sinks: []auditrecorder.Sink{auditrecorder.NewFile("evidence", store)},
			Fetch: Fetch(nil), Browse: Browse(h.Browsers), Observe: h.o.Observe,
		})
	})
	return r
}

// evidenceOptions returns what the settings of all say about evidence: one
// record serves all tenants.
func (h *Orchestrator) evidenceOptions() (evidence.Options, error) {
	res, err := config.Resolve(h.settings, config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}, nil)
	if err != nil {
		return evidence.Options{}, err
	}
	return evidence.Options{KeyFile: h.state.EvidenceKey(), Sync: evidence.Sync(res.Evidence.Sync), CheckpointEvery: int(res.Evidence.CheckpointEvery)}, nil
}

func (r *records) store() (*evidence.Store, error) {
	r.stored.Store(true)
	return r.openStore()
}

func (r *records) control() (*manager.Control, error) {
	r.controlled.Store(true)
	c, err := r.openControl()
	if err != nil {
		return nil, err
	}
	return &c.Control, nil
}

// close writes what is not on record yet.
func (r *records) close() error {
	var errs []error
	if r.controlled.Load() {
		if c, err := r.openControl(); err == nil { // an earlier error was reported at the first use
			errs = append(errs, c.Close())
		}
	}
	if r.stored.Load() {
		if s, err := r.openStore(); err == nil {
			errs = append(errs, s.Close())
		}
	}
	return errors.Join(errs...)
}

// Evidence opens the record of operations, the same one each time. It ends
// with the Orchestrator.
func (h *Orchestrator) Evidence() (*evidence.Store, error) { return h.records.store() }

// Control opens what operations under grants need, the same one each time. It
// ends with the Orchestrator.
func (h *Orchestrator) Control() (*Control, error) {
	h.records.controlled.Store(true)
	return h.records.openControl()
}
