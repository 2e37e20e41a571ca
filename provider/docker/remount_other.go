//go:build !linux

package docker

import (
	"context"
	"os"

	"github.com/bulkhead-dev/sandbox"
)

// Remount implements [sandbox.Remounter]: containers are in a virtual machine here.
func (h *handle) Remount(_ context.Context, target string, _ *os.File) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "remount", Resource: target, Message: "the containers are not on this system", Hint: "recreate the sandbox instead: sandbox recreate"}
}

var _ sandbox.Remounter = (*handle)(nil)
