//go:build !linux

package provider

import (
	"runtime"

	"github.com/bulkhead-dev/sandbox"
)

// A Host stands for commands without a sandbox on systems without a guest that
// could supervise them: every call fails with [sandbox.CodeUnsupported].
type Host struct{ sandbox.Provider }

// New returns a Provider.
func NewHost([]string) *Host {
	return &Host{Unusable(Name, &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "start", Message: "commands without a sandbox cannot be run on " + runtime.GOOS, Hint: `use "provider": "docker", or on macOS "local"`,
	})}
}
