package manager

import (
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/workspace"
)

// A usage meters what one call uses, for the account that is charged beside
// grants and settings. A nil one has no account, and counts nothing.
type usage struct {
	m     *Manager
	meter *budget.Meter
	ctx   context.Context // ends when something is used up
	bound budget.Amount
}

// payer is who pays for what is done with ctx.
func (m *Manager) payer(ctx context.Context) (Payer, error) {
	if m.accounting == nil {
		return Payer{}, nil
	}
	return m.accounting.Payer(ctx)
}

// spend begins to count what a call uses that is done with ctx, of which first
// is known beforehand. Where nothing is left of that it is refused, before
// anything is made for it. end has to be called.
func (m *Manager) spend(ctx context.Context, first budget.Amount) (*usage, error) {
	p, err := m.payer(ctx)
	if err != nil || p.Source == nil {
		return nil, err
	}
	count, ctx, err := budget.Start(ctx, p.Source, first)
	if err != nil {
		return nil, err
	}
	return &usage{m: m, meter: count, ctx: ctx, bound: p.Bound}, nil
}

// firstOf is what a request uses for being made: a call, and what goes in with
// the command's own words, see commandBytes.
func firstOf(req Request) budget.Amount {
	if req.bare {
		return budget.One(budget.BytesOut, commandBytes(req))
	}
	return budget.Add(budget.One(budget.Calls, 1), budget.One(budget.BytesOut, commandBytes(req)))
}

// commandBytes is how many bytes a caller sends in with a command beside its input:
// the line, or the arguments, the variables and the folder, each string with the
// zero byte at its end.
func commandBytes(req Request) int64 {
	n := size(req.Command.Dir)
	for name, value := range req.Command.Env {
		n += int64(len(name)+len(value)) + 2
	}
	if req.line != "" {
		return n + size(req.line)
	}
	args := req.Command.Args
	if len(args) > 3 && args[0] == "sh" && args[2] == pickShell { // our own words
		args = args[4:]
	}
	for _, a := range args {
		n += int64(len(a)) + 1
	}
	return n
}

// size is the bytes of a string that may be absent.
func size(s string) int64 {
	if s == "" {
		return 0
	}
	return int64(len(s)) + 1
}

// wordsOf is commandBytes for an operation under a grant: all of it but the content
// that its executor counts.
func wordsOf(op grant.Operation) int64 {
	n := size(op.Path) + size(op.Method) + size(op.URL) + size(op.Selector) + size(op.Tool)
	for name, value := range op.Header {
		n += int64(len(name)+len(value)) + 2
	}
	for _, a := range op.Args {
		n += int64(len(a)) + 1
	}
	return n
}

// Spend charges fn, with the time that it takes, as one call to the account of
// ctx. It can count nothing else, so it returns [sandbox.CodeUnsupported] before
// it calls fn when the account has a bound on anything else, except on kinds:
// those fn counts itself, or cannot use.
//
// It is for work beside sandboxes, as in browsers. The context of fn
// ends when a budget is used up.
func (m *Manager) Spend(ctx context.Context, fn func(context.Context) error, kinds ...budget.Kind) error {
	s, err := m.spend(ctx, budget.One(budget.Calls, 1))
	if err != nil {
		return err
	}
	if err := s.only(append(kinds, budget.Calls, budget.WallMs)...); err != nil {
		return s.end(err)
	}
	return s.end(fn(s.context(ctx)))
}

// Unpaid returns an error if the caller has a budget, because what the caller is
// about to do cannot be counted at all.
func (m *Manager) Unpaid(ctx context.Context) error {
	p, err := m.payer(ctx)
	if err != nil || p.Source == nil {
		return err
	}
	return (&usage{bound: p.Bound}).only()
}

// only refuses bounds on anything but kinds, also such that leave nothing.
func (s *usage) only(kinds ...budget.Kind) error {
	if s == nil {
		return nil
	}
	for k, n := range budget.Values(s.bound) {
		if n != budget.Unlimited && !slices.Contains(kinds, budget.Kind(k)) {
			return budget.Unmetered(budget.Kind(k))
		}
	}
	return nil
}

// context is the one that the call is carried out in, instead of ctx.
func (s *usage) context(ctx context.Context) context.Context {
	if s == nil {
		return ctx
	}
	return s.ctx
}

// within is ctx, ended also when something is used up. The returned function
// must be called.
func (s *usage) within(ctx context.Context) (context.Context, func()) {
	if s == nil {
		return ctx, func() {}
	}
	ctx, cancel := context.WithCancelCause(ctx)
	undo := context.AfterFunc(s.ctx, func() { cancel(context.Cause(s.ctx)) })
	return ctx, func() {
		undo()
		cancel(nil)
	}
}

// end settles what was used. It returns what why says of err.
func (s *usage) end(err error) error {
	if s == nil {
		return err
	}
	err = s.why(err)
	if _, lost := s.meter.End(); lost != nil {
		s.m.log.WithError(lost).Error("what a call has used cannot be settled: all that was reserved stays charged")
	}
	return err
}

// why is err, or in its place what has ended the call. A call that came to its
// end all the same has succeeded where it was only slow; where it did not get
// all the bytes or files that it wanted it has not.
func (s *usage) why(err error) error {
	if s == nil || s.ctx.Err() == nil {
		return err
	}
	var e *sandbox.Error
	cause := context.Cause(s.ctx)
	if !errors.As(cause, &e) || err == nil && !slices.Contains(wholeKinds, e.Field) {
		return err
	}
	return cause
}

// wholeKinds are the fields of errors about what a call has wanted and did not
// get.
var wholeKinds = []string{"budget." + budget.BytesIn.String(), "budget." + budget.BytesOut.String(), "budget." + budget.Files.String()}

// command has the streams of a command in l counted, and gets ready to count its
// processor time where that has a bound: what cannot be counted is not begun.
func (s *usage) command(l *acquired, c *sandbox.Command) (*stopwatch, error) {
	if s == nil {
		return nil, nil
	}
	if l.want.res.Docker.GPUs != "" && s.bound.GPUMs != budget.Unlimited {
		return nil, budget.Unmetered(budget.GPUMs)
	}
	w := &stopwatch{}
	if s.bound.CPUMs != budget.Unlimited {
		if l.shell != nil { // the lines of a shell cannot be metered separately
			return nil, budget.Unmetered(budget.CPUMs)
		}
		if err := s.meter.Watch(budget.CPUMs, w.used); err != nil {
			return nil, err
		}
	}
	if c.Stdin != nil {
		c.Stdin = s.meter.Reader(budget.BytesOut, c.Stdin)
	}
	c.Stdout = s.counted(c.Stdout)
	if c.TTY == nil {
		c.Stderr = s.counted(c.Stderr)
	}
	return w, nil
}

func (s *usage) counted(w io.Writer) io.Writer {
	if w == nil {
		w = io.Discard
	}
	return s.meter.Writer(budget.BytesIn, w)
}

// files is the bridge with what is read and written through it counted.
func (s *usage) files(b *fsbridge.Bridge) *fsbridge.Bridge {
	if s == nil {
		return b
	}
	return b.Paying(meter{s})
}

// A meter is paid for files.
type meter struct{ *usage }

// Open implements [fsbridge.Toll].
func (t meter) Open() error {
	if t.ctx.Err() != nil {
		return context.Cause(t.ctx)
	}
	return nil
}

// File implements [fsbridge.Toll].
func (t meter) File() error { return t.meter.Add(budget.Files, 1) }

// Names implements [fsbridge.Toll].
func (t meter) Names(out, in int64) error {
	if err := t.meter.Add(budget.BytesOut, out); err != nil {
		return err
	}
	return t.meter.Add(budget.BytesIn, in)
}

// In implements [fsbridge.Toll].
func (t meter) In(r io.Reader) io.Reader { return t.meter.Reader(budget.BytesIn, r) }

// Out implements [fsbridge.Toll].
func (t meter) Out(r io.Reader) io.Reader { return t.meter.Reader(budget.BytesOut, r) }

// source is src with what comes from it counted as files that are written.
func (s *usage) source(src workspace.Source) workspace.Source {
	if s == nil {
		return src
	}
	return paidSource{src, meter{s}}
}

type paidSource struct {
	workspace.Source
	meter meter
}

// Open implements [media.Source].
func (p paidSource) Open(ctx context.Context, ref string) (io.ReadCloser, workspace.Info, error) {
	if err := p.meter.File(); err != nil {
		return nil, workspace.Info{}, err
	}
	r, info, err := p.Source.Open(ctx, ref)
	if err != nil {
		return nil, info, err
	}
	return struct {
		io.Reader
		io.Closer
	}{p.meter.Out(r), r}, info, nil
}

// A stopwatch shows the processor time of a command with all that it has
// started. It is read from before the start until after the end. A nil one is
// never read.
type stopwatch struct {
	mu      sync.Mutex
	process sandbox.Process // nil before it runs
}

// runs hears of the command.
func (w *stopwatch) runs(p sandbox.Process) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.process = p
}

// used returns the time so far; see [sandbox.Metered]. It returns an error,
// which ends the call, when the time is unknown.
func (w *stopwatch) used() (time.Duration, error) {
	w.mu.Lock()
	p := w.process
	w.mu.Unlock()
	if p == nil {
		return 0, nil
	}
	m, ok := p.(sandbox.Metered)
	if !ok {
		return 0, budget.Unmetered(budget.CPUMs)
	}
	u, err := m.Used(context.Background())
	return u.User + u.System, err
}
