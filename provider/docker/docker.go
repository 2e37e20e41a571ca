// Package docker builds sandboxes out of Docker containers.
//
// A container is created from a pure plan (package container), runs the guest
// as its first process, and is reached through the guest's socket in a mounted
// folder or, where sockets cannot cross the boundary, through a relay over one
// exec stream. Every Create and Open applies the rules of package hardening
// once more, whatever the caller has checked before.
package docker

import (
	"context"
	"io"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
)

// Engine is what the provider needs of a Docker engine; *container.Engine is one.
type Engine interface {
	Ping(ctx context.Context) error
	Known(ctx context.Context) (container.Posture, error)
	Groups() bool
	Create(ctx context.Context, p container.Plan) (id string, warnings []string, err error)
	Start(ctx context.Context, name string) error
	Pause(ctx context.Context, name string) error
	Unpause(ctx context.Context, name string) error
	Kill(ctx context.Context, name string) error
	Remove(ctx context.Context, name string) error
	Inspect(ctx context.Context, name string) (sandbox.Info, error)
	List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error)
	Exec(ctx context.Context, name string, argv []string) (*container.Stream, error)
	Run(ctx context.Context, name string, c sandbox.Command) (sandbox.Process, error)
	Usage(ctx context.Context, name string) (sandbox.Usage, error)
	ImageFolders(ctx context.Context, image string, folders []container.Folder, w io.Writer) (any bool, err error)
	Networks
}

// Sockets keeps the host folders in which guests listen; *statedir.Dir does.
type Sockets interface {
	// SocketDir makes the folder of the sandbox name writable for its guest.
	SocketDir(name string, uid, gid int) (string, error)
	// SealSocketDir takes that right away again, so that code inside cannot
	// fill the host's disk through the folder; [sandbox.CodeUnsupported]
	// where only root could.
	SealSocketDir(name string) error
}

// Options of a Provider.
type Options struct {
	// Sockets is needed where Specs have a mount of [sandbox.RoleSocket].
	Sockets Sockets
	// Instance is our own instance id. It is needed where Specs ask for
	// [sandbox.NetworkOwn]: networks of other instances are left alone.
	Instance string
	// Routes tells which IPv4 addresses the host has a way to, so that no
	// network is laid over them; default container.HostRoutes.
	Routes func() ([]netip.Prefix, error)
	// World is asked at each Create for the facts that the hardening rules need.
	World func() hardening.World
	// Protection is a folder of ours for what protects folders of people that
	// containers can write. It is needed where Specs mount such folders.
	Protection string
	// Images is a folder of ours for what images have in folders that are memory
	// in containers. Without it that is read from the engine at each start.
	Images string
	// Home is that of the user on the host, whose configuration of git may name
	// files in such folders; empty where there is none.
	Home string
	// Warn receives the engine's warnings about a new container, such as
	// limits that the kernel does not enforce, and what its guest cannot
	// keep apart there. Nil drops them.
	Warn func(name, warning string)
	// Ready bounds how long a started container may take until its guest
	// answers; default 30 s.
	Ready time.Duration
	// SocketPatience is how long a guest may take to listen on its socket
	// before the relay is taken, which is slower; default 2 s. It ends with
	// Ready at the latest.
	SocketPatience time.Duration
	// Now is the clock; default time.Now.
	Now func() time.Time
}

// A Provider is the provider named "docker". It is safe for concurrent use.
type Provider struct {
	engine Engine
	opts   Options

	turns keylock.Turns // by sandbox name: one Create or Open brings up at a time

	placeholders func() (*hostscan.Placeholders, error)
	protected    sync.Mutex
	scanners     map[string]*hostscan.Scanner // by sandbox name
}

// New returns a Provider on the engine.
func New(e Engine, o Options) *Provider {
	if o.Ready == 0 {
		o.Ready = 30 * time.Second
	}
	if o.SocketPatience == 0 {
		o.SocketPatience = 2 * time.Second
	}
	if o.Routes == nil {
		o.Routes = container.HostRoutes
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string, string) {}
	}
	p := &Provider{engine: e, opts: o}
	p.placeholders = sync.OnceValues(p.openPlaceholders)
	return p
}

// Name is "docker".
func (p *Provider) Name() string { return "docker" }

// Features says what containers can do.
func (p *Provider) Features() sandbox.Features {
	groups := p.engine.Groups()
	return sandbox.Features{
		Persistent: true, Images: true, Pause: groups, TTY: true, Usage: groups,
		Shells: true, Files: true, Dial: true, Listen: true,
	}
}

// Probe reports whether the engine answers.
func (p *Provider) Probe(ctx context.Context) error { return p.engine.Ping(ctx) }

// Inspect implements [sandbox.Provider].
func (p *Provider) Inspect(ctx context.Context, name string) (sandbox.Info, error) {
	return p.engine.Inspect(ctx, name)
}

// List implements [sandbox.Provider]. A network of ours whose container was
// removed stands for its sandbox, as [sandbox.StatusMissing], so that a
// sweeper finds it.
func (p *Provider) List(ctx context.Context, f sandbox.Filter) ([]sandbox.Info, error) {
	// A container that is made after the networks were listed is seen; one
	// that is gone by then has taken its network along.
	networks, err := p.engine.Networks(ctx)
	if err != nil {
		return nil, err
	}
	infos, err := p.engine.List(ctx, f)
	if err != nil {
		return nil, err
	}
	p.sweepProtection(ctx, infos)
	return append(infos, remnants(networks, infos, f)...), nil
}

// Pause implements [sandbox.Pauser]. A paused sandbox is left alone.
func (p *Provider) Pause(ctx context.Context, name string) error {
	if !p.engine.Groups() {
		return p.engine.Pause(ctx, name) // which says why it cannot
	}
	info, err := p.engine.Inspect(ctx, name)
	if err != nil || info.Status == sandbox.StatusPaused {
		return err
	}
	return p.engine.Pause(ctx, name)
}

// Unpause implements [sandbox.Pauser]. It leaves a running sandbox alone. It
// asks the engine to unpause first, and asks for the state of the sandbox only
// when the engine refuses, because the caller is waiting.
func (p *Provider) Unpause(ctx context.Context, name string) error {
	err := p.engine.Unpause(ctx, name)
	if err == nil || sandbox.IsNotFound(err) || ctx.Err() != nil {
		return err
	}
	if info, lookErr := p.engine.Inspect(ctx, name); lookErr == nil && info.Status == sandbox.StatusRunning {
		return nil
	}
	return err
}

// Remove implements [sandbox.Provider]. It removes containers with our
// labels only: a foreign container that happens to bear the name is
// [sandbox.CodePermissionDeny]. The sandbox's own network goes too, also
// when it is all that is left; one that is not ours stays.
func (p *Provider) Remove(ctx context.Context, name string) error {
	info, err := p.engine.Inspect(ctx, name)
	if sandbox.IsNotFound(err) {
		if err := p.letGoRemoved(ctx, name); err != nil {
			return err
		}
		return p.sweepNetworks(ctx, name, func(o sandbox.Owner) bool { return p.opts.Instance != "" && o.Instance == p.opts.Instance })
	}
	if err != nil {
		return err
	}
	if info.Format == "" {
		return notOurs("remove", name)
	}
	if err := p.engine.Remove(ctx, info.ID); err != nil {
		return err
	}
	if err := p.letGoRemoved(ctx, name); err != nil {
		return err
	}
	return p.sweepNetworks(ctx, name, info.Owner.Same)
}

// Create implements [sandbox.Provider].
func (p *Provider) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	release, err := p.turns.Enter(ctx, s.Name)
	if err != nil {
		return sandbox.Info{}, err
	}
	defer release()
	if err := p.check(s); err != nil {
		return sandbox.Info{}, err
	}
	hash, err := confighash.Sum(s)
	if err != nil {
		return sandbox.Info{}, err
	}
	plan, err := container.NewPlan(s, hash, p.opts.Now())
	if err != nil {
		return sandbox.Info{}, err
	}
	plan.Unlimited = slices.Contains(s.Security.Dangerous, hardening.SwitchMissingLimits)
	if err := p.openSockets(s); err != nil {
		return sandbox.Info{}, err
	}
	rules, err := p.protection(ctx, s, nil)
	if err != nil {
		return sandbox.Info{}, err
	}
	settle, err := p.prepare(ctx, s.Name, rules)
	if err != nil {
		return sandbox.Info{}, err
	}
	made := false
	defer func() { settle(made) }()
	if rules != nil {
		if plan, err = p.closed(s, plan, rules); err != nil {
			return sandbox.Info{}, err
		}
	}
	for try := 1; ; try++ {
		on, err := p.giveNetwork(ctx, s, hash, plan)
		if err != nil {
			return sandbox.Info{}, err
		}
		info, err := p.build(ctx, s, hash, on)
		if container.LacksIPv6(err) && plan.Host.Sysctls != nil {
			p.opts.Warn(s.Name, "weaker here: the kernel has no IPv6, so there is no ::1 inside")
			plan = plan.WithoutIPv6()
			continue
		}
		if try >= networkTries || !lostNetwork(s, err) {
			made = err == nil
			return info, err
		}
	}
}

// closed returns plan, which is that of s, with what rules closes.
func (p *Provider) closed(s sandbox.Spec, plan container.Plan, rules *protection) (container.Plan, error) {
	mounts := slices.Clone(rules.mounts)
	for _, m := range rules.masks {
		source, err := p.maskFile()
		if m.Dir {
			source, err = p.maskDir(rules.within(m))
		}
		if err != nil {
			return plan, err
		}
		mounts = append(mounts, sandbox.Mount{Source: source, Target: m.Target, ReadOnly: true, Role: sandbox.RoleBind})
	}
	return plan.Protected(s, mounts), nil
}

// build makes the container of plan and starts it. What it made, and the
// network, are gone when it fails.
func (p *Provider) build(ctx context.Context, s sandbox.Spec, hash string, plan container.Plan) (sandbox.Info, error) {
	made := p.make(ctx, s, plan)
	switch sandbox.CodeOf(made.err) {
	case "":
	case sandbox.CodeBusy:
		p.leaveNetwork(ctx, s)
		return sandbox.Info{}, made.err
	case sandbox.CodeTimeout, sandbox.CodeUnavailable: // the answer may have been lost
		p.discardOurs(ctx, s, hash)
		fallthrough
	default:
		p.dropNetwork(ctx, s)
		return sandbox.Info{}, made.err
	}
	info, err := p.ensureRunning(ctx, made.id, s)
	if err != nil {
		p.discard(ctx, made.id)
		p.dropNetwork(ctx, s)
		return sandbox.Info{}, err
	}
	for _, w := range made.warnings {
		p.opts.Warn(s.Name, w)
	}
	return info, nil
}

// check applies the hardening rules with fresh facts about the host.
func (p *Provider) check(s sandbox.Spec) error {
	if err := provider.NoOptions(p.Name(), s.Options); err != nil {
		return err
	}
	if p.opts.World == nil {
		return nil
	}
	return hardening.Check(s, p.opts.World())
}

// made is the engine's answer to a create.
type made struct {
	id       string
	warnings []string
	err      error
}

// afterCancel is how long a cancelled create waits for the engine's answer
// before it leaves that to the background.
const afterCancel = 10 * time.Second

// make lets the engine create the container.
func (p *Provider) make(ctx context.Context, s sandbox.Spec, plan container.Plan) made {
	return seeThrough(ctx, func(ctx context.Context) (m made) {
		m.id, m.warnings, m.err = p.engine.Create(ctx, plan)
		// Podman looks for the network now, and Docker when the container starts. Other
		// errors of a create name the image, whose name can be anything.
		if m.err != nil && strings.Contains(m.err.Error(), "unable to find network") {
			m.err = networkGone(s)
		}
		return m
	}, func(m made) {
		if m.err == nil {
			p.discard(ctx, m.id)
			p.dropNetwork(ctx, s)
		}
	})
}

// seeThrough lets the engine make something. An engine goes on with a call
// whose caller has hung up, and the thing would appear later; so the call is
// seen to its end, and when ctx has ended meanwhile, it is undone.
func seeThrough(ctx context.Context, call func(context.Context) made, undo func(made)) made {
	answer := make(chan made, 1)
	go func() { answer <- call(context.WithoutCancel(ctx)) }()
	select {
	case m := <-answer:
		return m
	case <-ctx.Done():
	}
	select {
	case m := <-answer:
		undo(m)
	case <-time.After(afterCancel):
		go func() { undo(<-answer) }()
	}
	return made{err: sandbox.Errorf(sandbox.CodeTimeout, "create", "given up: %w", ctx.Err())}
}

// ensureRunning starts the new container id and waits until its guest is ready.
func (p *Provider) ensureRunning(ctx context.Context, id string, s sandbox.Spec) (sandbox.Info, error) {
	err := p.start(ctx, id, s)
	for try := 1; try < networkTries && twoNetworks(s, err); try++ {
		await(ctx, func() bool {
			all, err := p.engine.Networks(ctx)
			return err != nil || len(named(all, s.Name)) < 2
		})
		err = p.start(ctx, id, s)
	}
	if err != nil {
		return sandbox.Info{}, unlessRemoved(err, s)
	}
	info, err := p.engine.Inspect(ctx, id)
	if err != nil {
		return sandbox.Info{}, err
	}
	c, err := p.connect(ctx, info, s)
	if err != nil {
		return sandbox.Info{}, err
	}
	defer c.Close()
	for _, what := range c.Hello().Degraded {
		p.opts.Warn(s.Name, "weaker here: "+termsafe.Line(what))
	}
	return info, provider.MakeReady(ctx, c, s)
}

// discard removes what a failed Create made, also when ctx has ended.
func (p *Provider) discard(ctx context.Context, id string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer done()
	if err := p.engine.Remove(ctx, id); err != nil {
		p.opts.Warn(id, "could not remove a half-made container: "+err.Error())
	}
}

// discardOurs removes the container named as s if it is the one that a
// lost Create has made: same owner and hash, never started.
func (p *Provider) discardOurs(ctx context.Context, s sandbox.Spec, hash string) {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), cleanup)
	defer done()
	info, err := p.engine.Inspect(ctx, s.Name)
	if err == nil && info.Owner.Same(s.Owner) && info.ConfigHash == hash && info.StartedAt.IsZero() {
		p.discard(ctx, info.ID)
	}
}

var (
	_ sandbox.Provider = (*Provider)(nil)
	_ sandbox.Pauser   = (*Provider)(nil)
)
