package budget

import "context"

// A Source is where one operation's amounts come from: the accounts of its
// grant and of all that stand above it. It is safe for concurrent use.
type Source interface {
	// Reserve takes want from every account, or nothing from any.
	Reserve(ctx context.Context, want Amount) (Reservation, error)
}

// A Reservation is an amount that is withheld from all other callers. It is
// safe for concurrent use.
type Reservation interface {
	// Held is what is reserved now.
	Held() Amount

	// More reserves more: at least least, or nothing with an error; and as much
	// of want as [Part] allows. It returns the additional amount.
	More(ctx context.Context, least, want Amount) (Amount, error)

	// Settle ends the reservation with its usage. It returns the rest and
	// charges usage beyond the reservation. After it has succeeded further
	// calls do nothing and More is refused. A reservation that is never settled
	// counts as used.
	Settle(ctx context.Context, used Amount) error
}
