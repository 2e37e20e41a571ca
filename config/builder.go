package config

import (
	"errors"
	"slices"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// A Builder writes settings in Go:
//
//	settings, err := config.NewBuilder().Strict("/srv/job").AllowWrite("/srv/cache").Build()
//
// Every method sets one value of the layer that it writes to, or adds to one
// list, and returns the Builder. It starts with agents.defaults; [Builder.Agent]
// goes on to an agent's own layer. A Builder is not safe for concurrent use.
type Builder struct {
	settings *Settings
	layer    *SandboxSettings
	agent    string // empty while it writes to agents.defaults
	problems []error
}

// NewBuilder returns a Builder of settings that say nothing yet.
func NewBuilder() *Builder {
	layer := &SandboxSettings{}
	return &Builder{layer: layer, settings: &Settings{Agents: &Agents{Defaults: &AgentDefaults{Sandbox: layer}}}}
}

// Build returns the settings. They pass the checks that a settings file
// passes; errors are those of [Parse] and name the same places. The Builder
// can be used further and shares nothing with what it returned.
func (b *Builder) Build() (*Settings, error) {
	s := cloned(b.settings)
	p := problems{file: "settings", providers: s.Providers}
	err := errors.Join(append(slices.Clone(b.problems), p.judge(s))...)
	if err != nil {
		return nil, err
	}
	return s, nil
}

// Agent goes on with the settings of one agent, which are laid over those of
// all. The empty id goes back to agents.defaults.
func (b *Builder) Agent(id string) *Builder {
	b.agent = id
	if id == "" {
		b.layer = b.settings.Agents.Defaults.Sandbox
		return b
	}
	if _, i := findAgent(b.settings, id); i >= 0 {
		b.layer = b.settings.Agents.List[i].Sandbox
		return b
	}
	b.layer = &SandboxSettings{}
	b.settings.Agents.List = append(b.settings.Agents.List, AgentSettings{ID: &id, Sandbox: b.layer})
	return b
}

// Preset sets the values under all settings: strict, restricted, normal or
// permissive.
func (b *Builder) Preset(name string) *Builder { b.layer.Preset = &name; return b }

// Strict is the strict preset with dir, when it is not empty, as the
// workspace; see [Builder.Workspace].
func (b *Builder) Strict(dir string) *Builder { return b.Preset("strict").Workspace(dir) }

// Restricted is the restricted preset with dir, when it is not empty, as the
// workspace.
func (b *Builder) Restricted(dir string) *Builder { return b.Preset("restricted").Workspace(dir) }

// Normal is the normal preset with dir, when it is not empty, as the workspace.
func (b *Builder) Normal(dir string) *Builder { return b.Preset("normal").Workspace(dir) }

// Permissive is the permissive preset.
func (b *Builder) Permissive() *Builder { return b.Preset("permissive") }

// Workspace makes a folder of the host the writable workspace of the agent; of
// the agent main while the Builder writes to agents.defaults, because a folder
// belongs to one agent. An empty dir changes nothing.
func (b *Builder) Workspace(dir string) *Builder {
	if dir == "" {
		return b
	}
	back := b.agent
	id := back
	if id == "" {
		id = DefaultAgent
	}
	b.Agent(id)
	_, i := findAgent(b.settings, id)
	b.settings.Agents.List[i].Workspace = &dir
	b.layer.WorkspaceAccess = new(sandbox.AccessRW)
	return b.Agent(back)
}

// Enabled says whether anything is sandboxed.
func (b *Builder) Enabled(on bool) *Builder { b.layer.Enabled = &on; return b }

// Provider sets the provider: docker, local, auto, or one of
// [Builder.Providers].
func (b *Builder) Provider(name string) *Builder { b.layer.Provider = &name; return b }

// ProviderOptions sets the options of the provider, which validates them when a
// sandbox is to be made.
func (b *Builder) ProviderOptions(options map[string]any) *Builder {
	b.layer.ProviderOptions = options
	return b
}

// Providers names providers that the program has beside the built-in ones. They
// are those of all agents.
func (b *Builder) Providers(names ...string) *Builder {
	b.settings.Providers = append(b.settings.Providers, names...)
	return b
}

// FSTransport sets how file operations reach the sandbox.
func (b *Builder) FSTransport(t sandbox.FSTransport) *Builder { b.layer.FSTransport = &t; return b }

// Mode sets which sessions are sandboxed.
func (b *Builder) Mode(m sandbox.Mode) *Builder { b.layer.Mode = &m; return b }

// Scope sets which calls share a sandbox.
func (b *Builder) Scope(s sandbox.Scope) *Builder { b.layer.Scope = &s; return b }

// Image sets the image of containers.
func (b *Builder) Image(ref string) *Builder { b.docker().Image = &ref; return b }

// Env sets a variable of the sandbox's environment.
func (b *Builder) Env(name, value string) *Builder {
	d := b.docker()
	if d.Env == nil {
		d.Env = map[string]string{}
	}
	d.Env[name] = value
	return b
}

// AllowRead opens paths for reading, and globs but with the local provider; a
// deny beats it.
func (b *Builder) AllowRead(paths ...string) *Builder {
	return b.add(&b.filesystem().AllowRead, paths)
}

// AllowWrite opens paths for writing, and globs but with the local provider; a
// deny beats it.
func (b *Builder) AllowWrite(paths ...string) *Builder {
	return b.add(&b.filesystem().AllowWrite, paths)
}

// DenyRead closes paths or globs for reading.
func (b *Builder) DenyRead(paths ...string) *Builder { return b.add(&b.filesystem().DenyRead, paths) }

// DenyWrite closes paths or globs for writing.
func (b *Builder) DenyWrite(paths ...string) *Builder {
	return b.add(&b.filesystem().DenyWrite, paths)
}

// TempPrefix names folders below /tmp or /var/tmp to which writing of temporary
// files is limited, for what command lines and file tools name.
func (b *Builder) TempPrefix(folders ...string) *Builder {
	return b.add(&b.filesystem().TempPrefixes, folders)
}

// AllowDomain lets hosts be reached; *.example.com means those below it.
func (b *Builder) AllowDomain(hosts ...string) *Builder {
	return b.add(&b.network().AllowedDomains, hosts)
}

// DenyDomain closes hosts even when they are allowed.
func (b *Builder) DenyDomain(hosts ...string) *Builder {
	return b.add(&b.network().DeniedDomains, hosts)
}

// Secret has requests to the hosts get the orchestrator's variable name, of
// which programs inside see a stand-in; hosts are as in [SecretSettings]. It
// takes the place of a secret of the same name.
func (b *Builder) Secret(name string, hosts ...string) *Builder {
	n := b.network()
	if n.Secrets == nil {
		n.Secrets = map[string]SecretSettings{}
	}
	n.Secrets[name] = SecretSettings{Hosts: hosts}
	return b
}

// Strictness sets how much the checks of a command let pass.
func (b *Builder) Strictness(name string) *Builder { b.commands().Strictness = &name; return b }

// AllowCommand allows commands without asking: "npm run lint", "npm run test:*"
// or "docker*".
func (b *Builder) AllowCommand(rules ...string) *Builder { return b.add(&b.commands().Allow, rules) }

// BlockCommand denies commands.
func (b *Builder) BlockCommand(rules ...string) *Builder { return b.add(&b.commands().Block, rules) }

// BlockForSubagents denies commands to sub-agents beyond BlockCommand.
func (b *Builder) BlockForSubagents(rules ...string) *Builder {
	return b.add(&b.commands().SubagentBlock, rules)
}

// ExcludeCommand has commands run outside of the sandbox, where
// AllowUnsandboxed permits it.
func (b *Builder) ExcludeCommand(rules ...string) *Builder {
	return b.add(&b.commands().Excluded, rules)
}

// AllowUnsandboxed says whether anything may run outside of a sandbox at all.
func (b *Builder) AllowUnsandboxed(on bool) *Builder {
	b.commands().AllowUnsandboxed = &on
	return b
}

// AllowTool lets tools be used beyond those that are allowed anyway.
func (b *Builder) AllowTool(tools ...string) *Builder { return b.add(&b.tools().AlsoAllow, tools) }

// DenyTool takes tools away.
func (b *Builder) DenyTool(tools ...string) *Builder { return b.add(&b.tools().Deny, tools) }

// Timeout bounds the wall time of one command; 0 is unbounded.
func (b *Builder) Timeout(d time.Duration) *Builder { b.limits().Timeout = span(d); return b }

// MaxOutput bounds how many bytes are kept of each output stream.
func (b *Builder) MaxOutput(bytes int64) *Builder {
	b.limits().MaxOutputBytes = new(Size(bytes))
	return b
}

// MemoryLimit bounds the memory of one command, in bytes.
func (b *Builder) MemoryLimit(bytes int64) *Builder {
	b.limits().Memory = new(Size(bytes))
	return b
}

// CPULimit bounds the processor time of one command, in seconds.
func (b *Builder) CPULimit(seconds int64) *Builder { b.limits().CPUSeconds = &seconds; return b }

// FileSizeLimit bounds each file that a command writes, in bytes.
func (b *Builder) FileSizeLimit(bytes int64) *Builder {
	b.limits().FileSize = new(Size(bytes))
	return b
}

// OpenFilesLimit bounds the open files of each process.
func (b *Builder) OpenFilesLimit(n int64) *Builder { b.limits().OpenFiles = &n; return b }

// ProcessLimit bounds the processes of one command.
func (b *Builder) ProcessLimit(n int64) *Builder { b.limits().Processes = &n; return b }

// Set hands the layer to fn, for the settings that have no method here.
func (b *Builder) Set(fn func(*SandboxSettings)) *Builder { fn(b.layer); return b }

// add appends to a list of settings. Nothing to add is a mistake: a rule that
// a program meant to give must not go missing in silence.
func (b *Builder) add(list *[]string, values []string) *Builder {
	if len(values) == 0 {
		b.problems = append(b.problems, sandbox.Errorf(sandbox.CodeValidation, "build settings", "a list of rules was given without any rule"))
	}
	*list = append(*list, values...)
	return b
}

func (b *Builder) docker() *DockerSettings         { return present(&b.layer.Docker) }
func (b *Builder) filesystem() *FilesystemSettings { return present(&b.layer.Filesystem) }
func (b *Builder) network() *NetworkSettings       { return present(&b.layer.Network) }
func (b *Builder) commands() *CommandSettings      { return present(&b.layer.Commands) }
func (b *Builder) limits() *LimitSettings          { return present(&b.layer.Limits) }
func (b *Builder) tools() *ToolSettings            { return present(&b.layer.Tools) }

// present returns what p points to, which it makes when missing.
func present[T any](p **T) *T {
	if *p == nil {
		*p = new(T)
	}
	return *p
}
