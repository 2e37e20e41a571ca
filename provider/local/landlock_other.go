//go:build !linux

package local

import (
	"runtime"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// NewLandlock returns a Provider that stands for what only Linux has: every call fails.
func NewLandlock(Options) sandbox.Provider {
	return provider.Unusable(LandlockName, &sandbox.Error{
		Code: sandbox.CodeUnsupported, Op: "start", Message: "there is no Landlock on " + runtime.GOOS, Hint: `use "provider": "docker"`,
	})
}
