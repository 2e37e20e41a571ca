package local

import (
	"context"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local/protect"
	"github.com/bulkhead-dev/sandbox/provider/local/record"
	"github.com/bulkhead-dev/sandbox/provider/local/scan"
	"github.com/bulkhead-dev/sandbox/provider/local/seatbelt"
	"github.com/bulkhead-dev/sandbox/provider/local/world"
	"github.com/bulkhead-dev/sandbox/statedir"
	"github.com/bulkhead-dev/sandbox/turns"
)

const format = "1"

// A Provider runs commands under profiles of sandbox-exec. There is no guest
// and no wall that stands between commands, so it can less than on Linux, and
// says so in its Features. It is safe for concurrent use.
type Provider struct {
	o     Options
	turns turns.Turns
	defs  func() (*record.Dir, error)
}

// New returns a Provider. Nothing is looked at before the first call.
func New(o Options) *Provider {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.World == nil {
		o.World = func() hardening.World { return hardening.World{} }
	}
	return &Provider{o: o, defs: sync.OnceValues(func() (*record.Dir, error) {
		return record.Open(filepath.Join(o.State, "local", "sandboxes"))
	})}
}

// Name is "local".
func (p *Provider) Name() string { return "local" }

// Features says that there are commands and nothing else.
func (p *Provider) Features() sandbox.Features { return sandbox.Features{} }

// Probe reports whether sandbox-exec is there.
func (p *Provider) Probe(ctx context.Context) error {
	if err := ctx.Err(); err != nil {
		return sandbox.Errorf(sandbox.CodeTimeout, "probe", "given up: %w", err)
	}
	if _, err := os.Stat(seatbelt.Exec); err != nil {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "probe", Resource: seatbelt.Exec, Message: "there is no sandbox-exec", Err: err}
	}
	return nil
}

// Close has nothing to end: commands end with their handles.
func (p *Provider) Close() error { return nil }

// Inspect implements [sandbox.Provider]. What exists counts as running.
func (p *Provider) Inspect(_ context.Context, name string) (sandbox.Info, error) {
	defs, err := p.defs()
	if err != nil {
		return sandbox.Info{}, err
	}
	def, _, err := defs.Get(name)
	if err != nil {
		return sandbox.Info{}, err
	}
	return infoOf(def), nil
}

func infoOf(def record.Definition) sandbox.Info {
	return sandbox.Info{
		Name: def.Name, ID: def.ID, Kind: def.Kind, Provider: "local", Owner: def.Owner, Status: sandbox.StatusRunning,
		ConfigHash: def.ConfigHash, Format: def.Format, CreatedAt: def.CreatedAt, StartedAt: def.CreatedAt,
	}
}

// List implements [sandbox.Provider].
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
		i, err := p.Inspect(ctx, name)
		switch {
		case sandbox.IsNotFound(err):
		case err != nil:
			return nil, err
		case (f.Instance == "" || f.Instance == i.Owner.Instance) && (f.Tenant == "" || f.Tenant == i.Owner.Tenant) &&
			(f.Kind == "" || f.Kind == i.Kind) && (f.Name == "" || f.Name == i.Name):
			out = append(out, i)
		}
	}
	return out, nil
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
	if _, err := p.profile(ctx, s); err != nil {
		return sandbox.Info{}, err
	}
	hash, err := confighash.Sum(s)
	if err != nil {
		return sandbox.Info{}, err
	}
	defs, err := p.defs()
	if err != nil {
		return sandbox.Info{}, err
	}
	slot, err := defs.Claim(ctx, s.Name)
	if err != nil {
		return sandbox.Info{}, err
	}
	def := record.Definition{
		Format: format, ID: record.NewID(), Name: s.Name, Kind: s.Kind, Owner: s.Owner, ConfigHash: hash, CreatedAt: p.o.Now().UTC().Round(0),
	}
	if err := defs.Commit(ctx, slot, def); err != nil {
		_ = defs.Abandon(s.Name, slot) // the first error counts
		return sandbox.Info{}, err
	}
	slot.Release()
	return infoOf(def), nil
}

func (p *Provider) check(s sandbox.Spec) error {
	if err := refuse(s); err != nil {
		return err
	}
	if len(s.OnStart) > 0 {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "create", Field: "docker.onStart", Message: "a local wall of macOS has no start at which lines could run"}
	}
	if err := unbounded(s.Limits); err != nil {
		return err
	}
	return hardening.Check(s, p.o.World())
}

// Open implements [sandbox.Provider].
func (p *Provider) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	info, err := p.Inspect(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	if !info.Owner.Same(s.Owner) {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "open", Resource: s.Name, Message: "the sandbox of that name belongs to another tenant or scope"}
	}
	if err := p.check(s); err != nil {
		return nil, err
	}
	return &handle{p: p, info: info, spec: s, scanner: scan.New(scan.Limits{}), running: map[*process]bool{}}, nil
}

// Remove implements [sandbox.Provider].
func (p *Provider) Remove(ctx context.Context, name string) error {
	defs, err := p.defs()
	if err != nil {
		return err
	}
	if err := defs.Remove(ctx, name); err != nil {
		return err
	}
	return statedir.Unavailable("remove", p.tmp(name), os.RemoveAll(p.tmp(name)))
}

// tmp is the folder that is home and place for temporary files.
func (p *Provider) tmp(name string) string { return filepath.Join(p.o.State, "local", "tmp", name) }

// profile says what is allowed now.
func (p *Provider) profile(ctx context.Context, s sandbox.Spec) (profiled, error) {
	facts := p.o.World()
	pic, err := world.Of(s, world.Place{Home: facts.Home, Workspaces: facts.Workspaces, Sensitive: outside(facts)}, nil, nil)
	if err != nil {
		return profiled{}, err
	}
	if err := world.Unmoved(pic.World.Views); err != nil {
		return profiled{}, err
	}
	found, err := scan.New(scan.Limits{}).Scan(ctx, pic.Scan)
	if err != nil {
		return profiled{}, err
	}
	pic.World.Denies = append(pic.World.Denies, found.Denies()...)
	q := pic.Protect
	q.Found, q.Git = found.Found, protect.UserGit(q.Home, os.Getenv)
	seen, err := protect.Look(q)
	if err != nil {
		return profiled{}, err
	}
	tmp := p.tmp(s.Name)
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return profiled{}, statedir.Unavailable("start", tmp, err)
	}
	return profile(s, pic, protect.Decide(seen), tmp)
}

var _ sandbox.Provider = (*Provider)(nil)
