//go:build !sandbox_front

package main

import (
	"context"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/desk"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/cli"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Browsers implements cli.Backend.
func (backend) Browsers(o cli.Options) (cli.BrowserDesk, func(), error) {
	conductor, letGo, err := backend{}.Conductor(o)
	if err != nil {
		return nil, nil, err
	}
	d := desk.New(rooms{conductor.(*manager.Manager)}, o.Log)
	return d, func() {
		d.Close()
		letGo()
	}, nil
}

// rooms are the containers of browsers, as the manager keeps them.
type rooms struct{ m *manager.Manager }

var _ desk.House = rooms{}

// Resolve implements desk.House.
func (h rooms) Resolve(r desk.Request) (config.Resolved, error) {
	res, _, err := h.m.BrowserResolve(r.Who, r.Flags)
	return res, err
}

// Settings implements desk.House.
func (h rooms) Settings(r desk.Request) (browser.Settings, error) {
	_, s, err := h.m.BrowserResolve(r.Who, r.Flags)
	return s, err
}

// Name implements desk.House.
func (h rooms) Name(r desk.Request) (string, error) {
	name, _, err := h.m.BrowserName(r.Who, r.Flags)
	return name, err
}

// Open implements desk.House.
func (h rooms) Open(ctx context.Context, r desk.Request, mustExist bool) (desk.Opened, error) {
	b, err := h.m.OpenBrowser(ctx, manager.BrowserRequest{Who: r.Who, Flags: r.Flags, MustExist: mustExist})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Exists implements desk.House.
func (h rooms) Exists(ctx context.Context, r desk.Request) (bool, error) {
	return h.m.BrowserExists(ctx, r.Who, r.Flags)
}

// Remove implements desk.House.
func (h rooms) Remove(ctx context.Context, r desk.Request, force bool) (string, bool, error) {
	return h.m.RemoveBrowser(ctx, r.Who, r.Flags, force)
}

// Workspace implements desk.House.
func (h rooms) Workspace(ctx context.Context, r desk.Request) (browser.Workspace, error) {
	return h.m.BrowserWorkspace(ctx, r.Who, r.Flags)
}

// Folders implements desk.House.
func (h rooms) Folders(ctx context.Context, r desk.Request) (desk.Folders, error) {
	w, err := h.m.BrowserWorkspace(ctx, r.Who, r.Flags)
	if err != nil {
		return desk.Folders{}, err
	}
	exposed, err := h.m.Exposed()
	return desk.Folders{Workspace: w.Dir, Exposed: exposed}, err
}
