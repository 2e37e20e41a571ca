package local

import (
	"context"
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// A planned sandbox is what rules and host ask for at one moment. Sandboxes of one
// key are alike.
type planned struct {
	plan  plan.Plan
	world plan.World
	at    hostscan.Place
	key   string
	look  uint64 // the number of the look at the host that has found it so
	// sockets of the host that are reached through the guest, at their paths.
	sockets []string
	// facts are the git repositories that the plan protects, and search is how
	// they were looked for.
	facts  hostscan.Facts
	shared shared // of a sandbox without mounts
	user   user   // likewise
	search hostscan.Request
	// filters and config are what [confinement] makes of the plan.
	filters [][]byte
	config  []byte
}

// judge is the plan's verdict; what is ours nothing opens.
func (p planned) judge(op sandbox.Operation, path string) sandbox.Verdict {
	if op == sandbox.OpConnect && slices.Contains(p.sockets, path) {
		return sandbox.Verdict{Allowed: true, Rule: "filesystem.allowUnixSockets: " + path}
	}
	if p.shared.open(path, op) {
		return sandbox.Verdict{Allowed: true, Rule: GapMasks}
	}
	v := p.plan.Judge(op, path)
	if !v.Allowed && !v.Builtin && v.HostPath != "" && p.at.Ours(v.HostPath) {
		v.Rule, v.Builtin = hostscan.RuleOurs, true
	}
	return v
}

// A planner computes plans for one handle. It remembers the last one, which
// holds for as long as the host answers what it answered then.
type planner struct {
	site *site
	spec sandbox.Spec

	mu      sync.Mutex
	picture *hostscan.Picture
	at      hostscan.Place // what picture was made with
	last    planned
	looks   uint64 // at the host, so far
	// looked is when the look for a new sandbox began, as long as nothing has run
	// since; zero is none.
	looked    time.Time
	seen      seen // what last was made from
	unchanged unchanged
}

// seen is what was found on the host, beside what package plan asks for.
type seen struct {
	found hostscan.Result
	facts hostscan.Facts

	sockets []string        // that are listed and there
	system  hostscan.Result // sockets in the system's folders, where any are listed
}

// same reports whether o is what was found.
func (s seen) same(o seen) bool {
	return s.found.Same(o.found) && s.system.Same(o.system) && slices.Equal(s.sockets, o.sockets) && reflect.DeepEqual(s.facts, o.facts)
}

func newPlanner(s *site, spec sandbox.Spec) *planner { return &planner{site: s, spec: spec} }

// plan looks at the host and says what the sandbox has to be now.
func (p *planner) plan(ctx context.Context) (planned, error) {
	placeholders, err := p.site.p.placeholders()
	if err != nil {
		return planned{}, err
	}
	return p.planOn(ctx, hostscan.Disk{Placeholder: placeholders.Is})
}

// planOn is plan on a host that may differ from what is on the disk.
func (p *planner) planOn(ctx context.Context, host plan.Host) (planned, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	// No watch covers where sockets that settings list may come and go.
	if p.last.key != "" && len(p.spec.Filesystem.AllowUnixSockets) == 0 && p.unchanged.holds() {
		return p.last, nil
	}
	began := time.Now()
	p.looks++
	if p.picture == nil {
		pic, err := p.look()
		if err != nil {
			return planned{}, err
		}
		p.picture = &pic
	}
	if err := hostscan.Unmoved(p.picture.World.Views); err != nil {
		return planned{}, err
	}
	now, err := p.search(ctx)
	if err != nil {
		// That nothing can be seen any more is then no word about the host.
		if over := ended(ctx, "plan"); over != nil && errors.Is(err, ctx.Err()) {
			return planned{}, over
		}
		return planned{}, err
	}
	if p.last.key != "" && now.same(p.seen) && plan.Still(p.last.world, host) {
		if len(p.spec.Filesystem.AllowUnixSockets) == 0 { // where they are is not watched
			p.unchanged.look(began, p, now)
		}
		p.last.look = p.looks
		return p.last, nil
	}
	p.unchanged.broken()
	return p.make(now, host)
}

// attempts bounds how often a sandbox is planned anew because the host changed
// between plan and sandbox.
const attempts = 3

// retry calls do with the plan of now, and again with a newer one when do
// finds that the host is not as the plan has it.
func (p *planner) retry(ctx context.Context, do func(planned) error) error {
	for i := 1; ; i++ {
		began := time.Now()
		pl, err := p.plan(ctx)
		if err != nil {
			return err
		}
		p.mu.Lock()
		p.looked = began
		p.mu.Unlock()
		var old *outdated
		if err = do(pl); !errors.As(err, &old) {
			return err
		}
		if i == attempts || ctx.Err() != nil {
			return old.error
		}
		p.forget()
	}
}

// planFor is plan for the next use of a sandbox, to which changes on the host
// count from asOf on. The plan of a new sandbox is not computed twice for the
// first use of that sandbox, if it is young enough: what changes on the host after
// asOf may as well have changed after the use began.
func (p *planner) planFor(ctx context.Context, asOf time.Time) (planned, error) {
	if looked, last := p.used(); last.key != "" && !asOf.IsZero() && !looked.Before(asOf) && time.Since(looked) < unchangedFor {
		return last, nil
	}
	return p.plan(ctx)
}

// used notes that something may run from now on, which can change what a look
// would find. It returns when the look for a new sandbox began, zero where
// something has run since.
func (p *planner) used() (looked time.Time, last planned) {
	p.mu.Lock()
	defer p.mu.Unlock()
	looked, p.looked = p.looked, time.Time{}
	return looked, p.last
}

// forget has the next plan be computed from the ground up.
func (p *planner) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last = planned{}
}

// close ends what the planner watches.
func (p *planner) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.unchanged.close()
}

// An outdated error says that the host has changed since a plan was made.
type outdated struct{ error }

// Unwrap returns what was found.
func (o *outdated) Unwrap() error { return o.error }

// search finds what rules without a fixed path mean now.
func (p *planner) search(ctx context.Context) (seen, error) {
	q := p.picture.Scan
	q.List = !p.unchanged.closed
	found, err := p.site.scanner.Scan(ctx, q)
	if err != nil {
		return seen{}, err
	}
	now := seen{found: found}
	if err := p.searchSockets(ctx, &now); err != nil {
		return now, err
	}
	in := p.picture.Protect
	if in.Own == "" && len(in.Writable) == 0 {
		return now, nil
	}
	in.Found, in.Git = found.Found, hostscan.UserGit(in.Home, os.Getenv)
	now.facts, err = hostscan.Look(in)
	return now, err
}

// make computes a new plan from what was found.
func (p *planner) make(now seen, host plan.Host) (planned, error) {
	w := p.picture.World
	rules := hostscan.Decide(now.facts)
	w.Views = slices.Concat(w.Views, rules.Views)
	set, err := parseSettings(p.spec.Options)
	if err != nil {
		return planned{}, err
	}
	own := ownSockets(p.spec, set)
	w.Denies = slices.Concat(w.Denies, closedNow(now.found, p.spec, rules.Denies, own), rules.Denies)
	w.Denies = append(w.Denies, now.system.Denies()...)
	if !p.site.p.landlock {
		if w, err = hostscan.ShowSockets(w, now.sockets); err != nil {
			return planned{}, err
		}
	}
	w, made, err := plan.Draw(w, host)
	if err != nil {
		return planned{}, err
	}
	made.Notes = slices.Concat(made.Notes, rules.Notes)
	made.Notes = append(made.Notes, socketNotes(p.picture.Sockets, now.sockets)...)
	pl := planned{plan: made, world: w, at: p.at, look: p.looks, sockets: now.sockets, facts: now.facts, search: p.picture.Scan}
	if p.site.p.landlock {
		pl, err = p.site.p.sharedPlan(p.spec, pl)
	} else {
		pl.filters, pl.config, err = p.site.p.filters.confinement(p.spec, set, own, pl)
	}
	if err != nil {
		return planned{}, err
	}
	pl.key = strings.Join(slices.Concat(pl.sockets, []string{keyOf(made), string(pl.config)}), "\x00")
	p.last, p.seen = pl, now
	return p.last, nil
}

// look asks for what does not change while the handle is open.
func (p *planner) look() (hostscan.Picture, error) {
	facts := p.site.p.o.World()
	views, links, err := hostscan.System()
	if err != nil {
		return hostscan.Picture{}, err
	}
	if p.site.p.landlock {
		p.at = hostscan.Place{Home: facts.Home, Workspaces: facts.Workspaces, Sensitive: outside(facts)}
		return hostscan.Of(p.spec, p.at, views, nil)
	}
	spec, hosts, err := p.site.p.hosts(p.spec)
	if err != nil {
		return hostscan.Picture{}, err
	}
	views = append(views, hosts...)
	p.at = hostscan.Place{Home: facts.Home, Workspaces: facts.Workspaces, Sensitive: outside(facts)}
	pic, err := hostscan.Of(spec, p.at, views, links)
	pic.World.Tell = hostscan.Telling()
	return pic, err
}

// keyOf names a plan by everything that the sandbox is made from.
func keyOf(p plan.Plan) string {
	return strings.Join(plan.BwrapArgs(p, plan.BwrapOptions{BlockFD: -1, InfoFD: -1, StatusFD: -1}), "\x00")
}

// defaultPath is where programs are looked for inside.
const defaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// order says how the planned sandbox is started.
func (p *Provider) order(spec sandbox.Spec, pl planned) (launch.Order, error) {
	set, err := parseSettings(spec.Options)
	if err != nil {
		return launch.Order{}, err
	}
	o := launch.Order{Guest: guestInside}
	if o.Bwrap, err = p.findBwrap(set.bwrap); err != nil {
		return o, err
	}
	if err := p.trusted(o.Bwrap, pl.world.Views); err != nil {
		return o, err
	}
	mask, err := p.maskFile()
	if err != nil {
		return o, err
	}
	if o.Limits, err = limits(spec.Resources.Ulimits); err != nil {
		return o, err
	}
	o.Filters, o.Config = pl.filters, pl.config
	o.Bounds, _ = launch.FindGroups().Within(boundsOf(spec.Resources))
	made := pl.plan
	made.Ops = slices.Clone(made.Ops)
	for i, op := range made.Ops {
		if op.Kind == plan.OpBind || op.Kind == plan.OpRoBind {
			made.Ops[i].Source = spec.Place(op.Source)
		}
	}
	options := plan.BwrapOptions{
		MaskFile: mask, UID: spec.UID, GID: spec.GID, Hostname: hostname,
		Env:     map[string]string{"PATH": defaultPath, "HOME": sandbox.HomeDir},
		BlockFD: -1, InfoFD: -1, StatusFD: -1, DisableUserns: !set.withoutDisableUserns,
	}
	if !strings.HasPrefix(o.Bwrap, launch.Stage+"/") {
		inTree := options
		inTree.MaskFile, inTree.Root = launch.TreeMask, launch.TreeRoot
		o.Tree = &launch.Tree{Ops: made.Ops, Mask: mask, Args: plan.BwrapArgs(plan.Plan{Ops: launch.Late(made.Ops)}, inTree)}
	}
	if os.Geteuid() == 0 {
		o.Down = &launch.Down{UID: spec.UID, GID: spec.GID}
		made.Ops = append([]plan.Op(nil), made.Ops...)
		for i := range made.Ops {
			if k := made.Ops[i].Kind; k == plan.OpBind || k == plan.OpRoBind {
				made.Ops[i].Source = stage(o.Down, made.Ops[i].Source)
			}
		}
		mask = stage(o.Down, mask)
		if strings.HasPrefix(o.Bwrap, launch.Stage+"/") {
			o.Bwrap = stage(o.Down, o.Bwrap) // its own path will be covered
		}
	}
	options.MaskFile = mask
	o.Args = plan.BwrapArgs(made, options)
	return o, nil
}

// starter returns what starts the planned sandbox, which may have been begun.
func (p *Provider) starter(spec sandbox.Spec, pl planned, e *early) (func(context.Context) (*launch.Instance, error), error) {
	if p.landlock {
		o, err := p.startShared(spec, pl)
		return func(ctx context.Context) (*launch.Instance, error) { return launch.StartShared(ctx, o) }, err
	}
	o, err := p.order(spec, pl)
	return func(ctx context.Context) (*launch.Instance, error) { return e.launch(ctx, o) }, err
}

// confinement returns the filters of the sandbox as a whole, and the configuration
// of the guest, with the filters that it puts on each command. Own says that
// commands have [ownSockets].
func (f *filters) confinement(spec sandbox.Spec, set settings, own bool, pl planned) (filters [][]byte, config []byte, err error) {
	c := wire.Config{
		Landlock: !set.withoutLandlock, Readable: pl.plan.Readable(), Writable: pl.plan.Writable(), Checks: checksOf(pl.plan.Probes),
	}
	if c.Limits, err = limits(spec.Resources.Ulimits); err != nil {
		return nil, nil, err
	}
	if n := spec.Resources.PIDs; n > 0 && n <= math.MaxUint32 {
		c.Processes = uint32(n)
	}
	if !set.withoutSeccomp {
		whole, err := f.whole()
		if err != nil {
			return nil, nil, sandbox.Errorf(sandbox.CodeUnsupported, "start", "%w", err)
		}
		filters = [][]byte{whole}
		c.Observe = set.observe
		c.Filter, err = f.command(seccomp.Options{
			Observe: set.observe, UnixSockets: pl.connects(), OwnSockets: own, Trace: !set.withoutLandlock,
		})
		if err != nil {
			return nil, nil, sandbox.Errorf(sandbox.CodeUnsupported, "start", "%w", err)
		}
	}
	return filters, c.Encode(), nil
}

// stage gives a source a place where the sandbox's user finds it.
func stage(d *launch.Down, source string) string {
	for i, s := range d.Sources {
		if s == source {
			return launch.Staged(i)
		}
	}
	d.Sources = append(d.Sources, source)
	return launch.Staged(len(d.Sources) - 1)
}

// maskFile returns the file that stands for every closed file: empty, and
// readable by no user.
func (p *Provider) maskFile() (string, error) {
	path := filepath.Join(p.o.State, "local", "mask")
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_RDONLY|unix.O_NOFOLLOW, 0)
	if err == nil {
		f.Close()
	} else if !errors.Is(err, fs.ErrExist) {
		return "", statedir.Unavailable("start", path, err)
	}
	st, err := os.Lstat(path)
	if err == nil && (!st.Mode().IsRegular() || st.Size() != 0) {
		err = errors.New("it is not an empty file")
	}
	if err == nil && st.Mode().Perm() != 0 {
		err = os.Chmod(path, 0)
	}
	return path, statedir.Unavailable("start", path, err)
}
