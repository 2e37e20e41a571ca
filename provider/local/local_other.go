//go:build !linux && !darwin

package local

import (
	"runtime"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A Provider stands for instances that there are none of on this system: every
// call fails with [sandbox.CodeUnsupported].
type Provider struct{ sandbox.Provider }

// New returns a Provider.
func New(Options) *Provider {
	return &Provider{provider.Unusable("local", &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "start", Message: "there is no local sandbox for " + runtime.GOOS, Hint: `use "provider": "docker"`,
	})}
}

func (p *Provider) checkOptions(options map[string]any) error {
	_, err := parseSettings(options)
	return err
}

// Close has nothing to end.
func (p *Provider) Close() error { return nil }
