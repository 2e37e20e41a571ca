package operation

import (
	"context"
	"io"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
)

// A browseRun is one operation.
type browseRun struct {
	e      *browseExecutor
	c      *Call
	v      grant.Vetted
	cancel context.CancelCauseFunc

	mu   sync.Mutex
	in   int64 // bytes received
	over error // why no more may be received
}

// count counts what pages receive until the returned function is called, which
// returns the error of an exceeded budget; the operation was stopped in that
// case.
func (r *browseRun) count(ctx context.Context) (settle func() error) {
	r.take(r.e.received.Swap(0), false)
	end, gone := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(gone)
		for {
			select {
			case <-r.e.wake:
				r.take(r.e.received.Swap(0), true)
			case <-end:
				return
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() error {
		close(end)
		<-gone
		r.take(r.e.received.Swap(0), true)
		r.mu.Lock()
		defer r.mu.Unlock()
		return r.over
	}
}

// take counts n received bytes, as far as the budget has them, and stops the
// operation when they are too many. Bytes received before the operation began
// do not count against its limit.
func (r *browseRun) take(n int64, mine bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if mine {
		r.in += n
	}
	most := r.c.Guard.Profile().Limits.MaxBytesIn
	err := spend(r.c.Meter.Writer(budget.BytesIn, io.Discard), n)
	if err == nil && r.in > most {
		err = browseTooLarge("maxBytesIn", "received", most)
	}
	if err != nil && r.over == nil {
		r.over = err
		r.cancel(err)
	}
}

// spend has w count n bytes.
func spend(w io.Writer, n int64) error {
	nothing := make([]byte, min(n, 64<<10))
	for n > 0 {
		m, err := w.Write(nothing[:min(n, int64(len(nothing)))])
		if err != nil {
			return err
		}
		n -= int64(m)
	}
	return nil
}

// receive counts what is handed back. It is never more than may come in at once.
func (r *browseRun) receive(data []byte) error {
	most := r.c.Guard.Profile().Limits.MaxBytesIn
	if int64(len(data)) > most {
		return browseTooLarge("maxBytesIn", "received", most)
	}
	return r.c.Meter.Add(budget.BytesIn, int64(len(data)))
}

// whole hands back something of which a part is of no use: all of it where so
// much is kept, and otherwise the digest alone.
func (r *browseRun) whole(data []byte, mime string) (Output, error) {
	if err := r.receive(data); err != nil {
		return Output{}, err
	}
	out := Output{Type: mime, Digest: evidence.DigestOf(data), Data: data}
	if int64(len(data)) > r.c.Keep {
		out.Data, out.Truncated = nil, true
	}
	return out, nil
}

// text hands back the beginning of a text.
func (r *browseRun) text(text string, more bool) (Output, error) {
	data := []byte(text)
	if err := r.receive(data); err != nil {
		return Output{}, err
	}
	out := Output{Type: "text/plain", Digest: evidence.DigestOf(data), Data: data, Truncated: more}
	if int64(len(data)) > r.c.Keep {
		out.Data, out.Truncated = data[:r.c.Keep], true
	}
	return out, nil
}

// do carries the operation out.
func (r *browseRun) do(ctx context.Context) (Output, error) {
	if r.v.Kind == grant.OpBrowserNav {
		return r.navigate(ctx)
	}
	s, err := r.e.page()
	if err != nil {
		return Output{}, err
	}
	switch r.v.Kind {
	case grant.OpBrowserScreenshot, grant.OpBrowserExtract, grant.OpBrowserPDF, grant.OpBrowserWait:
		return r.look(ctx, s)
	case grant.OpBrowserClick, grant.OpBrowserType, grant.OpBrowserUpload, grant.OpBrowserDownload:
		return r.touch(ctx, s)
	}
	return Output{}, sandbox.Errorf(sandbox.CodeInternal, browseOp, "%s is nothing that a browser does", r.v.Kind)
}
