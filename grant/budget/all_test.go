package budget

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

// purse is one account in memory.
type purse struct {
	mu   sync.Mutex
	has  Account
	fail error // of settlements
}

type drawn struct {
	from *purse
	held Amount
	over bool
}

func (p *purse) draw(want Amount) error {
	next, err := Draw([]Account{p.has}, want)
	if err == nil {
		p.has = next[0]
	}
	return err
}

func (p *purse) Reserve(_ context.Context, want Amount) (Reservation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := p.draw(want); err != nil {
		return nil, err
	}
	return &drawn{from: p, held: want}, nil
}

func (d *drawn) Held() Amount {
	d.from.mu.Lock()
	defer d.from.mu.Unlock()
	return d.held
}

func (d *drawn) More(_ context.Context, least, want Amount) (Amount, error) {
	d.from.mu.Lock()
	defer d.from.mu.Unlock()
	got, err := Part([]Account{d.from.has}, least, want)
	if err != nil {
		return Amount{}, err
	}
	d.held = Add(d.held, got)
	return got, d.from.draw(got)
}

func (d *drawn) Settle(_ context.Context, used Amount) error {
	d.from.mu.Lock()
	defer d.from.mu.Unlock()
	if d.from.fail != nil {
		return d.from.fail
	}
	if !d.over {
		d.from.has = Settle([]Account{d.from.has}, d.held, used)[0]
		d.over = true
	}
	return nil
}

func purseOf(id string, calls int64) *purse {
	b := NoBound()
	b.Calls = calls
	return &purse{has: Account{ID: id, Bound: b}}
}

func TestAllTakesFromAllOrNone(t *testing.T) {
	wide, narrow := purseOf("wide", 100), purseOf("narrow", 3)
	ctx := context.Background()
	all := All(wide, narrow)
	if _, err := all.Reserve(ctx, One(Calls, 4)); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Fatalf("more than one of them has: %v", err)
	}
	if wide.has.Used != (Amount{}) || narrow.has.Used != (Amount{}) {
		t.Fatalf("refused, and used are %v and %v", wide.has.Used, narrow.has.Used)
	}
	r, err := all.Reserve(ctx, One(Calls, 1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.More(ctx, One(Calls, 3), One(Calls, 3)); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("more than is left: %v", err)
	}
	if got := r.Held(); got != One(Calls, 1) {
		t.Errorf("held is %v after a refusal", got)
	}
	if got, err := r.More(ctx, One(Calls, 1), One(Calls, 50)); err != nil || got.Calls < 1 || got.Calls > 2 || r.Held().Calls != 1+got.Calls {
		t.Errorf("got %v, held %v, %v", got, r.Held(), err)
	}
	if err := r.Settle(ctx, One(Calls, 2)); err != nil {
		t.Fatal(err)
	}
	if wide.has.Used != One(Calls, 2) || narrow.has.Used != One(Calls, 2) {
		t.Errorf("used are %v and %v, want 2 of each", wide.has.Used, narrow.has.Used)
	}
}

// TestAllSettlesEverywhere checks that a source that fails keeps no other from
// being settled, and that the failure is reported.
func TestAllSettlesEverywhere(t *testing.T) {
	bad, good := purseOf("bad", 10), purseOf("good", 10)
	bad.fail = errors.New("the disk is gone")
	r, err := All(bad, good).Reserve(context.Background(), One(Calls, 5))
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Settle(context.Background(), One(Calls, 1)); !errors.Is(err, bad.fail) {
		t.Errorf("settled: %v", err)
	}
	if good.has.Used != One(Calls, 1) || bad.has.Used != One(Calls, 5) {
		t.Errorf("used are %v and %v", good.has.Used, bad.has.Used)
	}
}

// TestAllNeverTooMuch has many draw at one time from what they share in part:
// no account is ever used beyond its bound, and what is settled is what was used.
func TestAllNeverTooMuch(t *testing.T) {
	shared := purseOf("shared", 200)
	own := []*purse{purseOf("a", 150), purseOf("b", 150), purseOf("c", 10)}
	used := make([]int64, len(own))
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range own {
		for range 8 {
			wg.Go(func() {
				for range 20 {
					r, err := All(own[i], shared).Reserve(context.Background(), One(Calls, 1))
					if err != nil {
						continue
					}
					_, _ = r.More(context.Background(), One(Calls, 1), One(Calls, rand.Int64N(9)+1))
					n := rand.Int64N(r.Held().Calls + 1)
					if err := r.Settle(context.Background(), One(Calls, n)); err != nil {
						t.Error(err)
					}
					mu.Lock()
					used[i] += n
					mu.Unlock()
				}
			})
		}
	}
	wg.Wait()
	var sum int64
	for i, p := range own {
		if p.has.Used != One(Calls, used[i]) || used[i] > p.has.Bound.Calls {
			t.Errorf("%s: used is %v, want %d", p.has.ID, p.has.Used, used[i])
		}
		sum += used[i]
	}
	if shared.has.Used != One(Calls, sum) || sum > 200 || sum == 0 {
		t.Errorf("shared: used is %v, want %d", shared.has.Used, sum)
	}
}
