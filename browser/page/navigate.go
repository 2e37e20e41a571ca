package page

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	policynetwork "github.com/bulkhead-dev/sandbox/policy/network"
)

// maxURL is the longest URL that is returned to callers, in bytes.
const maxURL = 8 << 10

// Navigate implements [browser.Reader].
func (s *session) Navigate(ctx context.Context, address string) (browser.Page, error) {
	a, err := s.rules.Judge(address)
	if err != nil {
		return browser.Page{}, err
	}
	if a.Kind == policynetwork.Workspace {
		if err := s.checkFile(ctx, a.File); err != nil {
			return browser.Page{}, err
		}
	}
	var out browser.Page
	// Allow some time beyond that of the page, to stop it and to return what
	// was loaded.
	err = s.actOn(ctx, s.settings.Limits.Navigation+cleanTime, s.anyPage, func(ctx context.Context, t *tab) error {
		if s.visits.Load() >= int64(s.settings.Limits.Navigations) {
			return beyond("navigations", "the session has opened "+count(s.settings.Limits.Navigations)+" pages")
		}
		var err error
		out, err = t.navigate(ctx, a)
		return err
	})
	return out, err
}

// checkFile returns an error for a workspace file that cannot be opened,
// before the browser requests it.
func (s *session) checkFile(ctx context.Context, file string) error {
	place, err := s.container.Workspace(ctx)
	if err != nil {
		return err
	}
	f, size, err := openPlain(place.Dir, file)
	if err != nil {
		return err
	}
	f.Close()
	if limit := s.settings.Limits.PageBytes; size > limit {
		return beyond("pageBytes", "the file "+shown(file)+" is larger than "+count(limit)+" bytes")
	}
	return nil
}

// navigate opens an address that was judged.
func (t *tab) navigate(ctx context.Context, a policynetwork.Address) (browser.Page, error) {
	limit := t.session.settings.Limits.Navigation
	loading, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t.set(func(s *state) {
		s.refusal, s.expected, s.mine = nil, a.File, a.Kind == policynetwork.Workspace
		s.local = s.local && s.mine
	})
	defer t.set(func(s *state) { s.expected = "" })
	if a.Kind == policynetwork.Data { // no request is sent
		if err := t.session.permit(loading, a, 0); err != nil {
			return browser.Page{}, err
		}
		t.set(func(s *state) { s.expect(dataLoader) })
	}
	before := t.look().loader
	done, err := call(loading, t, page.Navigate, page.NavigateParams{URL: a.URL})
	if err == nil && done.ErrorText == "" && done.LoaderID != "" {
		err = t.watch(loading, func(s state) bool {
			return s.refusal != nil || s.loader != before && s.loaded
		})
	}
	now := t.look()
	switch {
	case now.refusal != nil:
		return browser.Page{}, now.refusal
	case err == nil && done.IsDownload:
		return browser.Page{}, blocked(a.URL, "the address is a download and no page", "")
	case err == nil && done.ErrorText != "":
		return browser.Page{}, notLoaded(a.URL, done.ErrorText)
	case err != nil && loading.Err() != nil && ctx.Err() == nil:
		return browser.Page{}, t.abandon(ctx, limit)
	case err != nil:
		return browser.Page{}, err
	}
	title, err := t.title(ctx)
	now = t.look()
	switch {
	case now.refusal != nil: // the page navigated on by itself
		return browser.Page{}, now.refusal
	case err != nil:
		return browser.Page{}, err
	}
	out := browser.Page{URL: spoken(now.url), Title: title, Bytes: now.bytes}
	if now.answer == now.loader {
		out.Status, out.MIME = now.status, now.mime
		if now.rule != "" && !t.session.settings.Direct {
			return browser.Page{}, turnedBack(out, now.rule)
		}
	}
	for _, r := range now.redirects {
		out.Redirects = append(out.Redirects, spoken(r))
	}
	return out, nil
}

// ruleOf returns the rule named by an answer of the egress proxy. A host could
// name one too, and would only have its own pages refused.
func ruleOf(h network.Headers) string {
	for name, value := range h {
		if text, ok := value.(string); ok && strings.EqualFold(name, "X-Sandbox-Rule") {
			return shown(text)
		}
	}
	return ""
}

// turnedBack is the error for a page in whose place the egress proxy has
// answered.
func turnedBack(p browser.Page, rule string) error {
	e := &sandbox.Error{
		Code: sandbox.CodeUnavailable, Op: "browse", Resource: shown(p.URL), Retryable: true,
		Message: "the way out cannot reach the host (" + rule + ")", Hint: "see what `sandbox evidence list` says of it",
	}
	switch p.Status {
	case http.StatusForbidden:
		e.Code, e.Retryable, e.Message = sandbox.CodeCapabilityBlocked, false, "the way out does not let the page be reached ("+rule+")"
	case http.StatusTooManyRequests:
		e.Code, e.Retryable, e.Message = sandbox.CodeBudgetExceeded, false, "the sandbox has used up what it may use of the network ("+rule+")"
	}
	return e
}

// abandon stops a page that takes too long, and closes it if it cannot be
// stopped.
func (t *tab) abandon(ctx context.Context, limit time.Duration) error {
	if _, err := call(ctx, t, page.StopLoading, cdp.Empty{}); err != nil {
		t.end(stuck())
	}
	return &sandbox.Error{
		Code: sandbox.CodeTimeout, Op: "browse", Message: "the page has not loaded within " + limit.String(),
		Hint: "browser.limits.navigation sets it", Retryable: true,
	}
}

// notLoaded converts the browser's reason for not opening an address.
func notLoaded(address, text string) error {
	e := &sandbox.Error{Code: sandbox.CodeExecution, Op: "browse", Resource: shown(address), Message: "the page cannot be loaded: " + shown(text)}
	for _, way := range []string{"ERR_TUNNEL_CONNECTION_FAILED", "ERR_PROXY_CONNECTION_FAILED"} {
		if strings.Contains(text, way) {
			e.Code = sandbox.CodeCapabilityBlocked
			e.Message = "the way out does not let the page be reached: " + shown(text)
			e.Hint = "have network.allowedDomains name the host, if it exists and its address is public"
		}
	}
	for _, rule := range []string{"ERR_BLOCKED_BY_ADMINISTRATOR", "ERR_BLOCKED_BY_CLIENT"} {
		if strings.Contains(text, rule) {
			e.Code = sandbox.CodeCapabilityBlocked
			e.Message = "the rules of the browser forbid the page: " + shown(text)
		}
	}
	return e
}

// spoken returns an address in the callers' spelling: workspace files are
// named by their workspace path.
func spoken(address string) string {
	if ofWorkspace(address) {
		if file, err := policynetwork.FileOf(address); err == nil {
			return "workspace:" + file
		}
	}
	return cut(address, maxURL)
}

// Wait implements [browser.Reader]. It returns early if a page is refused
// meanwhile.
func (s *session) Wait(ctx context.Context, c browser.Condition) error {
	given := 0
	for _, text := range []string{c.Visible, c.Gone, c.Text} {
		if text != "" {
			given++
		}
	}
	if given != 1 {
		return invalid("condition", "exactly one of visible, gone and text is needed")
	}
	most := c.Timeout
	if most <= 0 || most > maxWait {
		most = s.settings.Limits.Navigation
	}
	return s.act(ctx, most+cleanTime, func(ctx context.Context, t *tab) error {
		within, cancel := context.WithTimeout(ctx, most)
		defer cancel()
		return t.await(within, ctx, c)
	})
}

// Bounds of waiting.
const (
	maxWait   = 10 * time.Minute
	pollEvery = 50 * time.Millisecond
)

// await polls, because the page could suppress every notification of a change.
func (t *tab) await(ctx, whole context.Context, c browser.Condition) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		so, err := t.holds(ctx, c)
		if refusal := t.look().refusal; refusal != nil {
			return refusal
		}
		switch {
		case err == nil && so:
			return nil
		case sandbox.CodeOf(err) == sandbox.CodeValidation:
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if whole.Err() != nil {
				return whole.Err()
			}
			return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "wait", Message: "the page did not come to it in time"}
		case <-t.ctx.Done():
			return context.Cause(t.ctx)
		case <-t.session.wire.done:
			return lost(t.session.wire.reason())
		}
		if errors.Is(ctx.Err(), context.Canceled) {
			return ctx.Err()
		}
	}
}
