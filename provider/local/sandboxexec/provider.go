//go:build linux || darwin

package sandboxexec

import (
	"cmp"
	"context"
	"crypto/rand"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/internal/keylock"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// Options of a Provider.
type Options struct {
	State string                 // the state folder
	World func() hardening.World // facts for the hardening rules, asked for at each command
	// Outside returns the paths of a world that no sandbox may see, beside
	// workspaces.
	Outside func(hardening.World) []string
	// Refuse returns an error for what no local sandbox can do.
	Refuse func(sandbox.Spec) error
	// Warn receives what a person should know of a sandbox that works all the
	// same.
	Warn func(name, warning string)
	Now  func() time.Time

	Exec, Log string // instead of the programs of the system
}

// A Provider is the provider "local" of macOS. It is safe for concurrent use.
type Provider struct {
	o     Options
	turns keylock.Turns
	defs  func() (*launch.Records, error)
	watch *watch
}

// New returns a Provider. Nothing is looked at before the first call.
func New(o Options) *Provider {
	o.Exec, o.Log = cmp.Or(o.Exec, plan.Exec), cmp.Or(o.Log, plan.Log)
	return &Provider{o: o, watch: newWatch(o.Log, "sbx."+rand.Text()[:16]+"."), defs: sync.OnceValues(func() (*launch.Records, error) {
		return launch.OpenRecords(filepath.Join(o.State, "local", "sandboxes"))
	})}
}

// Name is "local".
func (p *Provider) Name() string { return "local" }

// Features says that there are commands, shells that stay, and the listener of
// the egress proxy. Terminals, the files of a guest and the use of a sandbox as
// a whole need a guest, which macOS has none of.
func (p *Provider) Features() sandbox.Features { return sandbox.Features{Shells: true, Listen: true} }

// Probe reports whether sandbox-exec is there.
func (p *Provider) Probe(ctx context.Context) error {
	if err := ended(ctx, "probe"); err != nil {
		return err
	}
	if _, err := os.Stat(p.o.Exec); err != nil {
		return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "probe", Resource: p.o.Exec, Message: "there is no sandbox-exec", Err: err,
			Hint: `it is part of macOS; use "provider": "docker" where it was removed`}
	}
	return nil
}

// Close ends what follows the system log. Commands end with their handles.
func (p *Provider) Close() error {
	p.watch.close()
	return nil
}

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

func infoOf(def launch.Definition) sandbox.Info {
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
	if _, _, err := p.trial(ctx, s); err != nil {
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
	def := launch.Definition{
		Format: sandbox.InfoFormat, ID: launch.NewID(), Name: s.Name, Kind: s.Kind, Owner: s.Owner, ConfigHash: hash, CreatedAt: p.o.Now().UTC().Round(0),
	}
	if err := defs.Commit(ctx, slot, def); err != nil {
		_ = defs.Abandon(s.Name, slot) // the first error counts
		return sandbox.Info{}, err
	}
	slot.Release()
	return infoOf(def), nil
}

func (p *Provider) check(s sandbox.Spec) error {
	if err := p.o.Refuse(s); err != nil {
		return err
	}
	if len(s.OnStart) > 0 {
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "create", Field: "docker.onStart", Message: "a local sandbox of macOS has no start at which lines could run",
			Hint: "run the lines in a shell of the session, or use the docker provider"}
	}
	if err := unbounded(s.Limits); err != nil {
		return err
	}
	return hardening.Check(s, p.o.World())
}

// Open implements [sandbox.Provider].
func (p *Provider) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if err := ended(ctx, "open"); err != nil {
		return nil, err
	}
	info, err := p.Inspect(ctx, s.Name)
	if err != nil {
		return nil, err
	}
	if _, err := info.CheckFormat("open"); err != nil {
		return nil, err
	}
	if !info.Owner.Same(s.Owner) {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "open", Resource: s.Name, Message: "the sandbox of that name belongs to another tenant or scope"}
	}
	if err := p.check(s); err != nil {
		return nil, err
	}
	pl, judge, err := p.trial(ctx, s)
	if err != nil {
		return nil, err
	}
	if err := p.watch.start(ctx); err != nil {
		p.o.Warn(s.Name, "what sandbox-exec refuses is not seen: "+err.Error()+"; a command counts as blocked only where its error output names a path that a rule closes")
	}
	return &handle{p: p, info: info, spec: s, running: map[*process]bool{}, shells: map[*shell]bool{}, ports: map[int]int{}, judge: judge, last: pl}, nil
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

// picture is what the rules ask for on the host as it is at the call.
func (p *Provider) picture(ctx context.Context, s sandbox.Spec) (hostscan.Picture, hostscan.Rules, error) {
	facts := p.o.World()
	pic, err := hostscan.Of(s, hostscan.Place{Home: facts.Home, Workspaces: facts.Workspaces, Sensitive: p.o.Outside(facts)}, nil, nil)
	if err != nil {
		return pic, hostscan.Rules{}, err
	}
	if err := hostscan.Unmoved(pic.World.Views); err != nil {
		return pic, hostscan.Rules{}, err
	}
	found, err := hostscan.New(hostscan.Limits{}).Scan(ctx, pic.Scan)
	if err != nil {
		return pic, hostscan.Rules{}, err
	}
	found.Sockets = nil // the profile lets nothing connect to any that is not listed
	pic.World.Denies = append(slices.Clip(pic.World.Denies), found.Denies()...)
	q := pic.Protect
	q.Found, q.Git = found.Found, hostscan.UserGit(q.Home, os.Getenv)
	seen, err := hostscan.Look(q)
	if err != nil {
		return pic, hostscan.Rules{}, err
	}
	return pic, hostscan.Decide(seen), nil
}

// profile says what is allowed now, but for ports and tag, and makes the folder
// for temporary files.
func (p *Provider) profile(ctx context.Context, s sandbox.Spec) (profiled, error) {
	tmp := p.tmp(s.Name)
	if err := os.MkdirAll(tmp, 0o700); err != nil {
		return profiled{}, statedir.Unavailable("start", tmp, err)
	}
	pic, protected, err := p.picture(ctx, s)
	if err != nil {
		return profiled{}, err
	}
	return profile(s, pic, protected, tmp)
}

// maxTried bounds how many closed paths are tried.
const maxTried = 64

// try tells on its output which of the paths in its arguments can be read, and
// after "--" which can be written to; what is no file or folder is left out.
// It writes nothing.
const try = `for p; do
  if [ "$p" = -- ]; then write=1; continue; fi
  if [ -n "$write" ]; then ( : >>"$p" ) 2>/dev/null && echo "write $p"; else ( : <"$p" ) 2>/dev/null && echo "read $p"; fi
done
echo tried`

// trial has sandbox-exec enforce the profile of s once, and holds from inside that
// closed files which are there cannot be opened. Nothing else runs before that.
func (p *Provider) trial(ctx context.Context, s sandbox.Spec) (pl profiled, j *plan.Judge, err error) {
	if err := p.Probe(ctx); err != nil {
		return pl, nil, err
	}
	if pl, err = p.profile(ctx, s); err != nil {
		return pl, nil, err
	}
	rules := pl.tagged("trial")
	text, err := plan.Profile(rules)
	if err == nil {
		j, err = plan.NewJudge(rules)
	}
	if err != nil {
		return pl, nil, err
	}
	read, write := pl.tried()
	out, said, err := p.runTrial(ctx, text, slices.Concat([]string{"/bin/sh", "-c", try, "sh"}, read, []string{"--"}, write))
	if over := ended(ctx, "start"); over != nil {
		return pl, nil, over
	}
	open, whole := strings.CutSuffix(out, "tried\n")
	if err != nil || !whole {
		return pl, nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: s.Name, Err: err,
			Message: "sandbox-exec does not take the profile: " + said, Hint: `run "sandbox doctor"; use "provider": "docker" meanwhile`}
	}
	if line, _, some := strings.Cut(open, "\n"); some {
		return pl, nil, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "start", Resource: s.Name,
			Message: "sandbox-exec does not hold what the rules close: code inside can " + line, Hint: `use "provider": "docker"`}
	}
	return pl, j, nil
}

func ended(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return sandbox.Errorf(sandbox.CodeTimeout, op, "given up: %w", err)
	}
	return nil
}

var _ sandbox.Provider = (*Provider)(nil)
