package manager

import (
	"context"
	"io"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// A Shell is a shell of a session that stays: working directory, variables
// and functions are kept from line to line. It is safe for concurrent use;
// lines take turns in the order in which they came.
//
// Each line is a request of its own: judged, on record, bounded and leased as
// what [Manager.Run] runs. Between lines the sandbox is not leased, so that it
// can be frozen, pruned and recreated while an agent thinks; and the settings
// may have changed. Where the shell cannot go on it is opened anew for the next
// line, whose Exit.Restarted says so.
type Shell struct {
	m       *Manager
	base    Request
	options sandbox.ShellOptions

	turn    chan struct{} // holds one token: the right to run a line
	closing chan struct{} // closed by Close
	once    sync.Once

	mu      sync.Mutex
	seat    *seat // nil before the first and after Close
	rewound bool  // a rollback has ended it
	anew    bool  // it was opened again for this line; guarded by the turn
}

// A Line is what a shell runs, which may be many lines.
type Line struct {
	Text           string
	Stdin          io.Reader // nil is empty
	Stdout, Stderr io.Writer // may block; nil discards
	Timeout        time.Duration

	Ask     bool // as in Request; for hosts it is the shell's that counts
	Again   func()
	Started func(sandbox.Process)
}

// OpenShell opens a shell that stays, and ensures its sandbox as Run does.
// Of req, what is about one command must be empty. The end of ctx is of no
// matter once OpenShell has returned.
func (m *Manager) OpenShell(ctx context.Context, req Request, o sandbox.ShellOptions) (*Shell, error) {
	if err := onlySession(req); err != nil {
		return nil, err
	}
	if err := sandbox.CheckEnv(o.Env); err != nil {
		return nil, err
	}
	if o.ID == "" {
		o.ID = newID()
	}
	s := &Shell{m: m, base: req, options: o, turn: make(chan struct{}, 1), closing: make(chan struct{})}
	s.turn <- struct{}{}
	m.checkpoints.track(s, true)
	opening := req
	opening.bare = true
	err := m.pipeline(opening, gate.Call{Tool: req.Tool, Dir: o.Dir}).run(ctx, func(l *acquired) error {
		return s.settle(ctx, l, &req)
	})
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// onlySession refuses a request that is about more than whose sandbox is meant.
func onlySession(req Request) error {
	c := req.Command
	if len(c.Args) > 0 || c.Env != nil || c.Dir != "" || c.Stdin != nil || c.Stdout != nil || c.Stderr != nil || c.TTY != nil || req.Remove || req.Started != nil {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "open shell", Field: "command", Message: "a shell that stays is opened without a command", Hint: "give it lines to run afterwards"}
	}
	return nil
}

// ID is what the shell is called.
func (s *Shell) ID() string { return s.options.ID }

// Program is the name of the shell inside, see [sandbox.Shell]; empty once it
// is closed.
func (s *Shell) Program() string {
	if at := s.at(); at != nil {
		return at.inner.Program()
	}
	return ""
}

// Name is that of the sandbox that it is in; empty once it is closed.
func (s *Shell) Name() string {
	if at := s.at(); at != nil {
		return at.name
	}
	return ""
}

func (s *Shell) at() *seat {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seat
}

// Run runs a line when it is its turn. It reports errors as [Manager.Run] does;
// a line that has ended the shell is an Outcome, and the next one finds a new
// shell.
func (s *Shell) Run(ctx context.Context, line Line) (Outcome, error) {
	select {
	case <-s.turn:
	case <-s.closing:
		return Outcome{}, s.closed()
	case <-ctx.Done():
		return Outcome{}, sandbox.Errorf(sandbox.CodeTimeout, "wait for the line before", "given up: %w", ctx.Err())
	}
	defer func() { s.turn <- struct{}{} }()
	if s.isClosed() {
		return Outcome{}, s.closed()
	}
	req := s.base
	req.Timeout, req.Ask, req.Again, req.Started = line.Timeout, req.Ask || line.Ask, line.Again, line.Started
	req.line = line.Text
	req.Command = sandbox.Command{Args: []string{"sh", "-c", line.Text}, Stdin: line.Stdin, Stdout: line.Stdout, Stderr: line.Stderr}
	call := gate.Call{Tool: req.Tool, Line: line.Text}
	s.anew = false
	var out Outcome
	err := s.m.pipeline(req, call).run(ctx, func(l *acquired) (err error) {
		l.shell = s
		out, err = s.m.executor.runAsking(ctx, l, req)
		return err
	})
	if s.isClosed() && (err != nil || out.Exit.Restarted && out.Exit.Signal != "") { // Close may have ended the line before it ends ctx
		err = s.closed()
	}
	out.Exit.Restarted = out.Exit.Restarted || s.anew
	return out, err
}

func (s *Shell) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func (s *Shell) closed() error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "run line", Resource: s.options.ID, Message: "the shell is closed", Hint: "open another one"}
}

// rewind ends what the shell has in the sandbox of that name, so that its next
// line opens it anew. No line runs.
func (s *Shell) rewind(name string) {
	s.mu.Lock()
	at := s.seat
	if at == nil || at.name != name {
		s.mu.Unlock()
		return
	}
	s.seat, s.rewound = nil, true
	s.mu.Unlock()
	_ = at.leave() // its program may have ended
}

// Close ends the shell with all that it has left running. It may be called
// again.
func (s *Shell) Close() error {
	var err error
	s.once.Do(func() {
		s.m.checkpoints.track(s, false)
		s.mu.Lock()
		close(s.closing)
		at := s.seat
		s.seat = nil
		s.mu.Unlock()
		if at != nil {
			err = at.leave()
		}
	})
	return err
}
