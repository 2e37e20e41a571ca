package page

import (
	"context"
	"sync"

	"github.com/chromedp/cdproto"
	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/target"
)

// Bounds of one page.
const (
	maxChildren = 64   // frames of other sites and workers
	maxQueue    = 2048 // requests that wait for a decision
	deciders    = 4    // goroutines that decide
)

// A tab is one page with its frames and workers. When it has ended, which its
// context reports with the reason, the session creates another.
type tab struct {
	session *session
	id      target.ID // also that of its main frame
	line    cdp.Session
	ctx     context.Context
	end     context.CancelCauseFunc
	work    sync.WaitGroup

	width, height int  // of the window
	reported      bool // an action has returned why the page has ended; like width, used by one action at a time

	mu       sync.Mutex
	state    state
	queue    []func()
	wake     chan struct{}
	children map[target.SessionID]string // type of target
}

// openTab creates a page in the profile of the session and restricts it before
// anything can be loaded.
func openTab(ctx context.Context, s *session) (*tab, error) {
	s.making.Store(true)
	made, err := cdp.Call(ctx, s.root, target.CreateTarget, target.CreateTargetParams{
		URL: "about:blank", BrowserContextID: s.profile, NewWindow: new(true),
	})
	if err != nil {
		return nil, err
	}
	attached, err := cdp.Call(ctx, s.root, target.AttachToTarget, target.AttachToTargetParams{TargetID: made.TargetID, Flatten: new(true)})
	if err != nil {
		return nil, err
	}
	t := &tab{session: s, id: made.TargetID, wake: make(chan struct{}, 1), children: make(map[target.SessionID]string)}
	t.state.changed = make(chan struct{})
	t.ctx, t.end = context.WithCancelCause(context.WithoutCancel(ctx))
	t.line, err = s.wire.open(t.ctx, attached.SessionID, func(m *cdproto.Message) { t.heard(attached.SessionID, m) })
	if err == nil {
		s.mu.Lock()
		s.main = attached.SessionID
		s.mu.Unlock()
		for range deciders {
			t.work.Go(t.decide)
		}
		err = t.prepare(ctx, t.line, "page")
	}
	if err == nil {
		err = t.window(ctx, defaultWidth, defaultHeight)
	}
	s.making.Store(false)
	if err != nil {
		t.close(err)
		return nil, err
	}
	return t, nil
}

// close ends the page for the given reason, if it has not ended before, and
// waits for all its goroutines.
func (t *tab) close(why error) {
	t.end(why)
	t.closeTarget()
	t.mu.Lock() // work starts under t.mu only, and none starts after this
	t.queue = nil
	t.mu.Unlock()
	t.work.Wait()
}

// closeTarget has the browser close the page. The page may be gone already, so
// the error is ignored.
func (t *tab) closeTarget() {
	ctx, cancel := context.WithTimeout(context.Background(), cleanTime)
	defer cancel()
	_, _ = cdp.Call(ctx, t.session.root, target.CloseTarget, target.CloseTargetParams{TargetID: t.id})
}

// later has a decider run do; events use it for work that takes time.
func (t *tab) later(do func()) {
	t.mu.Lock()
	full := len(t.queue) >= maxQueue
	if !full {
		t.queue = append(t.queue, do)
	}
	t.mu.Unlock()
	if full {
		t.end(beyond("pageBytes", "the page asks for too much at once and was closed"))
		return
	}
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// decide runs the functions given to later, until the page ends.
func (t *tab) decide() {
	for {
		t.mu.Lock()
		var do func()
		if len(t.queue) > 0 {
			do = t.queue[0]
			t.queue = t.queue[1:]
		}
		more := len(t.queue) > 0
		t.mu.Unlock()
		if more {
			select {
			case t.wake <- struct{}{}:
			default:
			}
		}
		if do != nil && t.ctx.Err() == nil {
			do()
			continue
		}
		select {
		case <-t.wake:
		case <-t.ctx.Done():
			return
		}
	}
}

// brief returns the context for commands in answer to an event.
func (t *tab) brief() (context.Context, context.CancelFunc) {
	return context.WithTimeout(t.ctx, t.session.brief)
}

// set changes the state and wakes its watchers.
func (t *tab) set(change func(*state)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	change(&t.state)
	close(t.state.changed)
	t.state.changed = make(chan struct{})
}

// look returns the current state.
func (t *tab) look() state {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.state
}
