//go:build !sandbox_front

package main

import (
	"context"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/internal/cli"
)

// Browsers implements cli.Backend.
func (backend) Browsers(o cli.Options) (cli.BrowserDisplay, func(), error) {
	if o.Host.Remote() {
		return remoteBrowsers(o.Host)
	}
	h, err := open(o)
	if err != nil {
		return nil, nil, err
	}
	d, err := h.Browsers()
	if err != nil {
		h.Close()
		return nil, nil, err
	}
	return ownDisplay{d}, h.Close, nil
}

// An ownDisplay is that of this machine.
type ownDisplay struct{ *display.Display }

// Shoot implements cli.BrowserDesk.
func (d ownDisplay) Shoot(ctx context.Context, r display.Request, target string, shot browser.Shot) (browser.Page, browser.Picture, error) {
	return display.Take(ctx, d, r, target, shot)
}
