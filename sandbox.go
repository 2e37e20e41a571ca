// Package sandbox holds the vocabulary of the project: what a sandbox is, what
// a provider must be able to do, and how failures are named.
//
// A sandbox is one isolated environment (a Docker container, a bubblewrap
// process) in which commands and file operations of an untrusted program run. A
// [Spec] describes it completely; a [Provider] builds it; a [Sandbox] is the
// open handle through which [Command] values are started.
//
// The package imports the standard library only and does nothing by itself. All
// code with side effects lives in the packages below it.
package sandbox

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Scope says who shares a sandbox.
type Scope string

// The scopes, from narrow to wide.
const (
	ScopeSession Scope = "session" // one conversation
	ScopeAgent   Scope = "agent"   // every session of one agent
	ScopeShared  Scope = "shared"  // every agent of one tenant
)

// Mode says which sessions are sandboxed.
type Mode string

// The modes. ModeNonMain leaves only an agent's main session outside.
const (
	ModeOff     Mode = "off"
	ModeNonMain Mode = "non-main"
	ModeAll     Mode = "all"
)

// Access says what of the agent's own folder a sandbox sees.
type Access string

// The kinds of access: an own scratch workspace only; the agent's folder
// read-only at [AgentDir] beside it; the agent's folder as the workspace; a
// copy-on-write view of the agent's folder as the workspace, whose changes stay
// in a layer of the sandbox's own.
const (
	AccessNone    Access = "none"
	AccessRO      Access = "ro"
	AccessRW      Access = "rw"
	AccessPrivate Access = "private"
)

// DriftPolicy says what happens to a sandbox that is in use while its
// settings have changed.
type DriftPolicy string

// The drift policies.
const (
	DriftKeep   DriftPolicy = "keep"   // keep it and say how to recreate it
	DriftRefuse DriftPolicy = "refuse" // run nothing until it is recreated
)

// FSTransport says how file operations reach a sandbox.
type FSTransport string

// The file transports. Auto takes the guest where it serves files, and scripts
// where it cannot.
const (
	FSAuto   FSTransport = "auto"
	FSGuest  FSTransport = "guest"  // refuse where the guest serves no files
	FSScript FSTransport = "script" // shell scripts, one command for each operation
)

// Kind says what a sandbox is for.
type Kind string

// The kinds of sandbox.
const (
	KindSandbox Kind = "sandbox"
	KindBrowser Kind = "browser"
	KindPool    Kind = "pool"
)

// Status is the state of a sandbox as its provider sees it.
type Status string

// The states. Missing, orphan and unknown arise when records and reality are
// compared: recorded but gone, there but not recorded, and not known because
// the provider did not answer.
const (
	StatusRunning Status = "running"
	StatusPaused  Status = "paused"
	StatusStopped Status = "stopped"
	StatusMissing Status = "missing"
	StatusOrphan  Status = "orphan"
	StatusUnknown Status = "unknown"
)

// Hostname is the host name inside every sandbox.
const Hostname = "sandbox"

// Paths inside every sandbox.
const (
	WorkspaceDir = "/workspace"         // the writable workspace
	AgentDir     = "/agent"             // the agent's own folder, read-only
	HomeDir      = "/home/sandbox"      // the writable home
	GuestDir     = "/.sandbox"          // our own mounts: bin (read-only) and run
	HostsFile    = "/etc/hosts"         // where there is no network our own
	TrustDir     = "/.sandbox/trust"    // certificates of our own authority, where secrets are bound to hosts
	CacheDir     = "/.sandbox/cache"    // caches of package managers, which outlive the sandbox
	SettingsDir  = "/.sandbox/settings" // settings files of the program of a coding agent, read-only
)

// An Owner says whose a sandbox is. All fields are fixed at creation.
type Owner struct {
	Instance string `json:"instance"` // the state folder that made it
	Tenant   string `json:"tenant"`   // may be empty
	Agent    string `json:"agent"`
	Session  string `json:"session"` // the conversation
	Scope    Scope  `json:"scope"`
	ScopeKey string `json:"scopeKey"` // of [SessionKey], "agent:<id>" or "shared"
}

// Same reports whether o and p name the same sandbox, that is, whether
// instance, tenant, scope and scope key agree, and in session scope the agent
// too. In a wide scope agent and session do not matter: many of them share one
// sandbox.
func (o Owner) Same(p Owner) bool {
	return o.Instance == p.Instance && o.Tenant == p.Tenant &&
		o.Scope == p.Scope && o.ScopeKey == p.ScopeKey &&
		(o.Scope != ScopeSession || o.Agent == p.Agent)
}

// DefaultAgent is the agent that acts where a call names none.
const DefaultAgent = "main"

const (
	agentKey   = "agent:"
	sessionKey = ":session:"
)

// SessionKey returns the scope key of a session of an agent. No two agents have
// the same one: it is "agent:<id>:session:<session>", and of the default agent
// the session alone, unless that begins with "agent:". An empty agent is the
// default one.
func SessionKey(agent, session string) string {
	if (agent == "" || agent == DefaultAgent) && !strings.HasPrefix(session, agentKey) {
		return session
	}
	if agent == "" {
		agent = DefaultAgent
	}
	return agentKey + agent + sessionKey + session
}

// SplitSessionKey returns the agent and the session of which key is the
// [SessionKey].
func SplitSessionKey(key string) (agent, session string) {
	if rest, ok := strings.CutPrefix(key, agentKey); ok {
		if agent, session, ok = strings.Cut(rest, sessionKey); ok {
			return agent, session
		}
	}
	return DefaultAgent, key
}

// Info is what a provider knows about one sandbox.
type Info struct {
	Name       string
	ID         string // the provider's own identifier
	Kind       Kind
	Provider   string
	Owner      Owner
	Status     Status
	Image      string // the reference it was made from
	ImageID    string // the identity of that image then
	ConfigHash string // see package confighash
	Format     string // of the description of which the provider has this, see [InfoFormat]
	CreatedAt  time.Time
	StartedAt  time.Time // zero when it never ran or the provider cannot tell
	PID        int       // host process id of the first process; 0 when not running
}

// InfoFormat is the version of what providers keep beside a sandbox to describe it:
// labels, annotations, or a definition on disk.
const InfoFormat = "1"

// CheckFormat returns an error if the description of the sandbox has a format that this
// program does not know, because a newer version has made the sandbox: what it says,
// the owner included, may mean something else then. older says that an earlier version
// has made it in a format that was given up, so that it is made anew once it is idle. Of
// what has no format, and so is not ours, nothing is said.
func (i Info) CheckFormat(op string) (older bool, err error) {
	if i.Format == "" {
		return false, nil
	}
	knows, _ := strconv.Atoi(InfoFormat)
	n, err := strconv.Atoi(i.Format)
	if err == nil && n > 0 && n <= knows {
		return n < knows, nil
	}
	return false, &Error{
		Code: CodeUnsupported, Op: op, Resource: i.Name,
		Message: fmt.Sprintf("a newer version has made the sandbox %s: its description has format %q, and this program knows formats up to %d", i.Name, i.Format, knows),
		Hint:    "use that version, or remove the sandbox and what is in it with: sandbox recreate --force",
	}
}

// A Filter selects sandboxes. Empty fields select everything, so the zero
// Filter lists all sandboxes that carry our labels, of every instance.
type Filter struct {
	Instance string
	Tenant   string
	Kind     Kind
	Name     string
}
