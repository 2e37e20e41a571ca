package local

import (
	"context"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// Inspect implements [sandbox.Provider].
func (p *Provider) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	if err := ended(ctx, "inspect"); err != nil {
		return sandbox.Info{}, err
	}
	defs, err := p.defs()
	if err != nil {
		return sandbox.Info{}, err
	}
	def, instances, err := defs.Get(name)
	if err != nil {
		return sandbox.Info{}, err
	}
	return p.infoOf(def, instances), nil
}

// List implements [sandbox.Provider]. A definition that cannot be read fails
// the call: a list with holes would let its sandbox be forgotten.
func (p *Provider) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	defs, err := p.defs()
	if err != nil {
		return nil, err
	}
	names, err := defs.Names()
	if err != nil {
		return nil, err
	}
	var out []sandbox.Info
	for _, name := range names {
		if err := ended(ctx, "list"); err != nil {
			return nil, err
		}
		if f.Name != "" && f.Name != name {
			continue
		}
		def, instances, err := defs.Get(name)
		if sandbox.IsNotFound(err) {
			continue // not made yet, or removed meanwhile
		}
		if err != nil {
			return nil, err
		}
		if info := p.infoOf(def, instances); matches(info, f) {
			out = append(out, info)
		}
	}
	return out, nil
}

func matches(i sandbox.Info, f sandbox.Filter) bool {
	return (f.Instance == "" || f.Instance == i.Owner.Instance) && (f.Tenant == "" || f.Tenant == i.Owner.Tenant) &&
		(f.Kind == "" || f.Kind == i.Kind) && (f.Name == "" || f.Name == i.Name)
}

// infoOf describes a sandbox. Of several instances the newest counts.
func (p *Provider) infoOf(def launch.Definition, instances []launch.Record) sandbox.Info {
	i := sandbox.Info{
		Name: def.Name, ID: def.ID, Kind: def.Kind, Provider: p.kind(), Owner: def.Owner, Status: sandbox.StatusStopped,
		ConfigHash: def.ConfigHash, Format: def.Format, CreatedAt: def.CreatedAt,
		StartedAt: def.CreatedAt, // without a first instance there would be no definition
	}
	for _, w := range instances {
		i.Status = sandbox.StatusRunning
		if i.PID == 0 || !w.StartedAt.Before(i.StartedAt) {
			i.StartedAt, i.PID = w.StartedAt, w.Process.PID
		}
	}
	if stopped, err := frozen(instances); stopped && err == nil {
		i.Status = sandbox.StatusPaused
	}
	return i
}

// UsageOf tells what the sandbox name costs now, without starting it: the sum
// over its instances in every process.
func (p *Provider) UsageOf(ctx context.Context, name string) (sandbox.Usage, error) {
	if err := ended(ctx, "usage"); err != nil {
		return sandbox.Usage{}, err
	}
	defs, err := p.defs()
	if err != nil {
		return sandbox.Usage{}, err
	}
	_, instances, err := defs.Get(name)
	if err != nil {
		return sandbox.Usage{}, err
	}
	instances = slices.DeleteFunc(instances, func(w launch.Record) bool { return w.Process.PID == 0 })
	return usageOf(instances, 0)
}

// CommandOf returns the command line of the command that runs in the sandbox
// name, of several the newest, and nothing where none runs. It neither starts nor
// thaws anything.
func (p *Provider) CommandOf(ctx context.Context, name string) (string, error) {
	if err := ended(ctx, "command"); err != nil {
		return "", err
	}
	defs, err := p.defs()
	if err != nil {
		return "", err
	}
	_, instances, err := defs.Get(name)
	if err != nil {
		return "", err
	}
	var all []provider.RunningProcess
	for _, w := range instances {
		if w.Process.PID == 0 {
			continue
		}
		some, err := launch.ProcessesOf(w.Process.PID)
		if err != nil {
			continue // it has ended
		}
		all = append(all, some...)
	}
	return provider.CurrentCommand(all), nil
}
