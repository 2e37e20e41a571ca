// This file keeps one browser page open for each session, between calls, until
// it is closed or idle for too long. Callers with consecutive calls use it:
// agent tools, and requests over HTTP.

package display

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
)

// The bounds of open pages.
const (
	maxPages  = 64               // of all sessions together
	maxTheirs = 16               // of the sessions of one tenant; not for the tenant without a name
	idleAfter = 10 * time.Minute // idle time after which a page is closed
)

// Tabs are the open browser pages, one for each session. They are safe for
// concurrent use, and have to be closed.
type Tabs struct {
	open func(context.Context, config.Who) (browser.Session, error)

	mu     sync.Mutex
	of     map[config.Who]*tab
	closed bool
}

// A tab is the browser session of one session.
type tab struct {
	turn    chan struct{} // a semaphore of one: its holder uses the page
	users   int           // callers that use it or wait for it; guarded by Tabs.mu
	session browser.Session
	timer   *time.Timer // closes the page when it is idle; guarded by Tabs.mu
}

// NewTabs returns Tabs without open pages. open opens a page.
func NewTabs(open func(context.Context, config.Who) (browser.Session, error)) *Tabs {
	return &Tabs{open: open, of: map[config.Who]*tab{}}
}

// Use calls fn with the page of a session, and opens the page if there is
// none. Calls for one session run one at a time. After an error that says that
// the browser is gone the next call opens a new page. The error is
// [sandbox.CodeBudgetExceeded] if too many pages are open.
func (p *Tabs) Use(ctx context.Context, who config.Who, fn func(browser.Session) error) error {
	pg, err := p.claim(who)
	if err != nil {
		return err
	}
	defer p.release(who, pg)
	select {
	case pg.turn <- struct{}{}:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	defer func() { <-pg.turn }()
	if p.gone() {
		return errClosed()
	}
	if pg.session == nil {
		if pg.session, err = p.open(ctx, who); err != nil {
			pg.session = nil
			return err
		}
	}
	err = fn(pg.session)
	if c := sandbox.CodeOf(err); c == sandbox.CodeUnavailable || c == sandbox.CodeInternal {
		err = errors.Join(err, pg.session.Close())
		pg.session = nil
	}
	return err
}

func errClosed() error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "browser", Message: "this program is about to end", Retryable: true}
}

func (p *Tabs) gone() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.closed
}

// claim adds a user to the page of a session, so that it is not closed for
// idleness.
func (p *Tabs) claim(who config.Who) (*tab, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, errClosed()
	}
	pg := p.of[who]
	if pg == nil {
		if err := p.room(who.Tenant); err != nil {
			return nil, err
		}
		pg = &tab{turn: make(chan struct{}, 1)}
		p.of[who] = pg
	}
	if pg.timer != nil {
		pg.timer.Stop()
		pg.timer = nil
	}
	pg.users++
	return pg, nil
}

// room returns an error if a tenant may not open another page. p.mu is held.
func (p *Tabs) room(tenant string) error {
	theirs := 0
	for who := range p.of {
		if who.Tenant == tenant {
			theirs++
		}
	}
	most := maxPages
	switch {
	case tenant != "" && theirs >= maxTheirs:
		most = maxTheirs
	case len(p.of) < maxPages:
		return nil
	}
	return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Op: "browser", Message: fmt.Sprintf("%d sessions have pages open, which is the most", most), Hint: "close a page that is not needed", Retryable: true}
}

// release ends a claim. The last user starts the idle timer, or removes a tab
// without a page.
func (p *Tabs) release(who config.Who, pg *tab) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if pg.users--; pg.users > 0 {
		return
	}
	switch {
	case pg.session == nil && p.of[who] == pg:
		delete(p.of, who)
	case pg.session != nil && !p.closed:
		pg.timer = time.AfterFunc(idleAfter, func() { p.expire(who, pg) })
	}
}

// expire closes an idle page.
func (p *Tabs) expire(who config.Who, pg *tab) {
	p.mu.Lock()
	if pg.users > 0 || p.of[who] != pg || pg.timer == nil {
		p.mu.Unlock()
		return
	}
	delete(p.of, who)
	s := pg.session
	p.mu.Unlock()
	if s != nil {
		_ = s.Close() // no caller waits for the error, and the page ends with the container
	}
}

// End closes the page of a session after the call under way, and reports
// whether there was one.
func (p *Tabs) End(ctx context.Context, who config.Who) (open bool, err error) {
	p.mu.Lock()
	pg := p.of[who]
	if pg == nil {
		p.mu.Unlock()
		return false, nil
	}
	pg.users++
	if pg.timer != nil {
		pg.timer.Stop()
		pg.timer = nil
	}
	p.mu.Unlock()
	defer p.release(who, pg)
	select {
	case pg.turn <- struct{}{}:
	case <-ctx.Done():
		return false, context.Cause(ctx)
	}
	defer func() { <-pg.turn }()
	if pg.session == nil {
		return false, nil
	}
	err = pg.session.Close()
	pg.session = nil
	return true, err
}

// Close closes all pages and refuses new ones. It waits for calls under way
// until ctx ends.
func (p *Tabs) Close(ctx context.Context) error {
	p.mu.Lock()
	p.closed = true
	var all []config.Who
	for who := range p.of {
		all = append(all, who)
	}
	p.mu.Unlock()
	var errs []error
	for _, who := range all {
		_, err := p.End(ctx, who)
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}
