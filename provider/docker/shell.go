package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/within"
)

// OpenShell implements [sandbox.Sandbox]. A shell starts from what the Spec
// says for every command.
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	o, limits := within.Shell(o, h.spec)
	return h.guest.OpenShell(ctx, o, limits)
}
