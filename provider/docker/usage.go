package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/provider"
)

// UsageOf tells what the sandbox name costs now, without starting or
// thawing it.
func (p *Provider) UsageOf(ctx context.Context, name string) (sandbox.Usage, error) {
	return p.engine.Usage(ctx, name)
}

// CommandOf returns the command line of the command that runs in the sandbox
// name, of several the newest, and nothing where none runs. It neither starts nor
// thaws anything. The engine lists the processes of the container for it, which
// takes longer than [Provider.UsageOf].
func (p *Provider) CommandOf(ctx context.Context, name string) (string, error) {
	lister, ok := p.engine.(interface {
		Processes(ctx context.Context, name string) ([]container.Process, error)
	})
	if !ok {
		return "", nil
	}
	all, err := lister.Processes(ctx, name)
	if err != nil {
		return "", err
	}
	out := make([]provider.RunningProcess, len(all))
	for i, one := range all {
		out[i] = provider.RunningProcess{PID: one.PID, Parent: one.Parent, Args: one.Args}
	}
	return provider.CurrentCommand(out), nil
}
