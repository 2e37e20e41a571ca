package local

import (
	"context"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/provider"
)

// Start implements [sandbox.Sandbox].
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	s, err := h.use(ctx, mustStand, c.AsOf)
	if err != nil {
		return nil, err
	}
	if c.Detach {
		s.instance.detached.Store(true)
		s.instance.left.Store(true)
	}
	p, err := s.Client.Start(ctx, provider.Command(c, h.spec))
	if err != nil {
		s.release()
		return nil, s.instance.whyEnded("start", err)
	}
	out := newProcess(p, s)
	go out.Wait() // no other goroutine may
	return out, nil
}

// Judge implements [sandbox.Judge] by the plan of the instance in which the next
// command would have run when this one was started last.
func (h *handle) Judge(op sandbox.Operation, path string) sandbox.Verdict {
	h.mu.Lock()
	w := h.seat.instance
	h.mu.Unlock()
	return w.judge(op, path)
}

// A process is a command that keeps its instance up while it runs, or a line of a
// shell, which does that for it.
type process struct {
	sandbox.Process
	seat    *seat
	release func() // gives the seat back; nil for a line
	reborn  bool   // it found a shell without the state of the one before

	look  sync.Once // for what was planted
	mu    sync.Mutex
	found []sandbox.Violation
}

// newProcess is a command for which the seat was taken.
func newProcess(p sandbox.Process, s *seat) *process {
	return &process{Process: p, seat: s, release: sync.OnceFunc(s.release)}
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
