// Package display runs the browser of a scope for a request: it starts the
// browser and keeps it running, connects clients and viewers, opens sessions,
// keeps pages open between calls, takes pictures, and removes the browser.
package display

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/page"
	"github.com/bulkhead-dev/sandbox/config"
)

// A Backend creates and removes containers of browsers. The manager is one. It
// is safe for concurrent use.
type Backend interface {
	// Resolve returns the settings of a request.
	Resolve(r Request) (config.Resolved, error)
	// Name returns the name of the container of the request's scope.
	Name(r Request) (string, error)
	// Open starts the container. With mustExist the error is
	// [sandbox.CodeNotFound] if there is none.
	Open(ctx context.Context, r Request, mustExist bool) (Opened, error)
	// Exists reports whether there is a container, and creates none.
	Exists(ctx context.Context, r Request) (bool, error)
	// Remove removes the container. The error is [sandbox.CodeBusy] if it is
	// in use, unless force is set.
	Remove(ctx context.Context, r Request, force bool) (name string, removed bool, err error)
	// Settings returns the settings that Open would use for the container.
	Settings(r Request) (browser.Settings, error)
	// Workspace returns the workspace of the scope, which need not have a
	// sandbox.
	Workspace(ctx context.Context, r Request) (browser.Workspace, error)
	// Folders returns the folders that pictures and pages of the workspace
	// depend on.
	Folders(ctx context.Context, r Request) (Folders, error)
}

// An Opened is a container opened by a Backend.
type Opened interface {
	browser.Container
	Created() bool   // created by this call of Open
	Network() string // none, own, or the name of a network of the engine
}

// A Display runs the browsers of scopes. It is safe for concurrent use.
type Display struct {
	backend Backend
	log     logrus.FieldLogger
	bridges *browser.ProxySet
	stays   stays

	mu      sync.Mutex
	shares  map[*browser.Proxy]*shared
	watches map[string]*viewing // by the name of the container
}

// New returns a Display without open browsers.
func New(backend Backend, log logrus.FieldLogger) *Display {
	return &Display{backend: backend, log: log, bridges: browser.NewProxySet(), shares: map[*browser.Proxy]*shared{}, watches: map[string]*viewing{}}
}

// Close ends every CDP proxy and every watched display. Browsers keep running.
func (d *Display) Close() error {
	d.bridges.CloseAll()
	d.mu.Lock()
	var names []string
	for name := range d.watches {
		names = append(names, name)
	}
	d.mu.Unlock()
	for _, name := range names {
		d.supersede(name, nil)
	}
	return nil
}

// Folders returns the host folders that pictures and pages of the workspace
// depend on.
func (d *Display) Folders(ctx context.Context, r Request) (Folders, error) {
	return d.backend.Folders(ctx, r)
}

// Start starts the browser of a scope and returns when it answers. A browser
// that does not answer in time is removed, and the error contains the last
// lines of its log.
func (d *Display) Start(ctx context.Context, r Request) (Started, error) {
	begin := time.Now()
	c, v, err := d.open(ctx, r, always)
	if err != nil {
		return Started{}, err
	}
	defer c.Close()
	s := c.Settings()
	out := Started{
		Name: c.Name(), Version: v.Browser, Created: c.Created(), Ready: time.Since(begin),
		Sandbox: !s.NoSandbox, Headless: s.Headless, Network: c.Network(),
	}
	if _, ok := c.(*hostBrowser); ok {
		out = Started{Version: v.Browser, Ready: time.Since(begin), NotIsolated: true}
	}
	return out, nil
}

// A wish says when a missing container is created.
type wish int

const (
	always  wish = iota
	onUse        // if the settings have browser.autoStart
	notAnew      // never: the container existed and was removed
)

// open opens the container of a scope with a browser that answers.
func (d *Display) open(ctx context.Context, r Request, w wish) (Opened, browser.Version, error) {
	none := browser.Version{}
	res, err := d.backend.Resolve(r)
	if err != nil {
		return nil, none, err
	}
	if res.Browser.Enabled && res.Browser.AllowHostControl && res.Browser.HostCDPURL != "" {
		return d.openHost(ctx, r, res)
	}
	c, err := d.backend.Open(ctx, r, w == notAnew || w == onUse && !res.Browser.AutoStart)
	if err != nil {
		return nil, none, err
	}
	v, _, err := browser.Launch(ctx, c)
	if err != nil {
		c.Close()
		if ctx.Err() != nil && !c.Created() {
			return nil, none, err // an ended ctx says nothing about the browser
		}
		return nil, none, errors.Join(err, d.clear(ctx, r))
	}
	return c, v, nil
}

// clear removes a browser that does not start, unless its container is used
// elsewhere.
func (d *Display) clear(ctx context.Context, r Request) error {
	ctx, done := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
	defer done()
	_, _, err := d.backend.Remove(ctx, r, false)
	if sandbox.CodeOf(err) == sandbox.CodeBusy {
		return nil
	}
	return err
}

// Session starts the browser and opens a clean profile in it.
func (d *Display) Session(ctx context.Context, r Request, rights browser.Rights) (browser.Session, error) {
	c, _, err := d.open(ctx, r, onUse)
	if err != nil {
		return nil, err
	}
	s, err := page.Open(ctx, c, rights, page.Options{})
	if err != nil {
		c.Close()
		return nil, err
	}
	return &session{Session: s, container: c}, nil
}

// A session owns the handle of its container.
type session struct {
	browser.Session
	container browser.Container
}

// Close implements [browser.Session].
func (s *session) Close() error { return errors.Join(s.Session.Close(), s.container.Close()) }

// Stop removes the browser of a scope with all its data, and its CDP proxies.
// A missing browser is no error. The error is [sandbox.CodeBusy] if the
// browser is in use elsewhere, unless force is set.
func (d *Display) Stop(ctx context.Context, r Request, force bool) (removed bool, name string, err error) {
	if name, err = d.backend.Name(r); err != nil {
		return false, "", err
	}
	d.bridges.Drop(name)
	d.supersede(name, nil)
	name, removed, err = d.backend.Remove(ctx, r, force)
	return removed, name, err
}
