package main

import (
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// A backend has the parts of this machine work for the command line.
type backend struct{}

var _ cli.Backend = backend{}

// open opens the orchestrator of a command.
func open(o cli.Options) (*orchestrator.Orchestrator, error) {
	h, err := orchestrator.Open(optionsOf(o))
	if err == nil && h.UsesPods() {
		if err = beyond(); err != nil {
			h.Close()
			return nil, err
		}
	}
	return h, err
}

func optionsOf(o cli.Options) orchestrator.Options {
	var coding *orchestrator.CodingAgent
	if c := o.Coding; c != nil {
		coding = &orchestrator.CodingAgent{Layer: c.Layer, Who: c.Who, Files: c.Files}
	}
	return orchestrator.Options{
		Coding:     coding,
		ConfigFile: o.ConfigFile, StateDir: o.StateDir, Provider: o.Provider,
		CommandFlags: o.CommandFlags,
		Log:          o.Log, Approver: o.Approver, Progress: o.Progress,
	}
}
