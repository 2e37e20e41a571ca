package grant

import (
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// State is the information that a guard needs in addition to profile and
// operation.
type State struct {
	Now     time.Time // required
	Running int       // operations of this call that run already
	Files   int64     // that this call has written already
	Depth   int       // navigations of this call so far

	// Spaces are the folders of temporary space that this call was allotted: it
	// may read, list and write below them without another capability.
	Spaces []string

	Revoked   bool   // the grant or one that it was derived from was revoked
	KeyUsedBy string // the call that the decision key was used by; empty is none
}

// Vetted is an operation that a guard has allowed, in the exact form in which
// it was judged. Executors take it and never the operation as requested, which
// they might interpret differently.
type Vetted struct {
	Operation              // the path clean, the address canonical
	Domain    Domain       // whose executor it is
	Effects   []SideEffect // that it has
	Host      network.Host // of an address
	Port      uint16       // of an address

	// Capability says for the record what was used: "fs.read:/workspace/a",
	// "net.http:GET:https://example.com", "proc:git".
	Capability string
}

// A Guard checks operations against one profile. It does not change, so it is
// safe for concurrent use.
//
// It refuses with the codes of the table of codes: [sandbox.CodePermissionDeny]
// when the grant lacks something or is not (or no longer) valid, or a consent
// is missing; [sandbox.CodeDenyTool] when the manifest lacks it, or a program
// or an argument is not allowed; [sandbox.CodeCapabilityBlocked] when the
// policy lacks it, or a path, host, method, type or size is outside lists and
// limits; [sandbox.CodeValidation] for malformed input; and
// [sandbox.CodeBudgetExceeded], retryable, for too many operations at a time.
// Field of the error is the rule.
//
// A Guard judges names. The executor determines where a link leads and which
// address a name has, and refuses accordingly.
type Guard struct {
	profile  *Profile
	boxes    []*box
	sources  Sources
	hosts    *network.Policy // list and denies
	methods  words           // of the list
	manifest templates
	policy   templates
	reader   *network.Rules // reads addresses, judges none
}

// Compile makes the guard of a profile. It returns [sandbox.CodeValidation] for
// a profile whose hash shows that [Build] did not make it.
func Compile(p Profile) (*Guard, error) {
	if p.Hash == "" || p.Sum() != p.Hash {
		return nil, invalid("profile.profileHash", "the profile is not as it was made", "build it anew")
	}
	g := &Guard{profile: &p, sources: p.Sources, methods: allMethods()}
	var err error
	if g.boxes, err = boxes("profile.capabilities", p.Capabilities); err != nil {
		return nil, err
	}
	if g.hosts, err = hostRules(&p); err != nil {
		return nil, err
	}
	if g.manifest, err = templatesOf("profile.commands", p.Commands); err != nil {
		return nil, err
	}
	if g.policy, err = templatesOf("profile.policyCommands", p.PolicyCommands); err != nil {
		return nil, err
	}
	if g.reader, err = network.NewRules(network.RuleOptions{Schemes: []string{"http", "https"}, Direct: true}); err != nil {
		return nil, err
	}
	if list := p.Lists.Methods; list != nil && !slices.Contains(list, "*") {
		g.methods = 0
		for _, m := range list {
			g.methods |= wordOf(methods, m)
		}
	}
	return g, nil
}

// hostRules compiles the list of domains and the denied ones. Without a list
// every host passes that is not denied.
func hostRules(p *Profile) (*network.Policy, error) {
	o := network.Options{Denied: p.Denied.Domains, AllowPublic: p.Lists.Domains == nil}
	for _, rule := range p.Lists.Domains {
		if rule == "*" {
			o.AllowPublic = true
		}
	}
	o.Allowed = p.Lists.Domains
	return network.New(o)
}

// Profile returns a copy of the profile that the guard enforces. Its lists are
// shared and must not be changed.
func (g *Guard) Profile() Profile { return *g.profile }

// Validate reports why the operation may not be done, or nil.
func (g *Guard) Validate(op Operation, s State) error {
	_, err := g.Check(op, s)
	return err
}

// Check judges an operation before it runs, and returns it as it may be done.
func (g *Guard) Check(op Operation, s State) (Vetted, error) {
	v, err := g.judge(op, s)
	if err != nil {
		return Vetted{}, err
	}
	if most := g.profile.Limits.MaxConcurrency; s.Running >= most {
		err := fault(sandbox.CodeBudgetExceeded, "profile.limits.maxConcurrency", "", "too many operations of the call run already", "wait for one to end")
		err.(*sandbox.Error).Retryable = true
		return Vetted{}, err
	}
	return v, nil
}

// judge is Check without the bound on how much runs at a time.
func (g *Guard) judge(op Operation, s State) (Vetted, error) {
	if err := g.current(s); err != nil {
		return Vetted{}, err
	}
	d, ok := domainOf(op.Kind)
	if !ok {
		return Vetted{}, invalid("op.kind", quoted(string(op.Kind))+" is no kind of operation", "")
	}
	if field := op.alien(); field != "" {
		return Vetted{}, invalid("op."+field, "the field is not one of "+string(op.Kind), "leave it out")
	}
	switch most := g.profile.Limits.Timeout; {
	case op.Timeout < 0:
		return Vetted{}, invalid("op.timeout", "a time below 0", "leave it out for the limit")
	case op.Timeout > most:
		return Vetted{}, blocked("profile.limits.timeout", "", "it may take at most "+most.String(), "ask for less time")
	}
	v := Vetted{Operation: op, Domain: d, Effects: effectsOf(op.Kind)}
	var err error
	switch d {
	case DomainFS:
		err = g.file(&v, s)
	case DomainNet:
		err = g.request(&v)
	case DomainBrowser:
		err = g.browse(&v, s)
	case DomainProc:
		err = g.program(&v)
	case DomainTmp:
		err = g.space(&v)
	}
	if err == nil {
		err = g.consented(&v, s.Now)
	}
	return v, err
}

// current returns an error when the grant is not valid at the time of s.
func (g *Guard) current(s State) error {
	p := g.profile
	switch {
	case s.Now.IsZero():
		return fault(sandbox.CodeInternal, "state.now", "", "the time is missing", "")
	case s.Revoked:
		return denied("grant.revoked", p.Grant, "the grant was revoked", "ask for a new one")
	case s.KeyUsedBy != "" && s.KeyUsedBy != p.Call:
		return denied("grant.decisionKeyFingerprint", p.Grant, "the decision was used for another call", "have it decided anew: a decision is good for one call")
	}
	return inTime(p.Expires, p.Grant, s.Now)
}

// consented returns an error when the operation, or the tool as such, needs a
// consent and there is no valid one.
func (g *Guard) consented(v *Vetted, now time.Time) error {
	if err := g.profile.consented(now); err != nil {
		return err
	}
	for _, e := range v.Effects {
		if e == EffectWrite || e == EffectProcess {
			return g.profile.Consent.in(now, string(v.Kind)+" has the side effect "+string(e))
		}
	}
	return nil
}

// need returns the reason why the box is not allowed. It names the grant first
// of the three sources, because nothing else matters to a subject without the
// grant.
func (g *Guard) need(b *box, what string) error {
	if holding(g.boxes, b) != nil {
		return nil
	}
	code := sandbox.CodeCapabilityBlocked
	switch {
	case lacks(g.sources.Grant, b):
		return denied("grant.capabilities", what, "the grant does not allow "+quoted(what), "ask for a grant that does")
	case lacks(g.sources.Manifest, b):
		return fault(sandbox.CodeDenyTool, "manifest.capabilities", what, "the manifest of the tool does not declare "+quoted(what), "have the tool declare what it does")
	case b.kind == Process:
		code = sandbox.CodeDenyTool
	}
	return fault(code, "policy.capabilities", what, "the policy does not allow "+quoted(what), "do without it; only who keeps the settings can change that")
}

func lacks(list []Capability, b *box) bool {
	has, err := boxes("sources", list)
	return err != nil || holding(has, b) == nil
}

func blocked(field, resource, message, hint string) error {
	return fault(sandbox.CodeCapabilityBlocked, field, resource, message, hint)
}
