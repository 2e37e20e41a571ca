package ledger

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// helperEnv makes the test binary a process that draws; see helper.
const helperEnv = "LEDGER_TEST_HELPER"

func TestMain(m *testing.M) {
	if what := os.Getenv(helperEnv); what != "" {
		if err := helper(what); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	testenv.Main(m)
}

// bg is a context that never ends.
func bg() context.Context { return context.Background() }

func open(t testing.TB, dir string, o Options) *Ledger {
	t.Helper()
	l, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// openAt is open on a machine whose clock has gone evenly for long.
func openAt(t testing.TB, dir string, m *testenv.Machine, o Options) *Ledger {
	t.Helper()
	o.Now = m.Now
	l := open(t, dir, o)
	l.passed = &statedir.Clock{Path: l.passed.Path, Source: m.Source()}
	if err := m.Seen(l.passed, statedir.AfterStep); err != nil {
		t.Fatal(err)
	}
	return l
}

func account(t testing.TB, l *Ledger, chain ...Limit) *Account {
	t.Helper()
	a, err := l.Account(bg(), chain...)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// calls is a limit on calls alone.
func calls(id string, n int64) Limit {
	b := budget.NoBound()
	b.Calls = n
	return Limit{ID: id, Bound: b}
}

func call(n int64) budget.Amount { return budget.One(budget.Calls, n) }

func reserve(t testing.TB, a *Account, n int64) budget.Reservation {
	t.Helper()
	r, err := a.Reserve(bg(), call(n))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// spend reserves n calls and uses them.
func spend(t testing.TB, a *Account, n int64) {
	t.Helper()
	if err := reserve(t, a, n).Settle(bg(), call(n)); err != nil {
		t.Fatal(err)
	}
}

// wantUsed holds what the accounts of the chain have used, in calls.
func wantUsed(t testing.TB, a *Account, want ...int64) {
	t.Helper()
	chain, err := a.Chain(bg())
	if err != nil {
		t.Fatal(err)
	}
	var got []int64
	for _, c := range chain {
		got = append(got, c.Used.Calls)
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("used %v, want %v", got, want)
	}
}

func wantCode(t testing.TB, err error, code sandbox.Code, message string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || !strings.Contains(e.Error(), message) {
		t.Fatalf("error %v, want %s with %q", err, code, message)
	}
}

func isExceeded(err error) bool { return sandbox.CodeOf(err) == sandbox.CodeBudgetExceeded }

// helper is what the test binary does as another process, with goroutines that
// share four sessions below one tenant: they reserve three calls and use one
// until there are none. It says how many it got, or ("kill") a letter for each
// step at once.
func helper(what string) error {
	var dir, mode string
	var bound int64
	var goroutines int
	var processes int64
	if _, err := fmt.Sscan(what, &dir, &mode, &bound, &goroutines, &processes); err != nil {
		return err
	}
	l, err := Open(dir, Options{})
	if err != nil {
		return err
	}
	if err := meet(l, processes); err != nil {
		return err
	}
	results := make(chan error, goroutines)
	var mu sync.Mutex
	got := 0
	for g := range goroutines {
		go func() {
			n, err := helperDraws(l, mode, bound, fmt.Sprint("session:", g%4))
			mu.Lock()
			got += n
			mu.Unlock()
			results <- err
		}()
	}
	for range goroutines {
		err = errors.Join(err, <-results)
	}
	fmt.Println("got", got)
	return err
}

// meet returns when so many processes have called it.
func meet(l *Ledger, processes int64) error {
	a, err := l.Account(bg(), calls("tenant:meeting", budget.Unlimited))
	if err != nil {
		return err
	}
	if _, err := a.Reserve(bg(), call(1)); err != nil {
		return err
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		if chain, err := a.Chain(bg()); err != nil || chain[0].Used.Calls >= processes {
			return err
		}
	}
	return errors.New("the others do not come")
}

func helperDraws(l *Ledger, mode string, bound int64, session string) (got int, err error) {
	a, err := l.Account(bg(), calls(session, budget.Unlimited), calls("tenant:t", bound))
	if err != nil {
		return 0, err
	}
	for n := 0; ; n++ {
		if mode == "kill" && n%4 == 0 { // a new grant now and then, so that some die while one is made
			g := calls(fmt.Sprint("grant:", os.Getpid(), "-", session, "-", rand.Int64()), budget.Unlimited)
			g.Expires = time.Now().Add(time.Hour)
			if a, err = l.Account(bg(), g, calls(session, budget.Unlimited), calls("tenant:t", bound)); err != nil {
				return got, err
			}
		}
		say(mode, "r")
		r, err := a.Reserve(bg(), call(3))
		if isExceeded(err) {
			if r, err = a.Reserve(bg(), call(1)); isExceeded(err) {
				return got, nil
			}
		}
		if err != nil {
			return got, err
		}
		say(mode, "s")
		if err := r.Settle(bg(), call(1)); err != nil {
			return got, err
		}
		say(mode, "u")
		got++
	}
}

// say writes one byte at once: what was said before a kill counts.
func say(mode, what string) {
	if mode == "kill" {
		os.Stdout.WriteString(what)
	}
}

func startHelper(t *testing.T, dir, mode string, bound int64, goroutines, processes int) (*exec.Cmd, *strings.Builder) {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), helperEnv+"="+fmt.Sprint(dir, " ", mode, " ", bound, " ", goroutines, " ", processes))
	var out strings.Builder
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	return cmd, &out
}
