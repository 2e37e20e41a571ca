package page

import (
	"context"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
)

// act runs an action on the session's page, one at a time, for at most most.
func (s *session) act(ctx context.Context, most time.Duration, do func(ctx context.Context, t *tab) error) error {
	return s.actOn(ctx, most, s.page, do)
}

// actOn is act on the page that page returns.
func (s *session) actOn(ctx context.Context, most time.Duration, page func(context.Context) (*tab, error), do func(ctx context.Context, t *tab) error) error {
	select {
	case <-s.turn:
	case <-s.life.Done():
		return errClosed()
	case <-ctx.Done():
		return late(ctx, "another action of the session takes too long")
	}
	defer func() { s.turn <- struct{}{} }()
	if s.life.Err() != nil {
		return errClosed()
	}
	within, cancel := context.WithTimeout(ctx, most)
	defer cancel()
	stop := context.AfterFunc(s.life, cancel)
	defer stop()
	t, err := page(within)
	if err != nil {
		return s.explain(within, err)
	}
	stopTab := context.AfterFunc(t.ctx, cancel)
	defer stopTab()
	err = do(within, t)
	switch {
	case err == nil:
		return nil
	case t.ctx.Err() != nil && s.life.Err() == nil && s.wire.reason() == nil:
		t.reported = true
		return context.Cause(t.ctx)
	case within.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		// The page has not answered in all that time and will not.
		t.end(stuck())
		t.reported = true
		return stuck()
	}
	return s.explain(within, err)
}

// page returns the page of the session, for an action on its content. If the
// page has ended and no action has returned the cause yet, page returns the
// cause, because a new page would have other content. The next action gets a
// new page.
func (s *session) page(ctx context.Context) (*tab, error) {
	s.mu.Lock()
	t := s.tab
	s.mu.Unlock()
	if t != nil && t.ctx.Err() != nil && !t.reported && s.wire.reason() == nil {
		t.reported = true
		return nil, context.Cause(t.ctx)
	}
	return s.anyPage(ctx)
}

// anyPage returns the page of the session, for an action that replaces its
// content, and creates one if there is none.
func (s *session) anyPage(ctx context.Context) (*tab, error) {
	s.mu.Lock()
	t := s.tab
	s.mu.Unlock()
	if t != nil && t.ctx.Err() == nil {
		return t, nil
	}
	if reason := s.wire.reason(); reason != nil {
		return nil, lost(reason)
	}
	if t != nil {
		t.close(crashed())
	}
	t, err := openTab(ctx, s)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	s.tab = t
	s.mu.Unlock()
	return t, nil
}

// discard closes a page that has ended, so that it does not keep running until
// the next action. It does not block.
func (s *session) discard(t *tab) {
	s.answer(func(context.Context) { t.closeTarget() })
}

// call runs a command on the page.
func call[P, R any](ctx context.Context, t *tab, c cdp.Command[P, R], params P) (R, error) {
	return cdp.Call(ctx, t.line, c, params)
}

// cut shortens text to at most n bytes, at the end of a character.
func cut(text string, n int) string {
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n]
}

// count writes a number.
func count[N int | int64](n N) string { return strconv.FormatInt(int64(n), 10) }
