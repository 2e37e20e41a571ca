package local

import (
	"time"

	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local/sandboxexec"
)

// A Provider runs commands under profiles of sandbox-exec. It can less than that
// of Linux, and says so in its Features. It is safe for concurrent use.
type Provider struct{ *sandboxexec.Provider }

func (p *Provider) checkOptions(options map[string]any) error {
	_, err := parseSettings(options)
	return err
}

// New returns a Provider. Nothing is looked at before the first call.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string, string) {}
	}
	if o.World == nil {
		o.World = func() hardening.World { return hardening.World{} }
	}
	return &Provider{sandboxexec.New(sandboxexec.Options{State: o.State, World: o.World, Outside: outside, Refuse: refuse, Warn: o.Warn, Now: o.Now})}
}
