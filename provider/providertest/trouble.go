package providertest

import (
	"context"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// troubleChecks check that trouble of the engine is reported as such: never as
// "there is none", and never by waiting for ever.
func troubleChecks() []Check {
	return []Check{
		{Name: "an engine that is down is unavailable, not empty", needs: needDown, run: engineDown, alone: true},
		{Name: "an engine that hangs times out", needs: needHanging, run: engineHangs, alone: true},
	}
}

func needDown(h Harness) string {
	if h.Down == nil {
		return "Down"
	}
	return ""
}

func needHanging(h Harness) string {
	if h.Hanging == nil {
		return "Hanging"
	}
	return ""
}

// calls are all methods of p as functions of their context.
func calls(p sandbox.Provider, s sandbox.Spec) map[string]func(context.Context) error {
	all := map[string]func(context.Context) error{
		"Inspect": func(ctx context.Context) error { _, err := p.Inspect(ctx, s.Name); return err },
		"Create":  func(ctx context.Context) error { _, err := p.Create(ctx, s); return err },
		"Open":    func(ctx context.Context) error { _, err := p.Open(ctx, s); return err },
		"List":    func(ctx context.Context) error { _, err := p.List(ctx, sandbox.Filter{}); return err },
		"Remove":  func(ctx context.Context) error { return p.Remove(ctx, s.Name) },
	}
	if pauser, ok := p.(sandbox.Pauser); ok && p.Features().Pause {
		all["Pause"] = func(ctx context.Context) error { return pauser.Pause(ctx, s.Name) }
		all["Unpause"] = func(ctx context.Context) error { return pauser.Unpause(ctx, s.Name) }
	}
	if prober, ok := p.(interface{ Probe(context.Context) error }); ok {
		all["Probe"] = prober.Probe
	}
	return all
}

func engineDown(r *rig) {
	s := r.h.Spec(r, r.check) // nothing is made, so nothing is to remove
	for name, call := range calls(r.h.Down(r), s) {
		r.within(r.h.Patience, name, func() {
			r.wantCode(name, call(r.ctx), sandbox.CodeUnavailable, sandbox.CodeTimeout)
		})
	}
}

func engineHangs(r *rig) {
	s := r.h.Spec(r, r.check)
	const deadline = 300 * time.Millisecond
	for name, call := range calls(r.h.Hanging(r), s) {
		// Clean-up after a failed Create may take a moment of its own.
		r.within(r.h.Patience, name, func() {
			ctx, cancel := context.WithTimeout(r.ctx, deadline)
			defer cancel()
			r.wantCode(name, call(ctx), sandbox.CodeTimeout, sandbox.CodeUnavailable)
		})
	}
	// Without a deadline of the caller the provider has one of its own.
	p := r.h.Hanging(r)
	r.within(4*r.h.Patience, "Inspect without a deadline", func() {
		_, err := p.Inspect(context.Background(), s.Name)
		r.wantCode("Inspect without a deadline", err, sandbox.CodeTimeout, sandbox.CodeUnavailable)
	})
}
