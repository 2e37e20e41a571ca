//go:build linux || darwin

package sandboxexec

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// Plan implements [provider.Planner].
func (p *Provider) Plan(ctx context.Context, s sandbox.Spec) (provider.Plan, error) {
	if err := p.o.Refuse(s); err != nil {
		return provider.Plan{}, err
	}
	out := provider.Plan{Layers: layers(s), Notes: notes(s)}
	pic, protected, err := p.picture(ctx, s)
	if err != nil {
		return out, err
	}
	pl, err := profile(s, pic, protected, p.tmp(s.Name))
	if err != nil {
		return out, err
	}
	for _, list := range []struct {
		does  string
		paths []string
	}{{"read-only", pl.rules.Readable}, {"writable", pl.rules.Writable}, {"temporary files and home", pl.rules.Tmp}} {
		for _, at := range list.paths {
			out.Steps = append(out.Steps, provider.Step{Does: list.does, Target: at, Source: at})
		}
	}
	for _, d := range pl.rules.Denies {
		out.Steps = append(out.Steps, provider.Step{Does: closes(d.Read), Target: d.Path, Rule: d.Rule})
	}
	for _, g := range pl.rules.Globs {
		out.Steps = append(out.Steps, provider.Step{Does: closes(g.Read), Target: g.Pattern, Rule: g.Rule})
	}
	out.Notes = append(out.Notes, protected.Notes...)
	j, err := plan.NewJudge(pl.tagged("explain"))
	if err != nil {
		return out, err
	}
	out.Judge = func(op sandbox.Operation, inside string) sandbox.Verdict { return j.Judge(op, pl.place(inside)) }
	return out, nil
}

func closes(read bool) string {
	if read {
		return "closed"
	}
	return "closed for writing"
}

// layers are what keeps code inside.
func layers(s sandbox.Spec) []provider.Layer {
	network := "no connection, but to the egress proxy where hosts are allowed"
	if s.Egress.AllowLocalBinding {
		network += "; programs may listen on the host's loopback interface"
	}
	return []provider.Layer{
		{Name: "sandbox-exec", On: true, Detail: "files: what is listed below and the system's programs, and nothing else"},
		{Name: "network", On: true, Detail: network},
		{Name: "user", Detail: "commands run as our own user"},
		{Name: "namespaces", Detail: "macOS has none: the host's processes can be listed, and its loopback interface is that of the sandbox"},
		{Name: "observer", On: true, Detail: "what is refused is read from the system log, where the user may follow that (administrators)"},
		{Name: "processes", Detail: "a command ends with its process group; a process that leaves the group is not ended"},
	}
}

// notes are what a person should know that neither the Spec nor the layers say.
func notes(s sandbox.Spec) []string {
	list := []string{
		"the local provider has not been run on macOS: its profiles and arguments are tested on Linux, and before the first command closed files are tried from inside",
		"terminals, detached commands, commands at the start, limits of commands and secrets bound to hosts are refused on macOS; usage is not counted",
		"a line of a shell is a process of its own: working directory, variables, functions, aliases, options and traps stay, descriptors that exec has opened and jobs do not",
	}
	for _, r := range []struct {
		set  bool
		name string
	}{
		{s.Resources.Memory > 0, "docker.memory is"}, {s.Resources.NanoCPUs > 0, "docker.cpus is"}, {s.Resources.PIDs > 0, "docker.pidsLimit is"},
		{len(s.Resources.Ulimits) > 0, "docker.ulimits are"},
	} {
		if r.set {
			list = append(list, r.name+" not enforced on macOS")
		}
	}
	if s.Egress.AllowLocalBinding {
		list = append(list, "network.allowLocalBinding: programs may listen on the host's loopback interface, where every user of this machine reaches them; programs inside do not reach them, because a profile names ports and not listeners")
	}
	return list
}

var _ provider.Planner = (*Provider)(nil)
