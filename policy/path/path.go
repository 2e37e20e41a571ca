// Package path decides whether a file may be read or written: by rules of the
// settings, by a table of sensitive files (keys, credentials, what shells, git
// and editors run without being asked), and by the roots below which work is
// done.
//
// It judges names. It reads no file and follows no link: a caller that knows
// where a link leads asks about the target. The package resolves what a name
// alone shows: dots and doubled slashes, /proc/self/root, the /private of
// macOS, letter case where the file system folds it. It denies a path whose
// name does not determine its place, such as one through /proc/self/cwd.
package path

import (
	"strconv"
	"strings"
	"sync"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
)

// Options say what a Policy goes by. Paths and rules are spelled as inside the
// sandbox. Roots and prefixes are absolute paths, no patterns. Rules are paths
// or globs as in the settings (see package pattern): "~/x" lies in Home and in
// HostHome, "**/x" anywhere, "x" below each of WorkRoots; a rule means what it
// names and everything below that.
type Options struct {
	Home         string   // absolute; empty is unknown: then "~/x" in a deny means every home, and elsewhere nothing
	HostHome     string   // absolute; home of the host, where files of it are seen inside at their places; empty is none
	PrivateHome  bool     // Home is the sandbox's own and holds nothing of the host: the table of sensitive files does not concern it
	HostRules    []string // what both lists of denies begin with: no AllowRead opens anything inside them, and those below "~/" do not concern a private Home
	Shown        []Shown  // folders of the host that are seen inside at other places
	WorkRoots    []string // folders that may be read and written; none means no writing but by AllowWrite and TempPrefixes
	ReadRoots    []string // folders that may be read besides; empty is all
	TempPrefixes []string // folders below /tmp, /private/tmp and /var/tmp that may be written under Strict and with TempOnly
	TempOnly     bool     // deny writing temporary files outside TempPrefixes without Strict too

	// A deny to read denies writing too. A path of AllowRead, no pattern, that
	// lies below the match of a deny opens reading there again, and writing
	// where AllowWrite names a path as deep. The deeper of the two decides.
	AllowRead, DenyRead []string
	// An allow to write allows reading too where no deny closes it. No allow
	// opens anything inside a DenyWrite.
	AllowWrite, DenyWrite []string

	Sensitive  []Entry  // added to the built-in table
	Exceptions []string // rules for what the table of sensitive files does not concern

	FoldCase bool // whether the file system takes names that differ in case for one, as that of macOS does
	Strict   bool // deny what would be asked about, and temporary files outside TempPrefixes
}

// A Shown is a folder of the host that is seen inside. A rule that names a place
// in it by the one name means the place by the other name as well.
type Shown struct {
	Host   string // absolute
	Inside string // absolute
}

// A Decision is what a Policy says of one operation on one path.
type Decision struct {
	Verdict  policy.Verdict  `json:"verdict"`
	Severity policy.Severity `json:"severity,omitempty"` // of what was found; 0 when nothing was
	Category Category        `json:"category,omitempty"` // of the sensitive file, or which other rule decided
	Rule     string          `json:"rule,omitempty"`     // "filesystem.denyRead[2]: ~/.ssh", "sensitive: **/.env"
	Message  string          `json:"message,omitempty"`  // one sentence without trailing period
	Hint     string          `json:"hint,omitempty"`     // what to do instead
}

// Violation is the type of the record that d makes when it is not an allow.
func (d Decision) Violation() string {
	switch d.Category {
	case CategoryTemporary:
		return "disallowed_temp_write"
	case CategoryRule, CategoryRoots, CategoryName:
		return "path_access_denied"
	}
	return "sensitive_file_access"
}

// A Policy judges paths. What it says does not change, and it is safe for
// concurrent use. The built-in table is compiled for the first question, since
// many a policy is asked none.
type Policy struct {
	builtin sync.Once

	fold, strict bool
	temp         bool     // Strict or TempOnly
	tempHint     string   // which temporary folders may be written
	home         []string // segments of Options.Home
	hostHome     []string // segments of Options.HostHome
	private      bool     // home holds nothing of the host
	reads        bool     // all may be read

	denyRead, denyWrite, sensitive, exceptions index
	mayRead, mayWrite                          index // roots and rules
	openRead, openWrite                        index // paths of the allow lists, which may open inside denyRead
	liftRead, liftWrite                        index // rules that name a sensitive file

	closing  [anywhere + 1][]*rule     // what denies and the table hold, by where it begins
	anchors  [anywhere + 1][][]segment // where that may be
	floating index                     // those that begin anywhere
}

// New compiles a Policy. Errors are *sandbox.Error of code CodeValidation with
// the setting in Field.
func New(o Options) (*Policy, error) {
	p := &Policy{fold: o.FoldCase, strict: o.Strict, temp: o.Strict || o.TempOnly, tempHint: tempHint(o.TempPrefixes), reads: len(o.ReadRoots) == 0}
	var err error
	if p.home, err = homeOf("home", o.Home, p.fold); err != nil {
		return nil, err
	}
	if p.hostHome, err = homeOf("hostHome", o.HostHome, p.fold); err != nil {
		return nil, err
	}
	p.private = o.PrivateHome && len(p.home) > 0 && !liesIn(p.home, p.hostHome) && !liesIn(p.hostHome, p.home)
	p.anchors = anchorsOf(p.home, p.hostHome)
	if err := p.added(o.Sensitive); err != nil {
		return nil, err
	}
	c := compiler{p: p, roots: o.WorkRoots, host: o.HostRules}
	c.shownAt(o.Shown)
	c.folders("workRoots", o.WorkRoots, &p.mayRead, &p.mayWrite)
	c.folders("readRoots", o.ReadRoots, &p.mayRead)
	c.folders("tempPrefixes", o.TempPrefixes, &p.mayRead, &p.mayWrite)
	c.list("filesystem.denyRead", o.DenyRead, true, &p.denyRead)
	c.list("filesystem.denyWrite", o.DenyWrite, true, &p.denyWrite)
	c.list("exceptions", o.Exceptions, false, &p.exceptions)
	c.list("filesystem.allowRead", o.AllowRead, false, &p.mayRead)
	c.list("filesystem.allowWrite", o.AllowWrite, false, &p.mayRead, &p.mayWrite)
	if c.err != nil {
		return nil, c.err
	}
	p.mayRead.rules(opens(&p.openRead, "filesystem.allowRead["))
	p.mayWrite.rules(opens(&p.openWrite, "filesystem.allowWrite["))
	return p, nil
}

// homeOf returns the segments of a home folder, nil when it is not known.
func homeOf(field, home string, fold bool) ([]string, error) {
	if home == "" {
		return nil, nil
	}
	at, why := canonical(home, fold)
	if why != "" || at.descriptor {
		return nil, invalid(field, home, why+", so it is no home")
	}
	return at.segs, nil
}

// Judge says whether op may be done to the file or folder at the absolute
// path name, not what lies below it (see [Policy.JudgeTree]). OpConnect is
// judged as a write.
//
// A deny closes what it names and everything below, except what AllowRead names
// below it; the deeper of the two decides, and the deny where they name one
// path. No allow opens anything inside HostRules, a DenyWrite or the table of
// sensitive files: there, a rule that allows a file by name lifts what would be
// asked about, and never what is denied.
func (p *Policy) Judge(op sandbox.Operation, name string) Decision {
	p.builtin.Do(p.complete)
	at, why := canonical(name, p.fold)
	if why != "" {
		return unclear(name, why)
	}
	return p.judge(op, at)
}

func (p *Policy) judge(op sandbox.Operation, at place) Decision {
	var homes homes
	p.homesOf(at.segs, &homes)
	if r := p.closedBy(op, at.segs, &homes); r != nil {
		return denied(op, at, r)
	}
	d := p.judgeSensitive(op, at, &homes)
	if at.descriptor || device(at.segs) {
		return d
	}
	return worse(d, p.judgeRoots(op, at, &homes))
}

// Sensitive returns the entry of the table that matches the absolute path
// name, the gravest if there are several, and whether there is one. It reports
// false for exceptions and for paths whose name does not determine their
// place.
func (p *Policy) Sensitive(name string) (Entry, bool) {
	p.builtin.Do(p.complete)
	at, why := canonical(name, p.fold)
	if why != "" {
		return Entry{}, false
	}
	var homes homes
	p.homesOf(at.segs, &homes)
	r := p.gravest(at.segs, &homes, func(e *Entry) policy.Severity { return max(e.Read, e.Write) })
	if r == nil {
		return Entry{}, false
	}
	return *r.entry, true
}

// judgeSensitive holds at against the table.
func (p *Policy) judgeSensitive(op sandbox.Operation, at place, homes *homes) Decision {
	r := p.gravest(at.segs, homes, func(e *Entry) policy.Severity { return e.severity(op) })
	if r == nil {
		return Decision{Verdict: policy.Allow}
	}
	d := p.sensitiveDecision(op, r, at.text)
	lift := &p.liftRead
	if op != sandbox.OpRead {
		lift = &p.liftWrite
	}
	if d.Verdict == policy.Deny && d.Severity == policy.Critical || lift.first(at.segs, homes) == nil {
		return d
	}
	return Decision{Verdict: policy.Allow}
}

func (p *Policy) sensitiveDecision(op sandbox.Operation, r *rule, text string) Decision {
	e := r.entry
	d := Decision{
		Verdict: e.verdict(op, p.strict), Severity: e.severity(op), Category: e.Category,
		Rule: "sensitive: " + r.name, Message: verb(op) + " " + strconv.Quote(text) + ": " + e.Why,
	}
	if d.Verdict != policy.Allow {
		d.Hint = "do without it, or ask the user to do it"
	}
	return d
}

// gravest returns the entry at segs that weigh gives most, or nil when none
// weighs anything or an exception names the place.
func (p *Policy) gravest(segs []string, homes *homes, weigh func(*Entry) policy.Severity) *rule {
	if p.own(segs) {
		return nil
	}
	var worst *rule
	most := policy.Severity(0)
	p.sensitive.each(segs, homes, func(r *rule, _ int) bool {
		if s := weigh(r.entry); s > most && !r.excepts(segs) {
			worst, most = r, s
		}
		return most < policy.Critical
	})
	if worst == nil || p.exceptions.first(segs, homes) != nil {
		return nil
	}
	return worst
}

// own reports whether names are the private home of the sandbox or lie in it.
func (p *Policy) own(names []string) bool { return p.private && liesIn(names, p.home) }

func denied(op sandbox.Operation, at place, r *rule) Decision {
	return Decision{
		Verdict: policy.Deny, Severity: policy.Critical, Category: CategoryRule, Rule: r.name,
		Message: verb(op) + " " + strconv.Quote(at.text) + " is denied by the settings",
		Hint:    "do without it; only who keeps the settings can change " + settingOf(r.name),
	}
}

func unclear(name, why string) Decision {
	if len(name) > 80 {
		name = name[:80] + "…"
	}
	return Decision{
		Verdict: policy.Deny, Severity: policy.High, Category: CategoryName,
		Rule: "path", Message: strconv.Quote(name) + " " + why, Hint: "write the file's own absolute path",
	}
}

// worse returns the stricter of two decisions, the graver where they agree.
func worse(a, b Decision) Decision {
	if a.Verdict != b.Verdict {
		if policy.Strictest(a.Verdict, b.Verdict) == b.Verdict {
			return b
		}
		return a
	}
	if b.Severity > a.Severity {
		return b
	}
	return a
}

func verb(op sandbox.Operation) string {
	switch op {
	case sandbox.OpRead:
		return "reading"
	case sandbox.OpConnect:
		return "connecting to"
	}
	return "writing"
}

// settingOf returns the name of the list that a rule stands in.
func settingOf(rule string) string {
	name, _, _ := strings.Cut(rule, "[")
	return name
}

func invalid(field, value, why string) error {
	e := sandbox.Errorf(sandbox.CodeValidation, "compile path policy", "%q %s", value, why)
	e.Field, e.Resource = field, value
	return e
}
