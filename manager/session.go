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
	Files   *fsbridge.Bridge   // nil outside of walls
	Browser *Browser           // nil where the settings have none, or it comes on first use
	Tools   *toolpolicy.Policy // which tools it may use

	m     *Manager
	once  sync.Once
	live  *live
	begun *statement // on record; or nil
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
	a, err := m.admit(ctx, req, gate.Call{Tool: req.Tool}) // settings of all → of the agent → of this call
	if err == nil {
		err = m.Unpaid(ctx) // commands that run in it directly are not counted
	}
	if err != nil {
		m.refusedCommand(ctx, a, err)
		return nil, err
	}
	at, err := m.enter(ctx, a.res, a.ruling.outing, effects) // is it sandboxed, and by what; or refused
	if err != nil {
		return nil, err
	}
	s = &Session{m: m, Who: req.Who, Place: at.gate.Place, Reason: at.gate.Reason}
	if s.begun, err = m.declare(ctx, a, m.commandBeginning(a)); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.end(err)
			s = nil
		}
	}()
	if s.Tools, err = config.ToolPolicy(a.res); err != nil {
		return s, err
	}
	w, err := m.resolve(ctx, a.res, req.Flags, at, effects) // settings and facts → Spec and its hash
	if err != nil {
		return s, err
	}
	w.settings = a.settings
	m.pruneIfDue(ctx, w) // removes first what is no longer needed
	if s.live, err = m.stand(ctx, w, req); err != nil {
		return s, err
	}
	s.Name, s.Created, s.Workspace, s.Sandbox = s.live.name(), s.live.created, workspaceOf(s.live.spec), s.live.Sandbox
	if s.Place != Sandboxed {
		return s, nil
	}
	if s.Browser, err = m.sessionBrowser(ctx, a.res, req); err != nil {
		return s, err
	}
	s.live.rules = a.ruling.gate
	s.Files, err = m.files(ctx, s.live)
	return s, err
}

// stand makes the workspace ready and the sandbox stand: used, started, thawed,
// made anew or made, as lifecycle decides.
func (m *Manager) stand(ctx context.Context, w *want, req Request) (*live, error) {
	if w.gate.Place == Unsandboxed {
		return m.openHost(ctx, w)
	}
	if req.MustExist {
		if err := m.exists(ctx, w.res, outing{}); err != nil {
			return nil, err
		}
	}
	return m.ensure(ctx, w, req.MustExist)
}

// sessionBrowser opens the container of the session's browser where settings
// have one that is not left to its first use.
func (m *Manager) sessionBrowser(ctx context.Context, res config.Resolved, req Request) (*Browser, error) {
	if !res.Browser.Enabled || !res.Browser.AutoStart {
		return nil, nil
	}
	return m.OpenBrowser(ctx, BrowserRequest{Who: req.Who, Flags: req.Flags, Tool: req.Tool, MustExist: req.MustExist})
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
		if s.live != nil {
			s.m.record(s.live)
			s.live.close()
		}
		errs = append(errs, s.begun.end(context.Background(), cause))
	})
	return errors.Join(errs...)
}
