package grant

import (
	"mime"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// Check returns the error of a grant at that time, as [Build] does:
// [sandbox.CodeValidation] for a malformed one, and
// [sandbox.CodePermissionDeny] when there is none, or it is not yet or no
// longer valid. It does not check what the grant allows.
func (g *Grant) Check(now time.Time) error {
	if err := g.check(now); err != nil {
		return err
	}
	_, err := boxes("grant.capabilities", g.Capabilities)
	return err
}

// CheckLine is [Grant.Check] of a grant and those that it was derived from, its
// parent first. Errors about these name their place: "line[0].expires".
func CheckLine(g Grant, line []Grant, now time.Time) error {
	if err := g.Check(now); err != nil {
		return err
	}
	for i := range line {
		if err := line[i].Check(now); err != nil {
			return InLine(i, err)
		}
	}
	return nil
}

// InLine names the place of the error about a grant that is the i-th of a line.
func InLine(i int, err error) error {
	e, ok := err.(*sandbox.Error)
	if !ok {
		return err
	}
	rest, of := strings.CutPrefix(e.Field, "grant")
	if !of {
		return err
	}
	out := *e
	out.Field = "line[" + strconv.Itoa(i) + "]" + rest
	return &out
}

// check returns an error when the grant is malformed or missing, or not yet or
// no longer valid at that time.
func (g *Grant) check(now time.Time) error {
	if now.IsZero() {
		return fault(sandbox.CodeInternal, "state.now", "", "the time is missing", "")
	}
	if g.ID == "" && g.Tenant == "" && g.Call == "" {
		return denied("grant", "", "there is no grant", "ask for one")
	}
	for _, id := range []struct {
		field, text string
		required    bool
	}{
		{"id", g.ID, true}, {"parent", g.Parent, false}, {"tenant", g.Tenant, false}, {"subject", g.Subject, true},
		{"agent", g.Agent, false}, {"session", g.Session, false}, {"call", g.Call, true}, {"decisionKeyFingerprint", g.DecisionKey, true},
	} {
		if (id.required || id.text != "") && !isID(id.text) {
			return invalid("grant."+id.field, "it is missing, too long, or has blanks or signs that are not ASCII in it", "")
		}
	}
	switch {
	case !isName(g.Tool):
		return invalid("grant.tool", quoted(g.Tool)+" is no name of a tool", "")
	case g.Expires.IsZero():
		return invalid("grant.expires", "a grant without end", "say until when it is good")
	case g.Expires.Before(g.Issued):
		return invalid("grant.expires", "the grant ends before it begins", "")
	}
	if err := g.Budget.check("grant.budget"); err != nil {
		return err
	}
	if err := g.Consent.check("grant.consent"); err != nil {
		return err
	}
	if err := g.Limits.check("grant.limits"); err != nil {
		return err
	}
	own := Lists{Paths: g.Lists.Paths, Tools: g.Lists.Tools, MIME: g.Lists.MIME, Methods: g.Lists.Methods}
	if err := own.check("grant.lists"); err != nil {
		return err
	}
	if g.Issued.After(now) {
		return denied("grant.issued", g.ID, "the grant is not good yet", "compare the clocks")
	}
	return inTime(g.Expires, g.ID, now)
}

func inTime(expires time.Time, id string, now time.Time) error {
	if !now.Before(expires) {
		return denied("grant.expires", id, "the grant has expired", "ask for a new one")
	}
	return nil
}

// check returns an error for a malformed consent; a missing consent is not an
// error.
func (c *Consent) check(field string) error {
	switch {
	case c == nil:
		return nil
	case c.By == "":
		return invalid(field+".by", "it does not say whose consent it is", "name the party that consented")
	case illegible(c.By, maxID) != "":
		return invalid(field+".by", "the name "+illegible(c.By, maxID), "")
	case c.Expires.IsZero():
		return invalid(field+".expires", "a consent without end", "say until when it is good")
	case c.Expires.Before(c.At):
		return invalid(field+".expires", "the consent ends before it was given", "")
	}
	return nil
}

// check returns an error for an invalid amount.
func (b *Budget) check(field string) error {
	for _, a := range b.amounts() {
		if *a.value < Unlimited {
			return invalid(field+"."+a.name, "an amount below 0", "write -1 for no bound")
		}
	}
	return nil
}

// An amount is one of a budget, with its name.
type amount struct {
	name  string
	value *int64
}

func (b *Budget) amounts() [7]amount {
	return [...]amount{
		{"calls", &b.Calls}, {"bytesIn", &b.BytesIn}, {"bytesOut", &b.BytesOut}, {"cpuMs", &b.CPUMs}, {"gpuMs", &b.GPUMs},
		{"files", &b.Files}, {"wallMs", &b.WallMs},
	}
}

// check reports what is wrong with a manifest, its capabilities left out.
func (m *Manifest) check() error {
	switch {
	case !isName(m.Tool):
		return invalid("manifest.tool", quoted(m.Tool)+" is no name of a tool", "")
	case !isVersion(m.Version):
		return invalid("manifest.version", quoted(m.Version)+" is no version", "write it like 1.2.3")
	case rank(m.Safety) == 0:
		return invalid("manifest.safety", quoted(string(m.Safety))+" is no class of safety", "write low, medium or high")
	}
	if err := checkEffects("manifest.sideEffects", m.SideEffects); err != nil {
		return err
	}
	return m.Limits.check("manifest.limits")
}

// check reports what is wrong with a policy, its capabilities left out.
func (p *Policy) check() error {
	switch {
	case !isID(p.Version):
		return invalid("policy.version", "it is missing, too long, or has blanks or signs that are not ASCII in it", "use a hash of the settings")
	case p.Safety != "" && rank(p.Safety) == 0:
		return invalid("policy.safety", quoted(string(p.Safety))+" is no class of safety", "write low, medium or high")
	}
	if err := checkEffects("policy.sideEffects", p.SideEffects); err != nil {
		return err
	}
	if err := p.Limits.check("policy.limits"); err != nil {
		return err
	}
	if err := p.Lists.check("policy.lists"); err != nil {
		return err
	}
	if err := each("policy.denied.domains", p.Denied.Domains, domainFault(network.CheckDenied)); err != nil {
		return err
	}
	if err := each("policy.denied.paths", p.Denied.Paths, pathFault); err != nil {
		return err
	}
	for _, m := range []struct{ field, path string }{{"root", p.Mappings.Root}, {"tmp", p.Mappings.Tmp}} {
		if why := pathFault(m.path); why != "" {
			return invalid("policy.mappings."+m.field, why, "name an absolute folder inside")
		}
		if m.path == "/" {
			return invalid("policy.mappings."+m.field, "/ is the whole file system, which binds nothing", "name a folder below it")
		}
	}
	return nil
}

// CheckLists reports the entry of lists that is malformed, by its place below
// field: "profile.mime[0]" below "profile".
func CheckLists(field string, l Lists) error { return l.check(field) }

func (l *Lists) check(field string) error {
	allowed := domainFault(func(rule string) error { return network.CheckAllowed(rule, true) })
	if err := each(field+".domains", l.Domains, allowed); err != nil {
		return err
	}
	if err := each(field+".paths", l.Paths, pathFault); err != nil {
		return err
	}
	if err := each(field+".tools", l.Tools, programFault); err != nil {
		return err
	}
	if err := each(field+".mime", l.MIME, mimeFault); err != nil {
		return err
	}
	return each(field+".methods", l.Methods, func(m string) string {
		if m != "*" && wordOf(methods, m) == 0 {
			return quoted(m) + " is no method that can be allowed"
		}
		return ""
	})
}

// each reports the first entry of a list that has a fault.
func each(field string, list []string, faultOf func(string) string) error {
	const most = 10_000
	if len(list) > most {
		return invalid(field, strconv.Itoa(len(list))+" entries are too many", "name at most "+strconv.Itoa(most))
	}
	for i, s := range list {
		if why := faultOf(s); why != "" {
			return invalid(field+"["+strconv.Itoa(i)+"]", why, "")
		}
	}
	return nil
}

func domainFault(check func(string) error) func(string) string {
	return func(rule string) string {
		if err := check(rule); err != nil {
			return err.(*sandbox.Error).Message
		}
		return ""
	}
}

func mimeFault(s string) string {
	if s == "*/*" {
		return ""
	}
	t, params, err := mime.ParseMediaType(s)
	kind, sub, ok := strings.Cut(s, "/")
	if err != nil || t != s || len(params) > 0 || !ok || strings.Contains(kind, "*") || sub != "*" && strings.Contains(sub, "*") {
		return quoted(s) + " is no MIME type in lower case, and no type/*"
	}
	return ""
}

func checkEffects(field string, list []SideEffect) error {
	for i, e := range list {
		switch e {
		case EffectRead, EffectWrite, EffectNetwork, EffectFilesystem, EffectBrowser, EffectProcess:
		default:
			return invalid(field+"["+strconv.Itoa(i)+"]", quoted(string(e))+" is no side effect", "write read, write, network, filesystem, browser or process")
		}
	}
	return nil
}

func (l *Limits) check(field string) error {
	for _, one := range []struct {
		name  string
		below bool
	}{
		{"maxBytesIn", l.MaxBytesIn < 0}, {"maxBytesOut", l.MaxBytesOut < 0}, {"maxTmpBytes", l.MaxTmpBytes < 0}, {"maxFiles", l.MaxFiles < 0},
		{"maxDepth", l.MaxDepth < 0}, {"maxConcurrency", l.MaxConcurrency < 0}, {"timeout", l.Timeout < 0},
	} {
		if one.below {
			return invalid(field+"."+one.name, "a limit below 0", "leave out what is not to be limited here")
		}
	}
	return nil
}

// rank orders safety classes; 0 is not a class.
func rank(c SafetyClass) int {
	switch c {
	case SafetyLow:
		return 1
	case SafetyMedium:
		return 2
	case SafetyHigh:
		return 3
	}
	return 0
}

// denied is the error for the lack of a valid grant.
func denied(field, resource, message, hint string) error {
	return fault(sandbox.CodePermissionDeny, field, resource, message, hint)
}
