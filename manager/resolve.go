package manager

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/confighash"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/registry/pool"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// A want is what a request asks for, ready to be compared with what exists.
type want struct {
	res          config.Resolved
	settings     *config.Settings // that res was made from; nil where nothing is opened
	spec         sandbox.Spec
	hash         string
	provider     sandbox.Provider
	why          string // why this provider
	gate         Gate
	hostIdentity string          // by which name container and workspace are known
	sketch       bool            // spec names a user and folders that may not be there: for a slot of the pool
	began        time.Time       // when a slot of the pool was looked for
	miss         *pool.Miss      // why no slot of the pool is claimed, where settings keep one; or nil
	shape        string          // of the slots that it could have been, where one was looked for
	commands     sandbox.Command // of a slot: environment and bounds that commands of its sandboxes have
	agentDir     string          // canonical folder of the agent, to seed from; may be empty
	quota        int64           // bytes of the scratch workspace; 0 is unbounded
	homeReason   string          // why the home lies where it does
	warned       []string        // what the gate warns about in the command

	// egress are the rules for hosts that hold for the commands of this call,
	// also where those in spec are older.
	egress sandbox.EgressRules

	ends ends // of the sandbox that this one replaces

	from *checkpoint.Record // what the sandbox begins with; nil is nothing

	wanted  string          // hash, also where rules came late
	granted []sandbox.Grant // what was permitted for the session, and to this command
	private bool            // something was permitted to this command alone

	facts *config.Facts // that spec was built from; nil where it was cached

	// settingsHash is the hash without the flags of this call; nil when there
	// are none. It is asked for only when the hashes differ.
	settingsHash func() string
}

// An ends is when and how a sandbox ends.
type ends struct {
	at      time.Time
	how     string
	timeout int64 // seconds
}

// An intent says whether gathering facts may change the world.
type intent int

const (
	observe intent = iota // look only: an image that is not there stays so
	effects               // make what a sandbox needs before it can be described
	sketch                // as observe, and quicker: what is described is held against slots of the pool
)

// resolve turns settings and a place into a want: the facts of this host,
// then the Spec and its hash. flags are those that res was made with. settings are
// those that it was made from, for a request that may come again; otherwise nil.
func (d *describer) resolve(ctx context.Context, settings *config.Settings, res config.Resolved, flags *config.SandboxSettings, at place, i intent) (*want, error) {
	var miss *pool.Miss
	if i == effects {
		var ok bool
		if ok, miss = d.m.pool.mayClaim(res, at.provider); ok {
			i = sketch
		}
	}
	w, err := d.describeAgain(ctx, settings, res, flags, at.provider, i)
	if err != nil {
		return nil, err
	}
	w.why, w.gate, w.miss = at.why, at.gate, miss
	if flags != nil {
		w.settingsHash = func() string { return d.hashWithout(ctx, res.Who, res.Kind, at.provider) }
	}
	return w, nil
}

// choose returns the provider that settings name, and why it is that one.
func (d *describer) choose(ctx context.Context, res config.Resolved) (sandbox.Provider, string, error) {
	if res.Provider == provider.AutoName {
		if err := d.m.providers.CheckAutoOptions(res.ProviderOptions, autoOrder(res.ProviderOptions)...); err != nil {
			return nil, "", err
		}
		c, err := d.m.providers.Auto(ctx, res.ProviderOptions, autoOrder(res.ProviderOptions)...)
		if err != nil {
			return nil, "", err
		}
		d.m.log.Infof("provider auto: %s", c.Reason)
		return c.Provider, c.Reason, nil
	}
	p, err := d.m.providers.Get(res.Provider)
	if err != nil {
		return nil, "", err
	}
	if _, err := optionsOf(res, p); err != nil {
		return nil, "", err
	}
	return p, "set by " + res.Origin("provider"), nil
}

// describeAgain is describe, from memory where settings and flags allow it and
// nothing has changed; see [wantCache].
func (d *describer) describeAgain(ctx context.Context, settings *config.Settings, res config.Resolved, flags *config.SandboxSettings, p sandbox.Provider, i intent) (*want, error) {
	if settings == nil || flags != nil || i == sketch {
		return d.describe(ctx, res, p, i)
	}
	if w, ok := d.cachedWant(ctx, settings, res.Who, res.Kind, p); ok {
		return w, nil
	}
	since := d.moment()
	w, err := d.describe(ctx, res, p, i)
	if err == nil && i == effects {
		d.keep(settings, res.Who, res.Kind, since, w)
	}
	return w, err
}

// describe gathers the facts for res and builds the Spec.
func (d *describer) describe(ctx context.Context, res config.Resolved, p sandbox.Provider, i intent) (*want, error) {
	name, err := config.Name(res.Docker.ContainerPrefix, d.m.describer.owner(res))
	if err != nil {
		return nil, err
	}
	at := hostIdentity{name, d.m.describer.owner(res)}
	if _, elsewhere := d.m.kept[p.Name()]; i != sketch || !elsewhere { // a sketch is of a name of which nothing is known, and asking costs
		if at, err = d.identityOf(p.Name(), name, at.owner); err != nil {
			return nil, err
		}
	}
	return d.describeAt(ctx, res, p, at, i, nil)
}

// describeAt is describe for the host identity at, after change, which may be nil.
func (d *describer) describeAt(ctx context.Context, res config.Resolved, p sandbox.Provider, at hostIdentity, i intent, change func(*want)) (_ *want, err error) {
	if err := provider.Trouble(p); err != nil {
		return nil, err
	}
	var given map[string]any
	if p.Name() != hostName { // what runs without a sandbox has no provider to have options
		if given, err = optionsOf(res, p); err != nil {
			return nil, err
		}
	}
	f, agentDir, err := d.facts(ctx, res, p, at, i)
	if err != nil {
		return nil, err
	}
	w := &want{res: res, provider: p, hostIdentity: at.name, sketch: i == sketch, facts: &f, agentDir: agentDir, quota: int64(res.WorkspaceQuota), homeReason: f.HomeReason}
	of := descriptionKey{provider: p.Name(), identity: at.name, kind: res.Kind, intent: i}
	var known bool
	if w.spec, w.hash, known = d.described.get(of, res, f); !known {
		if w.spec, err = buildSpec(res, p, f, given); err != nil {
			return nil, err
		}
		if w.hash, err = confighash.Sum(w.spec); err != nil {
			return nil, err
		}
		d.described.put(of, description{res: res, facts: f, spec: w.spec, hash: w.hash})
	}
	w.egress = w.spec.Egress
	if res.Kind != sandbox.KindBrowser { // a browser gets no grants of paths
		w.permit(d.m.grants.list(w.spec.Owner)) // which are no part of the hash
	}
	if change != nil {
		change(w)
		w.hash, err = confighash.Sum(w.spec)
	}
	w.wanted = w.hash
	return w, err
}

// trustElsewhere stands for the folder of certificates of whichever program runs a
// command, where sandboxes see no folder of this machine. There is no such folder.
const trustElsewhere = "/pods/egress/trust"

// buildSpec builds the Spec of a sandbox of the provider from settings and facts
// alone. given are the options of the provider.
func buildSpec(res config.Resolved, p sandbox.Provider, f config.Facts, given map[string]any) (sandbox.Spec, error) {
	s, err := config.BuildSpec(res, f)
	if err != nil {
		return s, err
	}
	if !p.Features().Images {
		if slices.Contains([]string{"flag", "request"}, res.Origin("docker.image")) {
			return s, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resolve", Field: "docker.image", Resource: res.Docker.Image,
				Message: "the provider " + p.Name() + " runs programs of this host and has no images", Hint: "leave --image out, or use another provider"}
		}
		s.Image = "" // what settings say for other providers is no part of this sandbox
	}
	if detached(p) { // its sandboxes see none of these files, and programs on other machines have them elsewhere
		s.Guest = sandbox.GuestRef{}
		s.Mounts = slices.DeleteFunc(s.Mounts, func(m sandbox.Mount) bool {
			return m.Role == sandbox.RoleGuest || m.Role == sandbox.RoleSocket || m.Role == sandbox.RoleIdentity
		})
		for i := range s.Mounts {
			if s.Mounts[i].Role == sandbox.RoleTrust { // each program brings its own
				s.Mounts[i].Source = trustElsewhere
			}
		}
	}
	s.Options = maps.Clone(given)
	return s, refuseUnheld(res, p, s)
}

// hashWithout returns the hash of the same session without flags, or "?" when
// it is unknown: that equals no hash, so a difference counts as coming from a
// flag and no command runs without a notice.
func (d *describer) hashWithout(ctx context.Context, who config.Who, kind sandbox.Kind, p sandbox.Provider) string {
	const unknown = "?"
	settings, err := d.m.creations.over(d.m.settings.Load(), who, flagged(p.Name()))
	if err != nil {
		return unknown
	}
	res, err := config.Resolve(settings, who, nil)
	if err != nil {
		return unknown
	}
	w, err := d.describe(ctx, d.copies(of(kind, res)), p, observe)
	if err != nil {
		return unknown
	}
	return w.hash
}
