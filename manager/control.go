package manager

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/grant/store"
)

// Control is what operations under grants need beside sandboxes: the
// revocations, the use of budgets, and the recorder of what happened. The function
// orchestrator.OpenOperations makes one on a state folder. Fetch, Browse, Observe and Sweep
// may be nil.
type Control struct {
	Revocations Revocations
	Keys        Keys
	Accounts    Accounts
	Recorder    Recorder
	Fetch       Fetch
	Browse      Browse
	Observe     operation.Observer // nil: no observer

	// Sweep forgets what is about grants that have expired. It is called now and
	// then while operations are carried out; nil is nothing.
	Sweep func(context.Context) error
}

// Revocations tells who was revoked, and learns who was derived from whom.
// [revocation.Folder] and [revocation.Memory] are Revocations.
type Revocations interface {
	store.Watcher
	Derived(child, parent string, expires time.Time) error
}

// Keys remembers which call a decision was used for.
type Keys interface {
	// Use notes that the call uses the decision with the fingerprint key, and
	// returns the call that used it first, which may be the same.
	Use(tenant, key, call string, expires time.Time) (usedBy string, err error)
}

// Accounts opens chains of accounts; [ledger.Ledger] is one.
type Accounts interface {
	Account(ctx context.Context, chain ...ledger.Limit) (*ledger.Account, error)
}

// An Entry is an operation whose beginning is on record.
type Entry interface {
	// End puts its end on record. It is called once.
	End(ctx context.Context, end evidence.End) error
}

// A Recorder records operations. With require, an error means that the operation
// may not be carried out; without it, failures are reported elsewhere.
type Recorder interface {
	Begin(ctx context.Context, b evidence.Begin, require bool) (Entry, error)
	// Refused records an operation that was not begun.
	Refused(ctx context.Context, b evidence.Begin, end evidence.End, require bool) error
}

// A Fetch makes an executor that sends HTTP requests through an egress session,
// which open opens for a listener that is in no sandbox. end closes both.
type Fetch func(open func(inside sandbox.Listener) (proxy.Session, error)) (e operation.Executor, end func(), err error)

// A Browse makes what drives the browser of a scope in one session, which is
// opened when it is first needed and ends with life.
type Browse func(life context.Context, who config.Who) Browsing

// A Browsing is the part of a call that is done in a browser.
// [operation/browse.Executor] is one.
type Browsing interface {
	operation.Executor
	// Pages is how many pages the call has opened.
	Pages() int
	Close() error
}

// errNoControl is the answer where operations under grants were not provided
// for.
func errNoControl() error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "operate", Message: "this program carries out no operations under grants", Hint: "give the manager a Control"}
}

// bounds are what the settings let a session, an agent and a tenant use.
func bounds(res config.Resolved, line []grant.Grant, resolve func(agent string) (config.Resolved, error)) (ledger.Bounds, error) {
	b := ledger.Bounds{Session: res.Budgets.Session, Tenant: res.Budgets.Tenant, Agents: map[string]budget.Amount{}}
	for _, g := range line {
		if g.Agent == "" {
			continue
		}
		r, err := resolve(g.Agent)
		if err != nil {
			return b, err
		}
		b.Agents[g.Agent] = r.Budgets.Agent
	}
	return b, nil
}
