package browsers

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
)

// Bounds of pages that stay.
const (
	maxPages  = 64 // of all sessions together
	idleAfter = 10 * time.Minute
)

// pages are those that calls have left open, one for each session. They are
// safe for concurrent use.
type pages struct {
	open func(context.Context, config.Who) (browser.Session, error)

	mu     sync.Mutex
	of     map[config.Who]*page
	closed bool
}

// A page is the one of a session.
type page struct {
	turn    chan struct{} // whoever has put something in may use the page
	users   int           // that have it or wait for it; guarded by pages.mu
	idle    *time.Timer   // closes it; guarded by pages.mu
	session browser.Session
}

func newPages(open func(context.Context, config.Who) (browser.Session, error)) *pages {
	return &pages{open: open, of: map[config.Who]*page{}}
}

// use hands the page of a session to fn, alone. A page whose browser is gone is
// forgotten, and the next call opens another one.
func (p *pages) use(ctx context.Context, who config.Who, fn func(browser.Session) error) error {
	at, err := p.enter(who)
	if err != nil {
		return err
	}
	defer p.leave(who, at)
	select {
	case at.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-at.turn }()
	if at.session == nil {
		s, err := p.open(ctx, who)
		if err != nil {
			return err
		}
		at.session = s
	}
	err = fn(at.session)
	if c := sandbox.CodeOf(err); c == sandbox.CodeUnavailable || c == sandbox.CodeInternal {
		err = errors.Join(err, at.session.Close())
		at.session = nil
	}
	return err
}

func (p *pages) enter(who config.Who) (*page, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	at := p.of[who]
	switch {
	case p.closed:
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "browser", Message: "the server is going down", Retryable: true}
	case at == nil && len(p.of) >= maxPages:
		return nil, &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "browser", Message: "too many sessions have a page open", Hint: "close a page that is not needed", Retryable: true}
	case at == nil:
		at = &page{turn: make(chan struct{}, 1)}
		p.of[who] = at
	}
	if at.idle != nil {
		at.idle.Stop()
		at.idle = nil
	}
	at.users++
	return at, nil
}

// leave is the end of enter. The last one starts the time of idleness, or
// forgets a page that is none; what is forgotten already ends.
func (p *pages) leave(who config.Who, at *page) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if at.users--; at.users > 0 {
		return
	}
	switch {
	case p.of[who] != at:
		go at.end()
	case p.closed || at.session == nil:
		delete(p.of, who)
		go at.end()
	default:
		at.idle = time.AfterFunc(idleAfter, func() { p.drop(who) })
	}
}

// end closes the page when nobody uses it.
func (at *page) end() {
	at.turn <- struct{}{}
	defer func() { <-at.turn }()
	if at.session != nil {
		_ = at.session.Close() // what is left of it ends with its browser
		at.session = nil
	}
}

// drop closes the page of a session, if there is one.
func (p *pages) drop(who config.Who) {
	p.mu.Lock()
	at := p.of[who]
	delete(p.of, who)
	if at != nil && at.idle != nil {
		at.idle.Stop()
	}
	p.mu.Unlock()
	if at != nil {
		at.end()
	}
}

// close closes all pages.
func (p *pages) close() {
	p.mu.Lock()
	p.closed = true
	var all []config.Who
	for who := range p.of {
		all = append(all, who)
	}
	p.mu.Unlock()
	for _, who := range all {
		p.drop(who)
	}
}
