// This file carries out the browser operations of a call: one session for the
// call, opened with its first page. Every document of the main frame is checked
// against the profile before it is requested, and every byte counts against the
// budget when it arrives.

package operation

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/grant"
)

// browseOpen opens a session with these rights, all of which it has to heed.
// The context bounds the opening alone.
type browseOpen func(ctx context.Context, r browser.Rights) (browser.Session, error)

// A browseExecutor does the operations of one call; another call has another.
// Its operations take turns. The session is opened by the first page and stays
// for what follows; one that was lost, or ended by a limit, is followed by a
// new one with the next page.
type browseExecutor struct {
	open browseOpen
	life context.Context // of the grant
	end  context.CancelCauseFunc
	stop func() bool
	once sync.Once
	turn chan struct{} // holds one value while no operation runs
	work sync.WaitGroup

	received atomic.Int64  // and not counted yet
	wake     chan struct{} // there is more received

	mu      sync.Mutex
	session browser.Session // nil while none is open
	call    *Call           // of the last operation
	running bool
	early   []evidence.Effect // of pages that went on while nothing ran
	pages   int
	host    string // of the page, with port; empty for files
	file    string // that the page is; empty for hosts
}

var _ Executor = (*browseExecutor)(nil)

// NewBrowseExecutor returns an Executor whose session ends with life, which is
// that of the grant: when it is revoked or expires, whatever runs ends, and so
// does the page. Close must be called.
func NewBrowseExecutor(life context.Context, open browseOpen) *browseExecutor {
	e := &browseExecutor{open: open, turn: make(chan struct{}, 1), wake: make(chan struct{}, 1)}
	e.life, e.end = context.WithCancelCause(life)
	e.turn <- struct{}{}
	e.stop = context.AfterFunc(e.life, e.drop)
	return e
}

// Pages is how many pages the call has opened, with those that clicks and
// pages themselves have led to: what [grant.State].Depth is.
func (e *browseExecutor) Pages() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.pages
}

// Close ends the session, also under an operation that runs, and waits for it.
func (e *browseExecutor) Close() error {
	e.once.Do(func() {
		e.stop()
		e.end(&sandbox.Error{Code: sandbox.CodeUnavailable, Op: browseOp, Message: "the call has ended"})
		e.drop()
		<-e.turn // kept: no operation begins any more
		e.drop()
	})
	e.work.Wait()
	return nil
}

// drop ends the session without waiting for it.
func (e *browseExecutor) drop() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.session; s != nil {
		e.session, e.host = nil, ""
		e.work.Go(func() { _ = s.Close() }) // which forgets it in any case
	}
}

// Execute implements [operation.Executor].
func (e *browseExecutor) Execute(ctx context.Context, c *Call, v grant.Vetted) (Output, error) {
	if v.Domain != grant.DomainBrowser {
		return Output{}, sandbox.Errorf(sandbox.CodeInternal, browseOp, "%s is nothing that a browser does", v.Kind)
	}
	ctx, cancel := e.bound(ctx, v)
	defer cancel(nil)
	select {
	case <-e.turn:
	case <-ctx.Done():
		return Output{}, browseEnded(ctx)
	}
	defer func() { e.turn <- struct{}{} }()
	if ctx.Err() != nil {
		return Output{}, browseEnded(ctx)
	}
	e.begin(c)
	defer e.done()
	r := &browseRun{e: e, c: c, v: v, cancel: cancel}
	settle := r.count(ctx)
	out, err := r.do(ctx)
	if over := settle(); over != nil {
		err = over
		e.drop() // what goes on loading would go on costing
	}
	if err != nil {
		err = e.explain(ctx, err)
		if gone(err) {
			e.drop()
		}
	}
	return out, err
}

// bound is the context of one operation: it ends with the grant's, and with the
// operation's own time.
func (e *browseExecutor) bound(ctx context.Context, v grant.Vetted) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(e.life, func() { cancel(context.Cause(e.life)) })
	free := func() {}
	if v.Timeout > 0 && v.Kind != grant.OpBrowserWait { // which waits for so long
		ctx, free = context.WithTimeoutCause(ctx, v.Timeout, browseLate())
	}
	return ctx, func(why error) {
		cancel(why)
		stop()
		free()
	}
}

// begin makes c the call whose profile applies to pages, and accounts for what
// they did while no operation ran.
func (e *browseExecutor) begin(c *Call) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, effect := range e.early {
		c.Effect(effect)
	}
	e.call, e.running, e.early = c, true, nil
}

func (e *browseExecutor) done() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running = false
}

// effect notes what a page did, for the operation that runs or the next.
func (e *browseExecutor) effect(f evidence.Effect) {
	e.mu.Lock()
	defer e.mu.Unlock()
	switch {
	case e.running:
		e.call.Effect(f)
	case len(e.early) < evidence.MaxEffects:
		e.early = append(e.early, f)
	}
}

// page returns the session that is open.
func (e *browseExecutor) page() (browser.Session, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.session == nil {
		return nil, &sandbox.Error{Code: sandbox.CodeNotFound, Op: browseOp, Message: "no page is open", Hint: "open one in the same call first"}
	}
	return e.session, nil
}

// ensure returns the session, and opens it when there is none. It waits no
// longer than the operation lasts: making the container of a browser takes
// seconds, and a session that is ready too late is closed.
func (e *browseExecutor) ensure(ctx context.Context, c *Call) (browser.Session, error) {
	if s, err := e.page(); err == nil {
		return s, nil
	}
	rights := browser.Rights{Write: writes(c.Guard.Profile()), Visit: e.visit, Read: e.read, Received: e.receive, Transfer: e.transfer}
	came := make(chan opened, 1)
	e.work.Go(func() {
		s, err := e.open(ctx, rights)
		came <- opened{s, err}
	})
	var o opened
	select {
	case o = <-came:
	case <-ctx.Done():
		e.work.Go(func() {
			if o := <-came; o.err == nil {
				_ = o.session.Close()
			}
		})
		return nil, browseEnded(ctx)
	}
	if o.err != nil {
		return nil, o.err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.life.Err() != nil { // nothing would close it later
		e.work.Go(func() { _ = o.session.Close() })
		return nil, context.Cause(e.life)
	}
	e.session = o.session
	return o.session, nil
}

// opened is what became of opening a session.
type opened struct {
	session browser.Session
	err     error
}

// writes reports whether a profile has an action that changes something.
func writes(p grant.Profile) bool {
	return slices.ContainsFunc(p.Capabilities, func(c grant.Capability) bool {
		return c.Kind == grant.Browser && slices.ContainsFunc(c.Actions, func(a string) bool {
			return slices.Contains([]string{"click", "type", "upload", "download"}, a)
		})
	})
}

// gone reports whether an error means that the session is of no further use; an
// error about a named resource concerns only that resource.
func gone(err error) bool {
	var e *sandbox.Error
	return errors.As(err, &e) && e.Code == sandbox.CodeUnavailable && e.Resource == ""
}
