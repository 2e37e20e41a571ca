package local

import (
	"context"
	"os"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/hostscan"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// Plan implements [provider.Planner]. Folders of ours that the first use
// makes are planned with as if they were there.
func (p *Provider) Plan(ctx context.Context, s sandbox.Spec) (provider.Plan, error) {
	if err := p.refuse(s); err != nil {
		return provider.Plan{}, err
	}
	if p.landlock {
		return p.landlockExplained(ctx, s)
	}
	set, err := parseSettings(s.Options)
	if err != nil {
		return provider.Plan{}, err
	}
	out := provider.Plan{Layers: layers(s, set), Notes: append(Notes(s, launch.FindGroups()), limitNotes(s, launch.RealHost(set.bwrap).Filters)...)}
	made, err := p.foresee(ctx, s)
	if err != nil {
		return out, err
	}
	for _, op := range made.plan.Ops {
		out.Steps = append(out.Steps, provider.Step{Does: does(op), Target: op.Target, Source: op.Source, Rule: op.Rule})
	}
	out.Notes = slices.Concat(out.Notes, made.plan.Notes)
	out.Judge = made.judge
	return out, nil
}

// limitNotes says which limits of s hold less exactly where listens is an error: it
// says why the kernel hands no system calls to listeners.
func limitNotes(s sandbox.Spec, listens func() error) []string {
	if s.Limits.Processes <= 0 {
		return nil
	}
	if err := listens(); err != nil {
		return []string{provider.Sampled(err.Error())}
	}
	return nil
}

// Command returns what has to be typed to have bubblewrap alone run argv in
// the instance of s: the same namespaces and mounts, without guest, filters and
// way down from root. It is the yardstick of what we add to bubblewrap.
func (p *Provider) Command(ctx context.Context, s sandbox.Spec, argv ...string) ([]string, error) {
	set, err := parseSettings(s.Options)
	if err != nil {
		return nil, err
	}
	path, err := p.findBwrap(set.bwrap)
	if err != nil {
		return nil, err
	}
	mask, err := p.maskFile()
	if err != nil {
		return nil, err
	}
	made, err := p.foresee(ctx, s)
	if err != nil {
		return nil, err
	}
	args := plan.BwrapArgs(made.plan, plan.BwrapOptions{
		MaskFile: mask, UID: s.UID, GID: s.GID, Hostname: hostname, Env: map[string]string{"PATH": defaultPath, "HOME": sandbox.HomeDir},
		Workdir: s.Workdir, BlockFD: -1, InfoFD: -1, StatusFD: -1, DisableUserns: !set.withoutDisableUserns,
	})
	return slices.Concat([]string{path}, args, []string{"--"}, argv), nil
}

// foresee plans the instance of s without a definition of it.
func (p *Provider) foresee(ctx context.Context, s sandbox.Spec) (planned, error) {
	site := newSite(p, launch.Definition{Name: s.Name, Owner: s.Owner, Kind: s.Kind})
	return newPlanner(site, s).planOn(ctx, wished{ours: ourFolders(s)})
}

// ourFolders are the folders of s that its first use makes.
func ourFolders(s sandbox.Spec) []string {
	var out []string
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleWorkspace || m.Role == sandbox.RoleAgent {
			out = append(out, m.Source)
		}
	}
	return out
}

// A wished host is this one with our folders in it.
type wished struct {
	hostscan.Disk
	ours []string
}

// Kind implements [plan.Host].
func (w wished) Kind(path string) (plan.Kind, error) {
	k, err := w.Disk.Kind(path)
	if err == nil && k == plan.Missing && slices.Contains(w.ours, path) {
		return plan.Dir, nil
	}
	return k, err
}

// does says what a step means to a person.
func does(op plan.Op) string {
	switch op.Kind {
	case plan.OpBind:
		return "writable"
	case plan.OpRoBind:
		return "read-only"
	case plan.OpTmpfs:
		return "memory"
	case plan.OpMaskFile, plan.OpMaskDir:
		return "closed"
	case plan.OpRemountRo:
		return "read-only from here on"
	case plan.OpDir:
		return "folder"
	case plan.OpSymlink:
		return "link"
	case plan.OpProc:
		return "processes of the sandbox"
	case plan.OpDev:
		return "a few devices"
	}
	return string(op.Kind)
}

// layers are what keeps code inside the instance of s.
func layers(s sandbox.Spec, set settings) []provider.Layer {
	user := "our own user; as another one inside"
	if os.Geteuid() == 0 {
		user = "a user of its own on the host, without groups and capabilities"
	}
	layer := func(name string, off bool, does, setting string) provider.Layer {
		if off {
			return provider.Layer{Name: name, Detail: "switched off by providerOptions." + setting}
		}
		return provider.Layer{Name: name, On: true, Detail: does}
	}
	return []provider.Layer{
		{Name: "user", On: true, Detail: user},
		{Name: "namespaces", On: true, Detail: "users, processes, network (loopback alone), IPC, host name and control groups of its own"},
		layer("no further namespaces", set.withoutDisableUserns, "code inside can make none", "withoutDisableUserns"),
		{Name: "mounts", On: true, Detail: "a root in memory with what is listed below and nothing else"},
		layer("seccomp", set.withoutSeccomp, "system calls that open the kernel, and sockets to the outside, are refused", "withoutSeccomp"),
		layer("landlock", set.withoutLandlock, "commands write below writable folders only, whatever the mounts say", "withoutLandlock"),
		layer("observer", !set.observe, "attempts to write where nothing may be written are seen", "observe"),
		{Name: "processes", On: s.Resources.PIDs > 0, Detail: "docker.pidsLimit bounds them, in a user namespace of their own"},
	}
}
