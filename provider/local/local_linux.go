package local

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A Provider is the one named "local", or "landlock". It is safe for concurrent use. Its
// instances belong to it: Close ends them.
type Provider struct {
	o Options
	// landlock says that instances have the namespaces of this process, see
	// [NewLandlock].
	landlock bool

	turns keylock.Turns // by sandbox name: one call brings up or takes away at a time
	swept sync.Once

	filters *filters

	release func() string // of the kernel

	bwrap    string // in PATH when the Provider was made
	bwrapErr error

	// defs opens the folder of definitions when it is first needed, and stubs
	// the records of what was made on the host for instances to be put on.
	defs         func() (*launch.Records, error)
	placeholders func() (*hostscan.Placeholders, error)

	mu     sync.Mutex
	sites  map[string]*site // by the sandbox's name
	closed bool
	up     sync.WaitGroup // of instances
}

// New returns a Provider. Nothing but PATH is looked at before the first call.
func New(o Options) *Provider {
	if o.Ready == 0 {
		o.Ready = 30 * time.Second
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Warn == nil {
		o.Warn = func(string, string) {}
	}
	if o.World == nil {
		o.World = func() hardening.World { return hardening.World{} }
	}
	p := &Provider{o: o, sites: map[string]*site{}}
	p.filters = newFilters()
	p.defs = sync.OnceValues(func() (*launch.Records, error) {
		return launch.OpenRecords(filepath.Join(o.State, p.kind(), "sandboxes"))
	})
	p.placeholders = sync.OnceValues(func() (*hostscan.Placeholders, error) {
		return hostscan.OpenPlaceholders(filepath.Join(o.State, p.kind(), "stubs"))
	})
	p.release = sync.OnceValue(launch.Release)
	p.bwrap, p.bwrapErr = exec.LookPath("bwrap")
	return p
}

// Name is "local" or "landlock".
func (p *Provider) Name() string { return p.kind() }

// Features says what local instances can do. They end with the process that put
// them up.
func (p *Provider) Features() sandbox.Features {
	return sandbox.Features{Pause: true, TTY: true, Usage: true, Shells: true, Files: true, Dial: true, Listen: true}
}

// Remove implements [sandbox.Provider]. It ends the instances of every process.
func (p *Provider) Remove(ctx context.Context, name string) error {
	release, err := p.turns.Enter(ctx, name)
	if err != nil {
		return err
	}
	defer release()
	if err := ended(ctx, "remove"); err != nil {
		return err
	}
	defs, err := p.defs()
	if err != nil {
		return err
	}
	if err := defs.Remove(ctx, name); err != nil {
		return err
	}
	if s := p.forget(name); s != nil {
		s.end(false)
	}
	if p.landlock {
		return p.removeScratch(name)
	}
	return nil
}

// Create implements [sandbox.Provider].
func (p *Provider) Create(ctx context.Context, s sandbox.Spec) (sandbox.Info, error) {
	release, err := p.turns.Enter(ctx, s.Name)
	if err != nil {
		return sandbox.Info{}, err
	}
	defer release()
	if err := p.check(ctx, s); err != nil {
		return sandbox.Info{}, err
	}
	hash, err := confighash.Sum(s)
	if err != nil {
		return sandbox.Info{}, err
	}
	if s, _, err = p.placed(s, true); err != nil {
		return sandbox.Info{}, err
	}
	e := p.early(s)
	defer e.end()
	defs, err := p.defs()
	if err != nil {
		return sandbox.Info{}, err
	}
	if err := p.sweep(ctx, defs); err != nil {
		return sandbox.Info{}, err
	}
	def := launch.Definition{
		Format: sandbox.InfoFormat, ID: launch.NewID(), Name: s.Name, Kind: s.Kind, Owner: s.Owner, ConfigHash: hash,
		CreatedAt: p.o.Now().UTC().Round(0),
	}
	slot, err := defs.Claim(ctx, s.Name)
	if err != nil {
		return sandbox.Info{}, err
	}
	st := newSite(p, def)
	w, err := st.raise(ctx, s, slot, e)
	if err == nil {
		if err = defs.Commit(ctx, slot, def); err != nil {
			w.discard()
		}
	}
	if err != nil {
		if undo := defs.Abandon(s.Name, slot); undo != nil {
			p.o.Warn(s.Name, "could not take back a half-made sandbox: "+undo.Error())
		}
		return sandbox.Info{}, err
	}
	if err := p.adopt(st, w); err != nil {
		return sandbox.Info{}, err
	}
	return p.infoOf(def, []launch.Record{w.noted}), nil
}

// check refuses what no instance may have, and what a local one cannot do.
func (p *Provider) check(ctx context.Context, s sandbox.Spec) error {
	if err := ended(ctx, "create"); err != nil {
		return err
	}
	if err := p.usable(s.Options); err != nil {
		return err
	}
	if err := p.refuse(s); err != nil {
		return err
	}
	return hardening.Check(s, p.o.World())
}

// Open implements [sandbox.Provider].
func (p *Provider) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	release, err := p.turns.Enter(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	defer release()
	if err := ended(ctx, "open"); err != nil {
		return nil, err
	}
	if !p.landlock {
		go p.filters.prepare(s)
	}
	e := p.early(s)
	defer e.end()
	defs, err := p.defs()
	if err != nil {
		return nil, err
	}
	if err := p.sweep(ctx, defs); err != nil {
		return nil, err
	}
	def, instances, err := defs.Get(s.Name)
	if err != nil {
		return nil, err
	}
	if _, err := p.infoOf(def, instances).CheckFormat("open"); err != nil {
		return nil, err
	}
	if !def.Owner.Same(s.Owner) {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "open", Resource: s.Name, Message: "the sandbox of that name belongs to another tenant or scope"}
	}
	if err := p.check(ctx, s); err != nil {
		return nil, err
	}
	if err := p.thaw(s.Name); err != nil {
		return nil, err
	}
	s, at, err := p.placed(s, true)
	if err != nil {
		return nil, err
	}
	return p.site(def).open(ctx, s, at, e)
}

// sweep is Sweep, once. A stub that cannot be removed keeps no caller from
// building instances.
func (p *Provider) sweep(ctx context.Context, defs *launch.Records) (err error) {
	p.swept.Do(func() {
		var undone error
		if err, undone = p.clear(ctx, defs); undone != nil {
			p.o.Warn("", undone.Error())
		}
	})
	return err
}

// Sweep removes what programs that were killed have left in the state folder,
// and on the host in the places of closed paths. The first use of a Provider
// does the same.
func (p *Provider) Sweep(ctx context.Context) error {
	defs, err := p.defs()
	if err != nil {
		return err
	}
	err, undone := p.clear(ctx, defs)
	return errors.Join(err, undone)
}

// clear does a sweep; undone says which stubs are still there.
func (p *Provider) clear(ctx context.Context, defs *launch.Records) (err, undone error) {
	if err := defs.Sweep(ctx); err != nil {
		return err, nil
	}
	placeholders, err := p.placeholders()
	if err != nil {
		return err, nil
	}
	if _, err := placeholders.Sweep(ctx); err != nil {
		undone = fmt.Errorf("could not remove what held the place of a closed path: %w", err)
	}
	return nil, undone
}

// hold has the stubs made that a plan needs.
func (p *Provider) hold(ctx context.Context, needed []plan.Placeholder) (*hostscan.Held, error) {
	placeholders, err := p.placeholders()
	if err != nil {
		return nil, err
	}
	return placeholders.Make(ctx, needed)
}

// site returns what this process has of the sandbox def.
func (p *Provider) site(def launch.Definition) *site {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sites[def.Name]
	if s == nil || s.def.ID != def.ID {
		s = newSite(p, def) // the instances of another ID have ended with it
		p.sites[def.Name] = s
	}
	return s
}

// forget drops the sandbox name and returns what this process had of it.
func (p *Provider) forget(name string) *site {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sites[name]
	delete(p.sites, name)
	return s
}

// adopt takes a new site with its first instance.
func (p *Provider) adopt(s *site, w *instance) error {
	p.mu.Lock()
	p.sites[s.def.Name] = s
	p.mu.Unlock()
	return s.admit(w)
}

// Close ends every instance of this Provider and returns when they are gone.
// Definitions stay. Calls that come later fail.
func (p *Provider) Close() error {
	p.mu.Lock()
	p.closed = true
	var all []*site
	for _, s := range p.sites {
		all = append(all, s)
	}
	p.mu.Unlock()
	var wg sync.WaitGroup
	for _, s := range all {
		wg.Go(func() { s.end(true) })
	}
	wg.Wait()
	p.up.Wait()
	return nil
}

// ended says that ctx is over.
func ended(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return sandbox.Errorf(sandbox.CodeTimeout, op, "given up: %w", err)
	}
	return nil
}

var _ sandbox.Provider = (*Provider)(nil)
