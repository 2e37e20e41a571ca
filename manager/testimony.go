package manager

import (
	"io"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/evidence/proof"
	"github.com/bulkhead-dev/sandbox/grant"
)

// A testimony is what is seen of one call without a grant, for the record. A
// nil one sees nothing.
type testimony struct {
	mu     sync.Mutex
	begun  bool
	out    *proof.Hash
	err    *proof.Hash
	effect *proof.Effect
}

// hear has what the command writes pass by.
func (t *testimony) hear(c *sandbox.Command) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.begun, t.out, t.err = true, proof.NewHash(), proof.NewHash()
	c.Stdout, c.Stderr = also(c.Stdout, t.out), also(c.Stderr, t.err)
}

// also returns a writer that has what is written to w in h as well.
func also(w io.Writer, h *proof.Hash) io.Writer {
	if w == nil {
		return h
	}
	return io.MultiWriter(w, h)
}

// saw notes how the command ended, all of whose output has been delivered.
func (t *testimony) saw(program string, exit sandbox.Exit) {
	if t == nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.effect = &proof.Effect{Kind: grant.EffectProcess, Program: program, ExitCode: &exit.Code, BytesIn: t.out.Digest().Size + t.err.Digest().Size, Digest: t.err.Digest()}
}

// end is what is to be said of the end; err is that of the call.
func (t *testimony) end(err error) proof.End {
	t.mu.Lock()
	defer t.mu.Unlock()
	v := grant.Audit(err)
	e := proof.End{Status: statusOf(err, t.begun), Code: v.Code, Rule: v.Rule, Detail: v.Message, Resource: v.Resource}
	if t.effect != nil {
		e.Outputs, e.Effects = t.out.Digest(), []proof.Effect{*t.effect}
	}
	return e
}
