package tenant

import (
	"math"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// leastSwept is how many accounts there are before those are forgotten in which
// nothing is.
const leastSwept = 64

// An Account is a party with limits: a tenant, or a token below it. Each call
// passes the limits, so that changed settings apply from the next one on.
type Account struct {
	Name   string
	Limits Limits
}

// A Keeper tracks the usage of each account. It is safe for concurrent use.
// Unused accounts take no memory for long.
type Keeper struct {
	now func() time.Time

	mu       sync.Mutex
	accounts map[string]*account
	sweepAt  int // accounts
}

type account struct {
	held   [numHeld]int64
	bucket bucket
}

// New returns a keeper of accounts without usage. It calls now for the time.
func New(now func() time.Time) *Keeper {
	return &Keeper{now: now, accounts: map[string]*account{}, sweepAt: leastSwept}
}

// Acquire takes w from every account of the chain, or from none: the tenant's
// and those of the tokens that the caller's token was made from, in any order.
// The error names the quota that has no room, with an [Exceeded] as its cause;
// among several it is the one with the longest wait.
//
// The function release returns what was taken, except for requests; it must be
// called, and further calls do nothing.
func (k *Keeper) Acquire(w Want, chain ...Account) (release func(), err error) {
	if err := check(w, chain); err != nil {
		return nil, err
	}
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	var worst *Exceeded
	buckets := make([]bucket, len(chain))
	for i, a := range chain {
		had := k.look(a.Name)
		worst = worse(worst, had.exceeded(w, a))
		after, wait := had.bucket.take(w.Requests, a.Limits.RequestsPerSecond, a.Limits.normal().RequestBurst, now)
		if wait != 0 {
			worst = worse(worst, &Exceeded{
				Account: a.Name, Quota: RequestsPerSecond.String(), Limit: a.Limits.RequestsPerSecond, Want: w.Requests, RetryAfter: max(wait, 0),
			})
		}
		buckets[i] = after
	}
	if worst != nil {
		return nil, worst.Wrap(op)
	}
	taken := k.add(w, chain, now)
	for i, a := range chain {
		k.accounts[a.Name].bucket = buckets[i]
	}
	return taken, nil
}

// Adopt records existing usage, whatever the limits are: sandboxes that a
// program finds when it starts again. It counts from then on, and Acquire
// grants nothing more until enough was released. No requests are drawn.
func (k *Keeper) Adopt(w Want, chain ...Account) (release func(), err error) {
	if err := check(w, chain); err != nil {
		return nil, err
	}
	now := k.now()
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.add(w, chain, now), nil
}

// Held returns the current usage of an account.
func (k *Keeper) Held(name string) Want {
	k.mu.Lock()
	defer k.mu.Unlock()
	return wantOf(k.look(name).held)
}

func check(w Want, chain []Account) error {
	if len(chain) == 0 {
		return sandbox.Errorf(sandbox.CodeValidation, op, "no account is named")
	}
	for i, a := range chain {
		for _, other := range chain[:i] {
			if a.Name == other.Name {
				return sandbox.Errorf(sandbox.CodeValidation, op, "an account is named twice")
			}
		}
		if err := a.Limits.Check(); err != nil {
			return err
		}
	}
	return w.check()
}

// look returns the account as it is. The mutex is held.
func (k *Keeper) look(name string) account {
	if a := k.accounts[name]; a != nil {
		return *a
	}
	return account{}
}

// exceeded returns the quota that has no room for w.
func (a *account) exceeded(w Want, limits Account) (worst *Exceeded) {
	bounds := limits.Limits.values()
	for kind, n := range w.held() {
		bound, held := bounds[kind], a.held[kind]
		if n == 0 || n <= room(bound, held) {
			continue
		}
		e := &Exceeded{Account: limits.Name, Quota: Kind(kind).String(), Limit: bound, Used: held, Want: n}
		if n <= room(bound, 0) && Kind(kind) == Commands { // they end by themselves; sandboxes stay, with what they take
			e.RetryAfter = heldRetry
		}
		worst = worse(worst, e)
	}
	return worst
}

// worse returns the error with the longer wait. A request above the whole quota
// is worse than one that becomes possible when something is given up, and that
// is worse than one that time alone makes possible.
func worse(a, b *Exceeded) *Exceeded {
	switch {
	case a == nil:
		return b
	case b == nil:
		return a
	case a.full() && b.RetryAfter == 0 && !b.full():
		return b
	case a.RetryAfter == 0:
		return a
	case b.RetryAfter == 0 || b.RetryAfter > a.RetryAfter:
		return b
	}
	return a
}

// add adds w to the accounts and returns the function that releases it. The
// mutex is held.
func (k *Keeper) add(w Want, chain []Account, now time.Time) func() {
	k.sweep(now)
	names := make([]string, len(chain))
	taken := make([][numHeld]int64, len(chain))
	for i, c := range chain {
		a := k.accounts[c.Name]
		if a == nil {
			a = &account{}
			k.accounts[c.Name] = a
		}
		names[i] = c.Name
		for kind, n := range w.held() {
			taken[i][kind] = min(n, math.MaxInt64-a.held[kind])
			a.held[kind] += taken[i][kind]
		}
	}
	return sync.OnceFunc(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		for i, name := range names {
			a := k.accounts[name] // it is there: something is held in it
			if a == nil {
				continue // nothing was taken
			}
			for kind, n := range taken[i] {
				a.held[kind] -= n
			}
		}
	})
}

// sweep removes accounts without usage. The mutex is held.
func (k *Keeper) sweep(now time.Time) {
	if len(k.accounts) < k.sweepAt {
		return
	}
	for name, a := range k.accounts {
		if a.held == [numHeld]int64{} && !a.bucket.full.After(now) {
			delete(k.accounts, name)
		}
	}
	k.sweepAt = max(leastSwept, 2*len(k.accounts))
}
