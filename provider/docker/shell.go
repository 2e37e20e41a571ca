package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

// OpenShell implements [sandbox.Sandbox]. A shell starts from what the Spec
// says for every command.
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	rules, _, err := h.ready(ctx)
	if err != nil {
		return nil, err
	}
	o, limits := provider.Shell(o, h.spec)
	s, err := h.guest.OpenShell(ctx, o, limits)
	if err != nil || rules == nil {
		return s, err
	}
	return &shell{Shell: s, h: h}, nil
}

// Snapshot implements [sandbox.Snapshotter].
func (h *handle) Snapshot(ctx context.Context) (sandbox.Snapshot, error) {
	return h.guest.Snapshot(ctx)
}

var _ sandbox.Snapshotter = (*handle)(nil)
