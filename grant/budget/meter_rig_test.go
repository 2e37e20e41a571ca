package budget_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// busyEnv makes the test binary a process that uses all the time it gets.
const busyEnv = "METER_TEST_BUSY"

func TestMain(m *testing.M) {
	if os.Getenv(busyEnv) != "" {
		fmt.Println("busy")
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

// meterPurse is one account in memory. It is a source, and the reservation too.
type meterPurse struct {
	mu      sync.Mutex
	account budget.Account
	held    budget.Amount
	draws   int
	settled int
	fail    error         // of everything from now on
	stuck   chan struct{} // when set, draws wait for its end, or that of their context
}

func newPurse(bound budget.Amount) *meterPurse {
	return &meterPurse{account: budget.Account{ID: "grant:g", Bound: bound}}
}

func (p *meterPurse) Reserve(ctx context.Context, want budget.Amount) (budget.Reservation, error) {
	_, err := p.More(ctx, want, want)
	return p, err
}

func (p *meterPurse) Held() budget.Amount { return p.held }

func (p *meterPurse) More(ctx context.Context, least, want budget.Amount) (budget.Amount, error) {
	p.mu.Lock()
	stuck := p.stuck
	p.mu.Unlock()
	if stuck != nil {
		select {
		case <-stuck:
		case <-ctx.Done():
			return budget.Amount{}, &sandbox.Error{Code: sandbox.CodeBusy, Field: "stuck"}
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.draws++
	if p.settled > 0 {
		return budget.Amount{}, sandbox.Errorf(sandbox.CodeInternal, "draw from budget", "settled")
	}
	if p.fail != nil {
		return budget.Amount{}, p.fail
	}
	chain := []budget.Account{p.account}
	got, err := budget.Part(chain, least, want)
	if err != nil {
		return got, err
	}
	p.account = budget.Charge(chain, got)[0]
	p.held = budget.Add(p.held, got)
	return got, nil
}

func (p *meterPurse) Settle(_ context.Context, used budget.Amount) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.account = budget.Settle([]budget.Account{p.account}, p.held, used)[0]
	p.settled++
	return p.fail
}

// bound is without bound but for k.
func bound(k budget.Kind, n int64) budget.Amount {
	v := budget.Values(budget.NoBound())
	v[k] = n
	return budget.FromValues(v)
}

func start(t testing.TB, p budget.Source) (*budget.Meter, context.Context) {
	t.Helper()
	m, ctx, err := budget.Start(context.Background(), p, budget.One(budget.Calls, 1))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.End() })
	return m, ctx
}

// end ends the operation and holds that the account was charged for what was
// used of k, and nothing else.
func end(t testing.TB, m *budget.Meter, p *meterPurse, k budget.Kind, want int64) {
	t.Helper()
	used, err := m.End()
	if err != nil {
		t.Fatal(err)
	}
	if got := budget.Of(used, k); got != want {
		t.Errorf("used %d of %s, want %d", got, k, want)
	}
	if p.account.Used != used || p.settled != 1 {
		t.Errorf("the account was charged %+v in %d settlements, used %+v", p.account.Used, p.settled, used)
	}
}

func wantCode(t testing.TB, err error, code sandbox.Code, field string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		t.Fatalf("error %v, want %s about %s", err, code, field)
	}
}
