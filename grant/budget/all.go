package budget

import (
	"context"
	"errors"
	"slices"
)

// All is a source that takes from every one of the sources, or from none: for
// payments out of accounts that have no chain in common. With one source, All
// returns that source.
//
// The sources are charged one after the other, so an amount of the first ones
// is briefly withheld from others even when a later one has nothing left.
// Reservations are settled in all of them, even when one of them fails.
func All(sources ...Source) Source {
	if len(sources) == 1 {
		return sources[0]
	}
	return all(slices.Clone(sources))
}

type all []Source

// Reserve implements [Source].
func (a all) Reserve(ctx context.Context, want Amount) (Reservation, error) {
	out := reservations{of: make([]Reservation, 0, len(a)), turn: make(chan struct{}, 1)}
	for _, s := range a {
		r, err := s.Reserve(ctx, want)
		if err != nil {
			// An amount that cannot be returned stays charged, which is the
			// safe side.
			if lost := out.Settle(context.WithoutCancel(ctx), Amount{}); lost != nil {
				err = errors.Join(err, lost)
			}
			return nil, err
		}
		out.of = append(out.of, r)
	}
	return &out, nil
}

// reservations are the reservations of one amount in several sources. Each
// reserves at least the common amount.
type reservations struct {
	of   []Reservation
	turn chan struct{} // one at a time asks for more
}

// Held implements [Reservation].
func (r *reservations) Held() Amount {
	held := NoBound()
	for _, one := range r.of {
		held = Min(held, one.Held())
	}
	return held
}

// More implements [Reservation]. A source that gives less than those before it
// leaves them with more than is of use; that goes back at the end.
func (r *reservations) More(ctx context.Context, least, want Amount) (Amount, error) {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return Amount{}, context.Cause(ctx)
	}
	before := r.Held()
	least, want = Add(before, least), Add(before, want) // in all, of which some may be held already
	for _, one := range r.of {
		have := one.Held()
		if _, enough := Within(want, have); enough {
			continue
		}
		if _, err := one.More(ctx, Sub(least, have), Sub(want, have)); err != nil {
			return Amount{}, err
		}
		want = Min(want, one.Held())
	}
	return Sub(r.Held(), before), nil
}

// Settle implements [Reservation].
func (r *reservations) Settle(ctx context.Context, used Amount) error {
	var errs []error
	for _, one := range r.of {
		errs = append(errs, one.Settle(ctx, used))
	}
	return errors.Join(errs...)
}
