//go:build linux && race

package stage

import (
	"os"
	"os/exec"
	"testing"
)

// TestWithoutRaceDetector runs the tests of this package as the guest is
// built. A stage is a fork that has unmapped everything but the program's
// code, which a program with a C library in it does not survive, and the
// race detector brings one along.
func TestWithoutRaceDetector(t *testing.T) {
	cmd := exec.Command("go", "test", "-count=1", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
