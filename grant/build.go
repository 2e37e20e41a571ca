package grant

import (
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// Defaults are the limits where neither manifest nor policy says one.
func Defaults() Limits {
	return Limits{
		MaxBytesIn: 10 << 20, MaxBytesOut: 10 << 20, MaxTmpBytes: 64 << 20,
		MaxFiles: 100, MaxDepth: 32, MaxConcurrency: 4, Timeout: time.Minute,
	}
}

// Terms are the combination of a manifest and a policy, independent of any
// grantee. They do not change, so they are safe for concurrent use; a caller
// that builds many profiles keeps them as long as manifest and policy stay the
// same.
type Terms struct {
	both    []*box
	tool    string
	effects []SideEffect // that are declared
	profile Profile      // what does not depend on the grant
}

// Prepare makes Terms. Malformed input is [sandbox.CodeValidation]; Field names
// the place.
func Prepare(m Manifest, p Policy) (*Terms, error) {
	if err := m.check(); err != nil {
		return nil, err
	}
	if err := p.check(); err != nil {
		return nil, err
	}
	if err := checkTemplates("manifest.commands", m.Commands); err != nil {
		return nil, err
	}
	if err := checkTemplates("policy.commands", p.Commands); err != nil {
		return nil, err
	}
	declared, err := boxes("manifest.capabilities", m.Capabilities)
	if err != nil {
		return nil, err
	}
	allowed, err := boxes("policy.capabilities", p.Capabilities)
	if err != nil {
		return nil, err
	}
	both, err := meet("manifest.capabilities", declared, allowed)
	if err != nil {
		return nil, err
	}
	return &Terms{
		both: both, tool: m.Tool,
		effects: slices.Concat(m.SideEffects, p.SideEffects),
		profile: Profile{
			Safety:   highest(m.Safety, p.Safety),
			Limits:   strictest(m.Limits, p.Limits, Defaults()),
			Lists:    p.Lists.sorted(),
			Denied:   Denied{Domains: sorted(p.Denied.Domains), Paths: sorted(p.Denied.Paths)},
			Mappings: p.Mappings,
			Commands: ordered(m.Commands), PolicyCommands: ordered(p.Commands),
			PolicyVersion: p.Version, ManifestVersion: m.Version,
			Sources: Sources{Manifest: spelled(declared), Policy: spelled(allowed)},
		},
	}, nil
}

// Build makes the profile of a call: the intersection of grant, manifest and
// policy. A profile that allows nothing is valid too; a guard then says which
// of the three does not contain what was refused.
//
// Build returns [sandbox.CodeValidation] for malformed input (Field names the
// place); [sandbox.CodePermissionDeny] for a grant that is missing or outside
// its time, and for one without a valid consent when the call is unsafe or has
// write or process among its side effects; and [sandbox.CodeDenyTool] for the
// manifest of another tool.
//
// The side effects are those that manifest and policy declare, and those that
// the allowed operations can have regardless of the declarations.
func Build(g Grant, m Manifest, p Policy, now time.Time) (Profile, error) {
	if err := g.check(now); err != nil {
		return Profile{}, err
	}
	t, err := Prepare(m, p)
	if err != nil {
		return Profile{}, err
	}
	return t.Build(g, now)
}

// Build is [Build] with the manifest and the policy of the terms. Profiles of
// the same terms share lists, which must not be changed.
func (t *Terms) Build(g Grant, now time.Time) (Profile, error) {
	if err := g.check(now); err != nil {
		return Profile{}, err
	}
	if g.Tool != t.tool {
		return Profile{}, fault(sandbox.CodeDenyTool, "manifest.tool", g.Tool, "the grant is for another tool than the manifest", "ask for a grant for the tool that is called")
	}
	granted, err := boxes("grant.capabilities", g.Capabilities)
	if err != nil {
		return Profile{}, err
	}
	all, err := meet("grant.capabilities", granted, t.both)
	if err != nil {
		return Profile{}, err
	}
	out := t.profile
	out.Grant, out.Tenant, out.Subject, out.Agent, out.Session, out.Tool, out.Call = g.ID, g.Tenant, g.Subject, g.Agent, g.Session, g.Tool, g.Call
	out.Capabilities, out.SideEffects = spelled(all), effects(all, t.effects)
	out.Budget, out.Expires, out.Consent, out.DecisionKey = g.Budget, g.Expires, cloned(g.Consent), g.DecisionKey
	out.Sources.Grant, out.Sources.Lists = spelled(granted), g.Lists
	out.Limits, out.Lists = g.Limits.over(out.Limits), g.Lists.over(out.Lists)
	if err := out.consented(now); err != nil {
		return Profile{}, err
	}
	out.Hash = out.Sum()
	return out, nil
}

// consented reports that the profile as such needs a consent and has none that
// is in time.
func (p *Profile) consented(now time.Time) error {
	switch {
	case p.Safety == SafetyHigh:
		return p.Consent.in(now, "the tool is unsafe")
	case slices.Contains(p.SideEffects, EffectWrite):
		return p.Consent.in(now, "the tool writes")
	case slices.Contains(p.SideEffects, EffectProcess):
		return p.Consent.in(now, "the tool runs programs")
	}
	return nil
}

// in returns the error for a consent that is missing or not valid at now.
func (c *Consent) in(now time.Time, why string) error {
	const field, hint = "grant.consent", "ask whom it concerns, and have the grant carry the answer"
	switch {
	case c == nil || c.By == "":
		return denied(field, "", why+", and no party has consented", hint)
	case c.At.After(now):
		return denied(field, "", why+", and the consent is from the future", "compare the clocks")
	case !now.Before(c.Expires):
		return denied(field, "", why+", and the consent has expired", hint)
	}
	return nil
}

func cloned(c *Consent) *Consent {
	if c == nil {
		return nil
	}
	clone := *c
	return &clone
}

// highest returns the highest of classes, low when none is set.
func highest(classes ...SafetyClass) SafetyClass {
	out := SafetyLow
	for _, c := range classes {
		if rank(c) > rank(out) {
			out = c
		}
	}
	return out
}

// effects returns the union of the declared side effects and those that boxes
// can have, sorted.
func effects(list []*box, declared []SideEffect) []SideEffect {
	out := append([]SideEffect{}, declared...)
	for i := range list {
		out = append(out, list[i].effects()...)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// looking are the actions of a browser that change nothing.
func looking() words {
	return wordOf(actions, "open") | wordOf(actions, "screenshot") | wordOf(actions, "extract") | wordOf(actions, "pdf") | wordOf(actions, "wait")
}

// effects are those that what the box allows can have.
func (b *box) effects() []SideEffect {
	switch b.kind {
	case FSRead, FSList:
		return []SideEffect{EffectRead}
	case FSWrite:
		return []SideEffect{EffectWrite, EffectFilesystem}
	case NetHTTP:
		return []SideEffect{EffectNetwork}
	case Browser:
		if b.words&^looking() != 0 {
			return []SideEffect{EffectBrowser, EffectWrite}
		}
		return []SideEffect{EffectBrowser}
	case Process:
		return []SideEffect{EffectProcess}
	case Temp:
		return []SideEffect{EffectFilesystem}
	}
	return nil
}

// strictest returns the smaller of each limit of manifest and policy, and the
// default when neither sets it.
func strictest(m, p, def Limits) Limits {
	return Limits{
		MaxBytesIn:     least(m.MaxBytesIn, p.MaxBytesIn, def.MaxBytesIn),
		MaxBytesOut:    least(m.MaxBytesOut, p.MaxBytesOut, def.MaxBytesOut),
		MaxTmpBytes:    least(m.MaxTmpBytes, p.MaxTmpBytes, def.MaxTmpBytes),
		MaxFiles:       least(m.MaxFiles, p.MaxFiles, def.MaxFiles),
		MaxDepth:       least(m.MaxDepth, p.MaxDepth, def.MaxDepth),
		MaxConcurrency: least(m.MaxConcurrency, p.MaxConcurrency, def.MaxConcurrency),
		Timeout:        least(m.Timeout, p.Timeout, def.Timeout),
	}
}

func least[T ~int | ~int64](a, b, def T) T {
	switch {
	case a == 0 && b == 0:
		return def
	case a == 0:
		return b
	case b == 0:
		return a
	}
	return min(a, b)
}

// sorted returns a sorted copy without repetitions; nil stays nil, and none
// stays none.
func sorted(list []string) []string {
	if list == nil {
		return nil
	}
	out := append(make([]string, 0, len(list)), list...)
	slices.Sort(out)
	return slices.Compact(out)
}

func (l *Lists) sorted() Lists {
	return Lists{Domains: sorted(l.Domains), Paths: sorted(l.Paths), Tools: sorted(l.Tools), MIME: sorted(l.MIME), Methods: sorted(l.Methods)}
}

// over returns the limits with those of a grant laid over them: of each the least.
func (l Limits) over(has Limits) Limits { return strictest(l, has, has) }

// over returns the lists with those of a grant laid over them: what both allow.
func (g *Granted) over(has Lists) Lists {
	has.Paths = both(has.Paths, g.Paths, func(a, b string) bool { return below(b, a) })
	has.Tools = both(has.Tools, g.Tools, func(a, b string) bool { return a == b })
	has.MIME = both(has.MIME, g.MIME, holdsType)
	has.Methods = both(has.Methods, g.Methods, func(a, b string) bool { return a == b || a == "*" })
	return has
}

// both returns the intersection of two lists, of whose entries any two are
// disjoint or one includes the other. A nil list does not restrict.
func both(a, b []string, holds func(a, b string) bool) []string {
	switch {
	case b == nil:
		return a
	case a == nil:
		return sorted(b)
	}
	out := []string{}
	for _, x := range a {
		for _, y := range b {
			switch {
			case holds(x, y):
				out = append(out, y)
			case holds(y, x):
				out = append(out, x)
			}
		}
	}
	return sorted(out)
}

// holdsType reports whether the entry a of a list of MIME types includes the
// entry b: type/subtype, type/* or */*.
func holdsType(a, b string) bool {
	major, _, _ := strings.Cut(b, "/")
	return a == b || a == "*/*" || a == major+"/*" && major != "*"
}
