package config

import (
	"errors"
	"fmt"
	"path"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
)

// checkRules applies the rules of package hardening to a whole file: to what
// holds for every agent and to what each agent of the list gets. Settings that
// a shared scope would leave unused are judged too.
func checkRules(s *Settings) []error {
	var errs []error
	ids := []string{""}
	if s.Agents != nil {
		for i, a := range s.Agents.List {
			if a.Sandbox != nil {
				ids = append(ids, *a.ID)
			}
			if a.Workspace != nil {
				errs = append(errs, checkWorkspace(fmt.Sprintf("agents.list[%d].workspace", i), *a.Workspace))
			}
		}
	}
	for _, id := range ids {
		layers, err := layersFor(s, id, nil)
		if err != nil {
			return append(errs, err)
		}
		r, m := fromLayers(layers, Who{Agent: id})
		errs = append(errs, ruleErrors(r, m)...)
	}
	return errs
}

// ruleErrors applies the rules to the merged settings of one call. They know
// paths by their spelling only here; BuildSpec looks at what is behind them.
func ruleErrors(r Resolved, m merged) []error {
	d, b := r.Docker, switchesOf(r)
	errs := []error{
		hardening.Network(r.field("docker.network"), d.Network),
		hardening.Network(r.field("browser.network"), r.Browser.Network),
		hardening.Network(r.field("docker.buildNetwork"), d.BuildNetwork),
		ownBuildNetwork(r),
		hardening.AppArmor(r.field("docker.apparmorProfile"), d.AppArmorProfile),
		hardening.Runtime(r.field("docker.runtime"), d.Runtime),
		hardening.CapDrop(r.field("docker.capDrop"), d.CapDrop, b),
		hardening.WritableRoot(r.field("docker.readOnlyRoot"), d.ReadOnlyRoot, b),
		seccompPath(r.field("docker.seccompProfile"), d.SeccompProfile),
	}
	if d.User != "" {
		_, _, err := hardening.User(r.field("docker.user"), d.User)
		errs = append(errs, err)
	}
	if r.WorkspaceRoot != "" {
		errs = append(errs, checkWorkspace(r.field("workspaceRoot"), r.WorkspaceRoot))
	}
	// A relative folder is relative to where the call is made; BuildSpec judges
	// what it leads to.
	if strings.HasPrefix(r.Workspace, "/") || strings.HasPrefix(r.Workspace, "~") {
		errs = append(errs, checkWorkspace(r.field("workspace"), r.Workspace))
	}
	errs = append(errs, refusedKeys(r, m.settings.Docker)...)
	errs = append(errs, tmpfsTargets(r)...)
	errs = append(errs, bindErrors(r, "docker.binds", d.Binds, b)...)
	errs = append(errs, bindErrors(r, "browser.binds", r.Browser.Binds, b)...)
	errs = append(errs, sizeErrors(r)...)
	errs = append(errs, networkErrors(r)...)
	errs = append(errs, browserErrors(r)...)
	errs = append(errs, r.placed(grant.CheckLists("profile", r.Profile.lists())))
	_, err := ToolPolicy(r)
	return append(errs, err, r.placed(command.Check(r.commandRules())))
}

// ownBuildNetwork refuses the network that is made with a sandbox: a build has none.
func ownBuildNetwork(r Resolved) error {
	if r.Docker.BuildNetwork != sandbox.NetworkOwn {
		return nil
	}
	return invalid(r.field("docker.buildNetwork"), "a build has no network of its own; use none, bridge or the name of a network")
}

// refusedKeys checks the keys that exist only to be refused.
func refusedKeys(r Resolved, d *DockerSettings) []error {
	if d == nil {
		return nil
	}
	errs := []error{hardening.CapAdd(r.field("docker.capAdd"), d.CapAdd)}
	if d.Privileged != nil {
		errs = append(errs, hardening.Privileged(r.field("docker.privileged"), *d.Privileged))
	}
	for name, v := range map[string]*string{"pid": d.PID, "ipc": d.IPC, "userns": d.UserNS} {
		if v != nil {
			errs = append(errs, hardening.Namespace(r.field("docker."+name), strings.TrimSuffix(name, "ns"), *v))
		}
	}
	return errs
}

func switchesOf(r Resolved) hardening.Switches {
	return hardening.Switches{
		BindSources:      r.Docker.DangerouslyAllowBindSources,
		ReservedTargets:  r.Docker.DangerouslyAllowReservedTargets,
		WritableRoot:     r.Docker.DangerouslyAllowWritableRoot,
		KeepCapabilities: r.Docker.DangerouslyKeepCapabilities,
		MissingLimits:    r.Docker.DangerouslyAllowMissingLimits,
	}
}

// seccompPath refuses a profile setting that is no path; the profile itself is
// judged when it has been read.
func seccompPath(field, v string) error {
	if v == "" || strings.HasPrefix(v, "/") || strings.HasPrefix(v, "~/") || strings.HasPrefix(v, "$") {
		return nil
	}
	return hardening.Seccomp(field, v)
}

func tmpfsTargets(r Resolved) []error {
	var errs []error
	seen := map[string]bool{}
	for i, s := range r.Docker.Tmpfs {
		field := r.field(fmt.Sprintf("docker.tmpfs[%d]", i))
		target, _, _ := strings.Cut(s, ":")
		errs = append(errs, hardening.TmpfsTarget(field, target))
		if seen[path.Clean(target)] {
			errs = append(errs, invalid(field, "%q is there twice", target))
		}
		seen[path.Clean(target)] = true
	}
	if r.Docker.Tmpfs != nil && !seen["/tmp"] {
		errs = append(errs, invalid(r.field("docker.tmpfs"), "/tmp must be among them, because programs need it"))
	}
	return errs
}

// bindErrors checks the form, the target and the spelled source of each bind.
func bindErrors(r Resolved, name string, binds []string, b hardening.Switches) []error {
	var errs []error
	taken := map[string]string{}
	for i, s := range binds {
		field := r.field(fmt.Sprintf("%s[%d]", name, i))
		bind, err := hardening.ParseBind(field, s)
		if err != nil {
			errs = append(errs, err)
			continue
		}
		errs = append(errs, spelled(field, bind.Source, sandbox.RoleBind, b), hardening.Target(field, bind.Target, b))
		if !bind.ReadOnly {
			errs = append(errs, hardening.WritableSource(field, bind.Source, sandbox.RoleBind, hardening.World{}, b))
		}
		target := path.Clean(bind.Target)
		if first, ok := taken[target]; ok {
			errs = append(errs, invalid(field, "the target %q is already taken by %s", bind.Target, first))
			continue
		}
		taken[target] = field
	}
	return errs
}

// checkWorkspace judges a folder that settings name for workspaces.
func checkWorkspace(field, folder string) error {
	return spelled(field, folder, sandbox.RoleWorkspace, hardening.Switches{})
}

// spelled judges a host path by its spelling. The real home is not known yet,
// so one stands in for it: what matters is which part of a home is meant. What
// spelling cannot decide, a path with variables or one in the home that a
// break-glass switch may name, is left to BuildSpec.
func spelled(field, source string, role sandbox.Role, b hardening.Switches) error {
	inHome := strings.HasPrefix(source, "~")
	if strings.Contains(source, "$") || inHome && len(b.BindSources) > 0 {
		return nil
	}
	const home = "/home/someone"
	p, err := hostpath.ExpandVariables(source, home, nil)
	if err != nil || !inHome {
		return hardening.Source(field, source, role, hardening.World{}, b)
	}
	err = hardening.Source(field, p, role, hardening.World{Home: home}, b)
	var e *sandbox.Error
	if errors.As(err, &e) {
		e.Resource = source
		e.Message = strings.ReplaceAll(e.Message, home, "~")
		e.Hint = "bind a folder that holds nothing but what the sandbox needs"
	}
	return err
}

// sizeErrors checks the sizes against each other.
func sizeErrors(r Resolved) []error {
	var errs []error
	if d := r.Docker; d.MemorySwap != 0 && d.MemorySwap < d.Memory {
		errs = append(errs, invalid(r.field("docker.memorySwap"), "%s is below docker.memory, which is %s and counts as part of it", d.MemorySwap, d.Memory))
	}
	if _, _, err := memoryFolders(r, nil, true); err != nil {
		errs = append(errs, err)
	}
	return errs
}

func invalid(field, format string, args ...any) error {
	e := sandbox.Errorf(sandbox.CodeValidation, "resolve", format, args...)
	e.Field = field
	return e
}
