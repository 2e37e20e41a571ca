package budget

import (
	"errors"
	"fmt"
	"math/rand"
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func randomChain(r *rand.Rand) []Account {
	chain := make([]Account, 1+r.Intn(5))
	for i := range chain {
		chain[i] = Account{ID: fmt.Sprint("a", i), Bound: randomAmount(r, true), Used: randomAmount(r, false)}
	}
	return chain
}

// allowed is the oracle: whether every account can bear want.
func allowed(chain []Account, want Amount) bool {
	for _, a := range chain {
		for k := range NumKinds {
			bound, used, n := Of(a.Bound, k), Of(a.Used, k), Of(want, k)
			if n > 0 && bound != Unlimited && used+n > bound {
				return false
			}
		}
	}
	return true
}

// TestDrawTakesFromAllOrNone checks Draw against the oracle.
func TestDrawTakesFromAllOrNone(t *testing.T) {
	r := rand.New(rand.NewSource(1))
	drawn := 0
	for range 20000 {
		chain, want := randomChain(r), randomAmount(r, false)
		if r.Intn(2) == 0 {
			want = One(Kind(r.Intn(int(NumKinds))), int64(r.Intn(12)))
		}
		before := slices.Clone(chain)
		next, err := Draw(chain, want)
		if ok := allowed(chain, want); ok != (err == nil) {
			t.Fatalf("draw %+v from %+v: %v", want, chain, err)
		}
		if !slices.Equal(before, chain) {
			t.Fatal("the given chain was changed")
		}
		if err != nil {
			wantFirst(t, chain, want, err)
			continue
		}
		drawn++
		for i := range next {
			if next[i].ID != chain[i].ID || next[i].Bound != chain[i].Bound || Sub(next[i].Used, want) != chain[i].Used {
				t.Fatalf("draw %+v made %+v of %+v", want, next[i], chain[i])
			}
		}
		if back := Settle(next, want, Amount{}); !slices.Equal(back, chain) {
			t.Fatalf("what was not used did not come back: %+v, had %+v", back, chain)
		}
	}
	if drawn < 1000 {
		t.Errorf("only %d draws were possible", drawn)
	}
}

// wantFirst holds that the error is about the first account that has too
// little, with its numbers.
func wantFirst(t *testing.T, chain []Account, want Amount, err error) {
	t.Helper()
	var e *sandbox.Error
	var x *Exceeded
	if !errors.As(err, &e) || e.Code != sandbox.CodeBudgetExceeded || !errors.As(err, &x) {
		t.Fatalf("error %v", err)
	}
	i := slices.IndexFunc(chain, func(a Account) bool { return a.ID == x.Account })
	if e.Resource != x.Account || e.Field != "budget."+x.Kind.String() || !allowed(chain[:i], want) || allowed(chain[i:i+1], want) {
		t.Fatalf("error %v about draw %+v from %+v", err, want, chain)
	}
	if x.Used != Of(chain[i].Used, x.Kind) || x.Bound != Of(chain[i].Bound, x.Kind) || x.Want != Of(want, x.Kind) || x.Used+x.Want <= x.Bound {
		t.Fatalf("numbers of %+v, want those of %+v", x, chain[i])
	}
}

func TestDrawRefusesNegativeAmounts(t *testing.T) {
	for k := range NumKinds {
		if _, err := Draw([]Account{{ID: "a", Bound: NoBound()}}, One(k, -1)); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%s: %v", k, err)
		}
	}
}

// TestPart checks that there is always least, never more than wanted or left,
// and no more than an eighth beyond least where there is little.
func TestPart(t *testing.T) {
	r := rand.New(rand.NewSource(2))
	for range 20000 {
		chain := randomChain(r)
		least := One(Kind(r.Intn(int(NumKinds))), int64(r.Intn(5)))
		want := randomAmount(r, false)
		got, err := Part(chain, least, want)
		if ok := allowed(chain, least); ok != (err == nil) {
			t.Fatalf("least %+v of %+v: %v", least, chain, err)
		}
		if err != nil {
			continue
		}
		if !allowed(chain, got) {
			t.Fatalf("%+v of %+v is too much", got, chain)
		}
		room := Room(chain)
		for k := range NumKinds {
			n, low, high := Of(got, k), Of(least, k), Of(want, k)
			if Of(room, k) != Unlimited {
				high = min(high, Of(room, k)/8)
			}
			if n != max(low, high) {
				t.Fatalf("%s: got %d of %+v, least %d, want %d", k, n, room, low, Of(want, k))
			}
		}
	}
}

// TestSettleChargesWhatWasUsed checks that reserving and settling comes to
// what was used, more than was reserved included.
func TestSettleChargesWhatWasUsed(t *testing.T) {
	r := rand.New(rand.NewSource(3))
	for range 5000 {
		chain := randomChain(r)
		reserved, used := randomAmount(r, false), randomAmount(r, false)
		got := Settle(Charge(chain, reserved), reserved, used)
		if want := Charge(chain, used); !slices.Equal(got, want) {
			t.Fatalf("reserved %+v, used %+v: %+v, want %+v", reserved, used, got, want)
		}
	}
}

// TestOverdrawnAccountGivesNothing checks that a bound may be set below what
// was used.
func TestOverdrawnAccountGivesNothing(t *testing.T) {
	chain := []Account{{ID: "a", Bound: Amount{Calls: 5}, Used: Amount{Calls: 9}}}
	if _, err := Draw(chain, One(Calls, 1)); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("error %v", err)
	}
	if _, err := Draw(chain, Amount{}); err != nil {
		t.Errorf("nothing is refused: %v", err)
	}
	if room := Room(chain); room != (Amount{}) {
		t.Errorf("room %+v", room)
	}
}
