package config

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/network"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// Inside describes what policies have to know of the place where commands run
// and settings do not say.
type Inside struct {
	FoldCase bool              // names that differ in case are one file there
	Home     string            // the host's home, where sandboxes may show it at its place; empty is unknown
	HostHome string            // the host's home, for the folders of the host that settings mount; empty is unknown
	Env      map[string]string // replaces $VAR in rules for files
}

// PathPolicy returns the policy that the settings of one call set for files,
// by their names inside. ~ in a rule is the home inside and, unless the
// provider is sure not to show it, that of the host. A rule that cannot be
// expanded is [sandbox.CodeValidation] with its place: a deny must not go
// missing. The workspace, the home and the temporary folders of the sandbox
// are writable; the sandbox itself decides about every other path.
func PathPolicy(r Resolved, in Inside) (*policypath.Policy, error) {
	_, folders, err := memoryFolders(r, nil, true)
	if err != nil {
		return nil, err
	}
	temp := slices.Clone(r.Filesystem.TempPrefixes)
	only := len(temp) > 0
	for _, t := range folders {
		if !only || !temporary(t.Target) {
			temp = append(temp, t.Target)
		}
	}
	o := policypath.Options{
		Home:         r.home(),
		HostHome:     in.Home,
		PrivateHome:  r.privateHome(),
		Shown:        r.shown(in),
		HostRules:    defaultFilesystem().DenyRead,
		WorkRoots:    slices.Compact([]string{sandbox.WorkspaceDir, r.home()}),
		TempPrefixes: temp, TempOnly: only,
		FoldCase: in.FoldCase, Strict: r.Commands.Strictness == string(command.Strict),
	}
	for _, l := range []struct {
		name string
		from []string
		to   *[]string
	}{
		{"filesystem.allowRead", r.Filesystem.AllowRead, &o.AllowRead},
		{"filesystem.denyRead", r.Filesystem.DenyRead, &o.DenyRead},
		{"filesystem.allowWrite", r.Filesystem.AllowWrite, &o.AllowWrite},
		{"filesystem.denyWrite", r.Filesystem.DenyWrite, &o.DenyWrite},
	} {
		if *l.to, err = in.expand(l.name, l.from); err != nil {
			return nil, r.placed(err)
		}
	}
	p, err := policypath.New(o)
	return p, r.placed(err)
}

// shown returns the folders of the host that settings mount, with their places
// inside: a rule may name a file there by either. A folder that cannot be
// expanded is refused where it is mounted.
func (r Resolved) shown(in Inside) []policypath.Shown {
	var out []policypath.Shown
	add := func(source, target string) {
		p, err := hostpath.ExpandVariables(source, in.HostHome, in.Env)
		if err == nil && path.IsAbs(p) && path.IsAbs(target) && path.Clean(p) != "/" && path.Clean(target) != "/" && path.Clean(p) != path.Clean(target) {
			out = append(out, policypath.Shown{Host: p, Inside: target})
		}
	}
	folder := cmp.Or(r.Workspace, r.AgentWorkspace)
	switch r.FolderAccess() {
	case sandbox.AccessRW, sandbox.AccessPrivate:
		add(folder, sandbox.WorkspaceDir)
	case sandbox.AccessRO:
		add(r.Workspace, sandbox.AgentDir)
	}
	if r.WorkspaceAccess == sandbox.AccessRO && r.AgentWorkspace != "" {
		add(r.AgentWorkspace, sandbox.AgentDir)
	}
	for _, b := range r.Docker.Binds {
		source, rest, _ := strings.Cut(b, ":")
		target, _, _ := strings.Cut(rest, ":")
		add(source, target)
	}
	return out
}

// expand replaces the variables in rules for files and leaves their ~, which
// the policy knows the homes for.
func (in Inside) expand(name string, rules []string) ([]string, error) {
	out := make([]string, len(rules))
	for i, rule := range rules {
		expanded, err := hostpath.ExpandVariables(rule, "~", in.Env)
		if err == nil && expanded == "" {
			err = sandbox.Errorf(sandbox.CodeValidation, "expand path", "%q is empty", rule)
		}
		var e *sandbox.Error
		if errors.As(err, &e) {
			placed := *e
			placed.Field = fmt.Sprintf("%s[%d]", name, i)
			return nil, &placed
		}
		out[i] = expanded
	}
	return out, nil
}

// CommandPolicy returns what the settings of one call say about commands.
func CommandPolicy(r Resolved, paths *policypath.Policy) (*command.Policy, error) {
	rules := r.commandRules()
	rules.Paths, rules.Home = paths, r.home()
	p, err := command.New(rules)
	return p, r.placed(err)
}

func (r Resolved) commandRules() command.Rules {
	return command.Rules{
		Strictness: command.Strictness(r.Commands.Strictness),
		Allow:      r.Commands.Allow, Block: r.Commands.Block, SubagentBlock: r.Commands.SubagentBlock, Excluded: r.Commands.Excluded,
	}
}

// HostPolicy returns what the settings of one call say about hosts.
func HostPolicy(r Resolved) (*network.Policy, error) {
	n := r.Network
	p, err := network.New(network.Options{
		Allowed: n.AllowedDomains, Denied: n.DeniedDomains, AllowPublic: n.AllowPublic, AllowPrivate: n.AllowPrivate,
		Ask: n.Ask, AllowLocalBinding: n.AllowLocalBinding,
	})
	return p, r.placed(err)
}

// privateHome reports whether the home inside is the sandbox's own: memory, or a
// folder that only the sandbox has, into which no bind leads.
func (r Resolved) privateHome() bool {
	home := r.home()
	if home != sandbox.HomeDir || !r.Sandboxed || r.Commands.AllowUnsandboxed || len(r.Commands.Excluded) > 0 {
		return false // a command that runs on the host has the home of the host
	}
	for _, b := range r.Docker.Binds {
		for part := range strings.SplitSeq(b, ":") {
			if path.IsAbs(part) && (within(path.Clean(part), home) || within(home, path.Clean(part))) {
				return false
			}
		}
	}
	return true
}

// home is the home folder inside.
func (r Resolved) home() string {
	if h := r.Docker.Env["HOME"]; path.IsAbs(h) {
		return path.Clean(h)
	}
	return sandbox.HomeDir
}

// placed gives the error of a policy the place in the settings file of the
// rule at fault.
func (r Resolved) placed(err error) error {
	var e *sandbox.Error
	if !errors.As(err, &e) {
		return err
	}
	placed := *e
	placed.Op, placed.Field = "resolve", r.field(e.Field)
	return &placed
}
