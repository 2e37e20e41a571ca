//go:build linux

package manager_test

import (
	"context"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/manager"
)

// treasury has everybody pay out of one account, and bounds nothing else.
type treasury struct {
	account *ledger.Account
	bound   budget.Amount
}

func newTreasury(t *testing.T, bound budget.Amount) *treasury {
	t.Helper()
	l, err := ledger.Open(t.TempDir(), ledger.Options{})
	must(t, err)
	a, err := l.Account(t.Context(), ledger.Limit{ID: "token:t", Bound: bound})
	must(t, err)
	return &treasury{a, bound}
}

func (s *treasury) Hold(context.Context, manager.Footprint) (func(bool), error) {
	return func(bool) {}, nil
}
func (s *treasury) Gone(string) {}
func (s *treasury) Begin(context.Context, string) (func(), error) {
	return func() {}, nil
}
func (s *treasury) Payer(context.Context) (manager.Payer, error) {
	return manager.Payer{Source: s.account, Bound: s.bound}, nil
}

func (s *treasury) used(t *testing.T) budget.Amount {
	t.Helper()
	chain, err := s.account.Chain(t.Context())
	must(t, err)
	return chain[0].Used
}

// TestOperationsArePaidForTwice holds that an operation draws from its grant and
// from who asks for it: where one of them has nothing the other is not charged.
func TestOperationsArePaidForTwice(t *testing.T) {
	t.Parallel()
	bound := budget.NoBound()
	bound.Calls = 12
	s := newTreasury(t, bound)
	c, _ := newControlledFake(t, nil, "", func(o *manager.Options, _ *controlled) { o.Accounting = s })
	c.passed("of a grant of 10", c.atOnce(times(32, c.looks(10))...), 10, 32)
	if n := s.used(t).Calls; n != 10 {
		t.Errorf("who asks has used %d, want 10", n)
	}
	second := c.looks(10)
	c.passed("of what who asks has left", c.atOnce(times(32, second)...), 2, 32)
	if n := s.used(t).Calls; n != 12 {
		t.Errorf("who asks has used %d, want 12", n)
	}
	s.bound.Calls, bound.Calls = 100, 100 // and the grant has 8 left
	more := newTreasury(t, bound)
	s.account = more.account
	c.passed("of what the grant has left", c.atOnce(times(32, second)...), 8, 32)
	if n := more.used(t).Calls; n != 8 {
		t.Errorf("who asks has used %d, want 8", n)
	}
}

// TestSpendRefusesWhatNobodyCounts holds that a bound on what cannot be counted
// beside sandboxes lets nothing be done there, nor one of nothing.
func TestSpendRefusesWhatNobodyCounts(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		change       func(*budget.Amount)
		spend, serve sandbox.Code
	}{
		"no bounds":         {func(*budget.Amount) {}, "", ""},
		"calls":             {func(b *budget.Amount) { b.Calls = 1 }, "", sandbox.CodeUnsupported},
		"time":              {func(b *budget.Amount) { b.WallMs = 60_000 }, "", sandbox.CodeUnsupported},
		"no calls":          {func(b *budget.Amount) { b.Calls = 0 }, sandbox.CodeBudgetExceeded, sandbox.CodeUnsupported},
		"bytes":             {func(b *budget.Amount) { b.BytesIn = 1 << 40 }, sandbox.CodeUnsupported, sandbox.CodeUnsupported},
		"no bytes":          {func(b *budget.Amount) { b.BytesOut = 0 }, sandbox.CodeUnsupported, sandbox.CodeUnsupported},
		"processor time":    {func(b *budget.Amount) { b.CPUMs = 1000 }, sandbox.CodeUnsupported, sandbox.CodeUnsupported},
		"no time of a GPU":  {func(b *budget.Amount) { b.GPUMs = 0 }, sandbox.CodeUnsupported, sandbox.CodeUnsupported},
		"files are counted": {func(b *budget.Amount) { b.Files = 5 }, "", sandbox.CodeUnsupported},
	} {
		t.Run(name, func(t *testing.T) {
			bound := budget.NoBound()
			tt.change(&bound)
			s := newTreasury(t, bound)
			c, _ := newControlledFake(t, nil, "", func(o *manager.Options, _ *controlled) { o.Accounting = s })
			did := false
			err := c.Spend(t.Context(), func(context.Context) error { did = true; return nil }, budget.Files)
			if sandbox.CodeOf(err) != tt.spend || did != (tt.spend == "") {
				t.Errorf("done is %v, %v, want %q", did, err, tt.spend)
			}
			if n := s.used(t).Calls; did && n != 1 {
				t.Errorf("%d calls are used", n)
			}
			if err := c.Unpaid(t.Context()); sandbox.CodeOf(err) != tt.serve {
				t.Errorf("what cannot be counted: %v, want %q", err, tt.serve)
			}
		})
	}
}
