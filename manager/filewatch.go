package manager

import (
	"context"
	"errors"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant"
)

// The bounds of what is kept of the operations on files that one call carries
// out. A copy or a search has many thousands; those beyond the bound are one
// operation on record, which says how many there were.
const (
	maxFileRecords = 256 // operations with a begin and an end of their own
	maxFileRefused = 32  // refused ones that leave a violation
)

// A fileWatch puts on record what is done with the files of a sandbox during
// one call: each operation with its kind, its path and digests of its
// own, and each that was refused as a violation too.
type fileWatch struct {
	m *Manager
	p *pipeline
	l *acquired
	w Recorder // nil where settings want no record

	base evidence.Begin // what is the same of all

	mu      sync.Mutex
	begun   int
	refused int
	open    map[*fileHearing]bool
	looked  string      // the first path of which only something was asked, such as its size
	rest    *auditEntry // of operations beyond maxFileRecords
	more    int         // how many those are
	traced  int         // operations with a span
}

// fileKind is the kind of an operation as evidence knows it, and of its effect.
func fileKind(op fsbridge.Op) (grant.OpKind, grant.SideEffect) {
	switch op {
	case fsbridge.OpRead:
		return grant.OpFsRead, grant.EffectRead
	case fsbridge.OpList, fsbridge.OpStat:
		return grant.OpFsList, grant.EffectRead
	}
	return grant.OpFsWrite, grant.EffectWrite
}

// beginning is what is on record of an operation on path before it is done.
func (f *fileWatch) beginning(op fsbridge.Op, path, to string) evidence.Begin {
	b := f.base
	b.Time = f.m.now()
	b.Kind, _ = fileKind(op)
	b.Capability = "fs." + string(op) + ":" + path
	b.Request = evidence.Request{Path: path}
	b.Inputs = evidence.DigestOf([]byte(strings.Join([]string{string(op), path, to}, "\x00")))
	return b
}

// Begin implements [fsbridge.Watch].
func (f *fileWatch) Begin(ctx context.Context, op fsbridge.Op, path, to string) (fsbridge.Hearing, error) {
	h := &fileHearing{watch: f, op: op, path: path, to: to, sum: evidence.NewHash()}
	f.mu.Lock()
	defer f.mu.Unlock()
	if parent := sandbox.SpanOf(ctx); parent != nil && op != fsbridge.OpStat && f.traced < maxFileRecords {
		f.traced++
		h.span = parent.Child(spanFile, sandbox.SpanInternal)
		h.span.String("sandbox.file.operation", string(op))
		f.named(h.span)
	}
	if f.w == nil {
		return h, nil
	}
	if op == fsbridge.OpStat { // of which walks have many, and which tells no content
		if f.looked == "" {
			f.looked = path
		}
		return h, nil
	}
	if f.begun++; f.begun > maxFileRecords {
		f.more++
		if f.rest != nil {
			return h, nil
		}
		b := f.beginning(op, path, to)
		b.Capability, b.Request.Path = "fs.more", ""
		rest, err := f.p.begin(ctx, b)
		f.rest = rest
		return h, err
	}
	s, err := f.p.begin(ctx, f.beginning(op, path, to))
	if err != nil {
		h.span.EndWith(err)
		return nil, err
	}
	h.said = s
	f.open[h] = true
	return h, nil
}

// end ends what is still open, and puts on record a call that has looked at files
// and done nothing with them. It returns the error of the call.
func (f *fileWatch) end(ctx context.Context, err error) error {
	f.mu.Lock()
	var open []*fileHearing
	for h := range f.open {
		open = append(open, h)
	}
	rest, more, looked, begun := f.rest, f.more, f.looked, f.begun
	f.mu.Unlock()
	for _, h := range open {
		h.End(ctx, err)
	}
	if rest != nil {
		rest.seen.files = more
		_ = rest.end(ctx, nil) // which each operation has returned that could not be carried out
	}
	if f.w != nil && begun == 0 && looked != "" {
		s, lost := f.p.begin(ctx, f.beginning(fsbridge.OpStat, looked, ""))
		if lost == nil {
			lost = s.end(ctx, err)
		}
		if err == nil && f.p.res.RequireEvidence {
			err = lost
		}
	}
	return err
}

// A fileHearing hears of one operation.
type fileHearing struct {
	watch    *fileWatch
	op       fsbridge.Op
	path, to string
	said     *auditEntry   // nil where it has no record of its own
	span     *sandbox.Span // nil where it is not traced

	mu   sync.Mutex // of sum and over: several goroutines may read files
	sum  *evidence.Hash
	over bool
}

// Write implements [io.Writer].
func (h *fileHearing) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.said == nil || h.over {
		return len(p), nil
	}
	return h.sum.Write(p)
}

// End implements [fsbridge.Hearing].
func (h *fileHearing) End(ctx context.Context, err error) {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return
	}
	h.over = true
	content := h.sum.Digest()
	h.mu.Unlock()
	h.span.EndWith(err)
	h.watch.violated(ctx, h, err)
	if h.said == nil {
		return
	}
	h.watch.mu.Lock()
	delete(h.watch.open, h)
	h.watch.mu.Unlock()
	_, effect := fileKind(h.op)
	e := evidence.Effect{Kind: effect, Path: h.path}
	switch h.op {
	case fsbridge.OpRead:
		e.BytesIn, e.Digest, h.said.seen.content = content.Size, content, content
	case fsbridge.OpWrite:
		e.BytesOut, e.Digest = content.Size, content
	}
	h.said.seen.done(e, err, ctx.Err() != nil)
	if h.to != "" {
		h.said.seen.also(evidence.Effect{Kind: effect, Path: h.to}, err)
	}
	if lost := h.said.end(ctx, err); lost != nil && err == nil {
		h.watch.m.log.WithError(lost).Error("the end of an operation on a file is not on record")
	}
}

// violated leaves a violation of an operation that rules have refused.
func (f *fileWatch) violated(ctx context.Context, h *fileHearing, err error) {
	switch sandbox.CodeOf(err) {
	case sandbox.CodeCapabilityBlocked, sandbox.CodePermissionDeny, sandbox.CodeDenyTool:
	default:
		return
	}
	f.mu.Lock()
	f.refused++
	over := f.refused > maxFileRefused
	f.mu.Unlock()
	if over {
		return
	}
	op := sandbox.OpWrite
	if kind, _ := fileKind(h.op); kind != grant.OpFsWrite {
		op = sandbox.OpRead
	}
	audit := grant.Audit(err)
	rule := audit.Rule
	var e *sandbox.Error
	if errors.As(err, &e) && rule == "" {
		rule = e.Field
		if rule == "" || rule == "path" {
			rule = e.Message
		}
	}
	meta := violation.Meta{
		Time: f.m.now(), Tenant: f.l.spec.Owner.Tenant, Agent: f.p.req.Who.Agent, Session: f.p.req.Who.Session, Sandbox: f.l.name(),
		Command: "fs " + string(h.op) + " " + h.path,
	}
	f.m.reporter.tell(ctx, f.l.name(), []violation.Record{violation.FromSandbox(sandbox.Violation{
		Kind: sandbox.ResourcePath, Operation: op, Resource: h.path, Rule: rule, Evidence: sandbox.EvidenceCertain, Time: f.m.now(),
	}, meta)})
}

// watchFiles has what is done with b on record; the caller calls end when it
// no longer uses b.
func (m *Manager) watchFiles(l *acquired, p *pipeline, b *fsbridge.Bridge) (*fsbridge.Bridge, *fileWatch, error) {
	w, err := p.recorder()
	if err != nil {
		return nil, nil, err
	}
	f := &fileWatch{m: m, p: p, l: l, w: w, open: map[*fileHearing]bool{}}
	if w != nil {
		f.base = p.beginning()
		f.base.Sandbox = l.name()
	}
	return b.Watched(f), f, nil
}
