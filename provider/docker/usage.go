package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
)

// UsageOf tells what the sandbox name costs now, without starting or
// thawing it.
func (p *Provider) UsageOf(ctx context.Context, name string) (sandbox.Usage, error) {
	return p.engine.Usage(ctx, name)
}
