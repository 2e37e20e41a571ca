package page

import (
	"context"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/inspector"
	"github.com/chromedp/cdproto/network"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"

	policynetwork "github.com/bulkhead-dev/sandbox/policy/network"
)

// A step is a command that a target is prepared with.
type step struct {
	method string
	params any
}

// steps are what guards a target of the given type before anything runs in it.
// Children wait until they are guarded too.
func steps(kind string) []step {
	nothing := new(int64(0))
	all := []step{{network.Enable.Method, network.EnableParams{MaxTotalBufferSize: nothing, MaxResourceBufferSize: nothing}}}
	attach := step{target.SetAutoAttach.Method, target.SetAutoAttachParams{AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true)}}
	if kind != "page" && kind != "iframe" {
		return append(all, attach)
	}
	all = append(all,
		step{fetch.Enable.Method, fetch.EnableParams{HandleAuthRequests: new(true), Patterns: []*fetch.RequestPattern{
			{URLPattern: "*", ResourceType: network.ResourceTypeDocument}, {URLPattern: policynetwork.WorkspaceOrigin + "/*"},
		}}},
		step{page.Enable.Method, page.EnableParams{}},
		step{network.SetBypassServiceWorker.Method, network.SetBypassServiceWorkerParams{Bypass: true}},
		step{page.SetInterceptFileChooserDialog.Method, page.SetInterceptFileChooserDialogParams{Enabled: true, Cancel: new(true)}},
		attach,
	)
	if kind == "page" {
		all = append(all,
			step{inspector.Enable.Method, cdp.Empty{}},
			step{page.SetPrerenderingAllowed.Method, page.SetPrerenderingAllowedParams{IsAllowed: false}},
			step{page.SetLifecycleEventsEnabled.Method, page.SetLifecycleEventsEnabledParams{Enabled: true}},
		)
	}
	return all
}

// prepare guards a target. No step needs another one done, so that all are
// under way at once.
func (t *tab) prepare(ctx context.Context, line cdp.Session, kind string) error {
	all := steps(kind)
	done := make(chan error, len(all))
	for _, s := range all {
		go func() { done <- line.Call(ctx, s.method, s.params, nil) }()
	}
	var first error
	for range all {
		if err := <-done; first == nil {
			first = err
		}
	}
	return first
}

// adopt takes a frame or worker that the page has made, and that the browser
// holds back until it is let go. What cannot be guarded is never let go.
func (t *tab) adopt(e target.EventAttachedToTarget) {
	if t.session.wire.has(e.SessionID) {
		return // nobody takes the place of a session that there is
	}
	t.mu.Lock()
	full := len(t.children) >= maxChildren
	if !full {
		t.children[e.SessionID] = e.TargetInfo.Type
	}
	t.mu.Unlock()
	if full || t.ctx.Err() != nil {
		return
	}
	line, err := t.session.wire.open(t.ctx, e.SessionID, func(m *cdproto.Message) { t.heard(e.SessionID, m) })
	if err != nil {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.ctx.Err() != nil {
		return // close may be waiting for the work already
	}
	t.work.Go(func() {
		// A process of its own may have to begin first, and the page waits for it.
		ctx, cancel := context.WithTimeout(t.ctx, t.session.settings.Limits.Navigation)
		defer cancel()
		if t.prepare(ctx, line, e.TargetInfo.Type) == nil {
			_, _ = cdp.Call(ctx, line, runtime.RunIfWaitingForDebugger, cdp.Empty{})
		}
	})
}

// orphan forgets a child that has gone.
func (t *tab) orphan(id target.SessionID) {
	t.session.wire.hangUp(id)
	t.mu.Lock()
	delete(t.children, id)
	t.mu.Unlock()
}

// childType is the type of target of a session; "page" for the page itself.
func (t *tab) childType(id target.SessionID) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if kind, ok := t.children[id]; ok {
		return kind
	}
	return "page"
}

// lineOf returns a session to answer an event in.
func (t *tab) lineOf(id target.SessionID) cdp.Session {
	if l := t.session.wire.line(id); l != nil {
		return l
	}
	return t.line
}

// answerDialog closes a dialog: with yes where it asks whether the page may be
// left, so that it can be, and otherwise with no.
func (t *tab) answerDialog(from target.SessionID, leave bool) {
	ctx, cancel := t.brief()
	defer cancel()
	_, _ = cdp.Call(ctx, t.lineOf(from), page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: leave})
}

// refuseAuth has a page load without the password that it asks for.
func (t *tab) refuseAuth(from target.SessionID, id fetch.RequestID) {
	ctx, cancel := t.brief()
	defer cancel()
	_, _ = cdp.Call(ctx, t.lineOf(from), fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{
		RequestID: id, AuthChallengeResponse: &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth},
	})
}

// leave goes to an empty page.
func (t *tab) leave() {
	ctx, cancel := t.brief()
	defer cancel()
	_, _ = cdp.Call(ctx, t.line, page.Navigate, page.NavigateParams{URL: "about:blank"})
}
