package page

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/fetch"
	"github.com/chromedp/cdproto/runtime"
	"github.com/chromedp/cdproto/target"
)

// holdWindows has the browser pause every new page, before it has loaded
// anything, until each client that asked for this has resumed it. This cannot
// be limited to one profile: pages of other profiles are resumed at once.
func (s *session) holdWindows(ctx context.Context) error {
	_, err := cdp.Call(ctx, s.root, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true), Filter: target.Filter{{Type: "page"}},
	})
	return err
}

// windowTime is how long a window may take to send its first request.
const windowTime = 500 * time.Millisecond

// held decides about a paused page. A page in this profile that the session
// has not created was opened by a page, and is closed. Existing pages of other
// profiles are reported too, without being paused; so is the session's own
// page when the session attaches to it.
func (s *session) held(e target.EventAttachedToTarget) {
	if !named(e) || s.wire.has(e.SessionID) {
		return // an existing session id is never replaced
	}
	if !e.WaitingForDebugger {
		if e.TargetInfo.BrowserContextID != s.profile {
			s.answer(func(ctx context.Context) { s.detach(ctx, e.SessionID) })
		}
		return
	}
	w := &window{session: s, id: e.TargetInfo.TargetID, stopped: make(chan struct{}, 1)}
	foreign := e.TargetInfo.BrowserContextID != s.profile || s.making.Load()
	life, end := context.WithCancel(s.life)
	if !s.answer(func(ctx context.Context) {
		defer end()
		line, err := s.wire.open(life, e.SessionID, w.heard)
		if err != nil {
			return
		}
		if !foreign {
			s.windows.Add(1)
			w.close(ctx, line)
			return
		}
		_, _ = cdp.Call(ctx, line, runtime.RunIfWaitingForDebugger, cdp.Empty{})
		s.detach(ctx, e.SessionID)
	}) {
		end()
	}
}

// detach ends a session of the protocol that is not needed.
func (s *session) detach(ctx context.Context, id target.SessionID) {
	_, _ = cdp.Call(ctx, s.root, target.DetachFromTarget, target.DetachFromTargetParams{SessionID: id})
}

// A window is a window opened by a page.
type window struct {
	session *session
	id      target.ID
	line    atomic.Pointer[cdp.Session]
	stopped chan struct{} // closed when one of its requests was paused
}

// close closes the window and refuses all its requests meanwhile. The window
// has to be resumed first, because the page that opened it may be blocked
// while it is paused; and its paused requests have to be refused before it
// closes, because the browser otherwise sends requests that are undecided.
func (w *window) close(ctx context.Context, line cdp.Session) {
	w.line.Store(&line)
	if _, err := cdp.Call(ctx, line, fetch.Enable, fetch.EnableParams{}); err != nil {
		return
	}
	_, _ = cdp.Call(ctx, line, runtime.RunIfWaitingForDebugger, cdp.Empty{})
	late := time.NewTimer(windowTime)
	defer late.Stop()
	select {
	case <-w.stopped:
	case <-late.C:
	case <-ctx.Done():
	}
	_, _ = cdp.Call(ctx, w.session.root, target.CloseTarget, target.CloseTargetParams{TargetID: w.id})
}

// heard refuses every request of the window.
func (w *window) heard(m *cdproto.Message) {
	line := w.line.Load()
	if string(m.Method) != fetch.RequestPaused.Method || line == nil {
		return
	}
	if e, ok := read(m, fetch.RequestPaused); ok {
		w.session.answer(func(ctx context.Context) {
			fail(ctx, *line, e.RequestID)
			select {
			case w.stopped <- struct{}{}:
			default:
			}
		})
	}
}

// maxAnswers is how many events are answered at a time.
const maxAnswers = 256

// answer runs work that an event needs and that takes time, and reports
// whether it was started: it is not if the session is closing or has too many
// answers under way. An unanswered target or request stays paused.
func (s *session) answer(do func(ctx context.Context)) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.life.Err() != nil || s.answers.Load() >= maxAnswers {
		return false
	}
	s.answers.Add(1)
	s.work.Go(func() {
		defer s.answers.Add(-1)
		ctx, cancel := context.WithTimeout(s.life, cleanTime)
		defer cancel()
		do(ctx)
	})
	return true
}
