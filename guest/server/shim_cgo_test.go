//go:build linux && cgo

package server

import (
	"os"
	"os/exec"
	"testing"
)

// TestStagesWithoutCgo runs the tests of shims as the guest is built. A shim
// is a fork that has unmapped everything but the program's code, which a program
// with a C library in it does not survive.
func TestStagesWithoutCgo(t *testing.T) {
	cmd := exec.Command("go", "test", "-count=1", "-run", "^TestStage", ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
