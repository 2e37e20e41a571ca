// The world files describe to the planner of a local sandbox what the sandbox's
// Spec shows and closes, and which files exist on the host at those places.
//
// They decide nothing about mounts; package plan does. They add to the Spec
// what every sandbox shows (the system's programs) and what none may show (the
// secrets among the system's settings, and the state of this program).

package hostscan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A Place holds the paths of this installation. They are canonical.
type Place struct {
	Home string // of the user that runs this process, or empty
	// Workspaces are the folders of workspaces that this program manages. A
	// workspace outside of them is the agent's own folder.
	Workspaces []string
	// Sensitive lists what no sandbox may see: the state folder and the
	// settings.
	Sensitive []string
}

// A Picture is the file part of a Spec, before facts of the host are added.
type Picture struct {
	World plan.World // without the fields that [plan.Draw] fills in
	Scan  Request    // the scan to run before each plan
	// Protect is the request for what is closed although no setting says so.
	Protect ProtectRequest
	// Sockets are the host sockets that settings open and that the guest
	// proxies; sorted.
	Sockets []string
}

// systemFolders returns the folders to show read-only if they exist.
func systemFolders() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store"}
}

// Of returns the picture of s. It returns an error if s requests something that
// a local sandbox cannot show.
func Of(s sandbox.Spec, at Place, system []plan.View, links []plan.Symlink) (Picture, error) {
	p := Picture{World: plan.World{Symlinks: links, Tmpfs: s.Tmpfs, ShmSize: s.Resources.ShmSize}}
	views := slices.Clone(system)
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleSocket {
			continue // the guest is reached over a descriptor
		}
		views = append(views, plan.View{Source: m.Source, Target: m.Target, Write: !m.ReadOnly, Why: "mount: " + m.Target})
		if m.Role == sandbox.RoleWorkspace && !below(m.Source, at.Workspaces) {
			// Git worktrees and tools record absolute paths.
			p.Protect.Own, p.Protect.Inside = m.Source, m.Target
			views = append(views, plan.View{Source: m.Source, Target: m.Source, Write: !m.ReadOnly, Why: "the agent's own folder"})
		}
		if m.Base != "" { // tools record absolute paths, and no rule or grant may show the folder itself there
			views = append(views, plan.View{Source: m.Source, Target: m.Base, Write: !m.ReadOnly, Why: "private view: " + m.Base})
		}
	}
	listed, err := listedSockets(s.Filesystem)
	if err != nil {
		return p, err
	}
	allowed, err := allowedWorld(s)
	if err != nil {
		return p, err
	}
	if err := at.keepOut(allowed, s.Grants); err != nil {
		return p, err
	}
	p.World.Denies, p.Scan.Globs = Denied(s)
	p.World.Opens = Opens(s)
	for _, o := range p.World.Opens {
		if o.Read {
			p.Scan.Opened = append(p.Scan.Opened, o.Path)
		}
	}
	p.World.Views = views
	grants := slices.DeleteFunc(slices.Clone(s.Grants), func(g sandbox.Grant) bool { return viewed(s, g.Path) })
	hide(&p.World, at, slices.Concat(allowed, granted(grants)))
	p.World.Views = append(views, allowed...)
	p.World = plan.Granted(p.World, grants)
	p.place(listed)
	p.request(len(system), at, bases(s))
	p.endangered(at)
	return p, nil
}

// allowedWorld returns the views of what settings allow, except what mounts of
// s show.
func allowedWorld(s sandbox.Spec) ([]plan.View, error) {
	var views []plan.View
	f := s.Filesystem
	for _, l := range []struct {
		field string
		paths []string
		write bool
	}{{"filesystem.allowRead", f.AllowRead, false}, {"filesystem.allowWrite", f.AllowWrite, true}} {
		for _, p := range l.paths {
			switch {
			case isGlob(p):
				return nil, &sandbox.Error{
					Code: sandbox.CodeUnsupported, Op: "plan", Field: l.field, Resource: p,
					Message: "a local sandbox cannot show what matches a pattern", Hint: "name the folder; what must stay closed in it can be a pattern in filesystem.denyRead",
				}
			case strings.HasPrefix(p, "~"):
				continue // there is no home, and so no path in it
			case !path.IsAbs(p):
				continue // it lies in the workspace, which is shown
			}
			if _, shown := mountOf(s, path.Clean(p)); shown || viewed(s, path.Clean(p)) {
				continue
			}
			views = append(views, plan.View{Source: path.Clean(p), Target: path.Clean(p), Write: l.write, Optional: true, Why: l.field + ": " + p})
		}
	}
	return views, nil
}

// isGlob reports whether a rule is a pattern rather than a path.
func isGlob(s string) bool { return strings.ContainsAny(s, "*?[{") }

// Denied returns what settings deny, by path and by pattern. A path below a
// mount of s also denies the mounted source.
func Denied(s sandbox.Spec) (paths []plan.Deny, globs []Glob) {
	f := s.Filesystem
	for _, l := range []struct {
		field string
		rules []string
		read  bool
	}{{"filesystem.denyRead", f.DenyRead, true}, {"filesystem.denyWrite", f.DenyWrite, false}} {
		for _, r := range l.rules {
			rule := l.field + ": " + r
			yields := l.read && slices.Contains(f.YieldRead, r)
			switch {
			case strings.HasPrefix(r, "~"): // there is no home, and so no path in it
			case isGlob(r) || !path.IsAbs(r):
				for _, at := range patterns(s, r) {
					globs = append(globs, Glob{Pattern: at, Read: l.read, Yields: yields, Rule: rule})
				}
			default:
				for _, at := range placesWorld(s, r) {
					paths = append(paths, plan.Deny{Path: at, Read: l.read, Keep: true, Yields: yields, Rule: rule})
				}
			}
		}
	}
	return paths, globs
}

// Opens returns what stays open inside denies of s: the paths that settings
// name, as host paths and, if they name a place inside, as the mounted source.
func Opens(s sandbox.Spec) (out []plan.Open) {
	for _, l := range []struct {
		field string
		paths []string
		write bool
	}{{"filesystem.allowRead", s.Filesystem.ReopenRead, false}, {"filesystem.allowWrite", s.Filesystem.ReopenWrite, true}} {
		for _, p := range l.paths {
			for _, at := range placesWorld(s, p) {
				out = append(out, plan.Open{Path: at, Read: !l.write, Write: l.write, Rule: l.field + ": " + p})
			}
		}
	}
	return out
}

// placesWorld returns the host paths that the absolute path p of a rule may
// refer to: p itself, the source mounted there, and where a private view shows
// p or what lies below p.
func placesWorld(s sandbox.Spec, p string) []string {
	p = path.Clean(p)
	out := []string{p}
	if on, ok := mountOf(s, p); ok {
		out = append(out, path.Join(on.Source, strings.TrimPrefix(p, on.Target)))
	}
	for _, m := range s.Mounts {
		switch {
		case m.Base == "":
		case under(p, m.Base):
			out = append(out, path.Join(m.Source, strings.TrimPrefix(p, m.Base)))
		case under(m.Base, p):
			out = append(out, m.Source)
		}
	}
	return out
}

// patterns is placesWorld for a pattern: a pattern below a mount also applies
// below the mount's source, and one that matches the base of a private view or what
// lies below it applies to the view too.
func patterns(s sandbox.Spec, r string) []string {
	out := []string{r}
	if on, ok := mountOf(s, r); ok && r != on.Target {
		out = append(out, specials.Replace(on.Source)+strings.TrimPrefix(r, on.Target))
	}
	for _, m := range s.Mounts {
		if m.Base != "" {
			out = append(out, viewPatterns(r, m.Base, m.Source)...)
		}
	}
	return out
}

// specials escapes a path as a pattern.
var specials = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`, "}", `\}`)

// mountOf returns the mount that shows at p inside another path than the host's
// p.
func mountOf(s sandbox.Spec, p string) (on sandbox.Mount, ok bool) {
	for _, m := range s.Mounts {
		if (m.Role == sandbox.RoleWorkspace || m.Role == sandbox.RoleAgent || m.Role == sandbox.RoleBind) && under(p, m.Target) && len(m.Target) > len(on.Target) {
			on = m
		}
	}
	return on, on.Target != "" && on.Source != on.Target
}

// secrets returns the files and folders among the system's settings that
// programs inside do not need.
func secrets() []string {
	return []string{
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd", "/etc/sudoers", "/etc/sudoers.d",
		"/etc/ssl/private", "/etc/pki/tls/private", "/etc/krb5.keytab", "/etc/docker", "/etc/kubernetes", "/etc/rancher",
		"/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_dsa_key",
		"/etc/NetworkManager/system-connections", "/etc/wpa_supplicant", "/etc/wireguard", "/etc/openvpn", "/etc/ppp",
		"/etc/letsencrypt", "/etc/crypttab", "/etc/luks-keys", "/etc/cron.d", "/etc/rclone",
	}
}

// RuleOurs is the rule that closes the state and settings of this program.
const RuleOurs = "protection: our own state and settings"

// Ours reports whether path belongs to this program's state or settings, so
// that no rule or grant can open it.
func (at Place) Ours(path string) bool {
	return below(path, at.Sensitive) || below(path, at.Workspaces)
}

// keepOut refuses rules and grants that name paths of this program.
func (at Place) keepOut(allowed []plan.View, grants []sandbox.Grant) error {
	refuse := func(path, why string) error {
		return &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "plan", Resource: path, Message: why + " would show our own state or settings", Hint: "name folders outside of " + strings.Join(at.Sensitive, ", ")}
	}
	for _, v := range allowed {
		if at.Ours(v.Source) {
			return refuse(v.Source, v.Why)
		}
	}
	for _, g := range grants {
		if at.Ours(g.Path) {
			return refuse(g.Path, "the grant")
		}
	}
	return nil
}

// granted returns the views of grants.
func granted(grants []sandbox.Grant) (views []plan.View) {
	for _, g := range grants {
		views = append(views, plan.View{Source: g.Path, Target: g.Path, Write: g.Operation == sandbox.OpWrite, Optional: true})
	}
	return views
}

// hide closes the secrets of the system and the paths of this program that a
// view would show. w has the views that the sandbox requires; allowed are those
// that rules and grants add. A folder of this program that contains a required
// path cannot be denied, because a deny wins over every view; hide covers it
// with memory instead.
func hide(w *plan.World, at Place, allowed []plan.View) {
	for _, p := range secrets() {
		w.Denies = append(w.Denies, plan.Deny{Path: p, Read: true, Rule: "protection: secrets of the system"})
	}
	views := w.Views
	for _, p := range slices.Concat(at.Sensitive, at.Workspaces) {
		needed := slices.ContainsFunc(views, func(v plan.View) bool { return under(v.Source, p) })
		if !needed {
			w.Denies = append(w.Denies, plan.Deny{Path: p, Read: true, Rule: RuleOurs})
			continue
		}
		// The view with the longest target decides what is visible at p.
		shown := ""
		for _, v := range slices.Concat(views, allowed) {
			if v.Source == v.Target && under(p, v.Source) && p != v.Source && len(v.Source) > len(shown) {
				shown = v.Source
			}
		}
		covered := slices.ContainsFunc(w.Tmpfs, func(t sandbox.Tmpfs) bool { return under(p, t.Target) && len(t.Target) > len(shown) })
		if shown != "" && !covered {
			w.Tmpfs = append(slices.Clip(w.Tmpfs), sandbox.Tmpfs{Target: p, Size: coverSize, Mode: 0o555})
		}
	}
}

// coverSize is the size in bytes of memory that only covers content.
const coverSize = 64 << 10

// request sets where to search for matches of the globs: below everything that
// is shown except the system's own folders, which come first, and below bases.
func (p *Picture) request(system int, at Place, bases []string) {
	p.Scan.Roots = append(p.Scan.Roots, bases...)
	covered := []string{"/proc", "/sys", "/dev"}
	for _, t := range p.World.Tmpfs {
		covered = append(covered, t.Target)
	}
	covered = append(covered, systemFolders()...)
	for _, v := range p.World.Views[system:] {
		if ours(v, at) {
			continue
		}
		p.Scan.Roots = append(p.Scan.Roots, v.Source)
	}
	slices.Sort(p.Scan.Roots)
	p.Scan.Roots = slices.Compact(p.Scan.Roots)
	for _, c := range slices.Concat(covered, at.Sensitive) {
		// A path covered only at its own place may be visible under another
		// name.
		if slices.Contains(p.Scan.Roots, c) || slices.ContainsFunc(p.Scan.Roots, func(r string) bool { return under(r, c) }) {
			continue
		}
		p.Scan.Exclude = append(p.Scan.Exclude, c)
	}
	slices.Sort(p.Scan.Exclude)
	p.Scan.Exclude = slices.Compact(p.Scan.Exclude)
	p.Scan.Denied = p.World.Denies
}

// endangered sets which folders of users the sandbox can write. A scratch
// workspace is not one of them.
func (p *Picture) endangered(at Place) {
	q := &p.Protect
	q.Home = at.Home
	for _, v := range p.World.Views {
		switch {
		case !v.Write || v.Source == q.Own || below(v.Source, at.Workspaces):
		default:
			q.Writable = append(q.Writable, v.Source)
		}
	}
	slices.Sort(q.Writable)
	q.Writable = slices.Compact(q.Writable)
	for _, s := range at.Sensitive {
		if !slices.ContainsFunc(at.Workspaces, func(w string) bool { return under(w, s) }) {
			q.Settings = append(q.Settings, s)
		}
	}
	if q.Own != "" || len(q.Writable) > 0 {
		p.Scan.Find = Finds()
	}
}

// ours reports whether a view shows files that only this program writes: the
// guest and the user database.
func ours(v plan.View, at Place) bool {
	return strings.HasPrefix(v.Target, sandbox.GuestDir+"/") || v.Target == "/etc/passwd" || v.Target == "/etc/group"
}

// Mounts returns, as mounts, the parts of the world that file operations may
// access: the Spec's own mounts, and what rules and grants show at its host
// path.
func Mounts(s sandbox.Spec, w plan.World) []sandbox.Mount {
	out := slices.Clone(s.Mounts)
	taken, ruled := map[string]bool{}, map[string]int{} // ruled: index in out of what rules show
	for _, m := range out {
		taken[m.Target] = true
	}
	for _, v := range w.Views {
		if i, again := ruled[v.Target]; again {
			out[i].Source, out[i].ReadOnly = v.Source, !v.Write // of several, the last one is shown
		}
		if taken[v.Target] || v.Target == "/" || slices.Contains(systemFolders(), v.Target) {
			continue
		}
		taken[v.Target], ruled[v.Target] = true, len(out)
		out = append(out, sandbox.Mount{Source: v.Source, Target: v.Target, ReadOnly: !v.Write, Role: sandbox.RoleBind})
	}
	slices.SortStableFunc(out, func(a, b sandbox.Mount) int {
		return cmp.Compare(strings.Count(a.Target, "/"), strings.Count(b.Target, "/"))
	})
	return out
}

// under reports whether p is dir or lies below it.
func under(p, dir string) bool {
	return dir == "/" || p == dir || strings.HasPrefix(p, dir+"/")
}

func below(p string, dirs []string) bool {
	return slices.ContainsFunc(dirs, func(d string) bool { return under(p, d) })
}
