package sandbox

import (
	"path"
	"strings"
	"time"
)

// SpecFormat is the version of the Spec layout. It is part of the config
// hash: raising it makes every existing sandbox count as changed.
const SpecFormat = 1

// A Spec is the fully resolved, deterministic description of one sandbox: plain
// data without references to live objects. Equal Specs describe equal
// sandboxes. The config hash is taken over it (see package confighash).
type Spec struct {
	Format   int    `json:"format"`
	Name     string `json:"name"`
	Kind     Kind   `json:"kind"`
	Provider string `json:"provider"`
	Owner    Owner  `json:"owner"`

	Image   string   `json:"image"`             // reference, for people
	ImageID string   `json:"imageId"`           // identity, with the setup layer applied
	Setup   []string `json:"setup,omitempty"`   // commands that became the image's last layer
	OnStart []string `json:"onStart,omitempty"` // shell lines run at each start

	Workdir string            `json:"workdir"`
	UID     int               `json:"uid"` // never 0
	GID     int               `json:"gid"` // never 0
	Env     map[string]string `json:"env,omitempty"`

	Mounts       []Mount `json:"mounts,omitempty"` // in order; later ones lie over earlier ones
	Tmpfs        []Tmpfs `json:"tmpfs,omitempty"`
	ReadOnlyRoot bool    `json:"readOnlyRoot"`

	Network    string   `json:"network"` // "none", "bridge", NetworkOwn or the name of a network
	DNS        []string `json:"dns,omitempty"`
	ExtraHosts []string `json:"extraHosts,omitempty"`

	Security  Security  `json:"security"`
	Resources Resources `json:"resources"`
	Limits    Limits    `json:"limits"`

	Runtime string `json:"runtime,omitempty"` // engine runtime; empty is the engine's default
	GPUs    string `json:"gpus,omitempty"`

	Guest GuestRef `json:"guest"`

	Filesystem FilesystemRules `json:"filesystem"`
	// Grants open what Filesystem does not allow, and nothing that it denies.
	// They are given while a sandbox is in use and take effect per handle: the
	// mounts and rules are set up anew with them, but the sandbox is not
	// recreated.
	Grants []Grant     `json:"-"`
	Egress EgressRules `json:"egress"`

	// Options is the provider's own part, validated by the provider.
	Options map[string]any `json:"options,omitempty"`
}

// NetworkOwn as Spec.Network asks for a network of its own: a bridge with a few
// IPv4 addresses that is named as the sandbox, made with it and removed with
// it. No other sandbox is on it, and containers that are attached to it do not
// reach the sandbox over it.
//
// It isolates the sandbox from its neighbours only. Programs inside reach
// everything that the host reaches: the internet, private networks, metadata
// services, and through the gateway's address the host's own services, those
// that listen on all addresses among them. Names are looked up by the engine,
// whatever they are. Egress rules are not enforced there, because no program
// has to use the proxy; a firewall of the host can enforce such rules.
const NetworkOwn = "own"

// A Mount makes the host folder or file Source appear at Target.
type Mount struct {
	Source   string `json:"source"` // absolute, canonical
	Target   string `json:"target"` // absolute, clean
	ReadOnly bool   `json:"readOnly,omitempty"`
	Role     Role   `json:"role"`
	Size     int64  `json:"size,omitempty"` // bytes that the file system at Source holds at most; of [RoleHome] and [RoleCache] alone
	// Base is the canonical host folder that Source is a private view of: Source
	// shows its files, and what is written there does not reach Base. Rules for
	// paths of Base hold for Source too. Of [RoleWorkspace] alone, else empty.
	Base string `json:"base,omitempty"`
	// Mapped is the place of an ID-mapped mount of Source, which is mounted instead
	// of Source: files of root are the sandbox's there, and what the sandbox makes
	// belongs to root in Source. It is set for a folder of root that the sandbox
	// writes to, of [RoleWorkspace] alone, else empty.
	Mapped string `json:"mapped,omitempty"`
}

// Place returns the host path at which p is mounted from: below Mapped where p is the
// Source of an ID-mapped mount of s or lies in it, else p.
func (s Spec) Place(p string) string {
	for _, m := range s.Mounts {
		if m.Mapped == "" {
			continue
		}
		if rest, below := strings.CutPrefix(p, m.Source); below && (rest == "" || rest[0] == '/') {
			return m.Mapped + rest
		}
	}
	return p
}

// Role says why a mount is there; rules for user binds differ from those
// for our own mounts.
type Role string

// The roles of mounts.
const (
	RoleWorkspace Role = "workspace" // the workspace at WorkspaceDir
	RoleAgent     Role = "agent"     // the agent's folder at AgentDir
	RoleGuest     Role = "guest"     // the guest's folder, read-only
	RoleSocket    Role = "socket"    // the folder of the guest's socket
	RoleIdentity  Role = "identity"  // minimal passwd and group files, and /etc/hosts
	RoleTrust     Role = "trust"     // the folder of TrustDir, read-only
	RoleSettings  Role = "settings"  // the folder of SettingsDir, read-only
	RoleHome      Role = "home"      // the home at HomeDir, a file system of its own
	RoleCache     Role = "cache"     // the folder of CacheDir, which outlives the sandbox
	RoleBind      Role = "bind"      // asked for by settings
)

// A Tmpfs is a memory-backed folder. Its pages count as the sandbox's memory.
type Tmpfs struct {
	Target string `json:"target"`
	Size   int64  `json:"size"` // bytes, > 0
	Exec   bool   `json:"exec,omitempty"`
	Mode   uint32 `json:"mode"` // permission bits and sticky bit, as in chmod(2)
	// Image is what a provider with images puts into the folder at each start. All
	// of it belongs to UID and GID of the Spec.
	Image FromImage `json:"image,omitempty"`
	Owned bool      `json:"owned,omitempty"` // must belong to UID and GID of the Spec; a provider may give it those in any case
}

// FromImage says what a folder in memory takes from the image.
type FromImage string

// What a folder in memory takes from the image; empty is nothing.
const (
	ImageContent FromImage = "content" // what lies in the image's folder
	ImageVolume  FromImage = "volume"  // also the mode of the folder, because the image declares a volume there
)

// Security holds the settings that confine code.
type Security struct {
	CapDrop         []string `json:"capDrop"`
	NoNewPrivileges bool     `json:"noNewPrivileges"`
	Seccomp         string   `json:"seccomp"`             // profile as JSON text; empty only for providers without one
	AppArmor        string   `json:"appArmor,omitempty"`  // profile name; empty is the engine's default
	Dangerous       []string `json:"dangerous,omitempty"` // break-glass switches in force, sorted
}

// Resources bound the sandbox as a whole. Zero means the provider's default
// only where a comment says so; BuildSpec never leaves the others zero.
type Resources struct {
	Memory     int64    `json:"memory"`     // bytes
	MemorySwap int64    `json:"memorySwap"` // bytes of memory and swap together; equal to Memory means no swap
	NanoCPUs   int64    `json:"nanoCpus"`   // 1e9 is one processor
	PIDs       int64    `json:"pids"`
	ShmSize    int64    `json:"shmSize"` // bytes of /dev/shm
	Ulimits    []Ulimit `json:"ulimits,omitempty"`
}

// A Ulimit is a resource limit by its setrlimit(2) name in lower case
// without the prefix ("nofile").
type Ulimit struct {
	Name string `json:"name"`
	Soft int64  `json:"soft"`
	Hard int64  `json:"hard"`
}

// Limits bound one command. Zero means unbounded. Exit.Limit names the limit
// that a command has reached.
//
// Memory, CPUSeconds and Processes apply to all processes of a command
// together, also those that left it for another session or parent. They are
// checked many times a second; a command that exceeds one is ended with its
// whole tree. In addition the kernel bounds each single process: CPUSeconds by
// RLIMIT_CPU, and Memory by RLIMIT_DATA at twice its value, at least 512 MiB
// beyond it.
type Limits struct {
	Timeout        time.Duration `json:"timeout,omitempty"`
	MaxOutputBytes int64         `json:"maxOutputBytes,omitempty"` // kept of each stream when captured; the rest is counted

	// Memory is in bytes: anonymous and shared memory that is mapped, and
	// what of it was swapped out. What several processes share counts once.
	// Files that are mapped, and files in memory (tmpfs, memfd), do not
	// count: these are bounded with the sandbox as a whole.
	Memory int64 `json:"memory,omitempty"`

	// CPUSeconds is processor time in seconds, including that of ended
	// processes. It does not count processes that end between two checks while
	// their parent ignores SIGCHLD.
	CPUSeconds int64 `json:"cpuSeconds,omitempty"`

	// FileSize is in bytes, of one file. A write beyond it fails with EFBIG and
	// SIGXFSZ, which ends a program that does not handle it. Exit.Limit reports
	// only that signal, or a shell's status for it.
	FileSize int64 `json:"fileSize,omitempty"`

	// OpenFiles is for each single process: opening one more fails with EMFILE.
	// Exit.Limit reports it when the command has failed and a process was seen
	// to have as many.
	OpenFiles int64 `json:"openFiles,omitempty"`

	// Processes counts processes, not threads, and those that have ended but
	// have not been waited for. Threads are bounded for the sandbox as a whole
	// by Resources.PIDs.
	Processes int64 `json:"processes,omitempty"`
}

// GuestRef names the guest binary that the sandbox runs.
type GuestRef struct {
	Dir    string `json:"dir"`    // host folder that holds exactly the binary "sandbox-guest"
	Digest string `json:"digest"` // hex SHA-256 of the binary
}

// FilesystemRules are path rules beyond the mounts, canonical where they
// name a path and as written where they are globs.
type FilesystemRules struct {
	AllowRead        []string `json:"allowRead,omitempty"`
	DenyRead         []string `json:"denyRead,omitempty"`
	AllowWrite       []string `json:"allowWrite,omitempty"`
	DenyWrite        []string `json:"denyWrite,omitempty"`
	AllowUnixSockets []string `json:"allowUnixSockets,omitempty"`

	// YieldRead are the rules of DenyRead inside which ReopenRead opens reading,
	// and ReopenWrite writing as well: those of the settings, never a built-in
	// one. The paths of ReopenRead and ReopenWrite are in AllowRead and AllowWrite
	// too, and lead through no link. All three are empty where no allow lies below
	// a deny; then a deny beats every allow.
	YieldRead   []string `json:"yieldRead,omitempty"`
	ReopenRead  []string `json:"reopenRead,omitempty"`
	ReopenWrite []string `json:"reopenWrite,omitempty"`
}

// EgressRules say which hosts can be reached. Without an allowed host, none
// can.
type EgressRules struct {
	AllowedDomains    []string `json:"allowedDomains,omitempty"`
	DeniedDomains     []string `json:"deniedDomains,omitempty"`
	AllowPrivate      bool     `json:"allowPrivate,omitempty"`
	AllowPublic       bool     `json:"allowPublic,omitempty"` // any public host, as the permissive preset has it
	Ask               bool     `json:"ask,omitempty"`
	AllowLocalBinding bool     `json:"allowLocalBinding,omitempty"`
	HTTPProxyPort     int      `json:"httpProxyPort,omitempty"`

	// Secrets are the variables that hold a placeholder inside, which the proxy
	// replaces in requests to certain hosts. Values and their sources are not
	// part of a Spec.
	Secrets []SecretRef `json:"secrets,omitempty"`
}

// A SecretRef binds the variable Name to hosts.
type SecretRef struct {
	Name  string   `json:"name"`
	Hosts []string `json:"hosts"` // canonical, as host or host:port
}

// DirOf returns the folder in which a command starts whose Dir is dir: Workdir where
// that is empty, and a folder below Workdir where it is relative, as policies judge it.
func (s Spec) DirOf(dir string) string {
	if path.IsAbs(dir) {
		return dir
	}
	return path.Join(s.Workdir, dir)
}
