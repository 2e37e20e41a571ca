package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
)

// OpenShell implements [sandbox.Sandbox]. A shell starts from what the Spec
// says for every command.
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	c := withDefaults(sandbox.Command{Env: o.Env, Dir: o.Dir}, h.spec)
	return h.guest.OpenShell(ctx, sandbox.ShellOptions{ID: o.ID, Env: c.Env, Dir: c.Dir}, c.Limits)
}
