package local

import (
	"context"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

// Start implements [sandbox.Sandbox].
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	s, err := h.use(ctx, mustStand, c.AsOf)
	if err != nil {
		return nil, err
	}
	c = h.located(c)
	if c.Detach {
		s.instance.detached.Store(true)
		s.instance.left.Store(true)
	}
	kills := s.instance.OutOfMemory()
	p, err := s.Client.Start(ctx, provider.Command(c, h.spec))
	if err != nil {
		s.release()
		return nil, s.instance.whyEnded("start", err)
	}
	out := newProcess(p, s)
	out.kills = kills
	go out.Wait() // no other goroutine may
	return out, nil
}

// Judge implements [sandbox.Judge] by the plan of the instance in which the next
// command would have run when this one was started last.
func (h *handle) Judge(op sandbox.Operation, path string) sandbox.Verdict {
	h.mu.Lock()
	w := h.seat.instance
	h.mu.Unlock()
	return w.judge(op, h.places.host(path))
}

// located returns c with paths of the host: those of its folder, its program and its
// variables.
func (h *handle) located(c sandbox.Command) sandbox.Command {
	if len(h.places) == 0 {
		return c
	}
	if c.Dir != "" {
		c.Dir = h.places.host(h.spec.DirOf(c.Dir))
	}
	if len(c.Args) > 0 && strings.HasPrefix(c.Args[0], "/") {
		c.Args = slices.Clone(c.Args)
		c.Args[0] = h.places.host(c.Args[0])
	}
	c.Env = h.places.environment(c.Env)
	return c
}

// A process is a command that keeps its instance up while it runs, or a line of a
// shell, which does that for it.
type process struct {
	sandbox.Process
	seat    *seat
	release func()         // gives the seat back; nil for a line
	reborn  bool           // it found a shell without the state of the one before
	kills   launch.Counter // for want of memory in the instance, before it began

	look  sync.Once // for what was planted
	mu    sync.Mutex
	found []sandbox.Violation
}

// newProcess is a command for which the seat was taken.
func newProcess(p sandbox.Process, s *seat) *process {
	return &process{Process: p, seat: s, release: sync.OnceFunc(s.release)}
}

// short adds to the exit of a command that its instance has run out of memory
// meanwhile. The control group counts for the whole instance: where other commands run,
// a kill is taken for that of this one only if it was killed.
func (p *process) short(e *sandbox.Exit) {
	if e.Limit != nil {
		return
	}
	killed := e.Signal == "KILL" || e.Signal == "" && e.Code == 128+int(unix.SIGKILL)
	if !killed && p.seat.instance.inUse.Load() > 1 {
		return
	}
	if p.seat.instance.OutOfMemory() > p.kills {
		bound := p.seat.h.spec.Resources.Memory
		e.Limit = &sandbox.LimitHit{Limit: sandbox.LimitSandboxMemory, Current: bound, Bound: bound, Unit: sandbox.UnitBytes}
	}
}

// Wait implements [sandbox.Process]. Before it returns, what the command has
// made for git on the host to run is taken away, and the seat is given back:
// the command no longer counts as running.
func (p *process) Wait() (sandbox.Exit, error) {
	exit, err := p.Process.Wait()
	p.look.Do(func() {
		list, failed := p.seat.instance.hold()
		p.seat.instance.warnPlanted(list)
		p.mu.Lock()
		p.found = list
		p.mu.Unlock()
		if failed != nil {
			p.seat.instance.site.p.o.Warn(p.seat.instance.site.def.Name, failed.Error()+"; nothing else is started here until that is done")
		}
	})
	p.short(&exit)
	if p.release != nil {
		p.release()
	}
	if err == nil && p.reborn {
		exit.Restarted = true
	}
	return exit, p.seat.instance.whyEnded("run", err)
}

// Violations implements [sandbox.ViolationObserver]: what the guest saw being tried and
// the rules of this command's instance deny. What a program tells of itself, such
// as its name, is as it says.
func (p *process) Violations() []sandbox.Violation {
	var out []sandbox.Violation
	p.mu.Lock()
	out = append(out, p.found...)
	p.mu.Unlock()
	seen, ok := p.Process.(client.Observed)
	if !ok {
		return out
	}
	for _, a := range seen.Attempts() {
		v := p.seat.instance.judge(a.Operation, a.Path)
		if v.Allowed {
			continue
		}
		out = append(out, sandbox.Violation{
			Kind: sandbox.ResourcePath, Operation: a.Operation, Resource: a.Path, Rule: v.Rule, Builtin: v.Builtin,
			Evidence: sandbox.EvidenceCertain, Program: strings.ToValidUTF8(a.Program, "?"), PID: a.PID, HostPath: v.HostPath, Time: a.Time,
		})
	}
	return out
}

// PID implements [sandbox.Identified].
func (p *process) PID() int {
	if i, ok := p.Process.(sandbox.Identified); ok {
		return i.PID()
	}
	return 0
}

// Used implements [sandbox.Metered].
func (p *process) Used(ctx context.Context) (sandbox.Rusage, error) {
	if m, ok := p.Process.(sandbox.Metered); ok {
		return m.Used(ctx)
	}
	return sandbox.Rusage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "measure", Message: "the sandbox does not tell what the command has used"}
}

var (
	_ sandbox.Process           = (*process)(nil)
	_ sandbox.ViolationObserver = (*process)(nil)
	_ sandbox.Metered           = (*process)(nil)
	_ sandbox.Identified        = (*process)(nil)
	_ sandbox.Judge             = (*handle)(nil)
)
