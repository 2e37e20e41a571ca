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

// maxPermits bounds the concurrent calls of the caller's functions, and the
// permitted documents that have not been loaded yet.
const maxPermits = 4

// dataLoader is used in place of the loader id of a data: address: the id is
// not known before the document is loaded, and no request is sent.
const dataLoader = cdp.LoaderID("data:")

// permit has the caller decide about a document that the main frame is to
// load. No answer before ctx ends, and a panic, count as a refusal.
func (s *session) permit(ctx context.Context, a network.Address, hop int) error {
	if s.rights.Visit == nil {
		return nil
	}
	late := func() error {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "browse", Message: "no decision came in time whether the page may be opened", Retryable: true}
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

// askVisit calls the caller's function and converts a panic to a refusal.
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
	return &sandbox.Error{Code: sandbox.CodeInternal, Op: "browse", Message: "it is not known whether the page may be opened", Err: err}
}

// mayRead has the caller decide about a workspace file that a page requests.
func (s *session) mayRead(ctx context.Context, file string) error {
	if s.rights.Read == nil {
		return nil
	}
	return askVisit(ctx, func(ctx context.Context, file string, _ int) error { return s.rights.Read(ctx, file) }, file, 0)
}

// spelled returns an address in the callers' spelling: that of the URL policy.
func spelled(a network.Address) string {
	if a.Kind == network.Workspace {
		return "workspace:" + a.File
	}
	return a.URL
}

// permitMain has the caller decide about a request for the main document, and
// notes that the document may be loaded.
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

// expect notes that a document was permitted.
func (s *state) expect(id cdp.LoaderID) {
	if len(s.permitted) >= maxPermits {
		s.permitted = s.permitted[1:]
	}
	s.permitted = append(slices.Clip(s.permitted), id)
}

// takes reports whether a document was permitted, and uses up the permission.
func (s *state) takes(id cdp.LoaderID) bool {
	i := slices.Index(s.permitted, id)
	if i < 0 {
		return false
	}
	s.permitted = slices.Delete(slices.Clone(s.permitted), i, i+1)
	return true
}

// unasked decides about a document that was loaded without a request, from the
// browser's history cache. If it is refused, the page is left.
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

// countOpened counts a page that the session has opened, or returns the error
// of the exceeded limit.
func (t *tab) countOpened() error {
	most := int64(t.session.settings.Limits.Navigations)
	if t.session.visits.Add(1) > most {
		t.session.visits.Add(-1)
		return beyond("navigations", "the session has opened "+count(most)+" pages")
	}
	return nil
}

// requested handles the event that a frame is about to navigate. The browser
// sends it before it reports that an input event was handled.
func (t *tab) requested(e page.EventFrameRequestedNavigation) {
	if string(e.FrameID) == string(t.id) && e.Disposition == page.ClientNavigationDispositionCurrentTab && (strings.HasPrefix(e.URL, "http:") || strings.HasPrefix(e.URL, "https:")) {
		t.set(func(s *state) { s.requests++ })
	}
}

// lead runs an action that may navigate to another page. If the caller decides
// about pages, lead waits until the new page has answered or was refused, and
// returns a refusal. A navigation that takes longer, or starts later by
// itself, is still judged, and the next wait returns its refusal.
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
	// The effects of the input are done once a task queued after it has run.
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

// The caller's Received gets the number of received bytes.
func (s *session) reported(n int64) {
	if s.rights.Received != nil {
		s.rights.Received(n)
	}
}

// transfer has the caller decide about an upload or a download.
func (s *session) transfer(ctx context.Context, f browser.Transfer) error {
	if s.rights.Transfer == nil {
		return nil
	}
	return s.rights.Transfer(ctx, f)
}
