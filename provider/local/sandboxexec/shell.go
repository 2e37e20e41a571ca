//go:build linux || darwin

package sandboxexec

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// A shell runs each line in a process of its own, under a profile of its own,
// in the state that the line before has left. What lines leave running is in one
// process group and lives until the shell is closed, or ends with a line.
type shell struct {
	h       *handle
	id      string
	env     map[string]string
	dir     string
	turn    chan struct{} // holds one token: the right to run a line
	closing chan struct{}
	once    sync.Once

	mu      sync.Mutex
	state   string // after the last line that came to its end
	fresh   bool   // no line has left a state: the environment counts
	reborn  bool   // the next line says that it found another shell
	group   *group // nil while there is none
	current *process
	left    []*carrier // of lines that have ended
}

// OpenShell implements [sandbox.Sandbox].
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	s, err := h.newShell(ctx, o)
	if err != nil {
		return nil, err
	}
	// The first line would tell too late that there is no such folder.
	p, err := s.Run(ctx, ":", sandbox.Command{})
	if err == nil {
		_, err = p.Wait()
	}
	if err != nil {
		s.Close()
		return nil, err
	}
	return s, nil
}

// MoveShell opens a shell in the state of one of another handle of the same
// sandbox. The next line has Exit.Restarted set.
func (h *handle) MoveShell(ctx context.Context, from sandbox.Shell, o sandbox.ShellOptions) (sandbox.Shell, error) {
	old, ok := from.(*shell)
	if !ok || old.h.spec.Name != h.spec.Name || !old.h.spec.Owner.Same(h.spec.Owner) {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "move shell", Resource: h.spec.Name, Message: "the shell is not one of this sandbox"}
	}
	s, err := h.newShell(ctx, o)
	if err != nil {
		return nil, err
	}
	old.mu.Lock()
	defer old.mu.Unlock()
	s.state, s.fresh, s.reborn = old.state, old.fresh, true
	return s, nil
}

func (h *handle) newShell(ctx context.Context, o sandbox.ShellOptions) (*shell, error) {
	if err := ended(ctx, "open shell"); err != nil {
		return nil, err
	}
	if o.From != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open shell", Field: "from", Resource: h.spec.Name, Message: "a shell cannot begin in the state of another one on this system"}
	}
	if _, err := os.Stat(shellProgram); err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open shell", Resource: shellProgram, Message: "there is no shell whose state could be kept", Err: err}
	}
	s := &shell{
		h: h, id: o.ID, env: h.environment(o.Env, false), dir: h.dir(o.Dir), turn: make(chan struct{}, 1), closing: make(chan struct{}),
		state: firstState, fresh: true,
	}
	if s.id == "" {
		s.id = rand.Text()
	}
	s.turn <- struct{}{}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, h.closed("open shell")
	}
	h.shells[s] = true
	return s, nil
}

// ID implements [sandbox.Shell].
func (s *shell) ID() string { return s.id }

// Program implements [sandbox.Shell].
func (s *shell) Program() string { return "bash" }

// Run implements [sandbox.Shell].
func (s *shell) Run(ctx context.Context, text string, c sandbox.Command) (sandbox.Process, error) {
	if err := checkLine(text, c); err != nil {
		return nil, err
	}
	if err := ended(ctx, "run line"); err != nil {
		return nil, err
	}
	select {
	case <-s.turn:
	case <-s.closing:
		return nil, s.closed()
	case <-ctx.Done():
		return nil, sandbox.Errorf(sandbox.CodeTimeout, "wait for the line before", "given up: %w", ctx.Err())
	}
	p, err := s.begin(ctx, text, c)
	if err != nil {
		s.turn <- struct{}{}
		return nil, err
	}
	go func() {
		<-p.done
		s.turn <- struct{}{}
	}()
	return p, nil
}

// begin starts a line. A state that the shell cannot take up is given up. The
// caller has the turn.
func (s *shell) begin(ctx context.Context, text string, c sandbox.Command) (*process, error) {
	p, err := s.try(ctx, text, c)
	var unready *notReady
	if !errors.As(err, &unready) {
		return p, err
	}
	s.mu.Lock()
	fresh := s.fresh
	if !fresh {
		s.state, s.fresh, s.reborn = firstState, true, true
	}
	s.mu.Unlock()
	if fresh || ctx.Err() != nil {
		return nil, unready.error
	}
	s.h.p.o.Warn(s.h.spec.Name, "shell "+s.id+": the state of the shell could not be restored and is given up")
	if p, err = s.try(ctx, text, c); errors.As(err, &unready) {
		return nil, unready.error
	}
	return p, err
}

// A notReady error says that the line was not begun, because its shell was not.
type notReady struct{ error }

// try starts a line in the state that there is, and returns when the shell has
// taken that up.
func (s *shell) try(ctx context.Context, text string, c sandbox.Command) (*process, error) {
	under, err := s.h.confine(ctx)
	if err != nil {
		return nil, err
	}
	p, err := s.start(ctx, under, text, c)
	if err != nil {
		under.seen.drop()
		return nil, err
	}
	select {
	case <-p.line.ready:
	case <-p.done:
	}
	if p.line.answer().began() {
		return p, nil
	}
	<-p.done
	if err := ended(ctx, "run line"); err != nil {
		return nil, err
	}
	return nil, &notReady{&sandbox.Error{Code: sandbox.CodeUnavailable, Op: "run line", Resource: s.h.spec.Name, Err: p.failed,
		Message: fmt.Sprintf("sandbox-exec has not started the shell: exit status %d", p.exit.Code), Hint: `run "sandbox doctor"`}}
}

// start starts the process of a line.
func (s *shell) start(ctx context.Context, under confinement, text string, c sandbox.Command) (_ *process, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.isClosed() {
		return nil, s.closed()
	}
	env, dir := map[string]string{}, under.pl.workdir // the state has the variables and the folder
	if s.fresh {
		env, dir = s.env, s.dir
	}
	cmd, err := s.h.command(under, dir, env, []string{shellProgram, "--noprofile", "--norc", "-c", lineScript, "bash"})
	if err != nil {
		return nil, err
	}
	input, err := anonymous(lineInput(s.state, text))
	if err != nil {
		return nil, err
	}
	defer input.Close()
	l := &line{shell: s, ready: make(chan struct{}), reborn: s.reborn}
	var child *os.File
	if l.control, child, err = carry(l); err != nil {
		return nil, sandbox.Errorf(sandbox.CodeExecution, "run line", "%w", err)
	}
	defer func() {
		child.Close()
		if err != nil {
			l.control.close()
		}
	}()
	cmd.ExtraFiles = []*os.File{input, child}
	if s.group == nil {
		if s.group, err = newGroup(); err != nil {
			return nil, sandbox.Errorf(sandbox.CodeExecution, "run line", "no process group can be made: %w", err)
		}
	}
	p, err := begin(cmd, s.group, c)
	if err != nil {
		return nil, err
	}
	p.line, p.seen, p.judge = l, under.seen, under.judge
	s.reborn, s.current = false, p
	go p.watch(ctx, c.Grace)
	go p.wait()
	return p, nil
}

// anonymous returns a file with the content that has no name, open at its
// beginning.
func anonymous(content []byte) (*os.File, error) {
	f, err := os.CreateTemp("", "sandbox-line-*")
	if err != nil {
		return nil, statedir.Unavailable("run line", os.TempDir(), err)
	}
	err = os.Remove(f.Name())
	if err == nil {
		_, err = f.Write(content)
	}
	if err == nil {
		_, err = f.Seek(0, 0)
	}
	if err != nil {
		f.Close()
		return nil, statedir.Unavailable("run line", f.Name(), err)
	}
	return f, nil
}

// A line is one line of a shell, and gathers what its process tells.
type line struct {
	shell   *shell
	control *carrier
	reborn  bool
	ready   chan struct{} // closed when the shell has taken up its state

	mu  sync.Mutex
	got answer
}

// Write implements io.Writer for what comes from descriptor 4.
func (l *line) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.got) == 0 {
		close(l.ready)
	}
	if room := maxState + 2 - len(l.got); room > 0 {
		l.got = append(l.got, b[:min(room, len(b))]...)
	}
	return len(b), nil
}

func (l *line) answer() answer {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.got
}

// ended takes over the state that the line has left. A shell that has ended with
// the line takes everything with it.
func (l *line) ended(p *process) {
	l.control.finish()
	got := l.answer()
	s := l.shell
	state, alive := got.state()
	large := len(got) > maxState
	s.mu.Lock()
	var gone *group
	switch {
	case alive:
		s.state, s.fresh = state, false
	case large && p.exit.Signal == "":
		alive = true // and the state before is kept
	default:
		gone, s.group = s.group, nil
	}
	s.current = nil
	s.left = append(s.left, p.out, p.err, l.control)
	s.mu.Unlock()
	if large {
		s.h.p.o.Warn(s.h.spec.Name, fmt.Sprintf("shell %s: the state is larger than %d bytes; the one before is kept", s.id, maxState))
	}
	if gone != nil {
		gone.end()
	}
	s.tidy(gone != nil)
	p.exit.Restarted = l.reborn || !alive
	p.exit.Usage = sandbox.Rusage{}
}

// tidy lets go of outputs that nothing writes to any more, or of all.
func (s *shell) tidy(all bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	kept := s.left[:0]
	for _, c := range s.left {
		select {
		case <-c.void:
			c.close()
		default:
			if all {
				c.close()
			} else {
				kept = append(kept, c)
			}
		}
	}
	s.left = kept
}

func (s *shell) isClosed() bool {
	select {
	case <-s.closing:
		return true
	default:
		return false
	}
}

func (s *shell) closed() error {
	return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "run line", Resource: s.h.spec.Name, Message: "the shell " + s.id + " is closed"}
}

// Close implements [sandbox.Shell].
func (s *shell) Close() error {
	s.once.Do(func() {
		s.mu.Lock()
		close(s.closing)
		p, g := s.current, s.group
		s.mu.Unlock()
		if p != nil {
			p.kill()
			<-p.done
		}
		if g != nil {
			g.end()
		}
		s.tidy(true)
		s.h.mu.Lock()
		delete(s.h.shells, s)
		s.h.mu.Unlock()
	})
	return nil
}

// checkLine refuses what a line can say itself.
func checkLine(text string, c sandbox.Command) error {
	refuse := func(field, message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "run line", Field: field, Message: message}
	}
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"args", len(c.Args) > 0}, {"env", len(c.Env) > 0}, {"dir", c.Dir != ""}, {"tty", c.TTY != nil}, {"limits", c.Limits != sandbox.Limits{}},
		{"detach", c.Detach}, {"bare", c.Bare},
	} {
		if f.set {
			return refuse(f.name, "a line has no "+f.name+" of its own")
		}
	}
	if strings.IndexByte(text, 0) >= 0 {
		return refuse("line", "the line holds a NUL")
	}
	return nil
}

var _ sandbox.Shell = (*shell)(nil)
