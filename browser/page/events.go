package page

import (
	"strings"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/cdp/jsonv2"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/target"
	"github.com/chromedp/chromedp"
)

// read decodes an event; what does not decode is as if it had not come.
func read[E any](m *cdproto.Message, _ cdp.Event[E]) (E, bool) {
	var e E
	err := jsonv2.Unmarshal(m.Params, &e, chromedp.DefaultUnmarshalOptions)
	return e, err == nil
}

// maxID is the longest name of something in the browser, in bytes.
const maxID = 256

// slim is what a decision about a request needs of it: events wait for theirs
// in numbers, and none may be as large as the browser likes. Without a name
// that fits it is none that the browser waits for.
func slim(e fetch.EventRequestPaused) (fetch.EventRequestPaused, bool) {
	out := fetch.EventRequestPaused{
		RequestID: e.RequestID, FrameID: e.FrameID, ResourceType: e.ResourceType, RedirectedRequestID: e.RedirectedRequestID, NetworkID: e.NetworkID,
		Request: &network.Request{URL: kept(e.Request.URL, maxAsked), Method: kept(e.Request.Method, maxID), Headers: network.Headers{}},
	}
	for name, value := range e.Request.Headers {
		if referrer, ok := value.(string); ok && strings.EqualFold(name, "Referer") {
			out.Request.Headers["Referer"] = kept(referrer, maxAsked)
		}
	}
	return out, max(len(e.RequestID), len(e.FrameID), len(e.ResourceType), len(e.RedirectedRequestID), len(e.NetworkID)) <= maxID
}

// maxAsked is how much of an address is judged, in bytes. What is longer is
// too long for package visit as well.
const maxAsked = 17 << 10

// named reports whether a target has names that can be kept.
func named(e target.EventAttachedToTarget) bool {
	return e.SessionID != "" && max(len(e.SessionID), len(e.TargetInfo.TargetID), len(e.TargetInfo.Type)) <= maxID
}

// kept is the beginning of text of which nothing else stays in memory.
func kept(text string, n int) string { return strings.Clone(cut(text, n)) }

// heard takes an event of the page, or of one of its children. It runs in the
// order of the events and waits for nothing.
func (t *tab) heard(from target.SessionID, m *cdproto.Message) {
	switch string(m.Method) {
	case fetch.RequestPaused.Method:
		if e, ok := read(m, fetch.RequestPaused); ok && e.Request != nil {
			if e, ok = slim(e); ok {
				t.later(func() { t.judge(from, e) })
			}
		}
	case fetch.AuthRequired.Method:
		if e, ok := read(m, fetch.AuthRequired); ok && len(e.RequestID) <= maxID {
			t.later(func() { t.refuseAuth(from, e.RequestID) })
		}
	case page.JavascriptDialogOpening.Method:
		if e, ok := read(m, page.JavascriptDialogOpening); ok {
			t.later(func() { t.answerDialog(from, e.Type == page.DialogTypeBeforeunload) })
		}
	case target.AttachedToTarget.Method:
		if e, ok := read(m, target.AttachedToTarget); ok && e.TargetInfo != nil && named(e) {
			t.adopt(e)
		}
	case target.DetachedFromTarget.Method:
		if e, ok := read(m, target.DetachedFromTarget); ok {
			t.orphan(e.SessionID)
		}
	case network.DataReceived.Method:
		if e, ok := read(m, network.DataReceived); ok {
			t.received(max(e.DataLength, e.EncodedDataLength))
		}
	case inspector.TargetCrashed.Method:
		if t.childType(from) == "page" {
			t.end(crashed())
		}
	default:
		if t.childType(from) == "page" {
			t.heardOfMain(m)
		}
	}
}

// heardOfMain takes events that tell of the main document.
func (t *tab) heardOfMain(m *cdproto.Message) {
	switch string(m.Method) {
	case page.FrameNavigated.Method:
		if e, ok := read(m, page.FrameNavigated); ok && e.Frame != nil && e.Frame.ParentID == "" {
			t.committed(e.Frame)
		}
	case page.FrameRequestedNavigation.Method:
		if e, ok := read(m, page.FrameRequestedNavigation); ok {
			t.requested(e)
		}
	case network.LoadingFailed.Method:
		if e, ok := read(m, network.LoadingFailed); ok && e.Type == network.ResourceTypeDocument && len(e.RequestID) <= maxID {
			t.set(func(s *state) { s.failed = cdp.LoaderID(e.RequestID) })
		}
	case page.NavigatedWithinDocument.Method:
		if e, ok := read(m, page.NavigatedWithinDocument); ok && string(e.FrameID) == string(t.id) {
			t.set(func(s *state) { s.url, s.within = kept(e.URL, maxURL), s.within+1 })
		}
	case page.LifecycleEvent.Method:
		if e, ok := read(m, page.LifecycleEvent); ok && e.Name == "load" && string(e.FrameID) == string(t.id) {
			t.set(func(s *state) { s.loaded = s.loaded || s.loader == e.LoaderID })
		}
	case network.ResponseReceived.Method:
		if e, ok := read(m, network.ResponseReceived); ok && e.Response != nil && string(e.RequestID) == string(e.LoaderID) && string(e.FrameID) == string(t.id) {
			rule := ruleOf(e.Response.Headers)
			mime := kept(e.Response.MimeType, maxID)
			t.set(func(s *state) { s.status, s.mime, s.answer, s.rule = e.Response.Status, mime, e.LoaderID, rule })
		}
	}
}

// committed notes that the main frame shows another document. One that comes
// by no request, so that it was not judged, is judged now.
func (t *tab) committed(f *cdp.Frame) {
	known := false
	t.set(func(s *state) {
		known = s.takes(f.LoaderID)
		s.url, s.loader, s.loaded = kept(f.URL+f.URLFragment, maxURL), f.LoaderID, false
		s.local = s.mine && ofWorkspace(f.URL)
	})
	scheme, _, _ := strings.Cut(f.URL, ":")
	switch scheme {
	case "about", "chrome-error":
		return
	case "http", "https":
		if t.session.rights.Visit != nil && !known {
			address := kept(f.URL, maxAsked)
			t.later(func() { t.unasked(address) })
		}
		return
	case "data":
		t.set(func(s *state) { known = s.takes(dataLoader) })
		if address := kept(f.URL, maxAsked); t.session.rights.Visit != nil && !known {
			t.later(func() { t.unasked(address) })
			return
		}
	}
	if _, err := t.session.rules.Hop(f.URL); err != nil {
		t.refuse(err)
		t.later(t.leave)
	}
}

// received counts what was received for the page, and ends it beyond the limit.
func (t *tab) received(n int64) {
	if n <= 0 {
		return
	}
	t.session.told(n)
	over := false
	limit := t.session.settings.Limits.PageBytes
	t.mu.Lock()
	t.state.bytes += n
	over = t.state.bytes > limit
	t.mu.Unlock()
	if over {
		t.end(beyond("pageBytes", "the page is larger than "+count(limit)+" bytes and was closed"))
		t.session.discard(t)
	}
}

// refuse notes why a main document is not loaded; the first reason counts.
func (t *tab) refuse(why error) {
	t.set(func(s *state) {
		if s.refusal == nil {
			s.refusal = why
		}
		s.latest, s.refusals = why, s.refusals+1
	})
}
