// World: this part of the package tells the planner of a local wall what the wall's Spec shows
// and closes, and what there is on the host at those places.
//
// It decides nothing about mounts: package plan does. What it adds to the Spec
// is what every wall shows (the system's programs) and what none may (the
// secrets among the system's settings, and our own state).

package hostscan

import (
	"cmp"
	"path"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A Place says where the parts of this installation are. Paths are canonical.
type Place struct {
	Home string // of the user that runs us, or empty
	// Workspaces are folders in which our own workspaces lie. A workspace
	// outside of them is the agent's own folder.
	Workspaces []string
	// Sensitive is what no sandbox may see: the state folder, the settings.
	Sensitive []string
}

// A Picture is what a Spec says of files, before the host is asked.
type Picture struct {
	World plan.World // without what [plan.Draw] fills in
	Scan  Request    // what has to be looked for before each plan
	// Protect asks for what is closed although no setting says so.
	Protect ProtectRequest
	// Sockets of the host that settings open and the guest stands for; sorted.
	Sockets []string
}

// systemFolders are shown read-only when they exist.
func systemFolders() []string {
	return []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix/store"}
}

// Of returns the picture of s. It is an error where s asks for what a local
// wall cannot show.
func Of(s sandbox.Spec, at Place, system []plan.View, links []plan.Symlink) (Picture, error) {
	p := Picture{World: plan.World{Symlinks: links, Tmpfs: s.Tmpfs, ShmSize: s.Resources.ShmSize}}
	views := slices.Clone(system)
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleSocket {
			continue // the guest is reached over a descriptor
		}
		views = append(views, plan.View{Source: m.Source, Target: m.Target, Write: !m.ReadOnly, Why: "mount: " + m.Target})
		if m.Role == sandbox.RoleWorkspace && !below(m.Source, at.Workspaces) {
			// Worktrees of git and tools remember absolute paths.
			p.Protect.Own, p.Protect.Inside = m.Source, m.Target
			views = append(views, plan.View{Source: m.Source, Target: m.Source, Write: !m.ReadOnly, Why: "the agent's own folder"})
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
	hide(&p.World, at, slices.Concat(allowed, granted(s.Grants)))
	p.World.Views = append(views, allowed...)
	p.World = plan.Granted(p.World, s.Grants)
	p.place(listed)
	p.request(len(system), at)
	p.endangered(at)
	return p, nil
}

// Allowed returns the views of what settings allow, apart from what mounts of s
// show.
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
					Message: "a local wall cannot show what matches a pattern", Hint: "name the folder; what must stay closed in it can be a pattern in filesystem.denyRead",
				}
			case strings.HasPrefix(p, "~"):
				continue // there is no home, and so nothing of it
			case !path.IsAbs(p):
				continue // it lies in the workspace, which is shown
			}
			if _, shown := mountOf(s, path.Clean(p)); shown {
				continue
			}
			views = append(views, plan.View{Source: path.Clean(p), Target: path.Clean(p), Write: l.write, Optional: true, Why: l.field + ": " + p})
		}
	}
	return views, nil
}

// IsGlob reports whether a rule is a pattern and no path.
func isGlob(s string) bool { return strings.ContainsAny(s, "*?[{") }

// Denied returns what settings deny, by path and by pattern. A path below a mount
// of s is also that of what is mounted there.
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
			case strings.HasPrefix(r, "~"): // there is no home, and so nothing of it
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

// Opens returns what stays open inside denies of s: the paths that settings name,
// as paths of the host and, where they name a place inside, as what is mounted
// there.
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

// Places returns the paths of the host that the absolute path p of a rule may
// mean: itself, and what is mounted there.
func placesWorld(s sandbox.Spec, p string) []string {
	p = path.Clean(p)
	out := []string{p}
	if on, ok := mountOf(s, p); ok {
		out = append(out, path.Join(on.Source, strings.TrimPrefix(p, on.Target)))
	}
	return out
}

// patterns is Places for a pattern: one below a mount is also one below what is
// mounted there.
func patterns(s sandbox.Spec, r string) []string {
	out := []string{r}
	if on, ok := mountOf(s, r); ok && r != on.Target {
		out = append(out, specials.Replace(on.Source)+strings.TrimPrefix(r, on.Target))
	}
	return out
}

// specials writes a path as a pattern.
var specials = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`, "{", `\{`, "}", `\}`)

// mountOf returns the mount that shows what is at p inside at another place than
// that of the host.
func mountOf(s sandbox.Spec, p string) (on sandbox.Mount, ok bool) {
	for _, m := range s.Mounts {
		if (m.Role == sandbox.RoleWorkspace || m.Role == sandbox.RoleAgent || m.Role == sandbox.RoleBind) && under(p, m.Target) && len(m.Target) > len(on.Target) {
			on = m
		}
	}
	return on, on.Target != "" && on.Source != on.Target
}

// secrets are files and folders among the system's settings that programs
// inside have no use for.
func secrets() []string {
	return []string{
		"/etc/shadow", "/etc/shadow-", "/etc/gshadow", "/etc/gshadow-", "/etc/security/opasswd", "/etc/sudoers", "/etc/sudoers.d",
		"/etc/ssl/private", "/etc/pki/tls/private", "/etc/krb5.keytab", "/etc/docker", "/etc/kubernetes", "/etc/rancher",
		"/etc/ssh/ssh_host_rsa_key", "/etc/ssh/ssh_host_ecdsa_key", "/etc/ssh/ssh_host_ed25519_key", "/etc/ssh/ssh_host_dsa_key",
		"/etc/NetworkManager/system-connections", "/etc/wpa_supplicant", "/etc/wireguard", "/etc/openvpn", "/etc/ppp",
		"/etc/letsencrypt", "/etc/crypttab", "/etc/luks-keys", "/etc/cron.d", "/etc/rclone",
	}
}

// RuleOurs is the rule that closes what is ours.
const RuleOurs = "protection: our own state and settings"

// Ours reports whether a path of the host is ours, so that nothing opens it.
func (at Place) Ours(path string) bool {
	return below(path, at.Sensitive) || below(path, at.Workspaces)
}

// keepOut refuses rules and grants that name what is ours.
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

// granted returns what grants show, as views.
func granted(grants []sandbox.Grant) (views []plan.View) {
	for _, g := range grants {
		views = append(views, plan.View{Source: g.Path, Target: g.Path, Write: g.Operation == sandbox.OpWrite, Optional: true})
	}
	return views
}

// hide closes the secrets of the system and what of our own a view would show.
// w has the views that the wall needs, and allowed are those that rules and grants add. A
// folder of ours in which something lies that the wall needs cannot be closed
// as such, as a deny beats every view; memory is laid over it instead.
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
		// The view with the longest target decides what is to be seen at p.
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

// coverSize is the size of memory that only covers something.
const coverSize = 64 << 10

// request says where to look for what the globs mean: below everything that
// is shown but the system's own folders, which come first.
func (p *Picture) request(system int, at Place) {
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
		// What is covered at its own place only may be shown by another name.
		if slices.Contains(p.Scan.Roots, c) || slices.ContainsFunc(p.Scan.Roots, func(r string) bool { return under(r, c) }) {
			continue
		}
		p.Scan.Exclude = append(p.Scan.Exclude, c)
	}
	slices.Sort(p.Scan.Exclude)
	p.Scan.Exclude = slices.Compact(p.Scan.Exclude)
	p.Scan.Denied = p.World.Denies
}

// endangered says which folders of people the wall can write. A scratch
// workspace is none.
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

// ours reports whether a view shows what only we write: the guest and the
// user database.
func ours(v plan.View, at Place) bool {
	return strings.HasPrefix(v.Target, sandbox.GuestDir+"/") || v.Target == "/etc/passwd" || v.Target == "/etc/group"
}

// Mounts returns what of the world file operations may touch, as mounts: the
// Spec's own, and what rules and grants show at its own place.
func Mounts(s sandbox.Spec, w plan.World) []sandbox.Mount {
	out := slices.Clone(s.Mounts)
	taken, ruled := map[string]bool{}, map[string]int{} // ruled: place in out of what rules show
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
