package cli

import (
	"context"
	"sync"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
)

// A fakeDisplay keeps a browser whose answers a test sets, and remembers what was
// asked of it.
type fakeDisplay struct {
	released bool
	request  display.Request
	err      error // of everything

	started display.Started
	served  display.Served
	watched display.Watched
	control bool
	removed string // what Stop removes; empty: there is none
	force   bool
	folders display.Folders
	session fakeSession
	rights  browser.Rights
}

func (d *fakeDisplay) Start(_ context.Context, r display.Request) (display.Started, error) {
	d.request = r
	return d.started, d.err
}

func (d *fakeDisplay) Serve(_ context.Context, r display.Request) (display.Served, error) {
	d.request = r
	return d.served, d.err
}

func (d *fakeDisplay) Watch(_ context.Context, r display.Request, control bool) (display.Watched, error) {
	d.request, d.control = r, control
	return d.watched, d.err
}

func (d *fakeDisplay) Session(_ context.Context, r display.Request, rights browser.Rights) (browser.Session, error) {
	d.request, d.rights = r, rights
	return &d.session, d.err
}

func (d *fakeDisplay) Shoot(ctx context.Context, r display.Request, target string, shot browser.Shot) (browser.Page, browser.Picture, error) {
	return display.Take(ctx, d, r, target, shot)
}

func (d *fakeDisplay) Stop(_ context.Context, r display.Request, force bool) (bool, string, error) {
	d.request, d.force = r, force
	return d.removed != "", d.removed, d.err
}

func (d *fakeDisplay) Folders(_ context.Context, r display.Request) (display.Folders, error) {
	d.request = r
	return d.folders, d.err
}

// A fakeSession shows one page.
type fakeSession struct {
	browser.Session // what no command uses

	page    browser.Page
	picture browser.Picture
	err     error // of everything

	opened string
	shot   browser.Shot
	closed int
}

func (s *fakeSession) Navigate(_ context.Context, address string) (browser.Page, error) {
	s.opened = address
	return s.page, s.err
}

func (s *fakeSession) Screenshot(_ context.Context, o browser.Shot) (browser.Picture, error) {
	s.shot = o
	p := s.picture
	if p.MIME = "image/png"; o.JPEG > 0 {
		p.MIME = "image/jpeg"
	}
	return p, s.err
}

func (s *fakeSession) Close() error {
	s.closed++
	return nil
}

// A fakeLife goes on until it is closed or ends by itself.
type fakeLife struct {
	done  chan struct{}
	once  sync.Once
	err   error // why it ended by itself
	began func()

	mu     sync.Mutex
	closed bool // under mu
}

func newFakeLife() *fakeLife { return &fakeLife{done: make(chan struct{}), began: func() {}} }

// Done implements order.Life; a call of it means that the caller keeps
// waiting.
func (l *fakeLife) Done() <-chan struct{} {
	l.began()
	return l.done
}

func (l *fakeLife) Err() error { return l.err }

func (l *fakeLife) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.once.Do(func() { close(l.done) })
	return nil
}

// end ends it by itself.
func (l *fakeLife) end(err error) {
	l.err = err
	l.once.Do(func() { close(l.done) })
}
