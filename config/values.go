package config

import sandbox "github.com/bulkhead-dev/sandbox"

// Values are the settings of one call with every layer applied. Field names
// and meanings are those of [SandboxSettings]; a test holds that. Sizes are
// bytes. An empty WorkspaceRoot, Docker.User, Docker.SeccompProfile,
// Docker.AppArmorProfile, Docker.CAFile or Docker.Runtime, a zero Docker.MemorySwap or
// Docker.ShmSize and nil Docker.Tmpfs stand for the default that depends on
// the world or on other values.
type Values struct {
	Enabled           bool                `json:"enabled"`
	FailIfUnavailable bool                `json:"failIfUnavailable"`
	EnabledPlatforms  []string            `json:"enabledPlatforms,omitempty"`
	Provider          string              `json:"provider"`
	ProviderOptions   map[string]any      `json:"providerOptions,omitempty"`
	Preset            string              `json:"preset"`
	Mode              sandbox.Mode        `json:"mode"`
	Scope             sandbox.Scope       `json:"scope"`
	WorkspaceAccess   sandbox.Access      `json:"workspaceAccess"`
	WorkspaceRoot     string              `json:"workspaceRoot"`
	WorkspaceQuota    Size                `json:"workspaceQuota"`
	DriftPolicy       sandbox.DriftPolicy `json:"driftPolicy"`
	FSTransport       sandbox.FSTransport `json:"fsTransport"`
	RequireEvidence   bool                `json:"requireEvidence"`

	// Workspace is the host folder that a flag names as the workspace, as
	// written, or empty.
	Workspace string `json:"-"`

	// AgentSettings is the host folder that appears at [sandbox.SettingsDir], or
	// empty.
	AgentSettings string `json:"-"`

	Docker     Docker     `json:"docker"`
	Filesystem Filesystem `json:"filesystem"`
	Network    Network    `json:"network"`
	Commands   Commands   `json:"commands"`
	Limits     Limits     `json:"limits"`
	Browser    Browser    `json:"browser"`
	Tools      Tools      `json:"tools"`
	Prune      Prune      `json:"prune"`
	Pool       Pool       `json:"pool"`
	Checkpoint Checkpoint `json:"checkpoint"`
	Cache      Cache      `json:"cache"`
	Idle       Idle       `json:"idle"`
	Budgets    Budgets    `json:"budgets"`
	Profile    Profile    `json:"profile"`
	Evidence   Evidence   `json:"evidence"`
}

// Profile is [ProfileSettings] with every layer applied; a nil list says
// nothing, and 0 is what the defaults of profiles say.
type Profile struct {
	MIME           []string `json:"mime,omitzero"`
	Tools          []string `json:"tools,omitzero"`
	Methods        []string `json:"methods,omitzero"`
	Paths          []string `json:"paths,omitzero"`
	MaxBytesIn     Size     `json:"maxBytesIn,omitzero"`
	MaxBytesOut    Size     `json:"maxBytesOut,omitzero"`
	MaxTmpBytes    Size     `json:"maxTmpBytes,omitzero"`
	MaxFiles       int64    `json:"maxFiles,omitzero"`
	MaxDepth       int64    `json:"maxDepth,omitzero"`
	MaxConcurrency int64    `json:"maxConcurrency,omitzero"`
	Timeout        Duration `json:"timeout,omitzero"`
}

// Docker is [DockerSettings] with every layer applied.
type Docker struct {
	Image           string            `json:"image"`
	ContainerPrefix string            `json:"containerPrefix"`
	Workdir         string            `json:"workdir"`
	ReadOnlyRoot    bool              `json:"readOnlyRoot"`
	Tmpfs           []string          `json:"tmpfs,omitempty"`
	Home            string            `json:"home"`
	HomeSize        Size              `json:"homeSize"`
	Network         string            `json:"network"`
	User            string            `json:"user"`
	CapDrop         []string          `json:"capDrop"`
	Env             map[string]string `json:"env"`
	Setup           []string          `json:"setup,omitempty"`
	BuildNetwork    string            `json:"buildNetwork"`
	BuildTimeout    Duration          `json:"buildTimeout"`
	BuildSize       Size              `json:"buildSize"`
	CAFile          string            `json:"caFile"`
	OnStart         []string          `json:"onStart,omitempty"`
	PIDsLimit       int64             `json:"pidsLimit"`
	Memory          Size              `json:"memory"`
	MemorySwap      Size              `json:"memorySwap"`
	CPUs            float64           `json:"cpus"`
	Ulimits         map[string]Ulimit `json:"ulimits"`
	SeccompProfile  string            `json:"seccompProfile"`
	AppArmorProfile string            `json:"apparmorProfile"`
	DNS             []string          `json:"dns,omitempty"`
	ExtraHosts      []string          `json:"extraHosts,omitempty"`
	Binds           []string          `json:"binds,omitempty"`
	Runtime         string            `json:"runtime"`
	GPUs            string            `json:"gpus"`
	ShmSize         Size              `json:"shmSize"`

	DangerouslyAllowBindSources     []string `json:"dangerouslyAllowBindSources,omitempty"`
	DangerouslyAllowMissingLimits   bool     `json:"dangerouslyAllowMissingLimits"`
	DangerouslyAllowReservedTargets bool     `json:"dangerouslyAllowReservedTargets"`
	DangerouslyAllowWritableRoot    bool     `json:"dangerouslyAllowWritableRoot"`
	DangerouslyKeepCapabilities     bool     `json:"dangerouslyKeepCapabilities"`
}

// Filesystem is [FilesystemSettings] with every layer applied.
type Filesystem struct {
	AllowRead        []string `json:"allowRead,omitempty"`
	DenyRead         []string `json:"denyRead,omitempty"`
	AllowWrite       []string `json:"allowWrite,omitempty"`
	DenyWrite        []string `json:"denyWrite,omitempty"`
	TempPrefixes     []string `json:"tempPrefixes,omitempty"`
	AllowUnixSockets []string `json:"allowUnixSockets,omitempty"`
}

// Network is [NetworkSettings] with every layer applied.
type Network struct {
	AllowedDomains    []string `json:"allowedDomains,omitempty"`
	DeniedDomains     []string `json:"deniedDomains,omitempty"`
	AllowPrivate      bool     `json:"allowPrivate"`
	AllowPublic       bool     `json:"allowPublic"`
	Ask               bool     `json:"ask"`
	AllowLocalBinding bool     `json:"allowLocalBinding"`
	HTTPProxyPort     int64    `json:"httpProxyPort"`

	Registries    []string      `json:"registries,omitempty"`
	RegistryHosts RegistryHosts `json:"registryHosts,omitzero"`

	Limits  NetworkLimits             `json:"limits"`
	Secrets map[string]SecretSettings `json:"secrets,omitempty"`
}

// RegistryHosts is [RegistrySettings] with every layer applied.
type RegistryHosts struct {
	NPM    []string `json:"npm,omitempty"`
	PyPI   []string `json:"pypi,omitempty"`
	Go     []string `json:"go,omitempty"`
	Cargo  []string `json:"cargo,omitempty"`
	Maven  []string `json:"maven,omitempty"`
	Debian []string `json:"debian,omitempty"`
}

// NetworkLimits is [NetworkLimitSettings] with every layer applied; 0 is unbounded.
type NetworkLimits struct {
	Connections  int64    `json:"connections"`
	BytesIn      Size     `json:"bytesIn"`
	BytesOut     Size     `json:"bytesOut"`
	RequestBytes Size     `json:"requestBytes"`
	Idle         Duration `json:"idle"`
	Total        Duration `json:"total"`
}

// Commands is [CommandSettings] with every layer applied.
type Commands struct {
	Strictness           string   `json:"strictness"`
	Allow                []string `json:"allow,omitempty"`
	Block                []string `json:"block,omitempty"`
	Excluded             []string `json:"excluded,omitempty"`
	SubagentBlock        []string `json:"subagentBlock,omitempty"`
	AllowUnsandboxed     bool     `json:"allowUnsandboxed"`
	AutoAllowIfSandboxed bool     `json:"autoAllowIfSandboxed"`
}

// Limits is [LimitSettings] with every layer applied; 0 is unbounded.
type Limits struct {
	Timeout        Duration `json:"timeout"`
	MaxOutputBytes Size     `json:"maxOutputBytes"`
	Memory         Size     `json:"memory"`
	CPUSeconds     int64    `json:"cpuSeconds"`
	FileSize       Size     `json:"fileSize"`
	OpenFiles      int64    `json:"openFiles"`
	Processes      int64    `json:"processes"`
}

// Tools is [ToolSettings] with every layer applied.
type Tools struct {
	Allow     []string `json:"allow,omitempty"`
	AlsoAllow []string `json:"alsoAllow,omitempty"`
	Deny      []string `json:"deny,omitempty"`
}

// Prune is [PruneSettings] with every layer applied; 0 switches a rule off.
type Prune struct {
	Idle   Duration `json:"idle"`
	MaxAge Duration `json:"maxAge"`
	Every  Duration `json:"every"`
}

// Pool is [PoolSettings] with every layer applied.
type Pool struct {
	Size   int64    `json:"size"`
	Max    int64    `json:"max"`
	Window Duration `json:"window"`
	Memory Size     `json:"memory"`
	From   string   `json:"from,omitempty"`
}

// Most returns how many slots of one kind demand can raise the pool to; 0 means
// that there is no pool.
func (p Pool) Most() int64 { return max(p.Size, p.Max) }

// Checkpoint is [CheckpointSettings] with every layer applied.
type Checkpoint struct {
	Means   string   `json:"means"`
	Auto    string   `json:"auto"`
	Keep    int64    `json:"keep"`
	Max     int64    `json:"max"`
	MaxDisk Size     `json:"maxDisk"`
	Folders []string `json:"folders,omitempty"`
}

// Cache is [CacheSettings] with every layer applied.
type Cache struct {
	Tools []string `json:"tools,omitempty"`
	Size  Size     `json:"size"`
}

// The values of checkpoint.means and checkpoint.auto that other packages name.
const (
	MeansAuto   = "auto"
	AutoOff     = "off"
	AutoCommand = "command"
)

// Idle is [IdleSettings] with every layer applied.
type Idle struct {
	PauseAfter Duration `json:"pauseAfter"`
}
