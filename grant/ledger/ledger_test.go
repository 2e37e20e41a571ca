package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestDrawTakesFromAllOrNone(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	a := account(t, l, calls("grant:g", 100), calls("session:s", 10), calls("tenant:t", 50))
	r := reserve(t, a, 8)
	wantUsed(t, a, 8, 8, 8)
	_, err := a.Reserve(bg(), call(3))
	wantCode(t, err, sandbox.CodeBudgetExceeded, "session:s")
	wantCode(t, err, sandbox.CodeBudgetExceeded, "8 of 10 are used or reserved, 3 more wanted")
	wantUsed(t, a, 8, 8, 8)
	if err := r.Settle(bg(), call(5)); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, a, 5, 5, 5)
	spend(t, a, 5)
	wantUsed(t, a, 10, 10, 10)
}

func TestReservation(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	a := account(t, l, calls("grant:g", 100), calls("tenant:t", 60))
	r := reserve(t, a, 10)
	got, err := r.More(bg(), call(2), call(200))
	if err != nil || got != call(6) || r.Held() != call(16) { // an eighth of what the tenant has left
		t.Fatalf("got %+v, held %+v, %v", got, r.Held(), err)
	}
	wantUsed(t, a, 16, 16)
	if _, err := r.More(bg(), call(45), call(45)); !isExceeded(err) || r.Held() != call(16) {
		t.Fatalf("more than there is: %v, held %+v", err, r.Held())
	}
	if err := r.Settle(bg(), call(-1)); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("settled a negative amount: %v", err)
	}
	for range 2 { // the second does nothing
		if err := r.Settle(bg(), call(20)); err != nil { // more than was reserved
			t.Fatal(err)
		}
		wantUsed(t, a, 20, 20)
	}
	if _, err := r.More(bg(), call(1), call(1)); sandbox.CodeOf(err) != sandbox.CodeInternal {
		t.Errorf("more after the end: %v", err)
	}
	if err := reserve(t, a, 1).Settle(bg(), call(50)); err != nil {
		t.Fatal(err)
	}
	wantUsed(t, a, 70, 70) // what has happened has happened
	if _, err := a.Reserve(bg(), call(1)); !isExceeded(err) {
		t.Errorf("drew from an overdrawn account: %v", err)
	}
}

// TestRestart checks that what was used stays, whatever bounds come later, and
// that what was never settled stays charged.
func TestRestart(t *testing.T) {
	dir := t.TempDir()
	chain := []Limit{calls("session:s", 20), calls("tenant:t", 50)}
	a := account(t, open(t, dir, Options{}), chain...)
	spend(t, a, 7)
	reserve(t, a, 3)

	again := account(t, open(t, dir, Options{}), chain...)
	wantUsed(t, again, 10, 10)
	narrow := account(t, open(t, dir, Options{}), calls("session:s", 9), calls("tenant:t", 50))
	if _, err := narrow.Reserve(bg(), call(1)); !isExceeded(err) {
		t.Errorf("a narrower bound: %v", err)
	}
	spend(t, account(t, open(t, dir, Options{}), calls("session:s", 30), calls("tenant:t", 50)), 20)
	wantUsed(t, a, 30, 30)
	if _, err := a.Reserve(bg(), call(1)); !isExceeded(err) {
		t.Errorf("an account that is open keeps its bound: %v", err)
	}
}

// TestWhoShares checks that those below one account share it, and that others
// have nothing to do with each other.
func TestWhoShares(t *testing.T) {
	l := open(t, t.TempDir(), Options{})
	session := []Limit{calls("session:s", 10), calls("tenant:t", 100)}
	parent := account(t, l, append([]Limit{calls("grant:p", 6)}, session...)...)
	child := account(t, l, append([]Limit{calls("grant:c", 4), calls("grant:p", 6)}, session...)...)
	sibling := account(t, l, append([]Limit{calls("grant:q", 100)}, session...)...)
	other := account(t, l, calls("session:s", 10), calls("tenant:u", 100))

	spend(t, child, 4)
	wantUsed(t, parent, 4, 4, 4)
	if _, err := parent.Reserve(bg(), call(3)); !isExceeded(err) {
		t.Errorf("the parent does not pay for its child: %v", err)
	}
	spend(t, parent, 2)
	_, err := child.Reserve(bg(), call(1))
	wantCode(t, err, sandbox.CodeBudgetExceeded, "grant:c")
	spend(t, sibling, 4)
	_, err = sibling.Reserve(bg(), call(1))
	wantCode(t, err, sandbox.CodeBudgetExceeded, "session:s")
	wantUsed(t, other, 0, 0) // another tenant's session of that name
}

func TestAccountRefuses(t *testing.T) {
	c := testenv.New(time.Now())
	l := openAt(t, t.TempDir(), c, Options{})
	account(t, l, calls("grant:g", 1), calls("session:s", 1), calls("tenant:t", 1))
	var deep []Limit
	for i := range MaxDepth {
		deep = append(deep, calls(fmt.Sprint("grant:", i), 1))
	}
	account(t, l, deep...)
	for _, tt := range []struct {
		name  string
		chain []Limit
		code  sandbox.Code
		text  string
	}{
		{"nothing", nil, sandbox.CodeValidation, "1 to 16"},
		{"too deep", append(deep, calls("tenant:t", 1)), sandbox.CodeValidation, "1 to 16"},
		{"no id", []Limit{calls("", 1)}, sandbox.CodeValidation, "1 to 256"},
		{"long id", []Limit{calls(strings.Repeat("x", MaxID+1), 1)}, sandbox.CodeValidation, "1 to 256"},
		{"no bound", []Limit{calls("x", -2)}, sandbox.CodeValidation, "is no bound"},
		{"twice", []Limit{calls("x", 1), calls("y", 1), calls("x", 1)}, sandbox.CodeValidation, "stands twice"},
		{"expired", []Limit{{ID: "x", Bound: budget.NoBound(), Expires: c.Now()}}, sandbox.CodePermissionDeny, "expired"},
		{"another parent", []Limit{calls("grant:g", 1), calls("session:r", 1), calls("tenant:t", 1)}, sandbox.CodeValidation, "another account"},
		{"no parent", []Limit{calls("grant:g", 1), calls("tenant:t", 1)}, sandbox.CodeValidation, "another account"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			_, err := l.Account(bg(), tt.chain...)
			wantCode(t, err, tt.code, tt.text)
		})
	}
	account(t, l, calls(strings.Repeat("/", MaxID), 1), calls("tenant:t", 1))
	if _, err := Open(t.TempDir(), Options{MaxAccounts: 1}); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("opened a ledger without room: %v", err)
	}
}

func TestReserveRefusesNegativeAmounts(t *testing.T) {
	a := account(t, open(t, t.TempDir(), Options{}), calls("tenant:t", 10))
	if _, err := a.Reserve(bg(), call(-5)); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("reserved -5: %v", err)
	}
	r := reserve(t, a, 1)
	for _, tt := range [][2]int64{{-5, 1}, {1, -5}} {
		if _, err := r.More(bg(), call(tt[0]), call(tt[1])); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("more %v: %v", tt, err)
		}
	}
	wantUsed(t, a, 1)
}
