package fake

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A Provider is one connection to an engine.
type Provider struct{ e *Engine }

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Pauser   = (*Provider)(nil)

	_ provider.OptionChecker = (*Provider)(nil)
)

// Provider returns a new connection to e.
func (e *Engine) Provider() *Provider { return &Provider{e} }

// Engine returns the engine behind p.
func (p *Provider) Engine() *Engine { return p.e }

// Name returns the name given in [Options].
func (p *Provider) Name() string { return p.e.name }

// CheckOptions implements [provider.OptionChecker].
func (p *Provider) CheckOptions(options map[string]any) error {
	if p.e.options == nil {
		return provider.NoOptions(p.e.name, options)
	}
	return p.e.options(options)
}

// Features returns everything but images and the network.
func (p *Provider) Features() sandbox.Features {
	return sandbox.Features{Persistent: true, Pause: true, TTY: true, Shells: true, Files: true, Usage: true}
}

// Probe fails when the engine is down.
func (p *Provider) Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, p.e.deadline)
	defer cancel()
	return p.e.step(ctx, StepProbe, "")
}

// Inspect implements [sandbox.Provider].
func (p *Provider) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, p.e.deadline)
	defer cancel()
	if err := p.e.step(ctx, StepInspect, name); err != nil {
		return sandbox.Info{}, err
	}
	_, info, err := p.e.find("inspect", name)
	return info, err
}

// Create implements [sandbox.Provider].
func (p *Provider) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	if err := validate(s); err != nil {
		return sandbox.Info{}, err
	}
	if err := p.CheckOptions(s.Options); err != nil {
		return sandbox.Info{}, err
	}
	hash, err := confighash.Sum(s)
	if err != nil {
		return sandbox.Info{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, p.e.deadline)
	defer cancel()
	if err := p.e.step(ctx, StepCreate, s.Name); err != nil {
		return sandbox.Info{}, err
	}
	b, err := p.e.reserve(clone(s), hash)
	if err != nil {
		return sandbox.Info{}, err
	}
	if err := p.ensureRunning(ctx, b); err != nil {
		if !errors.Is(err, ErrCrash) {
			p.e.discard(b)
		}
		return sandbox.Info{}, err
	}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	return p.e.infoLocked(b), nil
}

func (p *Provider) ensureRunning(ctx context.Context, b *box) error {
	if err := p.e.step(ctx, StepStart, b.spec.Name); err != nil {
		return err
	}
	if err := p.e.start(b); err != nil {
		return err
	}
	return p.e.step(ctx, StepReady, b.spec.Name)
}

// Open implements [sandbox.Provider]. The context bounds OnStart lines too.
func (p *Provider) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	ctx, cancel := context.WithTimeout(ctx, p.e.deadline)
	defer cancel()
	if err := p.e.step(ctx, StepOpen, s.Name); err != nil {
		return nil, err
	}
	b, info, err := p.e.find("open", s.Name)
	if err != nil {
		return nil, err
	}
	if !info.Owner.Same(s.Owner) {
		return nil, failure(sandbox.CodePermissionDeny, "open", s.Name, "the sandbox belongs to another owner")
	}
	h, err := p.wake(ctx, b, info.Status, clone(s))
	if err != nil {
		return nil, err
	}
	if err := h.runOnStart(ctx, h.spec.OnStart); err != nil {
		h.Close()
		return nil, err
	}
	return h, nil
}

// wake makes b run and returns a handle to that run.
func (p *Provider) wake(ctx context.Context, b *box, was sandbox.Status, s sandbox.Spec) (*handle, error) {
	switch was {
	case sandbox.StatusStopped:
		if err := p.e.step(ctx, StepStart, s.Name); err != nil {
			return nil, err
		}
	case sandbox.StatusPaused:
		if err := p.e.step(ctx, StepUnpause, s.Name); err != nil {
			return nil, err
		}
	}
	if err := p.e.start(b); err != nil {
		return nil, err
	}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	if b.boot == nil {
		return nil, fell("open", s.Name)
	}
	p.e.thawLocked(b)
	return &handle{
		e: p.e, boot: b.boot, box: b.spec, spec: s,
		info: p.e.infoLocked(b), closed: make(chan struct{}),
	}, nil
}

// List implements [sandbox.Provider]. The result is sorted by name.
func (p *Provider) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	ctx, cancel := context.WithTimeout(ctx, p.e.deadline)
	defer cancel()
	if err := p.e.step(ctx, StepList, ""); err != nil {
		return nil, err
	}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	list := []sandbox.Info{}
	for _, b := range p.e.boxes {
		if matches(f, b.info) {
			list = append(list, p.e.infoLocked(b))
		}
	}
	slices.SortFunc(list, func(a, b sandbox.Info) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Remove implements [sandbox.Provider].
func (p *Provider) Remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(ctx, p.e.deadline)
	defer cancel()
	if err := p.e.step(ctx, StepRemove, name); err != nil {
		return err
	}
	if b, _, err := p.e.find("remove", name); err == nil {
		p.e.discard(b)
	}
	return nil
}

// Pause implements [sandbox.Pauser].
func (p *Provider) Pause(ctx context.Context, name string) error {
	return p.freeze(ctx, StepPause, name, p.e.pauseLocked)
}

// Unpause implements [sandbox.Pauser].
func (p *Provider) Unpause(ctx context.Context, name string) error {
	return p.freeze(ctx, StepUnpause, name, p.e.thawLocked)
}

func (p *Provider) freeze(ctx context.Context, s Step, name string, do func(*box)) error {
	ctx, cancel := context.WithTimeout(ctx, p.e.deadline)
	defer cancel()
	if err := p.e.step(ctx, s, name); err != nil {
		return err
	}
	b, info, err := p.e.find(string(s), name)
	if err != nil {
		return err
	}
	if info.Status == sandbox.StatusStopped {
		return failure(sandbox.CodeUnavailable, string(s), name, "the sandbox does not run")
	}
	p.e.mu.Lock()
	defer p.e.mu.Unlock()
	do(b)
	return nil
}

func matches(f sandbox.Filter, i sandbox.Info) bool {
	return (f.Instance == "" || f.Instance == i.Owner.Instance) &&
		(f.Tenant == "" || f.Tenant == i.Owner.Tenant) &&
		(f.Kind == "" || f.Kind == i.Kind) &&
		(f.Name == "" || f.Name == i.Name)
}

// validate refuses what every provider refuses. Package hardening has the full
// rules.
func validate(s sandbox.Spec) error {
	refuse := func(code sandbox.Code, field, message string) error {
		return &sandbox.Error{Code: code, Op: "create", Resource: s.Name, Field: field, Message: message}
	}
	switch {
	case s.Name == "":
		return refuse(sandbox.CodeValidation, "name", "a sandbox needs a name")
	case s.UID == 0 || s.GID == 0:
		return refuse(sandbox.CodeCapabilityBlocked, "docker.user", "a sandbox never runs as user or group 0")
	case strings.EqualFold(strings.TrimSpace(s.Network), "host"):
		return refuse(sandbox.CodeCapabilityBlocked, "docker.network", "the host's network is never shared")
	case !s.Security.NoNewPrivileges:
		return refuse(sandbox.CodeCapabilityBlocked, "docker", "no-new-privileges cannot be switched off")
	}
	return nil
}

// clone copies what a caller could change afterwards.
func clone(s sandbox.Spec) sandbox.Spec {
	s.Env = maps.Clone(s.Env)
	s.OnStart = slices.Clone(s.OnStart)
	s.Mounts = slices.Clone(s.Mounts)
	s.Tmpfs = slices.Clone(s.Tmpfs)
	return s
}
