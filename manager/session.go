package manager

import (
	"context"
	"errors"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/policy/gate"
	"github.com/bulkhead-dev/sandbox/toolpolicy"
)

// A Session is everything that a session works with, brought up and held until
// it is closed. It is safe for concurrent use.
type Session struct {
	Who       config.Who
	Place     Place  // where its commands run
	Reason    string // for the place
	Name      string // of the sandbox
	Created   bool   // the sandbox was made for this opening
	Workspace string // folder of the host that appears as the workspace

	Sandbox sandbox.Sandbox    // the caller must not close it; commands that it runs directly are not judged
	Files   *fsbridge.Bridge   // nil outside of sandboxes
	Browser *Browser           // nil where the settings have none, or it comes on first use
	Tools   *toolpolicy.Policy // which tools it may use

	m     *Manager
	once  sync.Once
	steps *pipeline
}

// Open makes everything that a session works with ready, each part after those
// that it depends on:
//
//	who it is → its settings → is it sandboxed → what may it use → sweep
//	→ workspace and sandbox → browser → files
//
// Each step is as in Run, which is for one command. When a step fails, Open
// releases what this call holds; a failure never leads to less isolation. A
// session that runs without a sandbox by its settings has its workspace, and
// neither files nor a browser.
func (m *Manager) Open(ctx context.Context, req Request) (s *Session, err error) {
	if err := onlySession(req); err != nil {
		return nil, err
	}
	p := m.pipeline(req, gate.Call{Tool: req.Tool})
	err = p.judge(ctx) // settings of all → of the agent → of this call
	if err == nil {
		err = m.Unpaid(ctx) // commands that run in it directly are not counted
	}
	if err != nil {
		p.refused(ctx, err)
		return nil, err
	}
	s = &Session{m: m, Who: req.Who, steps: p}
	if err := p.record(ctx); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.end(err)
			s = nil
		}
	}()
	if s.Tools, err = config.ToolPolicy(p.res); err != nil {
		return s, err
	}
	if err = p.resolve(ctx); err != nil { // where it runs; settings and facts → Spec and its hash
		return s, err
	}
	if err = p.ensure(ctx); err != nil { // removes first what is no longer needed
		return s, err
	}
	l := p.sandbox
	s.Place, s.Reason = p.want.gate.Place, p.want.gate.Reason
	s.Name, s.Created, s.Workspace, s.Sandbox = l.name(), l.created, workspaceOf(l.spec), l.Sandbox
	if s.Place != Sandboxed {
		return s, nil
	}
	if s.Browser, err = m.browsers.sessionBrowser(ctx, p.res, req); err != nil {
		return s, err
	}
	s.Files, err = m.files(ctx, l)
	return s, err
}

// sessionBrowser opens the container of the session's browser where settings
// have one that is not left to its first use.
func (bs *browsers) sessionBrowser(ctx context.Context, res config.Resolved, req Request) (*Browser, error) {
	if !res.Browser.Enabled || !res.Browser.AutoStart {
		return nil, nil
	}
	return bs.m.OpenBrowser(ctx, BrowserRequest{Who: req.Who, Flags: req.Flags, Tool: req.Tool, MustExist: req.MustExist})
}

// Close lets go of everything. Sandbox and browser stay.
func (s *Session) Close() error { return s.end(nil) }

// end is Close after what went wrong, or nil.
func (s *Session) end(cause error) error {
	var errs []error
	s.once.Do(func() {
		if s.Browser != nil {
			errs = append(errs, s.Browser.Close())
		}
		if s.steps.sandbox != nil {
			errs = append(errs, s.steps.release(context.Background(), nil))
		}
		errs = append(errs, s.steps.entry.end(context.Background(), cause))
	})
	return errors.Join(errs...)
}
