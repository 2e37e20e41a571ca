package docker

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A protection is what has to be closed for writing in the folders of people
// that a container can write: files by which code inside would have something
// run on the host. It is what package protect says for every provider, by
// mounts that lie in those of the Spec.
type protection struct {
	plan   plan.Plan
	views  []plan.View
	added  []string        // targets of views that the Spec does not have
	mounts []sandbox.Mount // in order, parents first
	masks  []mask          // likewise
	rules  map[string]string
	facts  hostscan.Facts
	search hostscan.Request
	ruled  hostscan.Request // for what the patterns of rules mean
	denies []plan.Deny      // what rules close by path
	opens  []plan.Open
	notes  []string
}

// A mask hides a file or folder of the host that rules close for reading, by an
// empty file or by a folder that cannot be listed. On that lies what an allow shows
// again.
type mask struct {
	Target string
	Dir    bool
}

// protection looks at the host and says what has to be closed for s now. It is
// nil where s mounts no folder of people, and no rule names a place in what it
// mounts: a scratch workspace is ours. In a private view of a folder what rules
// close for reading is closed as in the folder itself. What code inside writes there
// for git or an editor stays in the view, and so is not closed. Masked reports whether a container was made with
// a mask at a place inside; nil asks what a new one is made with. What has come
// to match a pattern since is not closed: no mount can follow it.
func (p *Provider) protection(ctx context.Context, s sandbox.Spec, masked func(inside string) bool) (*protection, error) {
	if p.opts.World == nil {
		return nil, nil
	}
	at := p.opts.World()
	c := &protection{rules: map[string]string{}}
	q := hostscan.ProtectRequest{Home: p.opts.Home}
	ours := func(dir string) bool {
		return slices.ContainsFunc(at.Workspaces, func(w string) bool { return hostpath.Within(dir, w) })
	}
	for _, m := range s.Mounts {
		if m.Role != sandbox.RoleWorkspace && m.Role != sandbox.RoleAgent && m.Role != sandbox.RoleBind {
			continue
		}
		source, err := hostpath.Canonical(m.Source)
		if err != nil {
			return nil, err
		}
		if st, err := os.Stat(source); err != nil || !st.IsDir() {
			continue // of a missing one the engine says so; a file is a person's choice
		}
		c.views = append(c.views, plan.View{Source: source, Target: m.Target, Write: !m.ReadOnly, Why: "mount: " + m.Target})
		if !ours(source) || m.Base != "" {
			c.ruled.Roots = append(c.ruled.Roots, source)
		}
		if m.Base != "" {
			c.ruled.Roots = append(c.ruled.Roots, m.Base)
		}
		switch {
		case m.ReadOnly || ours(source):
		case m.Role == sandbox.RoleWorkspace:
			q.Own, q.Inside = source, m.Target
			c.search.Roots = append(c.search.Roots, source)
		default:
			q.Writable = append(q.Writable, source)
			c.search.Roots = append(c.search.Roots, source)
		}
	}
	c.rule(s)
	if len(c.search.Roots) == 0 && len(c.denies) == 0 && (len(c.ruled.Roots) == 0 || len(c.ruled.Globs) == 0) {
		return nil, nil
	}
	if p.opts.Protection == "" {
		return nil, &sandbox.Error{Code: sandbox.CodeInternal, Op: "protect", Resource: s.Name, Message: "the provider has no folder for what protects folders of the host"}
	}
	for _, own := range at.Sensitive {
		if !slices.ContainsFunc(at.Workspaces, func(w string) bool { return hostpath.Within(w, own) }) {
			q.Settings = append(q.Settings, own)
		}
	}
	slices.Sort(c.search.Roots)
	c.search.Roots = slices.Compact(c.search.Roots)
	slices.Sort(q.Writable)
	q.Writable = slices.Compact(q.Writable)
	c.search.Find = hostscan.Finds()
	q.Git = hostscan.UserGit(q.Home, os.Getenv)
	return c, c.look(ctx, p, s, q, masked)
}

// rule takes the rules of s for files. What they close outside of the mounts is
// not there.
func (c *protection) rule(s sandbox.Spec) {
	slices.Sort(c.ruled.Roots)
	c.ruled.Roots = slices.Compact(c.ruled.Roots)
	denies, globs := hostscan.Denied(s)
	for _, d := range denies {
		if slices.ContainsFunc(c.views, func(v plan.View) bool { return hostpath.Within(d.Path, v.Source) || hostpath.Within(v.Source, d.Path) }) {
			c.denies = append(c.denies, d)
		}
	}
	c.opens = hostscan.Opens(s)
	c.ruled.Globs, c.ruled.Denied = globs, c.denies
	for _, o := range c.opens {
		if o.Read {
			c.ruled.Opened = append(c.ruled.Opened, o.Path)
		}
	}
}

// match returns what the patterns of rules close now, and the other names of
// what rules close. Of what was masked when the container was made, and of what is
// new to a container that is not made yet, it returns all.
func (c *protection) match(ctx context.Context, p *Provider, s sandbox.Spec, masked func(string) bool) ([]plan.Deny, error) {
	if len(c.ruled.Roots) == 0 {
		return nil, nil
	}
	found, err := p.scanner(s.Name+rulesSuffix).Scan(ctx, c.ruled)
	if err != nil {
		return nil, err
	}
	if n := len(found.Unreadable); n > 0 {
		c.notes = append(c.notes, fmt.Sprintf("%d folders cannot be looked into from here, so what filesystem.denyRead matches in them is not closed by mounts: %s …", n, found.Unreadable[0]))
	}
	found.Unreadable, found.Sockets = nil, nil
	return slices.DeleteFunc(hostscan.Viewed(s, found.Denies()), func(d plan.Deny) bool {
		return masked != nil && !slices.ContainsFunc(c.views, func(v plan.View) bool {
			return hostpath.Within(d.Path, v.Source) && masked(path.Join(v.Target, strings.TrimPrefix(d.Path, v.Source)))
		})
	}), nil
}

// rulesSuffix names the scanner for rules beside that of the sandbox.
const rulesSuffix = " rules"

// look fills in what the host says.
func (c *protection) look(ctx context.Context, p *Provider, s sandbox.Spec, q hostscan.ProtectRequest, masked func(string) bool) error {
	var rules hostscan.Rules
	if len(c.search.Roots) > 0 {
		found, err := p.scanner(s.Name).Scan(ctx, c.search)
		if err != nil {
			return err
		}
		q.Found = found.Found
		if c.facts, err = hostscan.Look(q); err != nil {
			return err
		}
		rules = hostscan.Decide(c.facts)
	}
	matched, err := c.match(ctx, p, s, masked)
	if err != nil {
		return err
	}
	placeholders, err := p.placeholders()
	if err != nil {
		return err
	}
	for _, v := range rules.Views {
		if covers(v.Target, s) {
			c.notes = append(c.notes, v.Target+" cannot be shown in the container, where other things lie at this path; git worktrees do not work there")
			continue
		}
		c.views = append(c.views, v)
		c.added = append(c.added, v.Target)
	}
	w := plan.World{Views: c.views, Denies: slices.Concat(c.denies, matched, rules.Denies), Opens: c.opens}
	if _, c.plan, err = plan.Draw(w, hostscan.Disk{Placeholder: placeholders.Is}); err != nil {
		return err
	}
	c.notes = slices.Concat(c.notes, rules.Notes, c.plan.Notes)
	for _, op := range c.plan.Ops {
		if _, in := c.view(op.Target); !in {
			continue
		}
		switch op.Kind {
		case plan.OpBind, plan.OpRoBind:
			whole := slices.ContainsFunc(c.views, func(v plan.View) bool { return v.Target == op.Target }) && !slices.Contains(c.added, op.Target)
			if whole && (op.Kind == plan.OpBind || !strings.HasPrefix(op.Rule, "protection: ")) {
				continue // the Spec's own
			}
			c.mounts = append(c.mounts, sandbox.Mount{Source: op.Source, Target: op.Target, ReadOnly: op.Kind == plan.OpRoBind, Role: sandbox.RoleBind})
			c.rules[op.Target] = op.Rule
		case plan.OpMaskFile, plan.OpMaskDir:
			if !strings.HasPrefix(op.Rule, "protection: ") {
				c.masks = append(c.masks, mask{op.Target, op.Kind == plan.OpMaskDir})
				c.rules[op.Target] = op.Rule
				continue
			}
			return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "protect", Resource: op.Target,
				Message: op.Target + " has to be closed (" + op.Rule + "), and is neither a file nor a folder", Hint: "remove it, or use another workspace"}
		}
	}
	return nil
}

// within returns the mount points that the mask m needs, as paths below it, those
// of files with a slash in front.
func (c *protection) within(m mask) []string {
	var out []string
	nearest := func(target string) bool { // no other mount lies between
		return target != m.Target && hostpath.Within(target, m.Target) && !slices.ContainsFunc(c.closed(), func(other string) bool {
			return other != target && other != m.Target && hostpath.Within(target, other) && hostpath.Within(other, m.Target)
		})
	}
	add := func(target string, dir bool) {
		if !nearest(target) {
			return
		}
		rel := strings.TrimPrefix(target, m.Target+"/")
		if !dir {
			rel = "/" + rel
		}
		out = append(out, rel)
	}
	for _, mount := range c.mounts {
		st, err := os.Stat(mount.Source)
		add(mount.Target, err == nil && st.IsDir())
	}
	for _, other := range c.masks {
		add(other.Target, other.Dir)
	}
	slices.Sort(out)
	return out
}

// closed returns the places inside at which something is mounted for c.
func (c *protection) closed() []string {
	var out []string
	for _, m := range c.mounts {
		out = append(out, m.Target)
	}
	for _, m := range c.masks {
		out = append(out, m.Target)
	}
	return out
}

// covers reports whether a mount at target would hide something that the
// container needs: a folder of the system, or what the Spec mounts.
func covers(target string, s sandbox.Spec) bool {
	hides := func(p string) bool { return hostpath.Within(p, target) }
	system := []string{"/bin", "/boot", "/dev", "/etc", "/home", "/lib", "/lib32", "/lib64", "/opt", "/proc", "/root", "/run", "/sbin", "/srv", "/sys", "/tmp", "/usr", "/var", sandbox.GuestDir}
	if slices.ContainsFunc(system, hides) {
		return true
	}
	for _, closed := range []string{"/proc", "/sys", "/dev", "/etc", sandbox.GuestDir} {
		if hostpath.Within(target, closed) {
			return true
		}
	}
	return slices.ContainsFunc(s.Mounts, func(m sandbox.Mount) bool { return hides(m.Target) }) ||
		slices.ContainsFunc(s.Tmpfs, func(t sandbox.Tmpfs) bool { return hides(t.Target) })
}

// view returns the view that shows the path inside.
func (c *protection) view(inside string) (v plan.View, ok bool) {
	for _, one := range c.views {
		if hostpath.Within(inside, one.Target) && (!ok || len(one.Target) > len(v.Target)) {
			v, ok = one, true
		}
	}
	return v, ok
}

// judge says what the protection makes of op on a path inside. What it does not
// close is not for it to judge.
func (c *protection) judge(op sandbox.Operation, inside string) sandbox.Verdict {
	open := sandbox.Verdict{Allowed: true}
	if c == nil {
		return open
	}
	if _, in := c.view(inside); !in {
		return open
	}
	if v := c.plan.Judge(op, inside); !v.Allowed && v.Builtin {
		return v
	}
	return open
}

// lost returns the first place that is to be closed and is not, by what is
// mounted inside, and the rule. Grave says that it is no matter of a repository
// alone that has appeared below a folder of people.
func (c *protection) lost(mounted map[string]bool) (place, rule string, grave bool) {
	for _, m := range c.masks {
		if readOnly, there := mounted[m.Target]; !there || !readOnly {
			return m.Target, c.rules[m.Target], true
		}
	}
	for _, m := range c.mounts {
		readOnly, there := mounted[m.Target]
		if there && (readOnly || !m.ReadOnly) {
			continue
		}
		if !c.nested(m.Source) && !slices.ContainsFunc(c.added, func(target string) bool { return hostpath.Within(m.Target, target) }) {
			return m.Target, c.rules[m.Target], true
		}
		if place == "" {
			place, rule = m.Target, c.rules[m.Target]
		}
	}
	return place, rule, false
}

// nested reports whether the host's path lies in a repository below a folder
// that is mounted, and not in one that is it.
func (c *protection) nested(host string) bool {
	return slices.ContainsFunc(c.facts.Repos, func(r hostscan.Repo) bool {
		return hostpath.Within(host, r.Place) && !slices.Contains(c.search.Roots, r.Place)
	})
}

// before returns the facts about repositories that mounts close: what becomes of
// others is looked through when a command has ended.
func (c *protection) before(mounted map[string]bool) hostscan.Facts {
	f := c.facts
	f.Repos = slices.DeleteFunc(slices.Clone(f.Repos), func(r hostscan.Repo) bool {
		return !slices.Contains(c.search.Roots, r.Place) && slices.ContainsFunc(c.mounts, func(m sandbox.Mount) bool {
			readOnly, there := mounted[m.Target]
			return hostpath.Within(m.Source, r.Place) && m.ReadOnly && !(there && readOnly)
		})
	})
	return f
}

// hold looks for what code inside has made for git on the host, takes away what
// would run something, and returns what it has found.
func (c *protection) hold(ctx context.Context, p *Provider, name string, before hostscan.Facts) ([]sandbox.Violation, error) {
	if len(c.search.Roots) == 0 {
		return nil, nil
	}
	found, err := p.scanner(name).Scan(ctx, c.search)
	if err != nil {
		return nil, err
	}
	list, err := hostscan.Hold(before, found.Found)
	var out []sandbox.Violation
	for _, one := range list {
		rule := hostscan.RulePlanted + ": " + one.Why
		if one.Held != "" {
			rule += "; it is kept as " + path.Base(one.Held)
		}
		out = append(out, sandbox.Violation{
			Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: one.Path, Rule: rule, Builtin: true,
			Evidence: sandbox.EvidenceWeak, HostPath: one.Path, Time: p.opts.Now().UTC(),
		})
	}
	return out, err
}

// mountsOf reads what is mounted where, as the kernel tells it in mountinfo, and
// whether it is read-only. Of several mounts at one place the last one counts.
func mountsOf(text string) (map[string]bool, error) {
	out := map[string]bool{}
	lines := bufio.NewScanner(strings.NewReader(text))
	lines.Buffer(nil, 1<<20)
	unescape := strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`)
	for lines.Scan() {
		f := strings.Fields(lines.Text())
		if len(f) < 6 {
			return nil, fmt.Errorf("the line %q of mountinfo is too short", lines.Text())
		}
		out[unescape.Replace(f[4])] = slices.Contains(strings.Split(f[5], ","), "ro")
	}
	return out, lines.Err()
}
