package main

import (
	"github.com/bulkhead-dev/sandbox/house"
	"github.com/bulkhead-dev/sandbox/internal/cli"
)

// A backend has the parts of this machine work for the command line.
type backend struct{}

var _ cli.Backend = backend{}

// open opens the house of a command.
func open(o cli.Options) (*house.House, error) {
	return house.Open(optionsOf(o))
}

func optionsOf(o cli.Options) house.Options {
	return house.Options{
		ConfigFile: o.ConfigFile, StateDir: o.StateDir, Provider: o.Provider,
		CommandFlags: o.CommandFlags,
		Log:          o.Log, Approver: o.Approver, Progress: o.Progress,
	}
}
