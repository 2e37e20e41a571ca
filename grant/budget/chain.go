package budget

import (
	"cmp"
	"fmt"

	"github.com/bulkhead-dev/sandbox"
)

// An Account is what one payer of a chain may use and has used. Used includes
// what is currently reserved: only the difference to the bound is available.
type Account struct {
	ID    string
	Bound Amount
	Used  Amount
}

// Room is what can still be had of a.
func (a Account) Room() Amount { return Sub(a.Bound, a.Used) }

// Room is what can still be had of all accounts of a chain at once.
func Room(chain []Account) Amount {
	room := NoBound()
	for _, a := range chain {
		room = Min(room, a.Room())
	}
	return room
}

// Draw takes want from every account of the chain, or nothing from any. It
// returns the chain afterwards; the given one stays as it is. The error is an
// [*Exceeded] inside a *sandbox.Error with [sandbox.CodeBudgetExceeded], about
// the first account, from the grant upwards, that has too little.
func Draw(chain []Account, want Amount) ([]Account, error) {
	if err := CheckDraw(want); err != nil {
		return nil, err
	}
	for _, a := range chain {
		if k, ok := Within(want, a.Room()); !ok {
			return nil, exceeded(a, k, Of(want, k))
		}
	}
	return Charge(chain, want), nil
}

// share is the inverse of the part of the rest that one reservation may take
// beyond what it needs now.
const share = 8

// Part returns how much of want can be drawn: all of it where there is plenty,
// otherwise an eighth of what is left, so that a reservation made ahead of use
// does not take everything from the others; but never less than least. When the
// chain has less than least, the error is that of [Draw].
func Part(chain []Account, least, want Amount) (Amount, error) {
	if err := cmp.Or(CheckDraw(least), CheckDraw(want)); err != nil {
		return Amount{}, err
	}
	if _, err := Draw(chain, least); err != nil {
		return Amount{}, err
	}
	room, low, high := Values(Room(chain)), Values(least), Values(want)
	for k, n := range high {
		if room[k] >= 0 {
			n = min(n, room[k]/share)
		}
		high[k] = max(n, low[k])
	}
	return FromValues(high), nil
}

// Charge adds the usage to every account, whatever their bounds, because it has
// already happened. Only usage that is measured afterwards, such as times,
// exceeds a bound this way.
func Charge(chain []Account, used Amount) []Account {
	next := make([]Account, len(chain))
	for i, a := range chain {
		a.Used = Add(a.Used, used)
		next[i] = a
	}
	return next
}

// Settle replaces a reservation by its usage: it returns the rest to every
// account, and charges usage beyond the reservation.
func Settle(chain []Account, reserved, used Amount) []Account {
	back, over := Sub(reserved, used), Sub(used, reserved)
	next := make([]Account, len(chain))
	for i, a := range chain {
		a.Used = Add(Sub(a.Used, back), over)
		next[i] = a
	}
	return next
}

// Exceeded says which account has too little of what.
type Exceeded struct {
	Account string
	Kind    Kind
	Used    int64 // what was used and what is reserved
	Bound   int64
	Want    int64
}

// Error returns a message with the numbers.
func (e *Exceeded) Error() string {
	return fmt.Sprintf("%d of %d are used or reserved, %d more wanted", e.Used, e.Bound, e.Want)
}

func exceeded(a Account, k Kind, want int64) error {
	return &sandbox.Error{
		Code: sandbox.CodeBudgetExceeded, Op: "draw from budget", Field: field(k), Resource: a.ID,
		Message: "the budget of " + a.ID + " does not have enough " + k.String(),
		Hint:    "ask for a larger budget, or wait for what is running to give back what it does not use",
		Err:     &Exceeded{Account: a.ID, Kind: k, Used: Of(a.Used, k), Bound: Of(a.Bound, k), Want: want},
	}
}
