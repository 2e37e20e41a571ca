// Package ledger keeps budget accounts on disk, for several processes: an
// amount is granted only once, and neither a restart nor a crash returns it.
//
// An account has one number per kind: what was used together with what is
// reserved. A reservation is charged when it is made, and the unused part is
// returned when it is settled. So a process that is killed needs no cleanup:
// its reservations stay charged, which is the safe assumption when its progress
// is unknown. Only [budget.Reservation.Settle] ever lowers what an account has
// used.
//
// Accounts form a chain, from the grant over the grants it was derived from,
// the session and the agent to the tenant; the last one is the root. All
// accounts below one root are in one folder with one lock, flock(2) on a file
// that is never unlinked, so a draw is taken from the whole chain or from none
// of it. A process that is killed between two accounts of a chain leaves some
// charged for what it never got: less is left then, never more.
//
// Each account is a file of two slots with a number and a checksum; a change
// overwrites the older one in place. A slot that was torn during a write leaves
// the other: what was being written had not been granted yet. When a file has
// no valid slot, or is not an account file, every draw from its account fails
// until an administrator repairs it.
//
// An account whose time has certainly passed is removed some
// minutes later. It cannot be opened again, because a chain that has expired by
// then is refused, however the clock is set.
package ledger

import (
	"context"
	"fmt"
	"hash/maphash"
	"path/filepath"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// The bounds of a ledger.
const (
	DefaultMaxAccounts = 64 << 10 // below one root; 1 KiB, that is a block, each
	MaxDepth           = 16       // accounts of a chain
	MaxID              = 256      // bytes

	// grace is how long an expired account stays: the clock may be set back
	// by less, and reservations that were made in time are settled meanwhile.
	grace = 10 * time.Minute
)

// Options say how a ledger is kept.
type Options struct {
	// Sync makes draws survive a loss of power once they have returned. Without
	// it they survive the end of the process, however it ends, and a loss of
	// power may undo the draws of the last half minute. Amounts returned to an
	// account are never synced: losing them is safe.
	Sync bool

	// MaxAccounts bounds the accounts below one root, at least shards; 0 takes
	// DefaultMaxAccounts.
	MaxAccounts int

	Now func() time.Time // default time.Now
}

// A Ledger is a folder of accounts. It is safe for concurrent use by many
// goroutines and processes and keeps no file open between calls. Its errors are
// of type *[sandbox.Error].
type Ledger struct {
	dir      string
	sync     bool
	perShard int
	now      func() time.Time
	passed   *statedir.Clock
	seed     maphash.Seed
	turns    [stripes]chan struct{} // one goroutine at a time tries for a lock
}

// Open returns the ledger in the folder dir, which is made with mode 0700 when
// it is missing and refused as [statedir.MakePrivate] does.
func Open(dir string, o Options) (*Ledger, error) {
	if o.MaxAccounts == 0 {
		o.MaxAccounts = DefaultMaxAccounts
	}
	if o.MaxAccounts < shards {
		return nil, sandbox.Errorf(sandbox.CodeValidation, "open ledger", "a ledger needs room for at least %d accounts", shards)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	path, err := statedir.MakePrivate(dir)
	if err != nil {
		return nil, err
	}
	l := &Ledger{dir: path, sync: o.Sync, perShard: o.MaxAccounts / shards, now: o.Now, seed: maphash.MakeSeed()}
	l.passed = statedir.In(path)
	for i := range l.turns {
		l.turns[i] = make(chan struct{}, 1)
	}
	return l, nil
}

// A Limit names an account and says how much of it may be used, and until when.
// The bound belongs to the caller that opens the account, not to the file:
// opening it with another bound, because settings have changed, keeps the
// usage.
type Limit struct {
	ID    string // opaque: "grant:…", "session:…", "agent:…", "tenant:…"
	Bound budget.Amount

	// Expires is when nothing can be drawn any more; zero is never. An account
	// stays as long as the last of those below it, so only the first of a
	// chain needs one; an account that never expires is never removed. A budget
	// for a month is an account with the month in its id.
	Expires time.Time

	// Apart says that the account stands directly below the root, whatever
	// comes between them in a chain: it is one where chains meet that go on
	// differently, as those of two agents in one session.
	Apart bool
}

// An Account is an open chain of accounts: draws are taken from all of them. It
// is safe for concurrent use, needs no closing and is a [budget.Source].
type Account struct {
	l     *Ledger
	root  string // folder
	chain []link
}

// A link is one account of a chain.
type link struct {
	Limit
	key    key
	parent key    // zero for the root
	path   string // of its file
}

// Account opens the chain of accounts, from the one that is drawn from up to
// the root, and creates those that are missing. The parent of an account is
// fixed when the account is created, unless it is [Limit.Apart]: Account
// refuses a chain without that parent. So a caller cannot bypass an account
// that has to pay, too.
func (l *Ledger) Account(ctx context.Context, chain ...Limit) (*Account, error) {
	const op = "open budget account"
	if len(chain) == 0 || len(chain) > MaxDepth {
		return nil, sandbox.Errorf(sandbox.CodeValidation, op, "a chain has 1 to %d accounts, not %d", MaxDepth, len(chain))
	}
	a := &Account{l: l, chain: make([]link, len(chain))}
	seen := map[string]bool{}
	now := l.now()
	passed, err := l.passed.Time()
	if err != nil {
		return nil, err
	}
	for i := len(chain) - 1; i >= 0; i-- {
		c := chain[i]
		if err := checkLimit(op, c, now); err != nil {
			return nil, err
		}
		if !c.Expires.IsZero() && !c.Expires.Round(0).After(passed) {
			return nil, ended(op, c)
		}
		if seen[c.ID] {
			return nil, sandbox.Errorf(sandbox.CodeValidation, op, "the account %s stands twice in one chain", c.ID)
		}
		seen[c.ID] = true
		a.chain[i] = link{Limit: c, key: keyOf(c.ID)}
		switch {
		case i == len(chain)-1:
		case c.Apart:
			a.chain[i].parent = a.chain[len(chain)-1].key
		default:
			a.chain[i].parent = a.chain[i+1].key
		}
	}
	a.root = filepath.Join(l.dir, a.chain[len(chain)-1].key.String())
	for i := range a.chain {
		a.chain[i].path = a.chain[i].key.path(a.root)
	}
	if err := l.locked(ctx, op, a.root, func() error { return a.make() }); err != nil {
		return nil, err
	}
	return a, nil
}

func checkLimit(op string, c Limit, now time.Time) error {
	if c.ID == "" || len(c.ID) > MaxID {
		return sandbox.Errorf(sandbox.CodeValidation, op, "the id of an account has 1 to %d bytes, not %d", MaxID, len(c.ID))
	}
	if err := budget.CheckBound(c.Bound); err != nil {
		return err
	}
	return checkExpiry(op, c, now)
}

func checkExpiry(op string, c Limit, now time.Time) error {
	if c.Expires.IsZero() || now.Round(0).Before(c.Expires.Round(0)) { // by the wall clock
		return nil
	}
	return ended(op, c)
}

func ended(op string, c Limit) error {
	return &sandbox.Error{
		Code: sandbox.CodePermissionDeny, Op: op, Field: "expires", Resource: c.ID,
		Message: fmt.Sprintf("the budget of %s expired at %s", c.ID, c.Expires.UTC().Format(time.RFC3339)),
		Hint:    "ask for a new grant",
	}
}

// make sees to it, root first, that every account of the chain exists and stays
// as long as those below it.
func (a *Account) make() error {
	last := lasting(a.chain)
	for i := len(a.chain) - 1; i >= 0; i-- {
		if err := a.makeOne(&a.chain[i], last[i]); err != nil {
			return err
		}
	}
	return nil
}

// lasting returns, in milliseconds, until when the accounts of a chain have to
// be kept; 0 means for ever.
func lasting(chain []link) []int64 {
	last := make([]int64, len(chain))
	for i, c := range chain {
		if !c.Expires.IsZero() {
			last[i] = c.Expires.UnixMilli()
		}
		if i > 0 {
			last[i] = later(last[i], last[i-1])
		}
	}
	return last
}

// later is the later of two expiries.
func later(a, b int64) int64 {
	if a == 0 || b == 0 {
		return 0
	}
	return max(a, b)
}

func (a *Account) makeOne(c *link, last int64) error {
	f, err := openFile(c)
	if isMissing(err) {
		return a.l.create(a.root, record{id: c.ID, parent: c.parent, expires: last, seq: 1})
	}
	if err != nil {
		return err
	}
	defer f.close()
	if r := f.rec; later(r.expires, last) != r.expires {
		r.expires = later(r.expires, last)
		return f.write(r, a.l.sync || r.expires == 0)
	}
	return nil
}
