package main

import (
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// Violations implements cli.Backend. Neither settings nor an engine are
// needed.
func (backend) Violations(o cli.Options) (cli.ViolationStore, func(), error) {
	if o.Host.Remote() {
		return remoteViolations(o.Host)
	}
	state, err := orchestrator.OpenState(o.StateDir)
	if err != nil {
		return nil, nil, err
	}
	s, err := violation.Open(state.Violations(), violation.Options{})
	if err != nil {
		return nil, nil, err
	}
	return s, func() {
		if err := s.Close(); err != nil {
			o.Log.WithError(err).Warn("violations that were counted are not recorded")
		}
	}, nil
}
