package local

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// NewLandlock returns the Provider named "landlock", whose instances have the
// namespaces of this process: Landlock, a filter of system calls and limits are all
// that confines them. It is for places where no namespaces can be made, such as a
// container without further privileges. Everything is at its own path of the host;
// [Gaps] lists what an instance cannot close.
func NewLandlock(o Options) *Provider {
	p := New(o)
	p.landlock = true
	return p
}

// kind names the folder of the provider's records below the state folder.
func (p *Provider) kind() string {
	if p.landlock {
		return LandlockName
	}
	return LocalName
}

// A place is where something of a Spec is on the host.
type place struct{ inside, host string }

// places are those of a sandbox without mounts, the longest path inside first.
type places []place

// host returns the path of the host for one inside. What has no place of its own is
// where it is called.
func (l places) host(name string) string {
	for _, p := range l {
		if hostpath.Within(name, p.inside) {
			return path.Join(p.host, strings.TrimPrefix(name, p.inside))
		}
	}
	return name
}

// variable returns the value of a variable with the paths of the host in it: each
// element of a list like PATH for itself.
func (l places) variable(value string) string {
	parts := strings.Split(value, ":")
	for i, part := range parts {
		if path.IsAbs(part) {
			if host := l.host(part); host != part {
				parts[i] = host
			}
		}
	}
	return strings.Join(parts, ":")
}

func (l places) environment(env map[string]string) map[string]string {
	out := maps.Clone(env)
	for k, v := range out {
		out[k] = l.variable(v)
	}
	return out
}

// scratch is what a sandbox without mounts has in place of memory: folders of its own
// for the home and for temporary files.
func (p *Provider) scratch(s sandbox.Spec) (string, user, error) {
	u, err := p.userOf(s)
	if err != nil {
		return "", u, err
	}
	sum := sha256.Sum256([]byte(p.o.State + "\x00" + s.Name))
	dir := filepath.Join(p.o.State, LandlockName, "scratch", hex.EncodeToString(sum[:12]))
	if u.other() { // the state folder is root's alone
		dir = filepath.Join(os.TempDir(), "sandbox-"+hex.EncodeToString(sum[:12]))
	}
	return dir, u, nil
}

// A user is whom an instance runs as.
type user struct{ uid, gid int }

// other reports whether the user is another one than that of this process.
func (u user) other() bool { return u.uid != os.Geteuid() }

// userOf returns whom the instance of s runs as. That is our own user. Where we are root
// it is the owner of a workspace that a flag or the settings name, and the user of the
// Spec with one that we manage, if he can pass through the folders above it. Root has no
// capability inside.
func (p *Provider) userOf(s sandbox.Spec) (user, error) {
	own := user{os.Geteuid(), os.Getegid()}
	if own.uid != 0 {
		return own, nil
	}
	for _, m := range s.Mounts {
		if m.Role != sandbox.RoleWorkspace {
			continue
		}
		if p.manages(m.Source) {
			if u := (user{s.UID, s.GID}); u.uid > 0 && reaches(m.Source, u) {
				return u, nil
			}
			return own, nil
		}
		st, err := os.Stat(m.Source)
		if errors.Is(err, fs.ErrNotExist) {
			return own, nil
		}
		if err != nil {
			return own, statedir.Unavailable("start", m.Source, err)
		}
		sys, ok := st.Sys().(*syscall.Stat_t)
		if !ok || sys.Uid == 0 {
			return own, nil
		}
		u := user{int(sys.Uid), int(sys.Gid)}
		if !reaches(m.Source, u) {
			return own, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: m.Source, Field: "workspace",
				Message: fmt.Sprintf("the workspace belongs to user %d, who cannot pass through the folders above it", u.uid),
				Hint:    "use a workspace below folders that every user may pass through, or one that belongs to root"}
		}
		return u, nil
	}
	return own, nil
}

// manages reports whether a workspace is one that this program has made.
func (p *Provider) manages(name string) bool {
	return slices.ContainsFunc(p.o.World().Workspaces, func(dir string) bool { return hostpath.Within(name, dir) })
}

// reaches reports whether a user can pass through all folders above a path.
func reaches(name string, u user) bool {
	for dir := filepath.Dir(name); ; dir = filepath.Dir(dir) {
		var st unix.Stat_t
		if unix.Stat(dir, &st) != nil {
			return false
		}
		bit := uint32(0o001)
		switch {
		case int(st.Uid) == u.uid:
			bit = 0o100
		case int(st.Gid) == u.gid:
			bit = 0o010
		}
		if st.Mode&bit == 0 {
			return false
		}
		if dir == "/" {
			return true
		}
	}
}

// makeScratch makes the folders of a sandbox, or takes those that are there if they are
// the user's alone.
func makeScratch(dir string, u user) error {
	if err := os.MkdirAll(filepath.Dir(dir), 0o700); err != nil {
		return statedir.Unavailable("start", dir, err)
	}
	for _, d := range []string{dir, filepath.Join(dir, "home"), filepath.Join(dir, "tmp")} {
		owner, mode := u.uid, os.FileMode(0o700)
		if d == dir && u.other() {
			owner, mode = os.Geteuid(), 0o711
		}
		err := os.Mkdir(d, mode)
		if err == nil && d != dir && u.other() {
			err = os.Lchown(d, u.uid, u.gid)
		}
		if err == nil && d == dir && u.other() {
			err = os.Chmod(d, mode) // whatever the umask
		}
		if err != nil && !errors.Is(err, fs.ErrExist) {
			return statedir.Unavailable("start", d, err)
		}
		var st unix.Stat_t
		if err := unix.Lstat(d, &st); err != nil {
			return statedir.Unavailable("start", d, err)
		}
		if st.Mode&unix.S_IFMT != unix.S_IFDIR || int(st.Uid) != owner || st.Mode&0o066 != 0 {
			return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: d, Message: "it is not a folder of the sandbox's user alone", Hint: "remove it, if it is of no use to you"}
		}
	}
	return nil
}

// placed returns s as it is without mounts: everything at its own path of the host, and
// only what can be shown there. The error names what cannot.
//
// With ready it makes the folders of the sandbox, and the copies that its user needs.
func (p *Provider) placed(s sandbox.Spec, ready bool) (sandbox.Spec, places, error) {
	if !p.landlock {
		return s, nil, nil
	}
	dir, u, err := p.scratch(s)
	if err != nil {
		return s, nil, err
	}
	if ready {
		if err := makeScratch(dir, u); err != nil {
			return s, nil, err
		}
	}
	home, tmp := filepath.Join(dir, "home"), filepath.Join(dir, "tmp")
	list := places{{sandbox.HomeDir, home}}
	var mounts []sandbox.Mount
	show := func(m sandbox.Mount) {
		if m.Source != m.Target {
			list = append(list, place{m.Target, m.Source})
		}
		m.Target = m.Source
		mounts = append(mounts, m)
	}
	for _, m := range s.Mounts {
		switch m.Role {
		case sandbox.RoleSocket, sandbox.RoleIdentity:
			// The guest is reached by a descriptor, and the user is one of the host.
		case sandbox.RoleBind:
			if m.Source != m.Target {
				return s, nil, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: "docker.binds", Resource: m.Target,
					Message: "the landlock provider can show nothing at another place than its own",
					Hint:    "bind " + m.Source + " at the same path, or use the local or docker provider"}
			}
			mounts = append(mounts, m)
		case sandbox.RoleHome:
			list[0].host, home = m.Source, m.Source
			m.Target = m.Source
			mounts = append(mounts, m)
		case sandbox.RoleWorkspace, sandbox.RoleAgent, sandbox.RoleTrust, sandbox.RoleSettings, sandbox.RoleGuest:
			if m.Base != "" {
				list = append(list, place{m.Base, m.Source})
			}
			m.Base = ""
			if ready && u.other() && slices.Contains([]sandbox.Role{sandbox.RoleGuest, sandbox.RoleTrust}, m.Role) {
				to := filepath.Join(dir, string(m.Role)) // the state folder is root's alone
				if err := copyFolder(m.Source, to); err != nil {
					return s, nil, err
				}
				m.Source = to
			}
			show(m)
		default:
			return s, nil, sandbox.Errorf(sandbox.CodeUnsupported, "create", "the landlock provider knows no mount of role %s", m.Role)
		}
	}
	for _, t := range s.Tmpfs {
		if !slices.ContainsFunc(list, func(have place) bool { return have.inside == t.Target }) && !slices.Contains([]string{"/tmp", "/var/tmp", "/run"}, t.Target) {
			return s, nil, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "create", Field: "docker.tmpfs", Resource: t.Target,
				Message: "the landlock provider can mount nothing", Hint: "leave the entry out; TMPDIR names a folder of the sandbox's own"}
		}
	}
	slices.SortStableFunc(list, func(a, b place) int { return cmp.Compare(len(b.inside), len(a.inside)) })
	s.Mounts, s.Tmpfs, s.Options = mounts, nil, nil
	if n := s.Resources.PIDs; n > 0 && (s.Limits.Processes == 0 || n < s.Limits.Processes) {
		s.Limits.Processes = max(n-guestRoom, 1) // see [GapPIDs]
	}
	s.Workdir = list.host(s.Workdir)
	s.Env = list.environment(s.Env)
	if s.Env == nil {
		s.Env = map[string]string{}
	}
	s.Env["HOME"] = home
	for _, k := range []string{"TMPDIR", "TMP", "TEMP"} {
		s.Env[k] = tmp
	}
	return s, list, nil
}

// shared is what Landlock is to allow in an instance without mounts.
type shared struct {
	readable, writable []string
	unheld             []plan.Op // what the plan closes in a folder that Landlock opens
}

// heldBy returns the operation of a path that is closed by the plan and open all the
// same.
func (s shared) open(name string, op sandbox.Operation) bool {
	return slices.ContainsFunc(s.unheld, func(o plan.Op) bool {
		return hostpath.Within(name, o.Target) && (op != sandbox.OpRead || o.Kind == plan.OpRoBind)
	})
}

// The states of a path in a plan.
const (
	pathClosed = iota
	pathReadable
	pathWritable
)

// sharedOf turns the steps of a plan into what Landlock allows. Rules of Landlock open
// a folder with all below it, and none closes anything again:
//
//   - What is closed in a folder that is only read is left out, by opening what lies
//     beside it name by name. Such a folder cannot be listed, and what appears in it
//     later stays closed.
//   - What is closed, or only read, in a folder that may be written stays open. Where a
//     setting asks for that, it is an error; protections of our own are noted.
func sharedOf(p plan.Plan) (shared, error) {
	state := map[string]int{}
	ops := map[string]plan.Op{}
	for _, o := range p.Ops {
		switch o.Kind {
		case plan.OpBind, plan.OpRoBind:
			if o.Source != o.Target {
				continue
			}
			state[o.Target] = pathReadable
			if o.Kind == plan.OpBind {
				state[o.Target] = pathWritable
			}
		case plan.OpMaskFile, plan.OpMaskDir:
			state[o.Target] = pathClosed
		case plan.OpRemountRo:
			if _, known := state[o.Target]; !known {
				continue
			}
			state[o.Target] = min(state[o.Target], pathReadable)
		default:
			continue
		}
		ops[o.Target] = o
	}
	var out shared
	targets := slices.Sorted(maps.Keys(state))
	above := func(target string) (int, bool) { // the state of the nearest folder above that has one
		for dir := target; dir != "/"; {
			dir = path.Dir(dir)
			if s, ok := state[dir]; ok {
				return s, true
			}
		}
		return pathClosed, false
	}
	var holes []string
	for _, t := range targets {
		o := ops[t]
		over, inside := above(t)
		if strings.HasPrefix(t, "/proc/") {
			continue // procfs is the host's, see [Gaps]
		}
		switch {
		case inside && over == pathWritable && state[t] < pathWritable:
			if strings.HasPrefix(o.Rule, "filesystem.") {
				return out, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "plan", Field: strings.SplitN(o.Rule, ":", 2)[0], Resource: t,
					Message: "Landlock cannot close " + t + " in a folder that commands may write to (" + o.Rule + ")",
					Hint:    "move it out of the folder, or use the local or docker provider"}
			}
			out.unheld = append(out.unheld, o)
		case inside && over == pathReadable && state[t] == pathClosed:
			holes = append(holes, t)
		}
	}
	for _, t := range targets {
		switch state[t] {
		case pathWritable:
			out.writable = append(out.writable, t)
		case pathReadable:
			if over, inside := above(t); inside && over == pathWritable {
				continue
			}
			list, err := around(t, holes)
			if err != nil {
				return out, err
			}
			out.readable = append(out.readable, list...)
		}
	}
	return out, nil
}

// maxAround bounds the names beside closed ones.
const maxAround = 1 << 16

// around returns dir, or what lies in it beside the closed paths.
func around(dir string, closed []string) ([]string, error) {
	if slices.Contains(closed, dir) {
		return nil, nil
	}
	if !slices.ContainsFunc(closed, func(c string) bool { return hostpath.Within(c, dir) }) {
		return []string{dir}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, statedir.Unavailable("plan", dir, err)
	}
	var out []string
	for _, e := range entries {
		if e.Type()&fs.ModeSymlink != 0 {
			continue // a rule would be for what it leads to, which has one where it is shown
		}
		list, err := around(path.Join(dir, e.Name()), closed)
		if err != nil {
			return nil, err
		}
		out = append(out, list...)
		if len(out) > maxAround {
			return nil, &sandbox.Error{Code: sandbox.CodeCapabilityBlocked, Op: "plan", Resource: dir, Message: "too many names lie beside what is closed there", Hint: "show a folder further below"}
		}
	}
	return out, nil
}

// sharedPlan completes the plan of an instance without mounts.
func (p *Provider) sharedPlan(spec sandbox.Spec, pl planned) (planned, error) {
	var err error
	if pl.shared, err = sharedOf(pl.plan); err != nil {
		return pl, err
	}
	dir, u, err := p.scratch(spec)
	if err != nil {
		return pl, err
	}
	pl.user = u
	pl.shared.writable = append(pl.shared.writable, filepath.Join(dir, "home"), filepath.Join(dir, "tmp"))
	pl.plan.Placeholders = nil
	pl.plan.Probes = slices.DeleteFunc(slices.Clone(pl.plan.Probes), func(q plan.Probe) bool {
		switch {
		case q.Want == plan.Pinned, strings.HasPrefix(q.Path, "/proc/"):
			return true
		case q.Want == plan.Writable:
			return !slices.Contains(pl.shared.writable, q.Path)
		}
		return pl.shared.open(q.Path, sandbox.OpWrite) || pl.shared.open(q.Path, sandbox.OpRead)
	})
	for _, o := range pl.shared.unheld {
		pl.plan.Notes = append(pl.plan.Notes, fmt.Sprintf("%s: %s stays open in the writable folder around it (%s)", GapMasks, o.Target, cmp.Or(o.Rule, "a protection of our own")))
	}
	c := wire.Config{
		Landlock: true, Shared: true, Observe: true, Readable: pl.shared.readable, Writable: pl.shared.writable, Sockets: pl.sockets,
		Checks: checksOf(pl.plan.Probes),
	}
	if c.Limits, err = limits(spec.Resources.Ulimits); err != nil {
		return pl, err
	}
	whole, err := p.filters.whole()
	if err == nil {
		c.Filter, err = p.filters.command(seccomp.Options{Observe: true, Shared: true, UnixSockets: len(pl.sockets) > 0, Trace: true})
	}
	if err != nil {
		return pl, sandbox.Errorf(sandbox.CodeUnsupported, "start", "%w", err)
	}
	pl.filters, pl.config = [][]byte{whole}, c.Encode()
	return pl, nil
}

// startShared starts the instance of pl.
func (p *Provider) startShared(spec sandbox.Spec, pl planned) (launch.Shared, error) {
	_, u, err := p.scratch(spec)
	if err != nil {
		return launch.Shared{}, err
	}
	o := launch.Shared{
		Config: pl.config, Filter: pl.filters[0],
		Env: []string{"PATH=" + defaultPath, "HOME=" + spec.Env["HOME"], "TMPDIR=" + spec.Env["TMPDIR"]},
	}
	if o.Limits, err = limits(spec.Resources.Ulimits); err != nil {
		return o, err
	}
	for _, m := range spec.Mounts {
		switch m.Role {
		case sandbox.RoleGuest:
			o.Guest = filepath.Join(m.Source, path.Base(guestInside))
		case sandbox.RoleWorkspace:
			if os.Geteuid() == 0 && !u.other() {
				// A workspace that we manage was made for another user.
				if p.manages(m.Source) {
					p.o.Warn(spec.Name, GapUser+`: commands run as root without capabilities, because no other user can pass through the folders above the workspace; name a folder that every user reaches as "workspaceRoot", or give --workspace`)
					if err := os.Lchown(m.Source, 0, 0); err != nil {
						return o, statedir.Unavailable("start", m.Source, err)
					}
				}
			}
		}
	}
	if u.other() {
		o.UID, o.GID = u.uid, u.gid
	}
	if o.Guest == "" {
		return o, sandbox.Errorf(sandbox.CodeInternal, "start", "the mount of the guest is missing")
	}
	return o, nil
}

// guestRoom is how many processes and threads of docker.pidsLimit are the guest's.
const guestRoom = 64

// copyFolder copies the files of a folder for a user who cannot reach it. The copies are
// root's, so that no command changes them.
func copyFolder(from, to string) error {
	entries, err := os.ReadDir(from)
	if err != nil {
		return statedir.Unavailable("start", from, err)
	}
	same := true // a guest that runs knows the copy by what it is, not by its name
	for _, e := range entries {
		if e.Type().IsRegular() {
			a, errA := os.ReadFile(filepath.Join(from, e.Name()))
			b, errB := os.ReadFile(filepath.Join(to, e.Name()))
			same = same && errA == nil && errB == nil && bytes.Equal(a, b)
		}
	}
	if same && len(entries) > 0 {
		return nil
	}
	next, err := os.MkdirTemp(filepath.Dir(to), ".copy-")
	if err != nil {
		return statedir.Unavailable("start", to, err)
	}
	for _, e := range entries {
		if !e.Type().IsRegular() {
			continue
		}
		b, err := os.ReadFile(filepath.Join(from, e.Name()))
		if err == nil {
			err = os.WriteFile(filepath.Join(next, e.Name()), b, 0o755)
		}
		if err != nil {
			_ = os.RemoveAll(next) // the first error counts
			return statedir.Unavailable("start", to, err)
		}
	}
	if err := errors.Join(os.Chmod(next, 0o755), os.RemoveAll(to), os.Rename(next, to)); err != nil {
		return statedir.Unavailable("start", to, err)
	}
	return nil
}

// removeScratch removes the folders of the sandbox name.
func (p *Provider) removeScratch(name string) error {
	var errs []error
	sum := sha256.Sum256([]byte(p.o.State + "\x00" + name))
	for _, dir := range []string{
		filepath.Join(p.o.State, LandlockName, "scratch", hex.EncodeToString(sum[:12])),
		filepath.Join(os.TempDir(), "sandbox-"+hex.EncodeToString(sum[:12])),
	} {
		var st unix.Stat_t
		if unix.Lstat(dir, &st) == nil && st.Mode&unix.S_IFMT == unix.S_IFDIR && (os.Geteuid() == 0 || int(st.Uid) == os.Geteuid()) {
			errs = append(errs, removeAll(dir))
		}
	}
	return errors.Join(errs...)
}

// removeAll is os.RemoveAll for folders whose modes code inside has changed.
func removeAll(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(name string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() {
			_ = os.Chmod(name, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}

// The options of the landlock provider: whether commands may signal other processes where
// the kernel cannot keep them from it, and whether the provider "auto" may choose it.
const (
	withoutScopes = "withoutScopes"
	autoOption    = "auto"
)

// landlockOptions reads Spec.Options of the landlock provider.
func landlockOptions(options map[string]any) (scopes bool, err error) {
	scopes = true
	for _, key := range slices.Sorted(maps.Keys(options)) {
		v, ok := options[key].(bool)
		switch {
		case key != withoutScopes && key != autoOption:
			return scopes, provider.OptionError(key, "the landlock provider has no such option", "it has "+withoutScopes+" and "+autoOption)
		case !ok:
			return scopes, provider.OptionError(key, fmt.Sprintf("%v is not valid", options[key]), "it is true or false")
		}
		if key == withoutScopes {
			scopes = !v
		}
	}
	return scopes, nil
}

// checkOptions is [Provider.CheckOptions].
func (p *Provider) checkOptions(options map[string]any) (err error) {
	if p.landlock {
		_, err = landlockOptions(options)
	} else {
		_, err = parseSettings(options)
	}
	return err
}

// usable returns an error unless instances with these options can be had from this
// kernel.
func (p *Provider) usable(options map[string]any) error {
	if !p.landlock {
		return refuseRelease(p.release())
	}
	scopes, err := landlockOptions(options)
	if err != nil {
		return err
	}
	return landlockUsable(launch.LandlockABI(), scopes)
}

// refuse returns an error for the first thing in s that an instance cannot do.
func (p *Provider) refuse(s sandbox.Spec) error {
	if p.landlock {
		s.Options = nil
	}
	return refuse(s)
}

// explainLandlock turns the failure of a guest to start into an error for people.
func explainLandlock(name string, failed *launch.Failed) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: name, Message: "the sandbox cannot be put up", Err: failed,
		Hint: `run "sandbox doctor --provider landlock"`}
}

// landlockExplained is [Provider.Plan] for an instance without mounts.
func (p *Provider) landlockExplained(ctx context.Context, s sandbox.Spec) (out provider.Plan, err error) {
	abi := launch.LandlockABI()
	layer := func(name, does string) {
		out.Layers = append(out.Layers, provider.Layer{Name: name, On: true, Detail: does})
	}
	layer("landlock", fmt.Sprintf("version %d: commands open nothing but what is listed below, TCP is refused to them, and signals stay inside", abi))
	layer("seccomp", "system calls that open the kernel are refused; the guest makes sockets, connections and changes of modes for commands")
	layer("user", "no capability, no new privileges, a session of its own")
	layer("observer", "attempts to write where nothing may be written are seen")
	for _, g := range Gaps(abi) {
		out.Notes = append(out.Notes, g.Code+": "+g.Text)
	}
	s, _, err = p.placed(s, false)
	if err != nil {
		return out, err
	}
	made, err := p.foresee(ctx, s)
	if err != nil {
		return out, err
	}
	for _, name := range made.shared.readable {
		out.Steps = append(out.Steps, provider.Step{Does: "read-only", Target: name, Source: name})
	}
	for _, name := range made.shared.writable {
		out.Steps = append(out.Steps, provider.Step{Does: "writable", Target: name, Source: name})
	}
	out.Notes = append(out.Notes, made.plan.Notes...)
	out.Judge = made.judge
	return out, nil
}
