package config

import (
	"errors"
	"path"
	"slices"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/network"
	policypath "github.com/bulkhead-dev/sandbox/policy/path"
)

// Inside describes what policies have to know of the place where commands run
// and settings do not say.
type Inside struct {
	FoldCase bool // names that differ in case are one file there
}

// PathPolicy returns what the settings of one call say about files, by their
// names inside. What may be written there is the workspace, the home and the
// temporary folders of the sandbox; the wall decides about all else anyway.
func PathPolicy(r Resolved, in Inside) (*policypath.Policy, error) {
	_, folders, err := memoryFolders(r)
	if err != nil {
		return nil, err
	}
	temp := []string{}
	for _, t := range folders {
		temp = append(temp, t.Target)
	}
	p, err := policypath.New(policypath.Options{
		Home:         r.home(),
		WorkRoots:    slices.Compact([]string{sandbox.WorkspaceDir, r.home()}),
		TempPrefixes: temp,
		AllowRead:    r.Filesystem.AllowRead, DenyRead: r.Filesystem.DenyRead,
		AllowWrite: r.Filesystem.AllowWrite, DenyWrite: r.Filesystem.DenyWrite,
		FoldCase: in.FoldCase, Strict: r.Commands.Strictness == string(command.Strict),
	})
	return p, r.placed(err)
}

// CommandPolicy returns what the settings of one call say about commands.
func CommandPolicy(r Resolved, paths *policypath.Policy) (*command.Policy, error) {
	p, err := command.New(command.Rules{
		Strictness: command.Strictness(r.Commands.Strictness),
		Allow:      r.Commands.Allow, Block: r.Commands.Block, SubagentBlock: r.Commands.SubagentBlock, Excluded: r.Commands.Excluded,
		Paths: paths, Home: r.home(),
	})
	return p, r.placed(err)
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
