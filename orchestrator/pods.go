package orchestrator

import (
	"os"
	"path/filepath"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// podsMark is the folder below the state folder by which is known that sandboxes were
// made in a cluster.
const podsMark = "kubernetes"

// usesPods reports whether calls may come to a cluster.
func (h *Orchestrator) usesPods() bool {
	if h.o.Provider == config.KubernetesProvider || config.UsesKubernetes(h.current()) {
		return true
	}
	_, err := os.Stat(filepath.Join(h.state.Path(), podsMark))
	return err == nil
}

// UsesPods reports whether calls may come to sandboxes in a cluster: by the settings,
// by the provider of all calls, or because this state folder has had some. Only the
// program that serves has the client for that.
func (h *Orchestrator) UsesPods() bool { return h.usesPods() }

func errNoPods() error {
	return &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "connect to cluster", Field: "kubernetes", Message: "no cluster is named",
		Hint: "set kubernetes.guestImage in the settings, and kubernetes.kubeconfig where that of the user does not lead to it; see docs/kubernetes.md",
	}
}
