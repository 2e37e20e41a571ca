package main

import (
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// Evidence implements cli.Backend. Neither settings nor an engine are needed.
func (backend) Evidence(o cli.Options) (cli.EvidenceStore, func(), error) {
	if o.Host.Remote() {
		return remoteEvidence(o.Host)
	}
	state, err := orchestrator.OpenState(o.StateDir)
	if err != nil {
		return nil, nil, err
	}
	s, err := evidence.Open(state.Evidence(), evidence.Options{KeyFile: state.EvidenceKey()})
	if err != nil {
		return nil, nil, err
	}
	return s, func() {}, nil // who only reads has nothing to write
}
