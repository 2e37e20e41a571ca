package manager

import (
	"io"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
)

// An outputDigest collects what one call without a grant did, for the record. A nil
// one collects nothing.
type outputDigest struct {
	mu     sync.Mutex
	begun  bool
	out    *evidence.Hash
	err    *evidence.Hash
	effect *evidence.Effect

	abort   sandbox.Code      // why it was ended before it had come to its end, or empty
	why     string            // the same for people
	content evidence.Digest   // of a file that was read
	effects []evidence.Effect // on files
	made    *evidence.Made    // how the sandbox was made while a pool was kept; or nil
	files   int               // operations on files that this one stands for
}

// aborted notes that the call was ended before it had come to its end.
func (t *outputDigest) aborted(code sandbox.Code, why string) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.abort, t.why = code, why
}

// done notes what an operation on a file has done, and whether its caller has
// given up meanwhile.
func (t *outputDigest) done(e evidence.Effect, err error, gone bool) {
	if err != nil && gone {
		t.aborted(sandbox.CodeOf(err), "the caller gave up")
	}
	t.also(e, err)
}

// also notes an effect of what was carried out, or of what was begun of it.
func (t *outputDigest) also(e evidence.Effect, err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if err == nil || e.BytesIn+e.BytesOut > 0 {
		t.begun = true
		t.effects = append(t.effects, e)
	}
}

// hear has what the command writes pass by.
func (t *outputDigest) hear(c *sandbox.Command) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun, t.out, t.err, t.abort, t.why = true, evidence.NewHash(), evidence.NewHash(), "", ""
	c.Stdout, c.Stderr = both(c.Stdout, t.out), both(c.Stderr, t.err)
}

// both returns a writer that has what is written to w in h as well.
func both(w io.Writer, h *evidence.Hash) io.Writer {
	if w == nil {
		return h
	}
	return io.MultiWriter(w, h)
}

// saw notes how the command ended, all of whose output has been delivered.
func (t *outputDigest) saw(program string, exit sandbox.Exit) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.effect = &evidence.Effect{Kind: grant.EffectProcess, Program: program, ExitCode: &exit.Code, BytesIn: t.out.Digest().Size + t.err.Digest().Size, Digest: t.err.Digest()}
}

// end is what is to be said of the end; err is that of the call.
func (t *outputDigest) end(err error) evidence.End {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := grant.Audit(err)
	e := evidence.End{Status: statusOf(err, t.begun), Code: v.Code, Rule: v.Rule, Detail: v.Message, Resource: v.Resource}
	if t.abort != "" {
		e.Status, e.Code = evidence.Aborted, t.abort
		if err == nil {
			e.Detail = t.why
		}
	}
	if t.effect != nil {
		e.Outputs, e.Effects = t.out.Digest(), []evidence.Effect{*t.effect}
	}
	if len(t.effects) > 0 {
		e.Outputs, e.Effects = t.content, t.effects
	}
	e.More, e.Made = t.files, t.made
	return e
}

// brought notes how the sandbox was made for this call, where a pool is kept.
func (t *outputDigest) brought(l *acquired) {
	if t == nil || !l.claimed && l.miss == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.made = &evidence.Made{Claimed: l.claimed, Miss: l.miss}
}
