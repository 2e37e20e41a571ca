package manager

import (
	"context"
	"errors"

	"github.com/bulkhead-dev/sandbox"
)

// alone takes the sandbox l for its caller by itself: until release, no call of
// any process uses the sandbox, and none makes or removes it. Where other calls
// use it, alone is false, and they go on; only no call makes or removes it. After
// release l is as it was, under a shared lease.
func (b *builder) alone(ctx context.Context, l *acquired) (alone bool, release func() error, err error) {
	name := l.name()
	_ = l.held.Release() // the order is the ensure lock first
	turn, err := b.m.locksOf(l.provider.Name()).Ensure(ctx, name)
	if err != nil {
		return false, nil, err
	}
	shared := func() error {
		held, err := b.m.locksOf(l.provider.Name()).Shared(ctx, name)
		if err == nil {
			l.held = held
		}
		return errors.Join(err, turn.Release())
	}
	held, err := b.m.locksOf(l.provider.Name()).TryExclusive(name)
	switch {
	case err == nil:
		l.held = held
		return true, func() error {
			_ = held.Release()
			return shared()
		}, nil
	case sandbox.CodeOf(err) != sandbox.CodeBusy:
		return false, nil, errors.Join(err, turn.Release())
	}
	if held, err = b.m.locksOf(l.provider.Name()).Shared(ctx, name); err != nil {
		return false, nil, errors.Join(err, turn.Release())
	}
	l.held = held
	return false, turn.Release, nil
}
