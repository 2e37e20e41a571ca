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

// read decodes an event; ok is false if it cannot be decoded, and the event is
// ignored then.
func read[E any](m *cdproto.Message, _ cdp.Event[E]) (E, bool) {
	var e E
	err := jsonv2.Unmarshal(m.Params, &e, chromedp.DefaultUnmarshalOptions)
	return e, err == nil
}

// maxID is the longest id of an object of the browser, in bytes.
const maxID = 256

// slim returns the parts of an event that a decision needs: many events can
// wait for a decision, so their size must be bounded. It returns false if an
// id does not fit: the browser does not wait for such an event.
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

// maxAsked is how much of a URL is judged, in bytes. The URL policy refuses
// longer ones as well.
const maxAsked = 17 << 10

// named reports whether the ids of a target are within maxID.
func named(e target.EventAttachedToTarget) bool {
	return e.SessionID != "" && max(len(e.SessionID), len(e.TargetInfo.TargetID), len(e.TargetInfo.Type)) <= maxID
}

// kept returns a copy of the beginning of text, so that the rest can be freed.
func kept(text string, n int) string { return strings.Clone(cut(text, n)) }

// heard handles an event of the page, or of one of its children. Events are
// handled in order, and heard does not block.
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

// heardOfMain handles events of the main document.
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

// committed notes that the main frame shows another document. A document that
// was not requested, and so not judged, is judged now.
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

// received counts bytes received for the page, and ends the page beyond the
// limit.
func (t *tab) received(n int64) {
	if n <= 0 {
		return
	}
	t.session.reported(n)
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

// refuse notes why a main document is not loaded; only the first reason is
// kept.
func (t *tab) refuse(why error) {
	t.set(func(s *state) {
		if s.refusal == nil {
			s.refusal = why
		}
		s.latest, s.refusals = why, s.refusals+1
	})
}
