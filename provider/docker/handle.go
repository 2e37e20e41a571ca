package docker

import (
	"context"
	"maps"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// handle is an open container.
type handle struct {
	info   sandbox.Info
	spec   sandbox.Spec
	engine Engine
	guest  *client.Client
}

func (h *handle) Info() sandbox.Info { return h.info }

func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	return h.guest.Start(ctx, withDefaults(c, h.spec))
}

func (h *handle) Usage(ctx context.Context) (sandbox.Usage, error) {
	return h.engine.Usage(ctx, h.info.ID)
}

// Ping reports whether the guest answers.
func (h *handle) Ping(ctx context.Context) error { return h.guest.Ping(ctx) }

func (h *handle) Close() error { return h.guest.Close() }

// withDefaults lays c over what s says for every command.
func withDefaults(c sandbox.Command, s sandbox.Spec) sandbox.Command {
	env := maps.Clone(s.Env)
	if env == nil {
		env = map[string]string{}
	}
	maps.Copy(env, c.Env)
	c.Env = env
	if c.Dir == "" {
		c.Dir = s.Workdir
	}
	c.Limits = mergeLimits(c.Limits, s.Limits)
	return c
}

// mergeLimits takes the stricter of two bounds, field by field.
func mergeLimits(a, b sandbox.Limits) sandbox.Limits {
	stricter := func(x, y int64) int64 {
		if x == 0 || (y != 0 && y < x) {
			return y
		}
		return x
	}
	a.Memory = stricter(a.Memory, b.Memory)
	a.CPUSeconds = stricter(a.CPUSeconds, b.CPUSeconds)
	a.FileSize = stricter(a.FileSize, b.FileSize)
	a.OpenFiles = stricter(a.OpenFiles, b.OpenFiles)
	a.Processes = stricter(a.Processes, b.Processes)
	return a
}

var _ sandbox.Sandbox = (*handle)(nil)
