package config

import (
	"fmt"
	"path"
	"slices"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// fillMounts puts the mounts in order: our own first, then the workspace, the
// agent's folder, and the binds as settings list them.
func fillMounts(s *sandbox.Spec, r Resolved, f Facts) error {
	add := func(source, target string, role sandbox.Role, readOnly bool) {
		if source != "" {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: source, Target: target, Role: role, ReadOnly: readOnly})
		}
	}
	add(f.Guest.Dir, sandbox.GuestDir+"/bin", sandbox.RoleGuest, true)
	add(f.SocketDir, sandbox.GuestDir+"/run", sandbox.RoleSocket, false)
	add(f.PasswdFile, "/etc/passwd", sandbox.RoleIdentity, true)
	add(f.GroupFile, "/etc/group", sandbox.RoleIdentity, true)
	if r.Kind != sandbox.KindBrowser && s.Network == "none" {
		add(f.HostsFile, sandbox.HostsFile, sandbox.RoleIdentity, true)
	}
	workspace := workspaceFolder(r, f)
	switch {
	case r.Kind == sandbox.KindBrowser: // sees no file of the host
	case workspace == "":
		return sandbox.Errorf(sandbox.CodeInternal, "build spec", "the fact Workspace is missing")
	default:
		add(workspace, sandbox.WorkspaceDir, sandbox.RoleWorkspace, false)
		if r.Private() {
			s.Mounts[len(s.Mounts)-1].Base = f.AgentDir
		}
		s.Mounts[len(s.Mounts)-1].Mapped = f.Mapped
	}
	if r.Kind != sandbox.KindBrowser {
		add(r.AgentSettings, sandbox.SettingsDir, sandbox.RoleSettings, true)
	}
	if f.HomeDir != "" {
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: f.HomeDir, Target: sandbox.HomeDir, Role: sandbox.RoleHome, Size: int64(r.Docker.HomeSize)})
	}
	if f.CacheDir != "" {
		s.Mounts = append(s.Mounts, sandbox.Mount{Source: f.CacheDir, Target: sandbox.CacheDir, Role: sandbox.RoleCache, Size: int64(r.Cache.Size)})
	}
	if r.WorkspaceAccess == sandbox.AccessRO {
		add(f.AgentDir, sandbox.AgentDir, sandbox.RoleAgent, true)
	}
	binds, err := bindMounts(r, f, s.Mounts)
	s.Mounts = append(s.Mounts, binds...)
	if r.Kind != sandbox.KindBrowser || len(s.Egress.Secrets) > 0 { // others may have a secret bound later
		add(f.TrustDir, sandbox.TrustDir, sandbox.RoleTrust, true)
	}
	return err
}

// FolderAccess returns how the sandbox uses the folder that a flag names, or
// without one the agent's. A folder that a flag names is the workspace, except
// that workspaceAccess private holds for it too, and ro where a flag says so.
func (r Resolved) FolderAccess() sandbox.Access {
	switch {
	case r.Workspace == "", r.WorkspaceAccess == sandbox.AccessPrivate, r.WorkspaceAccess == sandbox.AccessRO && r.Origin("workspaceAccess") == "flag":
		return r.WorkspaceAccess
	}
	return sandbox.AccessRW
}

// Private reports whether the workspace is a copy-on-write view of a folder of
// the host, the one that a flag names or the agent's.
func (r Resolved) Private() bool { return r.WorkspaceAccess == sandbox.AccessPrivate }

// workspaceFolder is the host folder behind /workspace: what a flag names, the
// agent's folder with access rw, else the scratch workspace or the private view.
func workspaceFolder(r Resolved, f Facts) string {
	if r.WorkspaceAccess == sandbox.AccessRW && r.Workspace == "" {
		return f.AgentDir
	}
	return f.Workspace
}

// world describes the host for package hardening. It refuses every path that
// was not looked up before.
func (f Facts) world() hardening.World {
	return hardening.World{
		Sensitive: f.Sensitive, Listening: f.Listening, Workspaces: f.Workspaces, Home: f.Home, Exposed: f.Exposed,
		Canonical: func(p string) (string, error) {
			if c, ok := f.Canonical[p]; ok {
				return c, nil
			}
			return "", fmt.Errorf("the canonical form of %q was not looked up", p)
		},
		Via: func(p string) ([]string, error) {
			via, ok := f.Via[p]
			if !ok && len(f.Exposed) > 0 {
				return nil, fmt.Errorf("what leads to %q was not looked up", p)
			}
			return via, nil
		},
	}
}

// bindMounts makes mounts of docker.binds and judges each source as it is
// spelled, as what it leads to and by what leads there, under the name of its
// setting. ours are the mounts that the sandbox has besides.
func bindMounts(r Resolved, f Facts, ours []sandbox.Mount) ([]sandbox.Mount, error) {
	var out []sandbox.Mount
	var sources, fields []string
	world := f.world()
	for i, written := range r.Docker.Binds {
		field := r.field(fmt.Sprintf("docker.binds[%d]", i))
		b, err := hardening.ParseBind(field, written)
		if err != nil {
			return nil, err
		}
		source, err := hostpath.ExpandVariables(b.Source, f.Home, f.Env)
		if err != nil {
			return nil, invalid(field, "%w", err)
		}
		if err := hardening.Source(field, source, sandbox.RoleBind, world, switchesOf(r)); err != nil {
			return nil, err
		}
		if !b.ReadOnly {
			if err := hardening.WritableSource(field, source, sandbox.RoleBind, world, switchesOf(r)); err != nil {
				return nil, err
			}
		}
		canonical, err := world.Canonical(source)
		if err != nil {
			return nil, err
		}
		sources, fields = append(sources, source), append(fields, field)
		out = append(out, sandbox.Mount{
			Source: canonical, Target: path.Clean(b.Target), ReadOnly: b.ReadOnly, Role: sandbox.RoleBind,
		})
	}
	// Only now all that this sandbox can write is known.
	world.Exposed = slices.Concat(f.Exposed, hardening.Exposed(ours), hardening.Exposed(out))
	for i, source := range sources {
		if err := hardening.Source(fields[i], source, sandbox.RoleBind, world, switchesOf(r)); err != nil {
			return nil, err
		}
	}
	return out, nil
}
