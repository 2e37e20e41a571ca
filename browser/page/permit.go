package page

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// maxPermits is how many answers of the caller are awaited at a time, and how
// many documents that were let load may not have come yet.
const maxPermits = 4

// dataLoader stands for the loader of a data: address that we open: it is not
// known before it is there, and no request is made.
const dataLoader = cdp.LoaderID("data:")

// permit has the caller decide about a document that the main frame is to
// load. Who does not answer before ctx ends, or panics, has refused.
func (s *session) permit(ctx context.Context, a network.Address, hop int) error {
	if s.rights.Visit == nil {
		return nil
	}
	late := func() error {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "browse", Message: "nobody has decided in time whether the page may be opened", Retryable: true}
	}
	select {
	case s.permits <- struct{}{}:
	case <-ctx.Done():
		return late()
	}
	answer := make(chan error, 1)
	go func() {
		defer func() { <-s.permits }()
		answer <- askVisit(ctx, s.rights.Visit, spelled(a), hop)
	}()
	select {
	case err := <-answer:
		return err
	case <-ctx.Done():
		return late()
	}
}

// askVisit calls the caller's function. Whatever it does is an answer.
func askVisit(ctx context.Context, ask func(context.Context, string, int) error, address string, hop int) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &sandbox.Error{Code: sandbox.CodeInternal, Op: "browse", Message: "who decides about pages has failed", Err: fmt.Errorf("panic: %v", p)}
		}
	}()
	err = ask(ctx, address, hop)
	if known := (*sandbox.Error)(nil); err == nil || errors.As(err, &known) {
		return err
	}
	return &sandbox.Error{Code: sandbox.CodeInternal, Op: "browse", Message: "nobody can tell whether the page may be opened", Err: err}
}

// mayRead has the caller decide about a file of the workspace that a page is to
// have.
func (s *session) mayRead(ctx context.Context, file string) error {
	if s.rights.Read == nil {
		return nil
	}
	return askVisit(ctx, func(ctx context.Context, file string, _ int) error { return s.rights.Read(ctx, file) }, file, 0)
}

// spelled is an address as callers write it: the one spelling of package visit.
func spelled(a network.Address) string {
	if a.Kind == network.Workspace {
		return "workspace:" + a.File
	}
	return a.URL
}

// permitMain has the caller decide about a request for the main document, and
// notes that it may come.
func (t *tab) permitMain(e fetch.EventRequestPaused, a network.Address) error {
	ctx, cancel := t.brief()
	defer cancel()
	hop := 0
	if e.RedirectedRequestID != "" {
		hop = len(t.look().redirects)
	}
	err := t.session.permit(ctx, a, hop)
	t.set(func(s *state) {
		s.local = err == nil && a.Kind == network.Workspace
		if err == nil {
			s.expect(cdp.LoaderID(e.NetworkID))
		}
	})
	return err
}

// expect notes that a document was let load.
func (s *state) expect(id cdp.LoaderID) {
	if len(s.permitted) >= maxPermits {
		s.permitted = s.permitted[1:]
	}
	s.permitted = append(slices.Clip(s.permitted), id)
}

// takes reports whether a document was let load, for the one time that it may
// come.
func (s *state) takes(id cdp.LoaderID) bool {
	i := slices.Index(s.permitted, id)
	if i < 0 {
		return false
	}
	s.permitted = slices.Delete(slices.Clone(s.permitted), i, i+1)
	return true
}

// unasked decides about a document that is there without a request: one that
// the browser had kept, as it does for the way back. A page that may not stay
// is left.
func (t *tab) unasked(address string) {
	ctx, cancel := t.brief()
	defer cancel()
	a, err := t.session.rules.Hop(address)
	if err == nil {
		err = t.countOpened()
	}
	if err == nil {
		err = t.session.permit(ctx, a, 0)
	}
	if err != nil {
		t.refuse(err)
		t.leave()
	}
}

// countOpened counts a page that the session has opened, or says that it is
// one too many.
func (t *tab) countOpened() error {
	most := int64(t.session.settings.Limits.Navigations)
	if t.session.visits.Add(1) > most {
		t.session.visits.Add(-1)
		return beyond("navigations", "the session has opened "+count(most)+" pages")
	}
	return nil
}

// requested takes the event that a frame wants to go elsewhere. The page sends
// it before it says that an input was dealt with.
func (t *tab) requested(e page.EventFrameRequestedNavigation) {
	if string(e.FrameID) == string(t.id) && e.Disposition == page.ClientNavigationDispositionCurrentTab && (strings.HasPrefix(e.URL, "http:") || strings.HasPrefix(e.URL, "https:")) {
		t.set(func(s *state) { s.requests++ })
	}
}

// lead does what may lead to another page. Where the caller decides about
// pages, it waits until the one that it leads to has answered or was refused,
// and a refusal is what it comes to. What takes longer, or begins later by
// itself, is decided all the same, and the next wait tells of it.
func (t *tab) lead(ctx context.Context, do func() error) error {
	if t.session.rights.Visit == nil {
		return do()
	}
	before := t.look()
	if err := do(); err != nil {
		return err
	}
	within, cancel := context.WithTimeout(ctx, 2*cleanTime) // the caller may take cleanTime to decide
	defer cancel()
	// What the input has set off is done when a task behind it is.
	if world, err := t.world(within); err == nil {
		_, _ = call(within, t, runtime.Evaluate, runtime.EvaluateParams{
			Expression: "new Promise(r => setTimeout(r, 0))", ContextID: world, AwaitPromise: new(true), Silent: new(true),
		})
	}
	err := t.watch(within, func(s state) bool {
		return s.refusals > before.refusals || s.requests == before.requests && s.loader == before.loader && s.asks == before.asks ||
			s.answer != before.answer || s.loader != before.loader || s.failed != before.failed || s.within != before.within
	})
	now := t.look()
	switch {
	case now.refusals > before.refusals:
		return now.latest
	case err != nil && within.Err() != nil && ctx.Err() == nil:
		return nil
	}
	return err
}

// told passes on how much was received, to who counts it.
func (s *session) told(n int64) {
	if s.rights.Received != nil {
		s.rights.Received(n)
	}
}

// transfer has the caller decide about a file that comes or goes.
func (s *session) transfer(ctx context.Context, f browser.Transfer) error {
	if s.rights.Transfer == nil {
		return nil
	}
	return s.rights.Transfer(ctx, f)
}
