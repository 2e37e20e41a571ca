// Package hardening refuses sandboxes that would not keep anything in.
//
// The same rules are applied twice: by package config to what settings ask
// for, and by a provider to the finished Spec with a fresh look at the host's
// links. They are pure: what must be known of the world comes in as [World].
//
// Every refusal is a *sandbox.Error with [sandbox.CodeCapabilityBlocked] whose
// Field names the setting and whose message holds the value and the reason.
// Several refusals are joined, so that all are seen at once.
package hardening

import (
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A World says what the host looks like, as far as the rules need it.
type World struct {
	// Canonical returns the path that a host path leads to (see package
	// hostpath). Without it paths are judged by their spelling alone, which
	// is enough at load only; a provider must set it.
	Canonical func(string) (string, error)

	// Sensitive are canonical host paths that no sandbox may see: the state
	// folder, the settings folder, the engine's sockets.
	Sensitive []string

	// Listening are canonical paths of the sockets at which a daemon of this
	// project listens. A client that reaches one may be its administrator, so
	// none is part of any mount, and no switch opens it.
	Listening []string

	// Via returns every place that is passed on the way from a host path to
	// its canonical form (see hostpath.Trace). Without it only the spelling
	// and the canonical path are judged, which is enough where sources are
	// canonical already.
	Via func(string) ([]string, error)

	// Workspaces are canonical folders in which our own workspaces lie. Below
	// them only one path may be mounted: the folder called Name, as the
	// workspace. It may be part of the state folder.
	Workspaces []string

	// Name is the sandbox that is judged. Check takes it from the Spec.
	Name string

	// Exposed are canonical folders that code in some sandbox can write. What
	// lies strictly below one of them can be swapped for a link before the
	// next start, so it is never a source. Check adds the writable mounts of
	// the Spec itself.
	Exposed []string

	// Home is the canonical home folder of the user that runs us, or empty.
	Home string
}

// Check applies every rule to s and returns all refusals joined, or nil.
func Check(s sandbox.Spec, w World) error {
	breakGlass, err := ParseSwitches(s.Security.Dangerous)
	errs := []error{
		err,
		networkOf(s),
		Runtime("docker.runtime", s.Runtime),
		IDs("docker.user", s.UID, s.GID),
		CapDrop("docker.capDrop", s.Security.CapDrop, breakGlass),
		AppArmor("docker.apparmorProfile", s.Security.AppArmor),
		WritableRoot("docker.readOnlyRoot", s.ReadOnlyRoot, breakGlass),
		seccompOf(s),
	}
	if !s.Security.NoNewPrivileges {
		errs = append(errs, refuse("security.noNewPrivileges", "false",
			"programs inside could gain privileges through set-user-id files", "set it; there is no switch for this"))
	}
	w.Name, w.Exposed = s.Name, slices.Concat(w.Exposed, Exposed(s.Mounts))
	errs = append(errs, checkMounts(s, w, breakGlass)...)
	for i, p := range s.Filesystem.AllowUnixSockets {
		errs = append(errs, UnixSocket(fmt.Sprintf("filesystem.allowUnixSockets[%d]", i), p, w))
	}
	return errors.Join(errs...)
}

// networkOf checks the network of s. Empty is refused for the docker provider,
// because an engine takes it for its default, which reaches the host and beyond.
func networkOf(s sandbox.Spec) error {
	const field = "docker.network"
	if s.Network == "" && s.Provider == "docker" {
		return refuse(field, "", "an engine takes an empty network for its default one, which reaches out", `say "none"`)
	}
	return Network(field, s.Network)
}

// seccompOf checks the profile of s. Only the docker provider must have one:
// other providers bring their own filter.
func seccompOf(s sandbox.Spec) error {
	const field = "docker.seccompProfile"
	if s.Security.Seccomp != "" {
		return Seccomp(field, s.Security.Seccomp)
	}
	if s.Provider == "docker" {
		return refuse(field, "", "without a profile every system call of the kernel can be reached", "leave the setting out to get the built-in profile")
	}
	return nil
}

// trustSource is where the folder that a mount of RoleTrust may show lies below
// the state folder.
const trustSource = "/egress/trust"

// isTrust reports whether source is that folder, or one of those with a company's
// certificates beside it, which are named by a digest.
func isTrust(source string) bool {
	if strings.HasSuffix(source, trustSource) {
		return true
	}
	dir, name := path.Split(source)
	return strings.HasSuffix(dir, "/egress/companies/") && len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// mappedSource is where the ID-mapped mounts of workspaces lie below the state
// folder, each named as its sandbox is.
const mappedSource = "/mapped/"

// isMapped reports whether place is that of the sandbox that is judged.
func isMapped(place string, w World) bool {
	return w.Name != "" && path.IsAbs(place) && path.Clean(place) == place && strings.HasSuffix(place, mappedSource+w.Name)
}

// settingsSource is where the folders that a mount of RoleSettings may show lie
// below the state folder, each named by a digest.
const settingsSource = "/agents/"

// isSettings reports whether source is one of those folders.
func isSettings(source string) bool {
	dir, name := path.Split(source)
	return strings.HasSuffix(dir, settingsSource) && len(name) == 32 && strings.Trim(name, "0123456789abcdef") == ""
}

// MaxViewName is the longest name of a workspace.
const MaxViewName = 63

// viewSuffix ends the names of private views. No sandbox has a name that ends with
// it: each ends with a hash.
const viewSuffix = "-private"

// PrivateName returns the name of the workspace in which the sandbox of that name
// has its private view. It is another one than that of its scratch workspace, so
// that both are kept when workspaceAccess changes. A name that would be too long
// loses its beginning; its hash stays.
func PrivateName(sandbox string) string {
	if over := len(sandbox) + len(viewSuffix) - MaxViewName; over > 0 {
		sandbox = strings.TrimLeft(sandbox[over:], "-")
	}
	return sandbox + viewSuffix
}

// HomesDir is where homes on disk lie, below a folder of workspaces.
const HomesDir = ".homes"

// CachesDir is where the caches of package managers lie, below the state folder.
const CachesDir = "caches"

// isCache reports whether source is a folder that we keep caches in: its name is a
// digest and a user id.
func isCache(source string) bool {
	dir, name := path.Split(source)
	key, uid, ok := strings.Cut(name, "-")
	return ok && strings.HasSuffix(dir, "/"+CachesDir+"/") && len(key) == 32 && strings.Trim(key, "0123456789abcdef") == "" &&
		uid != "" && strings.Trim(uid, "0123456789") == ""
}

// isHome reports whether source is the home that we keep for the sandbox that is
// judged, below a folder that we keep workspaces in.
func isHome(source string, w World) bool {
	return w.Name != "" && slices.ContainsFunc(w.Workspaces, func(dir string) bool {
		return source == path.Join(dir, HomesDir, w.Name)
	})
}

// checkMounts checks sources, targets and duplicates of mounts and tmpfs.
func checkMounts(s sandbox.Spec, w World, b Switches) []error {
	var errs []error
	taken := map[string]string{}
	claim := func(field, target string) {
		if first, ok := taken[target]; ok {
			errs = append(errs, refuse(field, target, "the same target is already taken by "+first, "give each mount a target of its own"))
			return
		}
		taken[target] = field
	}
	for i, m := range s.Mounts {
		field := fmt.Sprintf("mounts[%d]", i)
		errs = append(errs, mountErrors(field, m, w, b)...)
		if m.Role == sandbox.RoleGuest && m.Source != s.Guest.Dir {
			errs = append(errs, refuse(field+".source", m.Source, "it is not the folder of the guest", "mount Spec.Guest.Dir"))
		}
		if m.Role == sandbox.RoleTrust && !isTrust(m.Source) {
			errs = append(errs, refuse(field+".source", m.Source, "it is not the folder of public certificates, and the authority's key lies above that", "mount <state folder>"+trustSource))
		}
		if m.Role == sandbox.RoleSettings && !isSettings(m.Source) {
			errs = append(errs, refuse(field+".source", m.Source, "it is not a folder of settings files that we keep", "mount <state folder>"+settingsSource+"<digest>"))
		}
		if m.Role == sandbox.RoleHome && !isHome(m.Source, w) {
			errs = append(errs, refuse(field+".source", m.Source, "it is not a home that we keep", "mount <folder of workspaces>/"+HomesDir+"/<name>"))
		}
		if m.Role == sandbox.RoleCache && !isCache(m.Source) {
			errs = append(errs, refuse(field+".source", m.Source, "it is not a folder of caches that we keep", "mount <state folder>/"+CachesDir+"/<name>"))
		}
		errs = append(errs, privateView(field, m, s.Mounts, w, b)...)
		if m.Mapped != "" && (m.Role != sandbox.RoleWorkspace || m.Base != "" || m.ReadOnly || !isMapped(m.Mapped, w)) {
			errs = append(errs, refuse(field+".mapped", m.Mapped, "it is not the place of an ID-mapped mount of the workspace", "mount <state folder>"+mappedSource+"<name>"))
		}
		claim(field+".target", path.Clean(m.Target))
	}
	for i, t := range s.Tmpfs {
		field := fmt.Sprintf("docker.tmpfs[%d]", i)
		errs = append(errs, TmpfsTarget(field, t.Target))
		if t.Size <= 0 {
			errs = append(errs, refuse(field, t.Target, "a tmpfs without size can take all memory of the host", "give it a size"))
		}
		claim(field, path.Clean(t.Target))
	}
	return errs
}

// privateView checks a mount that is a private view of the host folder m.Base.
// The view itself is a workspace that we keep. The folder is judged as one that
// is mounted read-only, since nothing that is written reaches it, and no other
// mount may let the sandbox write there.
func privateView(field string, m sandbox.Mount, all []sandbox.Mount, w World, b Switches) []error {
	switch view := isView(m.Source, m.Role, w); {
	case m.Base == "" && view:
		return []error{refuse(field+".base", "", "the mount is a private view, and it is not said of which folder", "name the folder")}
	case m.Base == "":
		return nil
	case !view:
		return []error{refuse(field+".source", m.Source, "it is not the place of the sandbox's private view", "mount <folder of workspaces>/<name>"+viewSuffix+" as the workspace")}
	}
	field += ".base"
	errs := []error{Source(field, m.Base, sandbox.RoleAgent, w, b), swapped(field, m.Base, w)}
	for _, other := range all {
		if !other.ReadOnly && other.Source != m.Source && (within(other.Source, m.Base) || within(m.Base, other.Source)) {
			errs = append(errs, refuse(field, m.Base,
				fmt.Sprintf("%q is mounted writable beside the private view, so what the sandbox writes would reach the folder", other.Source),
				"bind it read-only, or use workspaceAccess rw"))
		}
	}
	return errs
}

func mountErrors(field string, m sandbox.Mount, w World, b Switches) []error {
	errs := []error{Source(field+".source", m.Source, m.Role, w, b), roleTarget(field+".target", m, b)}
	if !m.ReadOnly {
		errs = append(errs, WritableSource(field+".source", m.Source, m.Role, w, b))
	}
	return append(errs, swapped(field+".source", m.Source, w))
}

// swapped refuses a source that is not the canonical path that it was when it was
// resolved.
func swapped(field, source string, w World) error {
	canonical, err := canonicalOf(source, w)
	if err != nil || canonical == source {
		return nil // what is not known is refused by Source
	}
	return refuse(field, source, fmt.Sprintf("it leads to %q now: a link was put in its way after it was resolved", canonical), "name the folder itself")
}

// roleTarget checks that a mount appears only where its role has its place.
// A role that is not known is refused, so that a new one cannot slip through.
func roleTarget(field string, m sandbox.Mount, b Switches) error {
	places := map[sandbox.Role][]string{
		sandbox.RoleWorkspace: {sandbox.WorkspaceDir},
		sandbox.RoleAgent:     {sandbox.AgentDir},
		sandbox.RoleGuest:     {sandbox.GuestDir + "/bin"},
		sandbox.RoleSocket:    {sandbox.GuestDir + "/run"},
		sandbox.RoleIdentity:  {"/etc/passwd", "/etc/group", sandbox.HostsFile},
		sandbox.RoleTrust:     {sandbox.TrustDir},
		sandbox.RoleHome:      {sandbox.HomeDir},
		sandbox.RoleSettings:  {sandbox.SettingsDir},
		sandbox.RoleCache:     {sandbox.CacheDir},
	}
	if m.Role == sandbox.RoleBind {
		return Target(field, m.Target, b)
	}
	allowed, known := places[m.Role]
	if !known {
		return refuse(field, string(m.Role), "a mount of unknown role cannot be judged", "use one of the roles of package sandbox")
	}
	mustBeReadOnly := m.Role == sandbox.RoleGuest || m.Role == sandbox.RoleIdentity || m.Role == sandbox.RoleAgent || m.Role == sandbox.RoleTrust || m.Role == sandbox.RoleSettings
	if mustBeReadOnly && !m.ReadOnly {
		return refuse(field, m.Target, "a mount of role "+string(m.Role)+" must be read-only", "mount it read-only")
	}
	for _, p := range allowed {
		if m.Target == p {
			return nil
		}
	}
	return refuse(field, m.Target, fmt.Sprintf("a mount of role %s belongs at %v", m.Role, allowed), "")
}

// refuse makes the error of one refusal. The value is quoted, so that control
// characters in it never reach a terminal.
func refuse(field, value, reason, hint string) error {
	return &sandbox.Error{
		Code:     sandbox.CodeCapabilityBlocked,
		Op:       "harden",
		Field:    field,
		Resource: value,
		Message:  fmt.Sprintf("%q is refused: %s", shorten(value), reason),
		Hint:     hint,
	}
}

// shorten keeps messages readable when the value is a whole profile.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return s[:most] + "…"
}
