// Package admission enforces the quotas of tenants: requests per second, running
// commands with fair turns, and the sandboxes that exist, with their memory,
// processors and disk. It also determines which budgets are charged for what a
// caller does.
//
// The counts are held in memory. Sandboxes outlive the process, so they are
// counted from what exists: before the first request, each minute, and whenever
// one is made or removed. A sandbox that is found uncounted counts from then on,
// whatever the limits are; the tenant then gets nothing more until it is below
// its limits.
package admission

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/auth"
	tenants "github.com/bulkhead-dev/sandbox/tenant"
)

const op = "admit"

// Options configure an Admission. All but Dir and Log are required.
type Options struct {
	Keeper *tenants.Keeper
	// Rules returns the quotas of a tenant. It is called for each request, so it
	// has to return at once. See [Rules].
	Rules func(tenant string) config.TenantRules

	// Turns returns how commands begin. It is called for each command, so it has
	// to return at once.
	Turns func() Turns

	// Dir is a folder, used by no other program, that records which tokens
	// sandboxes count for; it is made when it is missing. Without one a sandbox
	// counts for its tenant alone after a restart.
	Dir string

	// Ledger keeps the accounts of tokens with a budget. Without one such tokens
	// are refused.
	Ledger *ledger.Ledger

	Log logrus.FieldLogger // nil logs nothing
}

// Turns say how commands begin.
type Turns struct {
	Slots   int           // commands that begin at a time; at least 1
	Waiting int           // commands of one tenant that may wait for their turn; at least 0
	Hold    time.Duration // how long a command counts as one that begins, unless it ends sooner; more than 0
}

// check refuses invalid times; the queue checks the rest.
func (t Turns) check() error {
	if t.Hold <= 0 {
		return sandbox.Errorf(sandbox.CodeValidation, "take turns", "commands hold their slots for no time")
	}
	return nil
}

// An Admission decides which requests may proceed. It is safe for concurrent
// use.
type Admission struct {
	keeper *tenants.Keeper
	queue  *tenants.Queue
	rules  func(tenant string) config.TenantRules
	turns  func() Turns // see renew
	log    logrus.FieldLogger
	marks  marks
	ledger *ledger.Ledger // or nil

	renewing sync.Mutex
	inForce  Turns // that the queue applies; guarded by renewing

	mu    sync.Mutex
	now   uint64           // numbers events, so that later ones can be distinguished
	held  map[string]*held // by the name of the sandbox
	gone  map[string]uint64
	found sync.Mutex // held while the inventory is read

	refused atomic.Bool // a caller was refused since the last round
	last    looked      // of Round
}

var _ manager.Accounting = (*Admission)(nil)

// New returns an Admission that holds nothing. A server calls
// [Admission.Reconcile] before the first request.
func New(o Options) (*Admission, error) {
	a := &Admission{keeper: o.Keeper, rules: o.Rules, turns: o.Turns, ledger: o.Ledger, log: o.Log, held: map[string]*held{}, gone: map[string]uint64{}}
	if a.log == nil {
		silent := logrus.New()
		silent.SetLevel(logrus.PanicLevel)
		a.log = silent
	}
	if o.Keeper == nil || o.Rules == nil || o.Turns == nil {
		return nil, sandbox.Errorf(sandbox.CodeValidation, "make admission", "a keeper, rules and turns are needed")
	}
	var err error
	a.inForce = o.Turns()
	if err := a.inForce.check(); err != nil {
		return nil, err
	}
	a.queue, err = tenants.NewQueue(tenants.Options{
		Slots: a.inForce.Slots, Waiting: a.inForce.Waiting,
		Weight: func(tenant string) int { return o.Rules(tenant).Weight },
	})
	if err == nil && o.Dir != "" {
		a.marks.dir, err = statedir.MakePrivate(o.Dir)
	}
	return a, err
}

// Request counts one request of the caller for the tenant. The error is
// [sandbox.CodeBudgetExceeded] where there were too many, for which
// [quota.RetryAfter] returns when to retry, and [sandbox.CodePermissionDeny]
// where the tenant is not served.
func (a *Admission) Request(c auth.Caller, tenant string) error {
	accounts, err := a.accounts(c, tenant)
	if err != nil {
		return err
	}
	_, err = a.keeper.Acquire(tenants.Want{Requests: 1}, accounts...)
	return err
}

// Command waits for the tenant's turn to begin a command, and counts the command
// as running until release is called. The caller has to call release, and may
// call it more than once. Errors are those of [Admission.Request], and that of
// ctx.
//
// While a command begins it occupies a slot, which the tenants get in turns;
// after Hold it counts as begun, however long it runs, and the slot is free for
// the next command. So long commands delay no other command, and each tenant
// gets its share of short ones.
func (a *Admission) Command(ctx context.Context, c auth.Caller, tenant string) (release func(), err error) {
	accounts, err := a.accounts(c, tenant)
	if err != nil {
		return nil, err
	}
	giveBack, err := a.keeper.Acquire(tenants.Want{Commands: 1}, accounts...)
	if err != nil {
		return nil, err
	}
	turns := a.renew()
	slot, err := a.queue.Acquire(ctx, tenant)
	if err != nil {
		giveBack()
		return nil, err
	}
	begun := time.AfterFunc(turns.Hold, slot.Release)
	release = func() {
		begun.Stop()
		slot.Release()
		giveBack()
	}
	return ticketOf(ctx).leave(tenant, release), nil
}

// renew applies the current turns to the queue, and returns those that apply.
// Invalid turns leave the queue as it was.
func (a *Admission) renew() Turns {
	now := a.turns()
	a.renewing.Lock()
	defer a.renewing.Unlock()
	if now == a.inForce {
		return now
	}
	err := now.check()
	if err == nil {
		err = a.queue.Resize(now.Slots, now.Waiting)
	}
	if err != nil {
		a.log.WithError(err).Error("commands go on taking turns as before")
		return a.inForce
	}
	a.inForce = now
	return now
}

// Begin implements [manager.Accounting]: the command uses the turn that its
// request waited for, where that is unused, and otherwise waits for one itself.
func (a *Admission) Begin(ctx context.Context, tenant string) (release func(), err error) {
	if release := ticketOf(ctx).take(tenant); release != nil {
		return release, nil
	}
	release, err = a.Command(context.WithValue(ctx, ticketKey{}, nil), callerOf(ctx), tenant)
	return release, err
}

// Load returns how busy the queue of commands is.
func (a *Admission) Load() tenants.Load { return a.queue.Load() }

// Held returns what a tenant holds.
func (a *Admission) Held(tenant string) tenants.Want {
	return a.keeper.Held(auth.Caller{}.Accounts(tenant, tenants.Limits{})[0].Name)
}

// Rules returns what the settings say about a tenant.
func (a *Admission) Rules(tenant string) config.TenantRules { return a.rules(tenant) }

// Used returns what was used of the budgets of tokens, by their ids, reservations
// included. Those of which nothing was used are missing.
func (a *Admission) Used(ctx context.Context, ids []string) (map[string]budget.Amount, error) {
	out := map[string]budget.Amount{}
	if a.ledger == nil || len(ids) == 0 {
		return out, nil
	}
	wanted := make(map[string]string, len(ids))
	for _, id := range ids {
		wanted[tokenAccount+id] = id
	}
	err := a.ledger.Entries(ctx, func(e ledger.Entry) bool {
		if id, ok := wanted[e.ID]; ok {
			out[id] = e.Used
		}
		return len(out) < len(wanted)
	})
	return out, err
}

// accounts returns the accounts that are charged when the caller acts for the
// tenant.
func (a *Admission) accounts(c auth.Caller, tenant string) ([]tenants.Account, error) {
	if err := a.unpaid(c); err != nil {
		return nil, err
	}
	rules := a.rules(tenant)
	if rules.Refused {
		return nil, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: op, Field: auth.TenantHeader,
			Message: "the tenant is not served here", Hint: "who runs the server lists tenants in tenants.list of the settings",
		}
	}
	return c.Accounts(tenant, rules.Limits), nil
}

// Rules returns a function for [Options] that reads the quotas of tenants from
// the settings. It prepares the settings once for as long as current returns the
// same pointer.
func Rules(current func() *config.Settings) func(tenant string) config.TenantRules {
	var mu sync.Mutex
	var of *config.Settings
	tenants := config.TenantsOf(nil)
	return func(tenant string) config.TenantRules {
		s := current()
		mu.Lock()
		defer mu.Unlock()
		if s != of {
			of, tenants = s, config.TenantsOf(s)
		}
		return tenants.Of(tenant)
	}
}
