package sdk

import (
	"context"
	"net/http"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Browsers are those of sessions behind a daemon.
type managerBrowsers struct{ d *Manager }

// Browsers returns what keeps browsers.
func (d *Manager) Browsers() managerBrowsers { return managerBrowsers{d} }

// ask makes one of the daemon's requests about the browser of a session.
func (b managerBrowsers) ask(ctx context.Context, r display.Request, what string, in api.Browse, out any) error {
	var err error
	if in.Flags, err = api.FlagsOf(r.Flags); err != nil {
		return sandbox.Errorf(sandbox.CodeInternal, "browser", "the flags cannot be written: %w", err)
	}
	return b.d.as(r.Who).Call(ctx, Request{Op: "browser " + what, Method: http.MethodPost, Path: "/v1/browser/" + what, JSON: in}, out)
}

// Start brings the browser up and returns when it answers.
func (b managerBrowsers) Start(ctx context.Context, r display.Request) (display.Started, error) {
	var s api.BrowserStarted
	err := b.ask(ctx, r, "start", api.Browse{}, &s)
	return display.Started(s), err
}

// Serve is not possible: who is let in comes to an address of the daemon's
// machine.
func (managerBrowsers) Serve(context.Context, display.Request) (display.Served, error) {
	return display.Served{}, elsewhere("browser", "letting clients of the DevTools protocol in")
}

// Watch is not possible, for the same reason.
func (managerBrowsers) Watch(context.Context, display.Request, bool) (display.Watched, error) {
	return display.Watched{}, elsewhere("browser", "looking at the display")
}

// Shoot takes a picture of a page in a clean profile.
func (b managerBrowsers) Shoot(ctx context.Context, r display.Request, target string, shot browser.Shot) (browser.Page, browser.Picture, error) {
	var a api.BrowserAnswer
	err := b.ask(ctx, r, "picture", api.Browse{
		Target: target, Selector: shot.Selector, Full: shot.Full, Width: shot.Width, Height: shot.Height, JPEG: shot.JPEG,
	}, &a)
	p := browser.Picture{Data: a.Data, MIME: termsafe.Line(a.MIME), Width: a.Width, Height: a.Height}
	if err == nil {
		err = display.Check(shot, p)
	}
	if err == nil && a.Page == nil {
		err = &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "browser picture", Message: "the daemon has not sent the page"}
	}
	if err != nil {
		return browser.Page{}, browser.Picture{}, err
	}
	return *a.Page, p, nil
}

// Stop removes the browser with all that is in it.
func (b managerBrowsers) Stop(ctx context.Context, r display.Request, force bool) (removed bool, name string, err error) {
	var s api.BrowserStopped
	err = b.ask(ctx, r, "stop", api.Browse{Force: force}, &s)
	return s.Removed, s.Name, err
}

// Folders names none: the workspace is the daemon's. It may be this machine's
// too, and code inside can write in places that this program does not know, so no link is trusted.
func (managerBrowsers) Folders(context.Context, display.Request) (display.Folders, error) {
	return display.Folders{Exposed: []string{"/"}}, nil
}
