package fake

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
)

// A shell is one persistent shell. It lives in runs: when its processes are
// gone the next line starts another run from the state that was kept.
type shell struct {
	h    *handle
	id   string
	turn chan struct{} // holds one token: the caller that has it runs a line
	shut chan struct{} // closed by Close

	mu     sync.Mutex
	closed bool
	live   *shellRun // written by the owner of the token only

	// Guarded by the token.
	kept     shellState // after the last line that came to its end
	reported bool       // a line has said that live has ended
}

// A shellRun is the processes of a shell, from its start to its end.
type shellRun struct {
	*tree
	main  *Proc
	lines chan *line
}

// OpenShell implements [sandbox.Sandbox].
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	if err := h.lacks(h.e.without.Shells, "open shell"); err != nil {
		return nil, err
	}
	if err := h.step(ctx, "open shell", StepOpenShell); err != nil {
		return nil, err
	}
	if err := checkArgs(sandbox.Command{Args: []string{"sh"}, Env: o.Env}); err != nil {
		return nil, err
	}
	dir, err := h.directory("open shell", o.Dir)
	if err != nil {
		return nil, err
	}
	s := &shell{
		h: h, id: o.ID, turn: make(chan struct{}, 1), shut: make(chan struct{}),
		kept: newShellState(h.environment(sandbox.Command{Env: o.Env}), dir, 0o022),
	}
	if s.id == "" {
		s.id = rand.Text()
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	s.turn <- struct{}{}
	return s, nil
}

// ID implements [sandbox.Shell].
func (s *shell) ID() string { return s.id }

// Program implements [sandbox.Shell]: like bash, the fake keeps functions when
// it is started again.
func (s *shell) Program() string { return "bash" }

// begin starts the processes from the state that was kept.
func (s *shell) begin() error {
	run := &shellRun{tree: s.h.newTree(sandbox.Limits{}), lines: make(chan *line)}
	main := run.newProc([]string{"bash"})
	run.main = main
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.closedError()
	}
	if err := run.enter("open shell", main); err != nil {
		return err
	}
	state := s.kept.clone()
	main.run(func(p *Proc) int {
		sh := newShellProc(p, state, "bash")
		sh.lenient = true
		sh.set("BASH_VERSION", "fake")
		for {
			select {
			case l := <-run.lines:
				if status, exited := l.run(sh); exited {
					return sh.finish(status)
				}
			case <-p.dead:
				p.checkpoint()
			}
		}
	})
	go func() {
		<-main.done
		run.kill() // a shell takes with it what it has left running
	}()
	s.live, s.reported = run, false
	return nil
}

// Run implements [sandbox.Shell].
func (s *shell) Run(ctx context.Context, text string, c sandbox.Command) (sandbox.Process, error) {
	if err := checkLine(text, c); err != nil {
		return nil, err
	}
	if err := s.h.step(ctx, "run line", StepLine); err != nil {
		return nil, err
	}
	select {
	case <-s.turn:
	case <-s.shut:
		return nil, s.closedError()
	case <-s.h.boot.ended:
		return nil, fell("run line", s.h.spec.Name)
	case <-ctx.Done():
		return nil, stepError(ctx.Err(), StepLine, s.h.spec.Name)
	}
	l, err := s.start(ctx, text, c)
	if err != nil {
		s.turn <- struct{}{}
		return nil, err
	}
	return l, nil
}

// start hands a line to the shell, or to a new one where it has gone.
func (s *shell) start(ctx context.Context, text string, c sandbox.Command) (*line, error) {
	select {
	case <-s.shut:
		return nil, s.closedError()
	default:
	}
	if err := ctx.Err(); err != nil {
		return nil, stepError(err, StepLine, s.h.spec.Name)
	}
	l, err := newLine(s, text, c)
	if err != nil {
		return nil, err
	}
	for {
		select {
		case <-s.live.gone:
			l.restarted = l.restarted || !s.reported
			if err := s.begin(); err != nil {
				l.closeInput()
				return nil, err
			}
			continue
		default:
		}
		l.live = s.live
		select {
		case s.live.lines <- l:
			l.attend(ctx)
			return l, nil
		case <-s.live.main.done:
			<-s.live.gone
		}
	}
}

func (s *shell) closedError() error {
	return failure(sandbox.CodeUnavailable, "run line", s.h.spec.Name, "the shell is closed")
}

// Close implements [sandbox.Shell]. A line that runs is killed.
func (s *shell) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.shut)
	}
	live := s.live
	s.mu.Unlock()
	live.kill()
	return nil
}

// checkLine refuses what a line cannot have.
func checkLine(text string, c sandbox.Command) error {
	refuse := func(field, message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "run line", Field: field, Message: message}
	}
	for field, set := range map[string]bool{
		"args": len(c.Args) > 0, "env": len(c.Env) > 0, "dir": c.Dir != "", "tty": c.TTY != nil,
		"limits": c.Limits != sandbox.Limits{}, "detach": c.Detach, "bare": c.Bare,
	} {
		if set {
			return refuse(field, fmt.Sprintf("a line has no %s of its own", field))
		}
	}
	if strings.IndexByte(text, 0) >= 0 {
		return refuse("line", "the line holds a NUL")
	}
	return nil
}
