package page

import (
	"context"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/chromedp/cdproto/cdp"
)

// act runs an action in its turn, on a page that is there, for at most as
// long as a navigation may take. Waiting is an action that may take another
// time.
func (s *session) act(ctx context.Context, most time.Duration, do func(ctx context.Context, t *tab) error) error {
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
	t, err := s.page(within)
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
		return context.Cause(t.ctx)
	case within.Err() != nil && ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded):
		// The page has not answered for all that time: it never will.
		t.end(stuck())
		return stuck()
	}
	return s.explain(within, err)
}

// page returns the page of the session, and makes one where there is none any
// more.
func (s *session) page(ctx context.Context) (*tab, error) {
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

// discard closes a page that has ended, so that nothing of it goes on until
// the next action. It waits for nothing.
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
