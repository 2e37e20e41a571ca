package running

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// Main is the id of the shell that a session has without opening it.
const Main = "main"

// A ShellInfo says what there is to know of a shell.
type ShellInfo struct {
	ID      string    `json:"id"`
	Label   string    `json:"label,omitempty"` // as who opened it has named it
	Sandbox string    `json:"sandbox"`
	Program string    `json:"program"` // bash or sh
	Opened  time.Time `json:"opened"`
	Used    time.Time `json:"used"` // when the last line began or ended
	Busy    bool      `json:"busy"` // a line runs or waits for its turn
}

// A shellKey finds a shell within its session. Requests that are judged
// differently have different main shells: what one leaves in its shell the
// other would run.
type shellKey struct{ id, judged string }

// A shell is one that stays. What is not fixed is guarded by Supervisor.mu.
type shell struct {
	who    config.Who
	key    shellKey
	info   ShellInfo
	ready  chan struct{} // closed when opening has come to its end
	life   context.Context
	end    context.CancelCauseFunc
	shell  Shell // nil while it is opened, and when that has failed
	lines  int   // that run or wait
	used   time.Time
	gone   bool // no longer found
	tenant *tenant
}

func (s *shell) opened() bool { return s.shell != nil }

var (
	errShellClosed  = errors.New("the shell was closed")
	errSessionEnded = errors.New("the session was ended")
)

// judgedAs returns a key of the settings under which the lines of a request are
// judged.
func judgedAs(req manager.Request) string {
	text, err := json.Marshal([]any{req.Tool, req.Subagent, req.Unsandboxed, req.Ask, req.MustExist, req.Flags})
	if err != nil {
		return rand.Text() // equal to no other key
	}
	return string(text)
}

// newID returns an unpredictable id.
func newID() string { return strings.ToLower(rand.Text()) }

// Line runs a line in the session's shell id, see [manager.Shell.Run]. The
// shell "main", or empty, is opened when it is needed. Of req only the session
// and the settings that affect the judgement count: Flags, Tool, Subagent,
// Unsandboxed, Ask, MustExist. A request that is judged differently has
// another shell "main", and does not find the other shells.
func (h *Supervisor) Line(ctx context.Context, req manager.Request, id string, l manager.Line) (manager.Outcome, error) {
	id = cmp.Or(id, Main)
	for {
		s, mine, err := h.enter(req, id)
		if err != nil {
			return manager.Outcome{}, err
		}
		if mine {
			err = h.open(ctx, s, req, sandbox.ShellOptions{})
		} else {
			err = h.opening(ctx, s)
		}
		if err != nil {
			h.leave(s)
			return manager.Outcome{}, err
		}
		if !s.opened() { // who opened it has failed or given up, which is not our failure
			h.leave(s)
			continue
		}
		return h.line(ctx, s, l)
	}
}

// enter finds the shell for a line, or makes room for one that the caller has
// to open. The line counts until leave.
func (h *Supervisor) enter(req manager.Request, id string) (s *shell, mine bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	key := shellKey{id, judgedAs(req)}
	if have := h.sessions[req.Who]; have != nil {
		s = have.shells[key]
	}
	switch {
	case h.over:
		return nil, false, closing("run")
	case s == nil && id != Main:
		return nil, false, notFound("run", "shell", id)
	case s == nil:
		if s, err = h.room(req.Who, key); err != nil {
			return nil, false, err
		}
		mine = true
	}
	s.lines++
	h.active.Add(1)
	return s, mine, nil
}

// leave takes a line away.
func (h *Supervisor) leave(s *shell) {
	h.mu.Lock()
	s.lines--
	s.used = h.o.Now()
	h.mu.Unlock()
	h.active.Done()
}

// room makes a shell that is still to be opened. The lock is held.
func (h *Supervisor) room(who config.Who, key shellKey) (*shell, error) {
	have, t := h.of(who)
	switch {
	case len(have.shells) >= h.o.ShellsPerSession:
		return nil, tooMany("open shell", "the number of shells of this session", h.o.ShellsPerSession)
	case t.shells >= h.o.ShellsPerTenant:
		h.tidy(who)
		return nil, tooMany("open shell", "the number of shells of this tenant", h.o.ShellsPerTenant)
	}
	s := &shell{who: who, key: key, info: ShellInfo{ID: key.id, Opened: h.o.Now()}, used: h.o.Now(), ready: make(chan struct{}), tenant: t}
	s.life, s.end = context.WithCancelCause(h.life)
	have.shells[key] = s
	t.shells++
	return s, nil
}

// open opens s, and forgets it when that fails.
func (h *Supervisor) open(ctx context.Context, s *shell, req manager.Request, o sandbox.ShellOptions) error {
	defer close(s.ready)
	ctx, stop := within(ctx, s.life)
	defer stop(nil)
	sh, err := h.o.Manager.OpenShell(ctx, manager.Request{
		Who: req.Who, Flags: req.Flags, Tool: req.Tool, Subagent: req.Subagent, Unsandboxed: req.Unsandboxed, Ask: req.Ask, MustExist: req.MustExist,
	}, o)
	h.mu.Lock()
	if err != nil {
		h.dropShell(s)
		h.tidy(s.who)
		h.mu.Unlock()
		s.end(err)
		return because(s.life, err)
	}
	gone := s.gone // closed while it was opened
	if !gone {
		s.shell, s.info.Program, s.info.Sandbox = sh, sh.Program(), sh.Name()
	}
	h.mu.Unlock()
	if gone {
		if err := sh.Close(); err != nil {
			h.o.Log.WithError(err).Warn("a shell is not closed in order")
		}
		return because(s.life, errShellClosed)
	}
	return nil
}

// opening waits until another caller has opened s, or has failed to.
func (h *Supervisor) opening(ctx context.Context, s *shell) error {
	select {
	case <-s.ready:
		return nil
	case <-ctx.Done():
		return &sandbox.Error{Code: sandbox.CodeExecution, Op: "run", Message: "the caller gave up while the shell was opened", Err: context.Cause(ctx)}
	}
}

// line runs l in a shell that is open, and leaves it.
func (h *Supervisor) line(ctx context.Context, s *shell, l manager.Line) (manager.Outcome, error) {
	defer h.leave(s)
	ctx, stop := within(ctx, s.life)
	defer stop(nil)
	out, err := s.shell.Run(ctx, l)
	if err != nil {
		err = because(s.life, err)
	}
	return out, err
}

// because returns the cause of the end of life, if err is a consequence of it.
func because(life context.Context, err error) error {
	if life.Err() == nil {
		return err
	}
	switch cause := context.Cause(life); cause {
	case errClosing:
		return closing("run")
	case errShellClosed, errSessionEnded:
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "run", Message: cause.Error()}
	}
	return err
}

func closing(op string) error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: op, Retryable: true, Message: "the program ends", Hint: "try again when it has been started again"}
}

// within is ctx, ended also with life.
func within(ctx, life context.Context) (context.Context, context.CancelCauseFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	undo := context.AfterFunc(life, func() { cancel(context.Cause(life)) })
	return ctx, func(cause error) {
		undo()
		cancel(cause)
	}
}

// OpenShell opens one more shell for a session. It is found by the id that it
// is given here; o.ID is a label for people.
func (h *Supervisor) OpenShell(ctx context.Context, req manager.Request, o sandbox.ShellOptions) (ShellInfo, error) {
	h.mu.Lock()
	if h.over {
		h.mu.Unlock()
		return ShellInfo{}, closing("open shell")
	}
	s, err := h.room(req.Who, shellKey{newID(), judgedAs(req)})
	if err != nil {
		h.mu.Unlock()
		return ShellInfo{}, err
	}
	s.info.Label = o.ID
	s.lines++
	h.active.Add(1)
	h.mu.Unlock()
	defer h.leave(s)
	if err := h.open(ctx, s, req, o); err != nil {
		return ShellInfo{}, err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	i := s.reported()
	i.Busy = s.lines > 1 // more than ourselves
	return i, nil
}

// reported returns the report about s. The lock is held.
func (s *shell) reported() ShellInfo {
	i := s.info
	i.Used, i.Busy = s.used, s.lines > 0
	return i
}

// Shells lists the open shells of a session, the oldest first.
func (h *Supervisor) Shells(who config.Who) []ShellInfo {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := []ShellInfo{}
	if have := h.sessions[who]; have != nil {
		for _, s := range have.shells {
			if s.opened() {
				out = append(out, s.reported())
			}
		}
	}
	slices.SortFunc(out, func(a, b ShellInfo) int {
		return cmp.Or(a.Opened.Compare(b.Opened), cmp.Compare(a.ID, b.ID))
	})
	return out
}

// CloseShell ends a shell of a session with all that it has left running, and
// the line that it runs.
func (h *Supervisor) CloseShell(who config.Who, id string) error {
	id = cmp.Or(id, Main)
	h.mu.Lock()
	var found []*shell
	if have := h.sessions[who]; have != nil {
		for key, s := range have.shells {
			if key.id == id {
				h.dropShell(s)
				found = append(found, s)
			}
		}
		h.tidy(who)
	}
	h.mu.Unlock()
	if len(found) == 0 {
		return notFound("close", "shell", id)
	}
	var errs []error
	for _, s := range found {
		errs = append(errs, h.shut(s))
	}
	return errors.Join(errs...)
}

// dropShell removes s from the lookup. The caller must shut it. The lock is
// held.
func (h *Supervisor) dropShell(s *shell) {
	if s.gone {
		return
	}
	s.gone = true
	delete(h.sessions[s.who].shells, s.key)
	s.tenant.shells--
}

// shut ends a shell that was dropped.
func (h *Supervisor) shut(s *shell) error {
	s.end(errShellClosed)
	<-s.ready
	if !s.opened() {
		return nil
	}
	return s.shell.Close()
}
