package manager

import (
	"context"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
)

// BrowserResolve returns the settings of a request for a browser.
func (m *Manager) BrowserResolve(who config.Who, flags *config.SandboxSettings) (config.Resolved, browser.Settings, error) {
	res, err := config.Resolve(m.current(), who, flags)
	if err != nil {
		return config.Resolved{}, browser.Settings{}, err
	}
	return res, browserSettings(res), nil
}

// BrowserWorkspace is the workspace of the scope of a browser: that of its
// sandbox, which need not be there.
func (m *Manager) BrowserWorkspace(ctx context.Context, who config.Who, flags *config.SandboxSettings) (browser.Workspace, error) {
	res, err := config.Resolve(m.current(), who, flags)
	if err != nil {
		return browser.Workspace{}, err
	}
	return m.browsers.scratchpad(ctx, res)
}

// Exposed are the folders of the host that some sandbox can write, canonical:
// code in there can have put links below them.
func (m *Manager) Exposed() ([]string, error) { return m.describer.exposed() }

// scratchpad finds the workspace of the sandbox of res, and makes it where that
// is ours to make.
func (bs *browsers) scratchpad(ctx context.Context, res config.Resolved) (browser.Workspace, error) {
	none := browser.Workspace{}
	p, _, err := bs.browserProvider(res)
	if err != nil {
		return none, err
	}
	w, err := bs.m.describer.describe(ctx, res, p, observe)
	if err != nil {
		return none, err
	}
	at, err := bs.m.describer.identityOf(w.provider.Name(), w.spec.Name, bs.m.describer.owner(res))
	if err != nil {
		return none, err
	}
	var f config.Facts
	f.Home, f.Env, f.Sensitive = bs.m.host.Home, bs.m.host.Env, bs.m.host.Sensitive
	f.Via = map[string][]string{}
	if f.Exposed, err = bs.m.describer.exposed(); err != nil {
		return none, err
	}
	if f.Listening, err = bs.m.describer.listening(); err != nil {
		return none, err
	}
	// A scope gets its user when it is first used, and the folder with it.
	if _, err := bs.m.describer.folders(res, w.provider, at, effects, &f); err != nil {
		return none, err
	}
	w.spec.UID, w.spec.GID = f.UID, f.GID
	if err := bs.m.builder.prepare(ctx, w, w.spec); err != nil {
		return none, err
	}
	tools, err := config.ToolPolicy(res)
	if err != nil {
		return none, err
	}
	return browser.Workspace{Dir: workspaceOf(w.spec), UID: f.UID, GID: f.GID, Refusal: tools.Changes().Err()}, nil
}
