package docker

import (
	"context"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/provider"
)

// handle is an open container.
type handle struct {
	info   sandbox.Info
	spec   sandbox.Spec
	engine Engine
	guest  *client.Client
	p      *Provider
	guard  guard

	standby *provider.Standby // or nil
}

func (h *handle) Info() sandbox.Info { return h.info }

func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	rules, before, err := h.ready(ctx)
	if err != nil {
		return nil, err
	}
	c = provider.Command(c, h.spec)
	p, taken := h.standby.Take(ctx, c)
	if !taken {
		if p, err = h.guest.Start(ctx, c); err != nil {
			return nil, err
		}
	}
	return h.watched(p, rules, before), nil
}

// StandBy starts args, which become the first command that is as; see
// [provider.Standby]. as has the environment and the bounds of that command, since
// those of h may be others. It returns when the program is ready.
func (h *handle) StandBy(ctx context.Context, as sandbox.Command, args []string) (err error) {
	h.standby, err = provider.StandBy(ctx, provider.Command(as, h.spec), args, func(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
		return h.guest.Start(ctx, c)
	})
	return err
}

// Exec implements [sandbox.Execer]: c runs as with docker exec, and what the Spec
// says for commands does not count for it.
func (h *handle) Exec(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if _, _, err := h.ready(ctx); err != nil {
		return nil, err
	}
	return h.engine.Run(ctx, h.info.ID, c)
}

func (h *handle) Usage(ctx context.Context) (sandbox.Usage, error) {
	return h.engine.Usage(ctx, h.info.ID)
}

// Ping reports whether the guest answers.
func (h *handle) Ping(ctx context.Context) error { return h.guest.Ping(ctx) }

// Connected reports whether the connection to the guest is open, without a word
// to it: also a guest that is frozen and does not answer is connected.
func (h *handle) Connected() bool {
	select {
	case <-h.guest.Done():
		return false
	default:
		return true
	}
}

func (h *handle) Close() error { return h.guest.Close() }

// Cut ends the connection at once, without waiting until the guest has ended
// what was begun over it.
func (h *handle) Cut() { h.guest.Cut() }

var (
	_ sandbox.Sandbox = (*handle)(nil)
	_ sandbox.Execer  = (*handle)(nil)
)
