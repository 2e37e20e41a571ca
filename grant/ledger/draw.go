package ledger

import (
	"context"
	"errors"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// Reserve takes want from every account of the chain, or nothing from any.
func (a *Account) Reserve(ctx context.Context, want budget.Amount) (budget.Reservation, error) {
	err := a.draw(ctx, func(chain []budget.Account) ([]budget.Account, error) {
		return budget.Draw(chain, want)
	})
	if err != nil {
		return nil, err
	}
	return &reservation{a: a, turn: make(chan struct{}, 1), held: want}, nil
}

// Chain returns what the accounts may use and have used at the moment, in the
// order of the chain.
func (a *Account) Chain(ctx context.Context) ([]budget.Account, error) {
	var chain []budget.Account
	err := a.l.locked(ctx, "read budget accounts", a.root, func() error {
		files, now, err := a.read(true)
		closeAll(files)
		chain = now
		return err
	})
	return chain, err
}

// draw charges the accounts as fn says, unless their time has passed.
func (a *Account) draw(ctx context.Context, fn func([]budget.Account) ([]budget.Account, error)) error {
	const op = "draw from budget"
	return a.l.locked(ctx, op, a.root, func() error {
		now := a.l.now() // under the lock, for which we may have waited long
		for _, c := range a.chain {
			if err := checkExpiry(op, c.Limit, now); err != nil {
				return err
			}
		}
		return a.change(true, a.l.sync, fn)
	})
}

// change applies fn to the usage of the accounts, to all of them or to none.
// Removed accounts are an error when whole is set, and left out otherwise. The
// caller holds the lock.
func (a *Account) change(whole, sync bool, fn func([]budget.Account) ([]budget.Account, error)) error {
	files, chain, err := a.read(whole)
	defer closeAll(files)
	if err != nil {
		return err
	}
	next, err := fn(chain)
	if err != nil {
		return err
	}
	return store(files, next, sync)
}

// store writes the usage in next to the files. When one cannot be written it
// restores the others; an amount that cannot be restored stays charged.
func store(files []*file, next []budget.Account, sync bool) error {
	for i, f := range files {
		if err := f.charge(next[i].Used, sync); err != nil {
			for _, g := range files[:i+1] {
				err = errors.Join(err, g.charge(g.had, false))
			}
			return err
		}
	}
	return nil
}

// read opens the accounts of the chain.
func (a *Account) read(whole bool) ([]*file, []budget.Account, error) {
	files := make([]*file, 0, len(a.chain))
	chain := make([]budget.Account, 0, len(a.chain))
	for i := range a.chain {
		c := &a.chain[i]
		f, err := openFile(c)
		switch {
		case isMissing(err) && whole:
			return files, nil, removed(c.ID)
		case isMissing(err):
			continue
		case err != nil:
			return files, nil, err
		}
		files = append(files, f)
		chain = append(chain, budget.Account{ID: c.ID, Bound: c.Bound, Used: f.rec.used})
	}
	return files, chain, nil
}

func closeAll(files []*file) {
	for _, f := range files {
		f.close()
	}
}

// A reservation is what was charged to the accounts of a and may go back.
type reservation struct {
	a    *Account
	turn chan struct{} // one at a time changes it, and the others' contexts count
	done bool

	mu   sync.Mutex // for callers that only read
	held budget.Amount
}

func (r *reservation) Held() budget.Amount {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.held
}

func (r *reservation) More(ctx context.Context, least, want budget.Amount) (budget.Amount, error) {
	const op = "draw from budget"
	if err := r.enter(ctx, op); err != nil {
		return budget.Amount{}, err
	}
	defer r.leave()
	if r.done {
		return budget.Amount{}, sandbox.Errorf(sandbox.CodeInternal, op, "the reservation has been settled")
	}
	var got budget.Amount
	err := r.a.draw(ctx, func(chain []budget.Account) ([]budget.Account, error) {
		var err error
		if got, err = budget.Part(chain, least, want); err != nil {
			return nil, err
		}
		return budget.Draw(chain, got)
	})
	if err != nil {
		return budget.Amount{}, err
	}
	r.hold(budget.Add(r.held, got))
	return got, nil
}

// Settle is not stopped by the end of the grant, and leaves out accounts that
// were removed since.
func (r *reservation) Settle(ctx context.Context, used budget.Amount) error {
	const op = "settle budget"
	if err := budget.CheckDraw(used); err != nil {
		return err
	}
	if err := r.enter(ctx, op); err != nil {
		return err
	}
	defer r.leave()
	if r.done {
		return nil
	}
	err := r.a.l.locked(ctx, op, r.a.root, func() error {
		return r.a.change(false, false, func(chain []budget.Account) ([]budget.Account, error) {
			return budget.Settle(chain, r.held, used), nil
		})
	})
	if err == nil {
		r.done = true
		r.hold(budget.Amount{})
	}
	return err
}

func (r *reservation) enter(ctx context.Context, op string) error {
	select {
	case r.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return busy(op, r.a.root, ctx.Err())
	}
}

func (r *reservation) leave() { <-r.turn }

// hold sets what is held; only the caller whose turn it is calls it.
func (r *reservation) hold(held budget.Amount) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.held = held
}
