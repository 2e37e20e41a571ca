package served

import (
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// OnBoth runs a test on rigs with both providers: the one in memory, whose name
// is empty, and docker where that is there. Each rig is made for its own
// subtest.
func OnBoth[R any](t *testing.T, rig func(t *testing.T, provider string) R, do func(R)) {
	t.Run("memory", func(t *testing.T) { do(rig(t, "")) })
	t.Run("docker", func(t *testing.T) {
		testenv.Require(t, "docker")
		do(rig(t, "docker"))
	})
}

// OnMemory runs a test on a rig with the provider in memory, and, with "make
// test-all", on one with docker as well. It is for what is the same over both.
func OnMemory[R any](t *testing.T, rig func(t *testing.T, provider string) R, do func(R)) {
	t.Run("memory", func(t *testing.T) { do(rig(t, "")) })
	t.Run("docker", func(t *testing.T) {
		testenv.Exhaustive(t, "the same over another provider")
		testenv.Require(t, "docker")
		do(rig(t, "docker"))
	})
}
