package orchestrator

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/bulkhead-dev/sandbox/config"
)

// A CodingAgent is the program of a coding agent, for one session.
type CodingAgent struct {
	Layer *config.SandboxSettings // see [config.Settings].Coding
	Who   config.Who

	// Files are the settings files of its user, by the path below the home. They
	// are shown to it read-only, at [sandbox.SettingsDir].
	Files map[string][]byte
}

// codingLayer is the layer of the coding agent, nil without one. All settings
// share it.
func (h *Orchestrator) codingLayer() *config.SandboxSettings {
	if h.o.Coding == nil {
		return nil
	}
	return h.o.Coding.Layer
}

// keepAgentSettings puts the settings files of the coding agent into the state
// folder, and names their folder in layer.
func (h *Orchestrator) keepAgentSettings(layer *config.SandboxSettings) error {
	if layer == nil || len(h.o.Coding.Files) == 0 {
		return nil
	}
	who := h.o.Coding.Who
	sum := sha256.Sum256([]byte(strings.Join([]string{who.Tenant, who.Agent, who.Session}, "\x00")))
	dir, err := h.state.AgentSettings(hex.EncodeToString(sum[:16]), h.o.Coding.Files)
	if err != nil {
		return err
	}
	layer.AgentSettings = &dir
	return nil
}
