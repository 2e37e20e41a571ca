package sandbox

import (
	"context"
	"time"
)

// Operation says what is done with a resource.
type Operation string

// The operations. Writing includes making, removing and renaming.
const (
	OpRead    Operation = "read"
	OpWrite   Operation = "write"
	OpConnect Operation = "connect"
	OpExecute Operation = "execute"
)

// Kinds of resources that rules are about.
const (
	ResourcePath    = "path"    // an absolute path inside the sandbox
	ResourceNetwork = "network" // host:port
	ResourceSyscall = "syscall" // the name of a system call
	ResourceCommand = "command" // text for a shell, or a part of it
	ResourceTool    = "tool"    // the name of a tool of an agent
	ResourceLimit   = "limit"   // the name of a limit, as settings have it
)

// Evidence says how far it is known that a policy stopped something.
type Evidence string

// The kinds of evidence, from strong to weak. Only the first two make a
// command count as blocked.
const (
	// The sandbox or the proxy has seen the attempt, and a rule denies it.
	EvidenceCertain Evidence = "certain"
	// The program reports an error of the kind that a denial causes and
	// names a resource that a rule denies.
	EvidenceStrong Evidence = "strong"
	// The program has failed and names a resource that a rule denies.
	EvidenceWeak Evidence = "weak"
)

// A Violation is one thing that was tried and stopped.
type Violation struct {
	Kind      string    `json:"kind"`      // ResourcePath, ResourceNetwork, ResourceSyscall
	Operation Operation `json:"operation"` // what was tried
	Resource  string    `json:"resource"`  // canonical; of a path, as it is called inside
	Rule      string    `json:"rule"`      // the rule that denies it, as a person would look for it in the settings
	Builtin   bool      `json:"builtin"`   // the rule is a deny, which no grant opens
	Evidence  Evidence  `json:"evidence"`
	Program   string    `json:"program,omitempty"`  // name of the process, as it calls itself
	PID       int       `json:"pid,omitempty"`      // inside
	HostPath  string    `json:"hostPath,omitempty"` // of a path, where the host has it
	Time      time.Time `json:"time"`
}

// A Verdict is what the rules of a sandbox say of one operation on one path.
type Verdict struct {
	Allowed  bool
	Rule     string // the rule that decided
	Builtin  bool   // a deny, which no grant opens; false where only nothing allows it
	HostPath string // what a grant would have to name; empty where the host has no such path
}

// A Judge is a Sandbox that has rules for paths. Path is absolute and as it is
// called inside; it need not exist.
type Judge interface {
	Judge(op Operation, path string) Verdict
}

// A ViolationObserver is a Process whose sandbox reports what it refuses. Violations
// returns a bounded number of the violations seen so far, in the order in which
// they were seen, each of [EvidenceCertain], or of [EvidenceWeak] where the
// command was not stopped and what it did was undone. Once Wait has returned
// the list is complete.
type ViolationObserver interface {
	Violations() []Violation
}

// A Grant opens one path of the host, and everything below it, to one
// operation. OpWrite includes OpRead. With OpConnect it opens a host, as
// host:port in Path; providers do not handle such grants.
type Grant struct {
	Operation Operation `json:"operation"`
	Path      string    `json:"path"` // canonical, on the host
}

// A PermissionRequest asks whether something that was stopped may be done. It
// is plain data: any front end can carry it, and answer it by its ID until
// it expires.
type PermissionRequest struct {
	ID        string    `json:"id"` // random
	Tenant    string    `json:"tenant"`
	Agent     string    `json:"agent"`
	Session   string    `json:"session"`
	Sandbox   string    `json:"sandbox"`
	Kind      string    `json:"kind"` // ResourcePath, ResourceNetwork, ResourceCommand
	Operation Operation `json:"operation"`
	Resource  string    `json:"resource"` // canonical: a path of the host, host:port, or the text of the command
	Inside    string    `json:"inside,omitempty"`
	Command   []string  `json:"command"` // that was stopped
	Reason    string    `json:"reason"`  // why it was
	Expires   time.Time `json:"expires"`
}

// Inward returns r for a reader that must not learn paths of the host: a path
// is given as it is called inside the sandbox.
func (r PermissionRequest) Inward() PermissionRequest {
	if r.Kind == ResourcePath {
		r.Resource = r.Inside
	}
	return r
}

// A Permission is the answer to a PermissionRequest.
type Permission string

// The answers. AllowOnce is for this run of this command, AllowSession for as
// long as this program serves the session, AllowPermanent goes into the
// settings file.
const (
	AllowOnce      Permission = "allow_once"
	AllowSession   Permission = "allow_session"
	AllowPermanent Permission = "allow_permanent"
	Deny           Permission = "deny"
)

// An Approver answers requests, usually by asking a person. It is safe for
// concurrent use. An error, the end of ctx and any answer that is none of the
// four count as [Deny].
type Approver interface {
	Approve(ctx context.Context, r PermissionRequest) (Permission, error)
}
