package kubernetes

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
)

var (
	_ provider.ImageSource = (*Provider)(nil)
	_ provider.Detached    = (*Provider)(nil)
)

// Detached implements [provider.Detached].
func (p *Provider) Detached() bool { return true }

// Current implements [provider.ImageSource]: the reference is the identity. Nodes pull
// images, so what a name without a digest leads to is known to none but them.
func (p *Provider) Current(_ context.Context, ref string, setup []string) (string, error) {
	if len(setup) > 0 {
		return "", refused(sandbox.CodeUnsupported, "docker.setup", ref, "images are not built in a cluster", "build an image with these commands, push it, and name it as docker.image")
	}
	return ref, nil
}

// Ensure implements [provider.ImageSource]. There is nothing to make.
func (p *Provider) Ensure(ctx context.Context, ref string, setup []string) (string, error) {
	return p.Current(ctx, ref, setup)
}

// Volumes implements [provider.ImageSource]. What an image declares is not known here.
func (p *Provider) Volumes(context.Context, string) ([]string, error) { return nil, nil }
