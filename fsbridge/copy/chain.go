package copy

import (
	"context"
	"errors"
	"io"
	"sync"
)

// errDownstream is what a step gets whose reader has ended.
var errDownstream = errors.New("the next step has ended")

// An upstreamError is what a step reads when the one before it has failed.
type upstreamError struct{ error }

func (e upstreamError) Unwrap() error { return e.error }

// A reason keeps the first error that is not the consequence of another.
type reason struct {
	mu      sync.Mutex
	err     error
	settled bool // the last step has ended: what fails now follows from that
}

// add returns what the next step should read as the end of its input.
func (r *reason) add(err error) error {
	var above upstreamError
	if err == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.err == nil && !r.settled && !errors.Is(err, errDownstream) && !errors.As(err, &above) {
		r.err = err
	}
	return upstreamError{err}
}

// settle takes the error of the last step.
func (r *reason) settle(err error) {
	r.add(err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settled = true
}

// chain runs three steps that are joined by pipes. It returns when all have
// ended, with the error of the one that failed first. The failure of one ends
// the others.
func chain(ctx context.Context, produce func(context.Context, io.Writer) error, filter func(io.Reader, io.Writer) error, consume func(context.Context, io.Reader) error) error {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	var why reason
	var steps sync.WaitGroup
	raw, rawIn := io.Pipe()
	clean, cleanIn := io.Pipe()
	steps.Go(func() {
		rawIn.CloseWithError(why.add(produce(inner, rawIn)))
	})
	steps.Go(func() {
		cleanIn.CloseWithError(why.add(filter(raw, cleanIn)))
		raw.CloseWithError(errDownstream)
	})
	why.settle(consume(inner, clean))
	cancel()
	clean.CloseWithError(errDownstream)
	steps.Wait()
	if why.err == nil {
		return ctx.Err() // a stream that was cut short may look complete
	}
	return why.err
}
