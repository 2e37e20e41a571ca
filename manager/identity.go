package manager

import (
	"context"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A hostIdentity is by whose name container, workspace, socket folder and user of a
// sandbox are known on this host: its own, or that of the slot of the pool
// which it has claimed.
type hostIdentity struct {
	name  string
	owner sandbox.Owner // of the user id
}

// slotIdentity is that of a slot that was made for the tenant, also when it is
// claimed.
func slotIdentity(slot, instance, tenant string) hostIdentity {
	return hostIdentity{slot, sandbox.Owner{Instance: instance, Tenant: tenant, ScopeKey: slot}}
}

// identityOf returns that of the sandbox name of o, which is the provider's.
func (d *describer) identityOf(provider, name string, o sandbox.Owner) (hostIdentity, error) {
	c, ok, err := d.m.records.Of(provider).ClaimOf(name)
	switch {
	case err != nil:
		return hostIdentity{}, err
	case !ok:
		return hostIdentity{name, o}, nil
	case !c.Owner.Same(o):
		return hostIdentity{}, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "resolve", Resource: name, Message: "the slot of the sandbox was claimed by another tenant or scope"}
	}
	return slotIdentity(c.Slot, o.Instance, c.SlotTenant()), nil
}

// home returns the name by which the sandbox is known on this host, see [hostIdentity].
func home(records *registry.Store, name string) (string, error) {
	c, ok, err := records.ClaimOf(name)
	if err != nil || !ok {
		return name, err
	}
	return c.Slot, nil
}

// A bindable provider has open sandboxes that can become others: what its Bind
// returns takes the place of sb, at once and without asking anybody.
type bindable interface {
	sandbox.Provider
	provider.Prober
	Bind(sb sandbox.Sandbox, s sandbox.Spec, as sandbox.Info) (sandbox.Sandbox, error)
}

// An identified provider knows sandboxes that have claimed a slot by their own
// names and lists them under those. It lists slots without a claim as slots.
type identified struct {
	bindable
	records *registry.Store
}

// An identifiedContainers is an identified provider whose sandboxes are frozen and
// measured.
type identifiedContainers struct {
	identified
	pauser sandbox.Pauser
	usage  usageTeller
}

// An identifiedPods is an identified provider of sandboxes on other machines.
type identifiedPods struct {
	identified
	apart
}

// apart is what such a provider says beside what all do.
type apart interface {
	provider.Holder
	provider.OptionChecker
	provider.Planner
	provider.ImageSource
	provider.Detached
	provider.TenantSeparator
	provider.TenantSweeper
}

// identify returns p knowing claims, where it can bind late. What p can do beside is
// found in the result by the same assertions as in p.
func identify(p sandbox.Provider, records *registry.Store) sandbox.Provider {
	b, ok := p.(bindable)
	if !ok {
		return p
	}
	is := identified{b, records}
	if pods, ok := p.(apart); ok {
		return identifiedPods{is, pods}
	}
	pauser, pauses := p.(sandbox.Pauser)
	usage, tells := p.(usageTeller)
	if pauses && tells {
		return identifiedContainers{is, pauser, usage}
	}
	return p
}

// asIdentified returns the identified provider that p is.
func asIdentified(p sandbox.Provider) (identified, bool) {
	switch p := p.(type) {
	case identifiedContainers:
		return p.identified, true
	case identifiedPods:
		return p.identified, true
	}
	return identified{}, false
}

// identifyAll returns set with [identify] applied to each provider.
func identifyAll(set *provider.Set, records *registry.Store) (*provider.Set, error) {
	var all []sandbox.Provider
	for _, name := range set.Names() {
		p, err := set.Get(name)
		if err != nil {
			return nil, err
		}
		all = append(all, identify(p, records.Of(name)))
	}
	return provider.New(all...)
}

// become is what info says of the container of a claim.
func become(info sandbox.Info, c registry.Claim) sandbox.Info {
	info.Name = c.Name
	if info.Kind != sandbox.KindPool {
		return info // made anew with the slot's identity
	}
	info.Kind, info.Owner, info.CreatedAt = sandbox.KindSandbox, c.Owner, c.ClaimedAt
	if info.ConfigHash == c.SlotHash {
		info.ConfigHash = c.Hash
	}
	return info
}

// Inspect implements [sandbox.Provider].
func (s identified) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	c, ok, err := s.records.ClaimOf(name)
	if err != nil {
		return sandbox.Info{}, err
	}
	if !ok {
		return s.bindable.Inspect(ctx, name)
	}
	info, err := s.bindable.Inspect(ctx, c.Slot)
	if err != nil {
		return sandbox.Info{}, err
	}
	return become(info, c), nil
}

// Create implements [sandbox.Provider].
func (s identified) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Info, error) {
	name := spec.Name
	var err error
	if spec.Name, err = home(s.records, name); err != nil {
		return sandbox.Info{}, err
	}
	info, err := s.bindable.Create(ctx, spec)
	if err == nil {
		info.Name = name
	}
	return info, err
}

// Open implements [sandbox.Provider].
func (s identified) Open(ctx context.Context, spec sandbox.Spec) (sandbox.Sandbox, error) {
	c, ok, err := s.records.ClaimOf(spec.Name)
	if err != nil {
		return nil, err
	}
	if !ok {
		return s.bindable.Open(ctx, spec)
	}
	if !c.Owner.Same(spec.Owner) {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "open", Resource: spec.Name, Message: "the sandbox of that name belongs to another tenant or scope"}
	}
	now, err := s.bindable.Inspect(ctx, c.Slot)
	if err != nil {
		return nil, err
	}
	slot := spec
	slot.Name = c.Slot
	if now.Kind == sandbox.KindPool {
		slot.Owner = sandbox.Owner{Instance: c.Owner.Instance, Tenant: c.SlotTenant()}
	}
	sb, err := s.bindable.Open(ctx, slot)
	if err != nil {
		return nil, err
	}
	bound, err := s.Bind(sb, spec, become(sb.Info(), c))
	if err != nil {
		sb.Close()
	}
	return bound, err
}

// List implements [sandbox.Provider].
func (s identified) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	all := f
	all.Tenant = ""                 // labels of a slot name no tenant, also when one has claimed it
	if f.Kind != sandbox.KindPool { // which is what the labels of claimed ones say too
		all.Kind = ""
	}
	if f.Name != "" {
		var err error
		if all.Name, err = home(s.records, f.Name); err != nil {
			return nil, err
		}
	}
	infos, err := s.bindable.List(ctx, all)
	if err != nil {
		return nil, err
	}
	claims, err := s.records.Claims()
	if err != nil {
		return nil, err
	}
	for i := range infos {
		if c := claims[infos[i].Name]; c.Whole { // a claim that its sandbox does not know of counts as none
			infos[i] = become(infos[i], c.Claim)
		}
	}
	return slices.DeleteFunc(infos, func(i sandbox.Info) bool {
		return f.Kind != "" && i.Kind != f.Kind || f.Tenant != "" && i.Owner.Tenant != f.Tenant
	}), nil
}

// Remove implements [sandbox.Provider].
func (s identified) Remove(ctx context.Context, name string) error {
	return s.at(name, func(hostIdentity string) error { return s.bindable.Remove(ctx, hostIdentity) })
}

// Pause implements [sandbox.Pauser].
func (s identifiedContainers) Pause(ctx context.Context, name string) error {
	return s.at(name, func(hostIdentity string) error { return s.pauser.Pause(ctx, hostIdentity) })
}

// Unpause implements [sandbox.Pauser].
func (s identifiedContainers) Unpause(ctx context.Context, name string) error {
	return s.at(name, func(hostIdentity string) error { return s.pauser.Unpause(ctx, hostIdentity) })
}

// CommandOf returns the command that runs in the sandbox name, and nothing where
// the provider does not say.
func (s identifiedContainers) CommandOf(ctx context.Context, name string) (line string, err error) {
	p, ok := s.usage.(commander)
	if !ok {
		return "", nil
	}
	err = s.at(name, func(hostIdentity string) error { line, err = p.CommandOf(ctx, hostIdentity); return err })
	return line, err
}

// UsageOf tells what the sandbox name costs now.
func (s identifiedContainers) UsageOf(ctx context.Context, name string) (u sandbox.Usage, err error) {
	err = s.at(name, func(hostIdentity string) error { u, err = s.usage.UsageOf(ctx, hostIdentity); return err })
	return u, err
}

func (s identified) at(name string, do func(hostIdentity string) error) error {
	hostIdentity, err := home(s.records, name)
	if err != nil {
		return err
	}
	return do(hostIdentity)
}
