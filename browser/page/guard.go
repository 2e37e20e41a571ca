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

// A step is one command of a target's setup.
type step struct {
	method string
	params any
}

// steps returns the commands that restrict a target of the given type before
// anything runs in it. Its children are paused until they are restricted too.
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

// prepare runs the setup of a target. The commands are independent and run
// concurrently.
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

// adopt handles a new frame or worker of the page, which the browser pauses
// until it is resumed. A target whose setup fails is never resumed.
func (t *tab) adopt(e target.EventAttachedToTarget) {
	if t.session.wire.has(e.SessionID) {
		return // an existing session id is never replaced
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
		return // close may already wait for t.work
	}
	t.work.Go(func() {
		// The child may need a new process, and the page waits for it.
		ctx, cancel := context.WithTimeout(t.ctx, t.session.settings.Limits.Navigation)
		defer cancel()
		if t.prepare(ctx, line, e.TargetInfo.Type) == nil {
			_, _ = cdp.Call(ctx, line, runtime.RunIfWaitingForDebugger, cdp.Empty{})
		}
	})
}

// orphan removes a child that has ended.
func (t *tab) orphan(id target.SessionID) {
	t.session.wire.hangUp(id)
	t.mu.Lock()
	delete(t.children, id)
	t.mu.Unlock()
}

// childType returns the target type of a session; "page" for the page itself.
func (t *tab) childType(id target.SessionID) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if kind, ok := t.children[id]; ok {
		return kind
	}
	return "page"
}

// lineOf returns the session in which an event is answered.
func (t *tab) lineOf(id target.SessionID) cdp.Session {
	if l := t.session.wire.line(id); l != nil {
		return l
	}
	return t.line
}

// answerDialog closes a dialog. It accepts a dialog that asks whether to leave
// the page, so that the page can be left, and dismisses all others.
func (t *tab) answerDialog(from target.SessionID, leave bool) {
	ctx, cancel := t.brief()
	defer cancel()
	_, _ = cdp.Call(ctx, t.lineOf(from), page.HandleJavaScriptDialog, page.HandleJavaScriptDialogParams{Accept: leave})
}

// refuseAuth continues a request without the credentials that the server asks
// for.
func (t *tab) refuseAuth(from target.SessionID, id fetch.RequestID) {
	ctx, cancel := t.brief()
	defer cancel()
	_, _ = cdp.Call(ctx, t.lineOf(from), fetch.ContinueWithAuth, fetch.ContinueWithAuthParams{
		RequestID: id, AuthChallengeResponse: &fetch.AuthChallengeResponse{Response: fetch.AuthChallengeResponseResponseCancelAuth},
	})
}

// leave navigates to an empty page.
func (t *tab) leave() {
	ctx, cancel := t.brief()
	defer cancel()
	_, _ = cdp.Call(ctx, t.line, page.Navigate, page.NavigateParams{URL: "about:blank"})
}
