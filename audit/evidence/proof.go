// This file defines the evidence about operations: what is written when one
// begins and when it ends, and the digests that replace contents. It is pure.
//
// A Begin says who requested what, by which grant and under which policy. It
// contains what is needed to judge the request again, and none of its contents:
// bodies, arguments, headers and the query of an address are digests. Fields
// are only ever added; an older reader ignores fields that it does not know.

package evidence

import (
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/registry/pool"
)

// A Digest stands for contents.
type Digest struct {
	Algo string `json:"algo"` // sha-256
	B64  string `json:"b64"`  // standard encoding, padded
	Size int64  `json:"size"` // bytes
}

// A Begin is written before an operation begins, or together with its End when
// it is refused.
type Begin struct {
	ID     string    `json:"id"`     // of the operation: 32 hex digits, unguessable
	Writer string    `json:"writer"` // the run of the program that carries it out
	Time   time.Time `json:"time"`

	Tenant  string `json:"tenant"`
	Subject string `json:"subject,omitempty"`
	Agent   string `json:"agent,omitempty"`
	Session string `json:"session,omitempty"`
	Tool    string `json:"tool,omitempty"`
	Call    string `json:"call,omitempty"`
	Grant   string `json:"grant,omitempty"`
	Sandbox string `json:"sandbox,omitempty"` // its name, where one is concerned

	// Parent is set in the first record of a sandbox that begins with a checkpoint.
	Parent *Parent `json:"parent,omitempty"`

	Kind       grant.OpKind `json:"kind"`
	Capability string       `json:"capability,omitempty"` // "net.http:GET:https://example.com"; empty where it was refused before that was known
	Request    Request      `json:"request"`
	Inputs     Digest       `json:"inputsDigest"`

	ProfileHash     string `json:"profileHash,omitempty"` // empty where none came to be
	PolicyVersion   string `json:"policyVersionHash,omitempty"`
	ManifestVersion string `json:"manifestVersion,omitempty"`

	RequestID   string `json:"requestId,omitempty"` // of the caller
	TraceParent string `json:"traceParent,omitempty"`
}

// A Parent says what a sandbox begins with.
type Parent struct {
	Checkpoint string `json:"checkpoint"`        // its id
	Sandbox    string `json:"sandbox,omitempty"` // that the checkpoint was made of; empty where it was imported
	Session    string `json:"session,omitempty"` // of that sandbox
	// Head is the place where the chain of the parent, which is that of its tenant,
	// ended when this was recorded. A copy of that chain up to there is complete if
	// its last line has this hash. It is nil where that could not be read.
	Head *Head `json:"head,omitempty"`
}

// A Head is the last line of a chain.
type Head struct {
	Seq  uint64 `json:"seq"`
	Hash string `json:"hash"` // 64 hex digits in lower case
}

// The kinds of operations without a grant, in addition to those on files:
// running a command, and using the container of a browser.
const (
	Command grant.OpKind = "Command"
	Browser grant.OpKind = "Browser"
)

// A Request is what of an operation can be judged again.
type Request struct {
	Path    string `json:"path,omitempty"`    // inside
	Method  string `json:"method,omitempty"`  // of HTTP
	Scheme  string `json:"scheme,omitempty"`  // of an address
	Host    string `json:"host,omitempty"`    // of an address, canonical
	Port    int    `json:"port,omitempty"`    // of an address
	Program string `json:"program,omitempty"` // of ProcExec
	Args    int    `json:"args,omitempty"`    // how many arguments
	Bytes   int64  `json:"bytes,omitempty"`   // of content, or of temporary space
}

// A Status says how an operation ended.
type Status string

// The statuses.
const (
	OK      Status = "ok"
	Denied  Status = "denied"  // refused before anything was done
	Failed  Status = "error"   // begun and not carried out, or stopped
	Aborted Status = "aborted" // ended before it had come to its end: by its time limit, by its caller, or because its program has died
)

// An End is written when an operation has ended.
type End struct {
	ID     string    `json:"id"` // that of the Begin
	Time   time.Time `json:"time"`
	Status Status    `json:"status"`

	Code     sandbox.Code `json:"errorCode,omitempty"`
	Rule     string       `json:"rule,omitempty"`     // that decided against it
	Detail   string       `json:"detail,omitempty"`   // of the error; of the audit view, at most 512 bytes
	Resource string       `json:"resource,omitempty"` // of the audit view, at most 512 bytes

	// Approval is the answer to the question that the operation waited for; empty where
	// there was none.
	Approval sandbox.Permission `json:"approval,omitempty"`

	Outputs  Digest        `json:"outputsDigest"`
	Effects  []Effect      `json:"sideEffects"` // at most MaxEffects, then counted in More
	More     int           `json:"moreSideEffects,omitempty"`
	Used     grant.Budget  `json:"budgetUsed"`
	Made     *Made         `json:"made,omitempty"` // how its sandbox was made for it; nil where that was there
	Duration time.Duration `json:"durationNs"`
}

// A Made says how a sandbox was made while a pool was kept.
type Made struct {
	Claimed bool       `json:"claimed"`        // it was ready, and claimed from the pool
	Miss    *pool.Miss `json:"miss,omitempty"` // why it was not, and how long making it took
}

// MaxEffects bounds the side effects that one End names.
const MaxEffects = 32

// An Effect is one thing that an operation has done outside of itself.
type Effect struct {
	Kind grant.SideEffect `json:"kind"`

	Path     string `json:"path,omitempty"`   // inside
	Method   string `json:"method,omitempty"` // of HTTP
	Host     string `json:"host,omitempty"`   // canonical, with port
	Status   int    `json:"status,omitempty"` // of HTTP
	Program  string `json:"program,omitempty"`
	ExitCode *int   `json:"exitCode,omitempty"`
	BytesIn  int64  `json:"bytesIn,omitempty"`
	BytesOut int64  `json:"bytesOut,omitempty"`
	Digest   Digest `json:"digest,omitzero"` // of what was written or received
}
