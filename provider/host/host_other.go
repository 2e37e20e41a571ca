//go:build !linux

package host

import (
	"runtime"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A Provider stands for commands without a wall where there is no guest that
// could look after them: every call fails with [sandbox.CodeUnsupported].
type Provider struct{ sandbox.Provider }

// New returns a Provider.
func New([]string) *Provider {
	return &Provider{provider.Unusable(Name, &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "start", Message: "commands without a wall cannot be run on " + runtime.GOOS, Hint: `use "provider": "docker", or on macOS "local"`,
	})}
}
