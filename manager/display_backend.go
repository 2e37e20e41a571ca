// This file hands the containers of browsers that a manager keeps to the
// browser display that uses them, so that neither knows the other.

package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
)

// BrowserBackend returns the containers of browsers that m manages, for a display.
func BrowserBackend(m *Manager) display.Backend { return displayBackend{m} }

type displayBackend struct{ m *Manager }

// Resolve implements [display.Backend].
func (h displayBackend) Resolve(r display.Request) (config.Resolved, error) {
	res, _, err := h.m.BrowserResolve(r.Who, r.Flags)
	return res, err
}

// Settings implements [display.Backend].
func (h displayBackend) Settings(r display.Request) (browser.Settings, error) {
	_, s, err := h.m.BrowserResolve(r.Who, r.Flags)
	return s, err
}

// Name implements [display.Backend].
func (h displayBackend) Name(r display.Request) (string, error) {
	name, _, err := h.m.BrowserName(r.Who, r.Flags)
	return name, err
}

// Open implements [display.Backend].
func (h displayBackend) Open(ctx context.Context, r display.Request, mustExist bool) (display.Opened, error) {
	b, err := h.m.OpenBrowser(ctx, BrowserRequest{Who: r.Who, Flags: r.Flags, MustExist: mustExist})
	if err != nil {
		return nil, err
	}
	return b, nil
}

// Exists implements [display.Backend].
func (h displayBackend) Exists(ctx context.Context, r display.Request) (bool, error) {
	return h.m.BrowserExists(ctx, r.Who, r.Flags)
}

// Remove implements [display.Backend].
func (h displayBackend) Remove(ctx context.Context, r display.Request, force bool) (string, bool, error) {
	return h.m.RemoveBrowser(ctx, r.Who, r.Flags, force)
}

// Workspace implements [display.Backend].
func (h displayBackend) Workspace(ctx context.Context, r display.Request) (browser.Workspace, error) {
	return h.m.BrowserWorkspace(ctx, r.Who, r.Flags)
}

// Folders implements [display.Backend].
func (h displayBackend) Folders(ctx context.Context, r display.Request) (display.Folders, error) {
	w, err := h.m.BrowserWorkspace(ctx, r.Who, r.Flags)
	if err != nil {
		return display.Folders{}, err
	}
	exposed, err := h.m.Exposed()
	return display.Folders{Workspace: w.Dir, Exposed: exposed}, err
}
