package page

import (
	"context"
	"strings"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/target"

	policynetwork "github.com/bulkhead-dev/sandbox/policy/network"
)

// judge decides about a paused request: a document of any frame, or a file of
// the workspace.
func (t *tab) judge(from target.SessionID, e fetch.EventRequestPaused) {
	line := t.lineOf(from)
	main := string(e.FrameID) == string(t.id) && e.ResourceType == network.ResourceTypeDocument
	address, err := t.session.rules.Hop(e.Request.URL)
	if err == nil && address.Kind == policynetwork.Workspace && !t.mayReadFiles(main, e, address.File) {
		err = blocked(policynetwork.WorkspaceHost, "a page that is no file of the workspace asks for one", "")
	}
	if err == nil && main {
		err = t.countMain(e)
	}
	if err == nil && main {
		err = t.permitMain(e, address)
	}
	ctx, cancel := t.brief() // independent of the time that the decision took
	defer cancel()
	if err != nil {
		if main {
			t.refuse(err)
		}
		fail(ctx, line, e.RequestID)
		return
	}
	if address.Kind == policynetwork.Workspace {
		t.serve(ctx, line, e, address.File)
		return
	}
	_, _ = cdp.Call(ctx, line, fetch.ContinueRequest, fetch.ContinueRequestParams{RequestID: e.RequestID})
}

// fail aborts a paused request.
func fail(ctx context.Context, line cdp.Session, id fetch.RequestID) {
	_, _ = cdp.Call(ctx, line, fetch.FailRequest, fetch.FailRequestParams{RequestID: id, ErrorReason: network.ErrorReasonBlockedByClient})
}

// countMain counts a document of the main frame, or returns the error of an
// exceeded limit.
func (t *tab) countMain(e fetch.EventRequestPaused) error {
	limits := t.session.settings.Limits
	var err error
	t.set(func(s *state) {
		switch {
		case e.RedirectedRequestID != "":
			s.pass()
			if len(s.redirects) > limits.Redirects {
				err = beyond("redirects", "the address redirects more than "+count(limits.Redirects)+" times")
			}
		case t.session.visits.Load() >= int64(limits.Navigations):
			err = beyond("navigations", "the session has opened "+count(limits.Navigations)+" pages")
		default:
			t.session.visits.Add(1)
			s.begin()
		}
		s.asked = e.Request.URL
		s.asks++
		s.local = s.local && err == nil
	})
	return err
}

// mayReadFiles reports whether a request for a workspace file is served: the
// request for the page being opened, and requests of pages that are files
// themselves. A page of the web cannot even find out whether there is a
// workspace.
func (t *tab) mayReadFiles(main bool, e fetch.EventRequestPaused, file string) bool {
	if e.Request.Method != "GET" && e.Request.Method != "HEAD" || e.RedirectedRequestID != "" {
		return false
	}
	s := t.look()
	if main && s.expected != "" && file == s.expected {
		return true
	}
	if !s.local {
		return false
	}
	if string(e.FrameID) == string(t.id) {
		return true
	}
	// Within a frame, the Referer that the browser sets names the requesting
	// document.
	for name, value := range e.Request.Headers {
		if referrer, ok := value.(string); ok && strings.EqualFold(name, "Referer") {
			return ofWorkspace(referrer)
		}
	}
	return false
}

// ofWorkspace reports whether an address is that of a workspace file.
func ofWorkspace(address string) bool {
	return strings.HasPrefix(address, policynetwork.WorkspaceOrigin+"/")
}
