package tenant

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestMain(m *testing.M) { testenv.Main(m) }

func queue(t testing.TB, o Options) *Queue {
	t.Helper()
	q, err := NewQueue(o)
	if err != nil {
		t.Fatal(err)
	}
	return q
}

func acquire(t testing.TB, q *Queue, tenant string) *fairSlot {
	t.Helper()
	s, err := q.Acquire(context.Background(), tenant)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func wantLoad(t testing.TB, q *Queue, want Load) {
	t.Helper()
	if got := q.Load(); got != want {
		t.Errorf("load %+v, want %+v", got, want)
	}
}

// An order records which callers were served, in order. It is used inside
// synctest bubbles.
type order struct {
	q      *Queue
	served chan string
}

// wait begins to wait for a slot and, when it has it, notes it and gives it
// back. It returns when the caller is in line.
func (o order) wait(t *testing.T, ctx context.Context, tenant, name string) {
	t.Helper()
	go func() {
		s, err := o.q.Acquire(ctx, tenant)
		if err != nil {
			o.served <- "-" + name
			return
		}
		o.served <- name
		s.Release()
	}()
	synctest.Wait()
}

func (o order) all() string {
	synctest.Wait()
	var out []string
	for {
		select {
		case s := <-o.served:
			out = append(out, s)
		default:
			return strings.Join(out, " ")
		}
	}
}

func TestRefusedOptions(t *testing.T) {
	for _, o := range []Options{{}, {Slots: -1}, {Slots: 1, Waiting: -1}} {
		if _, err := NewQueue(o); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

// TestTurns serves callers that came in one order in that of their turns.
func TestTurns(t *testing.T) {
	weights := map[string]int{"a": 3, "b": 0, "c": -7}
	for name, tt := range map[string]struct {
		weight func(string) int
		come   string
		want   string
	}{
		"first come first":    {nil, "a1 a2 a3", "a1 a2 a3"},
		"in turns":            {nil, "a1 a2 a3 a4 b1 b2 c1", "a1 b1 c1 a2 b2 a3 a4"},
		"who comes is last":   {nil, "b1 a1 a2 b2", "b1 a1 b2 a2"},
		"by weight":           {func(t string) int { return weights[t] }, "a1 a2 a3 a4 a5 b1 b2 c1", "a1 a2 a3 b1 c1 a4 a5 b2"},
		"nothing is saved up": {func(t string) int { return weights[t] }, "a1 b1 b2 b3", "a1 b1 b2 b3"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := order{queue(t, Options{Slots: 1, Waiting: 10, Weight: tt.weight}), make(chan string, 100)}
				held := acquire(t, o.q, "z")
				for _, c := range strings.Fields(tt.come) {
					o.wait(t, t.Context(), c[:1], c)
				}
				held.Release()
				if got := o.all(); got != tt.want {
					t.Errorf("served %s, want %s", got, tt.want)
				}
				wantLoad(t, o.q, Load{})
			})
		})
	}
}

// TestResize adds and removes slots under callers that take and give back all
// the time: the callers never hold more than the most that there were, and all
// slots come back.
func TestResize(t *testing.T) {
	q := queue(t, Options{Slots: 4, Waiting: 100})
	if err := errors.Join(q.Resize(0, 1), q.Resize(1, -1)); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("what cannot be: %v", err)
	}
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for range 300 {
				s := acquire(t, q, fmt.Sprint("t", i%3))
				if n := q.Load().Held; n > 8 {
					t.Errorf("%d are held", n)
				}
				s.Release()
			}
		})
	}
	for i := range 600 {
		if err := q.Resize(1+i%8, 100); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
	wantLoad(t, q, Load{})
	if err := q.Resize(2, 0); err != nil {
		t.Fatal(err)
	}
	one, two := acquire(t, q, "a"), acquire(t, q, "a")
	if _, err := q.Acquire(context.Background(), "a"); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("a third of two: %v", err)
	}
	if err := q.Resize(1, 0); err != nil {
		t.Fatal(err)
	}
	one.Release()
	if _, err := q.Acquire(context.Background(), "a"); sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded {
		t.Errorf("a second of one: %v", err)
	}
	two.Release()
	acquire(t, q, "a").Release()
	wantLoad(t, q, Load{})
}

func TestSlots(t *testing.T) {
	q := queue(t, Options{Slots: 3})
	var held []*fairSlot
	for range 3 {
		held = append(held, acquire(t, q, "a"))
	}
	_, err := q.Acquire(context.Background(), "b")
	var e *Exceeded
	if sandbox.CodeOf(err) != sandbox.CodeBudgetExceeded || !errors.As(err, &e) || e.Account != "b" || e.Quota != "waiting" {
		t.Errorf("where nobody may wait: %v", err)
	}
	held[1].Release()
	held[1].Release()
	wantLoad(t, q, Load{Held: 2})
	held[1] = acquire(t, q, "b")
	for _, s := range held {
		s.Release()
	}
	wantLoad(t, q, Load{})
}

// TestBoundedWaiting checks that a tenant's line is bounded, and only its own.
func TestBoundedWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := order{queue(t, Options{Slots: 1, Waiting: 2}), make(chan string, 10)}
		held := acquire(t, o.q, "a")
		o.wait(t, t.Context(), "a", "a1")
		o.wait(t, t.Context(), "a", "a2")
		_, err := o.q.Acquire(t.Context(), "a")
		var known *sandbox.Error
		if !errors.As(err, &known) || known.Code != sandbox.CodeBudgetExceeded || !known.Retryable {
			t.Errorf("one too many: %v", err)
		}
		if after, ok := RetryAfter(err); !ok || after != fullRetry {
			t.Errorf("to retry after %v, %v", after, ok)
		}
		o.wait(t, t.Context(), "b", "b1")
		wantLoad(t, o.q, Load{Held: 1, Waiting: 3, Tenants: 2})
		held.Release()
		if got := o.all(); got != "a1 b1 a2" {
			t.Errorf("served %s", got)
		}
	})
}

// TestGivingUp takes callers out of every place of a line.
func TestGivingUp(t *testing.T) {
	for gone, want := range map[string]string{
		"a1": "a2 b1 a3", "a2": "a1 b1 a3", "a3": "a1 b1 a2", "b1": "a1 a2 a3", "a1 a2 a3": "b1", "a3 a1": "a2 b1", "a1 a2 a3 b1": "",
	} {
		t.Run(gone, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := order{queue(t, Options{Slots: 1, Waiting: 3}), make(chan string, 10)}
				held := acquire(t, o.q, "z")
				cancels := map[string]context.CancelFunc{}
				for _, c := range []string{"a1", "a2", "a3", "b1"} {
					ctx, cancel := context.WithCancel(t.Context())
					defer cancel()
					cancels[c] = cancel
					o.wait(t, ctx, c[:1], c)
				}
				var left []string
				for _, c := range strings.Fields(gone) {
					cancels[c]()
					left = append(left, "-"+c)
					synctest.Wait()
				}
				if got := o.all(); got != strings.Join(left, " ") {
					t.Errorf("gave up: %s, want %s", got, left)
				}
				wantLoad(t, o.q, Load{Held: 1, Waiting: 4 - len(left), Tenants: len(uniqueTenants(want))})
				held.Release()
				if got := o.all(); got != want {
					t.Errorf("served %s, want %s", got, want)
				}
				wantLoad(t, o.q, Load{})
			})
		})
	}
}

func uniqueTenants(callers string) []string {
	var out []string
	for _, c := range strings.Fields(callers) {
		out = append(out, c[:1])
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// TestEndOfContext checks the error of a caller that did not wait to the end.
func TestEndOfContext(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := queue(t, Options{Slots: 1, Waiting: 1})
		why := errors.New("the client went away")
		ended, cancel := context.WithCancelCause(t.Context())
		cancel(why)
		if _, err := q.Acquire(ended, "a"); !errors.Is(err, why) {
			t.Errorf("before: %v", err)
		}
		held := acquire(t, q, "a")
		late, stop := context.WithTimeout(t.Context(), time.Second)
		defer stop()
		_, err := q.Acquire(late, "a")
		if sandbox.CodeOf(err) != sandbox.CodeTimeout || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("after the deadline: %v", err)
		}
		wantLoad(t, q, Load{Held: 1})
		held.Release()
		wantLoad(t, q, Load{})
	})
}

// TestNoWakeupIsLost lets callers give up at the moment in which they are
// served: every slot comes back all the same, and every remaining caller is
// served.
func TestNoWakeupIsLost(t *testing.T) {
	q := queue(t, Options{Slots: 2, Waiting: 1000})
	for range 200 {
		a, b := acquire(t, q, "a"), acquire(t, q, "b")
		done := make(chan struct{}, 10)
		ctx, cancel := context.WithCancel(context.Background())
		for n := range 8 {
			go func() {
				if s, err := q.Acquire(ctx, fmt.Sprint(n%3)); err == nil {
					s.Release()
				}
				done <- struct{}{}
			}()
		}
		for range 2 { // the remaining callers
			go func() {
				if s, err := q.Acquire(context.Background(), "stays"); err == nil {
					s.Release()
				} else {
					t.Error(err)
				}
				done <- struct{}{}
			}()
		}
		go cancel()
		a.Release()
		b.Release()
		for range 10 {
			<-done
		}
		cancel()
		wantLoad(t, q, Load{})
	}
}
