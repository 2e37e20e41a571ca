package fake

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// A handle is an open sandbox. It is bound to one boot: when that ends, the
// handle is of no more use and says so.
type handle struct {
	e    *Engine
	boot *boot
	box  sandbox.Spec // as created
	spec sandbox.Spec // as opened
	info sandbox.Info

	once   sync.Once
	closed chan struct{}
}

func (h *handle) Info() sandbox.Info { return h.info }

// Start implements [sandbox.Sandbox].
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := h.step(ctx, "start", StepExec); err != nil {
		return nil, err
	}
	p, err := h.launch(ctx, c)
	if err != nil {
		return nil, err // not p: a nil *command would be a Process that is not nil
	}
	return p, nil
}

// Usage implements [sandbox.Sandbox]: the process count is true, the rest is
// made up from it.
func (h *handle) Usage(ctx context.Context) (sandbox.Usage, error) {
	if err := h.step(ctx, "usage", StepUsage); err != nil {
		return sandbox.Usage{}, err
	}
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	pids := int64(len(h.boot.procs)) + 1
	return sandbox.Usage{
		CPU:    time.Since(h.boot.started) / 1000,
		Memory: pids << 20, MemoryLimit: h.box.Resources.Memory,
		PIDs: pids, PIDsLimit: h.box.Resources.PIDs,
	}, nil
}

// Close kills the commands of the handle that are not detached and its shells,
// and returns when their processes have ended. Unread
// output does not delay it.
func (h *handle) Close() error {
	h.e.mu.Lock()
	h.once.Do(func() { close(h.closed) })
	var mine []*tree
	for t := range h.boot.trees {
		if t.h == h && !t.detach {
			t.kill()
			mine = append(mine, t)
		}
	}
	h.e.mu.Unlock()
	for _, t := range mine {
		<-t.gone
	}
	return nil
}

// shut reports whether the handle was closed.
func (h *handle) shut() bool {
	select {
	case <-h.closed:
		return true
	default:
		return false
	}
}

func closedHandle(op, name string) error {
	return failure(sandbox.CodeUnavailable, op, name, "the handle is closed")
}

// step is what comes before everything that is done through the handle.
func (h *handle) step(ctx context.Context, op string, s Step) error {
	if h.shut() {
		return closedHandle(op, h.spec.Name)
	}
	ctx, cancel := context.WithTimeout(ctx, h.e.deadline)
	defer cancel()
	if err := h.e.step(ctx, s, h.spec.Name); err != nil {
		return err
	}
	if h.ended() {
		return fell(op, h.spec.Name)
	}
	return nil
}

func (h *handle) ended() bool {
	select {
	case <-h.boot.ended:
		return true
	default:
		return false
	}
}

// runOnStart runs lines once per boot. A failing line fails the call, and the
// next Open tries again from the first line.
func (h *handle) runOnStart(ctx context.Context, lines []string) error {
	if len(lines) == 0 {
		return nil
	}
	select {
	case <-h.boot.onStart:
		defer func() { h.boot.onStart <- struct{}{} }()
	case <-h.boot.ended:
		return fell("open", h.spec.Name)
	case <-ctx.Done():
		return stepError(ctx.Err(), StepOnStart, h.spec.Name)
	}
	if h.boot.lines {
		return nil
	}
	if err := h.e.step(ctx, StepOnStart, h.spec.Name); err != nil {
		return err
	}
	for i, line := range lines {
		if err := h.runLine(ctx, i, line); err != nil {
			return err
		}
	}
	h.boot.lines = true
	return nil
}

func (h *handle) runLine(ctx context.Context, i int, line string) error {
	p, err := h.launch(ctx, sandbox.Command{Args: []string{"sh", "-c", line}})
	if err != nil {
		return err
	}
	exit, err := p.Wait()
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return stepError(ctx.Err(), StepOnStart, h.spec.Name)
	}
	if exit.Code != 0 {
		return &sandbox.Error{
			Code: sandbox.CodeExecution, Op: "open", Resource: h.spec.Name,
			Field: fmt.Sprintf("docker.onStart[%d]", i), Message: fmt.Sprintf("the line ended with status %d", exit.Code),
		}
	}
	return nil
}

func fell(op, name string) error {
	e := failure(sandbox.CodeUnavailable, op, name, "the sandbox stopped or was removed")
	e.Hint, e.Retryable = "open it again", true
	return e
}
