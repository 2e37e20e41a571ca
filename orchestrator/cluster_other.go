//go:build sandbox_front || sandbox_engine

package orchestrator

import (
	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/provider"
)

// pods returns a provider that nothing comes to: the client of clusters is part of
// the program that serves, which carries out what may need it.
func (*Orchestrator) pods() sandbox.Provider {
	return provider.Unusable(config.KubernetesProvider, errNoPods())
}
