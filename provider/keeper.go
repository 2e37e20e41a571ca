package provider

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// A StateKeeper is a provider that keeps what is known of its sandboxes, and their
// locks, where programs on several machines reach them: each of these programs serves
// the same sandboxes, with a state folder of its own.
type StateKeeper interface {
	sandbox.Provider

	// Instance is the instance of all sandboxes of these programs. It depends on
	// settings alone, so that each of them has the same one.
	Instance() string

	// Workspaces is the folder in which the sources of workspaces are named. There is
	// no such folder; the name is the same for all programs.
	Workspaces() string

	// Users is the range from which the user id of a scope is taken, for sandboxes
	// with these options. No program keeps a list of those that are taken.
	Users(options map[string]any) (first, count int)

	// State returns the documents and the locks. A lock is taken in front first, which
	// has those of this machine. lost hears of each sandbox whose locks this program
	// has lost, because it could not be seen to live: nothing may use the sandbox any
	// more through what was opened before. State is called once.
	State(front keylock.Locker, lost func(name string)) (statedir.Documents, keylock.Locker)
}
