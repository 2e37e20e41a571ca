//go:build !linux

package provider

import (
	"runtime"

	"github.com/bulkhead-dev/sandbox"
)

// A Provider stands for commands without a wall where there is no guest that
// could look after them: every call fails with [sandbox.CodeUnsupported].
type Host struct{ sandbox.Provider }

// New returns a Provider.
func NewHost([]string) *Host {
	return &Host{Unusable(Name, &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "start", Message: "commands without a wall cannot be run on " + runtime.GOOS, Hint: `use "provider": "docker", or on macOS "local"`,
	})}
}
