package config

import sandbox "github.com/bulkhead-dev/sandbox"

// Settings are the settings file as written.
//
// The tags of these types are the one source of names and bounds: the parser,
// the JSON Schema and the merge all read them. Besides json there are doc (the
// description), enum (the values of a word), min and max (of a number or
// size), form (of a string or of the items of a list, see forms), merge ("append",
// "key", or "flag-append": replaced by settings, added to by flags), more (whose
// names are words beside those of enum) and imported (it becomes other
// settings).
type Settings struct {
	Schema *string `json:"$schema,omitempty" doc:"Where an editor finds the JSON Schema of this file; not read by the program."`
	Agents *Agents `json:"agents,omitempty" doc:"Settings of all agents and of single ones."`

	Daemon     *DaemonSettings     `json:"daemon,omitempty" doc:"How sandbox serve answers requests."`
	Tenants    *TenantsSettings    `json:"tenants,omitempty" doc:"What the tenants of sandbox serve may hold and use at one time."`
	Kubernetes *KubernetesSettings `json:"kubernetes,omitempty" doc:"The cluster in which sandboxes of the provider kubernetes run, and how their pods are made."`
	Media      *MediaSettings      `json:"media,omitempty" doc:"Where files that came in from outside are taken from when they are staged in a workspace."`

	// Dir is the absolute folder of the file, in which permission rules like
	// Edit(/src/**) lie; empty when it is not known. Parse sets it.
	Dir string `json:"-"`

	// Environment are settings that variables of the environment give, below
	// those of the file; nil is nothing. See [FromEnvironment].
	Environment *SandboxSettings `json:"-"`

	// Providers are the names of the providers that a program has beside the
	// built-in ones; the settings may name them. Parse never sets it, see
	// [ParseWith].
	Providers []string `json:"-"`

	// Coding are settings that the profile of a coding agent lays over the file
	// for all calls of a program, below the flags of each; nil is nothing. They
	// replace lists, and with them no secret of the file counts. No file has any;
	// see [AgentProfile.Layer].
	Coding *SandboxSettings `json:"-"`

	// Program are settings that a program lays over the file for all its calls,
	// below what each of them says; nil is nothing. No file has any.
	Program *SandboxSettings `json:"-"`

	// Request are settings that the request which created a sandbox asked for,
	// below those of each call; nil is nothing. They replace lists rather than add
	// to them. No file has any; see [Creation.Layer].
	Request *SandboxSettings `json:"-"`
}

// Agents holds the settings of all agents and of single ones.
type Agents struct {
	Defaults *AgentDefaults  `json:"defaults,omitempty" doc:"What holds for every agent."`
	List     []AgentSettings `json:"list,omitempty" doc:"What holds for single agents, by id."`
}

// AgentDefaults hold for every agent.
type AgentDefaults struct {
	Sandbox *SandboxSettings `json:"sandbox,omitempty" doc:"Sandbox settings of every agent."`
}

// AgentSettings hold for one agent.
type AgentSettings struct {
	ID          *string          `json:"id,omitempty" required:"true" form:"name" doc:"Name of the agent."`
	MainSession *string          `json:"mainSession,omitempty" doc:"Session that counts as the agent's main one for mode non-main; default main."`
	Workspace   *string          `json:"workspace,omitempty" doc:"Host folder of the agent; ~ and $VAR are replaced."`
	Sandbox     *SandboxSettings `json:"sandbox,omitempty" doc:"Sandbox settings of this agent, laid over agents.defaults."`
}

// SandboxSettings are one layer of settings. A field that is nil is not set in
// the layer.
type SandboxSettings struct {
	Enabled           *bool                `json:"enabled,omitempty" doc:"Whether anything is sandboxed; default true."`
	FailIfUnavailable *bool                `json:"failIfUnavailable,omitempty" doc:"Whether a call fails when its sandbox cannot be built; default true. When false it runs on the host without a sandbox, where commands.allowUnsandboxed permits it."`
	EnabledPlatforms  []string             `json:"enabledPlatforms,omitempty" enum:"linux,darwin,macos,wsl,windows" doc:"Platforms on which commands are sandboxed; default all."`
	Provider          *string              `json:"provider,omitempty" enum:"docker,local,landlock,kubernetes,auto,fake" more:"providers" doc:"Kind of sandbox; auto is docker when its engine answers, else local; landlock needs no namespaces and isolates less; kubernetes are pods of a cluster; fake is for tests. A Go program adds kinds of its own (orchestrator.Options.Providers). Default docker."`
	ProviderOptions   map[string]any       `json:"providerOptions,omitempty" doc:"The provider's own options, validated by the provider."`
	Preset            *string              `json:"preset,omitempty" enum:"strict,restricted,normal,permissive" doc:"Set of values under all settings; default restricted. No preset touches hardening."`
	Mode              *sandbox.Mode        `json:"mode,omitempty" enum:"off,non-main,all" doc:"Which sessions are sandboxed; default all."`
	Scope             *sandbox.Scope       `json:"scope,omitempty" enum:"session,agent,shared" doc:"Who shares a sandbox; default session."`
	WorkspaceAccess   *sandbox.Access      `json:"workspaceAccess,omitempty" enum:"none,ro,rw,private" doc:"none: own scratch workspace; ro: beside it the agent's folder read-only at /agent; rw: the agent's folder is the workspace; private: the workspace is a copy-on-write view of the agent's folder, which stays as it is. Default none."`
	WorkspaceRoot     *string              `json:"workspaceRoot,omitempty" doc:"Host folder of the scratch workspaces; default workspaces in the state folder. ~ and $VAR are replaced."`
	WorkspaceQuota    *Size                `json:"workspaceQuota,omitempty" min:"0" doc:"Most bytes of one scratch workspace; 0, the default, is unbounded."`
	DriftPolicy       *sandbox.DriftPolicy `json:"driftPolicy,omitempty" enum:"keep,refuse" doc:"What happens to a sandbox in use whose settings changed; default keep."`
	FSTransport       *sandbox.FSTransport `json:"fsTransport,omitempty" enum:"auto,guest,script" doc:"How file operations reach the sandbox. guest: through the guest, or refused where it serves no files; script: shell scripts, started with docker exec in a container; auto: through the guest, with scripts where it serves no files. Default auto."`
	RequireEvidence   *bool                `json:"requireEvidence,omitempty" doc:"Whether nothing is carried out, and nothing passes the way out, before that is recorded; then commands are recorded too. Default false, true under strict."`

	// Workspace is the host folder that a flag of the call names as the
	// workspace. It is no setting, so it has no name in the file.
	Workspace *string `json:"-"`

	// AgentSettings is the host folder, in the state folder, that holds the
	// settings files of the program of a coding agent. No file has it.
	AgentSettings *string `json:"-"`

	Docker     *DockerSettings     `json:"docker,omitempty" doc:"The container."`
	Filesystem *FilesystemSettings `json:"filesystem,omitempty" doc:"Path rules beyond the mounts; deny beats allow. Every list is added to those of the layers below."`
	Network    *NetworkSettings    `json:"network,omitempty" doc:"Which hosts can be reached; nothing allowed is nothing."`
	Commands   *CommandSettings    `json:"commands,omitempty" doc:"Which commands may run."`
	Limits     *LimitSettings      `json:"limits,omitempty" doc:"Bounds of one command; 0 is unbounded."`
	Browser    *BrowserSettings    `json:"browser,omitempty" doc:"The browser container."`
	Tools      *ToolSettings       `json:"tools,omitempty" doc:"Which tools an agent may use; deny beats allow."`
	Prune      *PruneSettings      `json:"prune,omitempty" doc:"When unused sandboxes are removed; 0 switches a rule off."`
	Pool       *PoolSettings       `json:"pool,omitempty" doc:"Started sandboxes that are kept ready."`
	Checkpoint *CheckpointSettings `json:"checkpoint,omitempty" doc:"How states of sandboxes are kept."`
	Cache      *CacheSettings      `json:"cache,omitempty" doc:"Caches of package managers that outlive sandboxes."`
	Idle       *IdleSettings       `json:"idle,omitempty" doc:"What happens to a sandbox that is not used."`
	Budgets    *BudgetsSettings    `json:"budgets,omitempty" doc:"What operations under grants may use in all; what is not named is not bounded, and -1 is no bound."`
	Profile    *ProfileSettings    `json:"profile,omitempty" doc:"What single operations under grants may do at most, beside what grants and manifests say."`
	Evidence   *EvidenceSettings   `json:"evidence,omitempty" doc:"How what was done is recorded."`

	Permissions *PermissionSettings `json:"permissions,omitempty" imported:"true" doc:"Permission rules as agents on the host keep them; they are added to network, filesystem and commands."`
}

// FilesystemSettings are path rules. Whitelist and blacklist are the older
// names; the parser turns them into the four lists.
type FilesystemSettings struct {
	AllowRead        []string `json:"allowRead,omitempty" merge:"append" doc:"Paths that may be read; globs too, which a local sandbox refuses here."`
	DenyRead         []string `json:"denyRead,omitempty" merge:"append" doc:"Paths or globs that may not be read, added to the built-in ones. One that ends with * behind part of a name spares templates (.example, .sample, .template, .dist, .defaults, .schema)."`
	AllowWrite       []string `json:"allowWrite,omitempty" merge:"append" doc:"Paths that may be written; globs too, which a local sandbox refuses here."`
	DenyWrite        []string `json:"denyWrite,omitempty" merge:"append" doc:"Paths or globs that may not be written, added to the built-in ones."`
	TempPrefixes     []string `json:"tempPrefixes,omitempty" merge:"append" doc:"Folders below /tmp or /var/tmp, no patterns. Where any is named, command lines and file tools may name no other temporary file for writing. Default none: all temporary folders may be written."`
	AllowUnixSockets []string `json:"allowUnixSockets,omitempty" merge:"append" doc:"Unix sockets that may be connected to."`
	Whitelist        []string `json:"whitelist,omitempty" merge:"append" alias:"true" doc:"Older name for allowRead and allowWrite together."`
	Blacklist        []string `json:"blacklist,omitempty" merge:"append" alias:"true" doc:"Older name for denyRead and denyWrite together."`
}

// CommandSettings say which commands may run.
type CommandSettings struct {
	Strictness           *string  `json:"strictness,omitempty" enum:"strict,restricted,normal,permissive" doc:"How much the checks of a command let pass; default restricted."`
	Allow                []string `json:"allow,omitempty" doc:"Commands that are allowed without asking."`
	Block                []string `json:"block,omitempty" doc:"Commands that are denied."`
	Excluded             []string `json:"excluded,omitempty" merge:"append" doc:"Commands that are run outside, where allowUnsandboxed permits it."`
	SubagentBlock        []string `json:"subagentBlock,omitempty" doc:"Commands that are denied to sub-agents beyond block."`
	AllowUnsandboxed     *bool    `json:"allowUnsandboxed,omitempty" doc:"Whether sessions that other settings leave outside, and those whose sandbox cannot be built where failIfUnavailable is false, run on the host without a sandbox; otherwise they are refused. Default false."`
	AutoAllowIfSandboxed *bool    `json:"autoAllowIfSandboxed,omitempty" doc:"Whether a command inside needs no approval; default true."`
}

// LimitSettings bound one command.
type LimitSettings struct {
	Timeout        *Duration `json:"timeout,omitempty" doc:"Wall time; default 10m."`
	MaxOutputBytes *Size     `json:"maxOutputBytes,omitempty" min:"0" doc:"Bytes kept of each output stream; the rest is counted. Default 1m."`
	Memory         *Size     `json:"memory,omitempty" min:"0" doc:"Bytes of memory of all processes of one command; files that are mapped or in memory do not count."`
	CPUSeconds     *int64    `json:"cpuSeconds,omitempty" min:"0" max:"31536000" doc:"Seconds of processor time of all processes of one command."`
	FileSize       *Size     `json:"fileSize,omitempty" min:"0" doc:"Bytes of one file that a command writes."`
	OpenFiles      *int64    `json:"openFiles,omitempty" min:"0" max:"1048576" doc:"Open files of each process of a command."`
	Processes      *int64    `json:"processes,omitempty" min:"0" max:"4194304" doc:"Processes of one command, its threads not counted."`
}

// ToolSettings say which tools an agent may use.
type ToolSettings struct {
	Allow     []string `json:"allow,omitempty" doc:"Tools that may be used; empty is all. * matches any characters."`
	AlsoAllow []string `json:"alsoAllow,omitempty" doc:"Tools that may be used beyond allow."`
	Deny      []string `json:"deny,omitempty" doc:"Tools that may not be used."`
}

// PruneSettings say when unused sandboxes are removed.
type PruneSettings struct {
	Idle   *Duration `json:"idle,omitempty" doc:"Since last use; default 24h."`
	MaxAge *Duration `json:"maxAge,omitempty" doc:"Since creation; default 7d."`
	Every  *Duration `json:"every,omitempty" doc:"Least time between two sweeps; default 5m."`
}

// PoolSettings describe the sandboxes that are kept ready.
type PoolSettings struct {
	Size   *int64    `json:"size,omitempty" min:"0" max:"1000" doc:"Started, unclaimed sandboxes for each kind that the agents ask for, kept by a daemon that runs, for all tenants together; default 0."`
	Max    *int64    `json:"max,omitempty" min:"0" max:"1000" doc:"To how many demand raises that number: as many are kept as were claimed or wanted in the busiest minute of pool.window. Default 0, which is pool.size; so is what is below it."`
	Window *Duration `json:"window,omitempty" doc:"How long a claim counts as demand; afterwards the number falls to pool.size again. Default 10m, at most 1h."`
	Memory *Size     `json:"memory,omitempty" min:"0" doc:"Most memory of the free sandboxes of one kind together, each counted with docker.memory; fewer are kept where more would not fit. Default 0, which bounds those above pool.size by half of this machine's memory."`
	From   *string   `json:"from,omitempty" doc:"Checkpoint, by its id or name, that the sandboxes which are kept ready hold already. New sandboxes of the checkpoint's tenant that name no other one begin with it. Nothing without."`
}

// CheckpointSettings say how states of sandboxes are kept.
type CheckpointSettings struct {
	Means   *string  `json:"means,omitempty" enum:"auto,overlay,reflink,copy" doc:"How a workspace shares files with its checkpoints. overlay: an overlay file system, which needs root; reflink: copies that share blocks, on a file system that can do that; copy: copies. auto is the first of these that works; default auto."`
	Auto    *string  `json:"auto,omitempty" enum:"off,command" doc:"Whether a checkpoint is made before each command, each line of a shell and each tool call that changes files, so that it can be undone; default off."`
	Keep    *int64   `json:"keep,omitempty" min:"1" max:"1000" doc:"Checkpoints of one sandbox that auto keeps, the newest ones; default 20."`
	Max     *int64   `json:"max,omitempty" min:"1" max:"100000" doc:"Checkpoints of one tenant that are kept at most, those of auto included; default 1000."`
	MaxDisk *Size    `json:"maxDisk,omitempty" min:"0" doc:"Most bytes that the checkpoints of one tenant take together; 0, the default, is unbounded."`
	Folders []string `json:"folders,omitempty" merge:"append" doc:"Further folders inside that a checkpoint keeps, beside the workspace and the home; absolute paths."`
}

// CacheSettings say which caches of package managers outlive sandboxes.
type CacheSettings struct {
	Tools []string `json:"tools,omitempty" merge:"flag-append" enum:"npm,pip,go,cargo,maven" doc:"Package managers whose caches are kept from one sandbox to the next one of the same tenant, agent and workspace folder. Default none."`
	Size  *Size    `json:"size,omitempty" min:"67108864" doc:"Most bytes of the caches of one tenant, agent and workspace folder together; beyond it they begin anew. Default 10g."`
}

// IdleSettings say what happens to a sandbox that is not used.
type IdleSettings struct {
	PauseAfter *Duration `json:"pauseAfter,omitempty" doc:"When it is frozen until the next use, by a daemon that runs; 0, the default, is never."`
}
