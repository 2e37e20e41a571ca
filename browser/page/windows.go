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

// holdWindows has the browser hold back every page that is made in it, before
// it has loaded anything, until each of those who asked for this has let it go.
// It cannot be asked for one profile alone: what is not of ours is let go at
// once.
func (s *session) holdWindows(ctx context.Context) error {
	_, err := cdp.Call(ctx, s.root, target.SetAutoAttach, target.SetAutoAttachParams{
		AutoAttach: true, WaitForDebuggerOnStart: true, Flatten: new(true), Filter: target.Filter{{Type: "page"}},
	})
	return err
}

// windowTime is how long a window may take to ask for what it was opened for.
const windowTime = 500 * time.Millisecond

// held decides about a page that is held back. One in our profile that we have
// not made was opened by a page and is to be closed. Pages of others that were
// there before come too, without being held back; ours does when we attach.
func (s *session) held(e target.EventAttachedToTarget) {
	if !named(e) || s.wire.has(e.SessionID) {
		return // nobody takes the place of a session that there is
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

// A window was opened by a page.
type window struct {
	session *session
	id      target.ID
	line    atomic.Pointer[cdp.Session]
	stopped chan struct{} // a request of it was
}

// close closes the window and lets nothing through meanwhile. It has to be let
// go for that, because the page that has opened it may stand still as long as
// it does; and what is stopped has to be refused before the window closes,
// because the browser lets go what nobody has decided about.
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

// answer does something that an event asks for and that takes time, unless the
// session is at its end or has too much to answer, and says whether. What is not
// answered stays held back.
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
