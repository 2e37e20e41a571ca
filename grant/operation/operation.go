// Package operation carries out what a guard has allowed. It defines the terms:
// an Executor does the operations of one domain, in a Call that knows the
// guard, counts what is used and notes what was done. The executors are in this
// package, one per domain.
//
// An executor takes a [grant.Vetted] and no other form of the operation. It
// determines what names do not show (where a link leads, which address a host
// has, what a redirect asks for) and refuses with the same codes as the guard.
// What it returns is bounded; what it does not return is in the digest.
package operation

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// An Executor carries out the operations of one domain. It is safe for
// concurrent use.
type Executor interface {
	// Execute carries out a vetted operation, and returns when all of it has
	// ended.
	//
	// ctx ends when a budget is used up, the grant ends, or the caller gives
	// up; context.Cause says which, and an executor that was stopped returns
	// that cause when it is a *sandbox.Error. The time limit of the profile is
	// in ctx, the operation's own timeout is not. Errors are *[sandbox.Error].
	// An Output that is returned with an error describes what was done until
	// then.
	Execute(ctx context.Context, c *Call, v grant.Vetted) (Output, error)
}

// A Call is what an operation is carried out in. It is safe for concurrent use.
type Call struct {
	// ID is that of the operation in the evidence. The proxy's records of the
	// operation use it; when it is empty, the proxy generates one.
	ID    string
	Guard *grant.Guard
	Meter *budget.Meter
	// State is what the guard has to know of the call at the moment, for
	// [grant.Guard.ValidateHop].
	State func() grant.State
	// Allowed judges what an operation has led to, after the guard has allowed
	// it, by settings that profiles do not contain, such as patterns of paths.
	// nil allows all.
	Allowed func(grant.Vetted) error
	// Space is the temporary space of the call; nil where it has none.
	Space Space
	// Keep is how many bytes of an output are handed back; the digest is of all.
	Keep int64

	mu      sync.Mutex
	effects []evidence.Effect
	more    int
}

// Effect notes a side effect for the record, when it has happened or may have.
func (c *Call) Effect(e evidence.Effect) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.effects) == evidence.MaxEffects {
		c.more++
		return
	}
	c.effects = append(c.effects, e)
}

// Effects returns what was noted, and how many were too many to be kept.
func (c *Call) Effects() (list []evidence.Effect, more int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]evidence.Effect{}, c.effects...), c.more
}

// A Space is the temporary space of one call: folders inside, each with a
// bound, which are gone when the call is.
type Space interface {
	// Room returns how many bytes may still be written at path, and whether
	// path is in the space at all. It examines the current contents.
	Room(ctx context.Context, path string) (bytes int64, within bool, err error)
	// Watch returns a context that ends with [sandbox.CodeBudgetExceeded] when
	// a folder exceeds its bound while something runs. The caller must call the
	// returned function.
	Watch(ctx context.Context) (context.Context, context.CancelFunc)
}

// An Output is what an operation came to.
type Output struct {
	Data      []byte          `json:"data,omitempty"` // the first bytes, at most Call.Keep
	Truncated bool            `json:"truncated,omitempty"`
	Digest    evidence.Digest `json:"digest"` // of all of it

	Type string `json:"type,omitempty"` // of the data, as type/subtype
	Path string `json:"path,omitempty"` // inside: of a file written, a folder allotted

	Entries  []Entry   `json:"entries,omitempty"`  // FsList
	Response *Response `json:"response,omitempty"` // NetHttp
	Page     *Page     `json:"page,omitempty"`     // BrowserNav, BrowserExtract
	Exit     *Exit     `json:"exit,omitempty"`     // ProcExec
}

// An Entry is one name in a folder.
type Entry struct {
	Name string `json:"name"`
	Type string `json:"type"` // file, folder, link, other
	Size int64  `json:"size"` // bytes, of files
}

// A Response is the answer to a request of HTTP. Its body is Output.Data.
type Response struct {
	URL    string              `json:"url"` // that answered, in the end
	Status int                 `json:"status"`
	Header map[string][]string `json:"header"` // of a list of harmless names
	Hops   int                 `json:"hops"`   // redirects that were followed
}

// A Page is what a browser displays. Requested text is in Output.Data.
type Page struct {
	URL    string   `json:"url"`
	Status int      `json:"status"`
	Title  string   `json:"title"`
	Hops   []string `json:"hops,omitempty"` // addresses passed on the way
}

// An Exit is how a program ended. Its output is in Output.Data, standard output
// first; Stderr is its standard error.
type Exit struct {
	Code         int             `json:"code"`
	Signal       string          `json:"signal,omitempty"`
	TimedOut     bool            `json:"timedOut,omitempty"` // ended at the operation's own timeout
	Stderr       []byte          `json:"stderr,omitempty"`
	StderrDigest evidence.Digest `json:"stderrDigest"`

	Limit *sandbox.LimitHit `json:"limit,omitempty"` // of the sandbox, that was reached
}
