//go:build sandbox_front

package orchestrator

// With the tag sandbox_front a Orchestrator has local sandboxes alone: it links no engine's
// client, no proxy and no evidence. See cmd/sandbox.

import (
	"context"
	"os"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
)

// An engine is none.
type engine struct{}

func connect(*statedir.Dir, about.Progress) engine { return engine{} }

// address is where the engine of this machine listens, or may listen. Where another
// one is named the whole program runs; see the Begin of Options.
func (engine) address() string {
	found, err := about.FindEngine(os.Getenv)
	if err != nil {
		return about.DefaultEngine
	}
	return found.Address
}

func (engine) close() {}

func (engine) source() manager.Images { return noImages{errFront()} }

func errFront() error {
	return sandbox.Errorf(sandbox.CodeInternal, "start", "this program is built as a front, with the tag sandbox_front, and knows no engine")
}

// containers returns a provider that nothing comes to; see the Begin of Options.
func (*Orchestrator) containers() sandbox.Provider {
	return provider.Unusable("docker", errFront())
}

// An exit is none: who may reach hosts is handed on; see the Begin of Options.
type exit struct{}

func (*Orchestrator) newExit() *exit { return nil }

func (*exit) proxy() (proxy.Server, error) { return nil, errFront() }
func (*exit) close() error                 { return nil }

// trusted is none: who trusts a company's certificates is handed on; see the
// Begin of Options.
func (*Orchestrator) trusted(context.Context, []byte, string, bool) (manager.Trusted, error) {
	return manager.Trusted{}, errFront()
}

// records are none: what has to be on record is handed on; see the Begin of Options.
type records struct{}

func (*Orchestrator) newRecords() *records { return nil }

func (*records) control() (*manager.Control, error) { return nil, errFront() }
func (*records) close() error                       { return nil }

// browsers are none: they run in containers.
type browsers struct{ open func() (struct{}, error) }

func (*Orchestrator) newDisplay() (struct{}, error) { return struct{}{}, errFront() }

func (*browsers) close() error { return nil }
