package fake

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/bulkhead-dev/sandbox"
)

// An environ is what a runner starts with. While it is set up the runner asks
// for HOME, TMPDIR, UID and others and takes what is missing from the machine,
// so everything is there then. What it takes for the folder of its own pipes
// can be no path.
type environ struct {
	expand.Environ
	booting bool
}

func (e *environ) Get(name string) expand.Variable {
	if e.booting {
		return expand.Variable{Set: true, Kind: expand.String, Str: "/\x00"}
	}
	return e.Environ.Get(name)
}

// newRunner returns a shell that starts with env in dir, an absolute path.
func newRunner(env map[string]string, dir string) *interp.Runner {
	var list []string
	for k, v := range env {
		list = append(list, k+"="+v)
	}
	world := &environ{expand.ListEnviron(list...), true}
	r, err := interp.New(
		interp.Env(world), interp.StdIO(nil, nil, nil),
		func(r *interp.Runner) error { r.Dir = dir; return nil }, // interp.Dir would look at the machine
		interp.CallHandler(callHandler), interp.ExecHandlers(execHandler), interp.OpenHandler(openHandler),
		interp.ReadDirHandler2(func(ctx context.Context, name string) ([]fs.DirEntry, error) {
			return filesOf(ctx).readDir(absolute(ctx, name))
		}),
		interp.StatHandler(func(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
			return filesOf(ctx).stat(absolute(ctx, name), !follow)
		}),
		interp.AccessHandler(func(ctx context.Context, name string, _ interp.AccessMode) error {
			_, err := filesOf(ctx).stat(absolute(ctx, name), false)
			return err
		}),
	)
	if err != nil {
		panic(err) // no option above fails
	}
	r.Reset()
	world.booting = false
	return r
}

type procKey struct{}

// procOf returns the process of the shell that a handler works for.
func procOf(ctx context.Context) *Proc { return ctx.Value(procKey{}).(*Proc) }

func filesOf(ctx context.Context) view { return procOf(ctx).tree.h.boot.files }

func absolute(ctx context.Context, name string) string {
	if path.IsAbs(name) || name == "" {
		return name
	}
	return interp.HandlerCtx(ctx).Dir + "/" + name
}

// callHandler sends what the interpreter would ask the machine for to the
// programs of the fake.
func callHandler(ctx context.Context, args []string) ([]string, error) {
	if len(args) == 3 && args[0] == "command" && args[1] == "-v" {
		return []string{"which", args[2]}, nil
	}
	return args, nil
}

// execHandler runs programs as children of the shell.
func execHandler(interp.ExecHandlerFunc) interp.ExecHandlerFunc {
	return func(ctx context.Context, args []string) error {
		p, hc := procOf(ctx), interp.HandlerCtx(ctx)
		program, err := p.tree.h.lookup(args[0], hc.Dir)
		if err == unix.EACCES {
			fmt.Fprintf(hc.Stderr, "sh: %s: Permission denied\n", args[0])
			return interp.ExitStatus(126)
		}
		if err != nil {
			fmt.Fprintf(hc.Stderr, "sh: %s: not found\n", args[0])
			return interp.ExitStatus(127)
		}
		child := &Proc{Args: args, Env: map[string]string{}, Dir: hc.Dir}
		hc.Env.Each(func(name string, v expand.Variable) bool {
			if v.IsSet() && v.Exported && v.Kind == expand.String {
				child.Env[name] = v.Str
			}
			return true
		})
		in, _ := hc.Stdin.(*os.File)
		child.Stdin, child.Stdout, child.Stderr = reader{child, in}, writer{child, hc.Stdout}, writer{child, hc.Stderr}
		e := p.tree.h.e
		e.mu.Lock()
		if p.ctx.Err() != nil {
			e.mu.Unlock()
			return errDead
		}
		p.tree.addLocked(child)
		e.mu.Unlock()
		child.run(program)
		select {
		case <-child.done:
		case <-p.ctx.Done():
			return errDead
		}
		if child.code != 0 {
			return interp.ExitStatus(child.code)
		}
		return nil
	}
}

// openHandler opens files for redirections. An interpreter reads from nothing
// but pipes.
func openHandler(ctx context.Context, name string, flag int, _ fs.FileMode) (io.ReadWriteCloser, error) {
	v, full := filesOf(ctx), absolute(ctx, name)
	if flag&(os.O_WRONLY|os.O_RDWR|os.O_APPEND) != 0 {
		f, err := v.create(full, flag&os.O_TRUNC != 0, flag&os.O_APPEND != 0)
		if err != nil {
			return nil, &fs.PathError{Op: "open", Path: name, Err: err}
		}
		return f, nil
	}
	data, err := v.read(full)
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: "pipe", Err: err}
	}
	go func() {
		in.Write(data) // until the reader closes
		in.Close()
	}()
	return out, nil
}

// runLines runs a text in a shell whose process is p and returns its status.
// A text that makes no sense has status 2.
func runLines(p *Proc, r *interp.Runner, text string, in *os.File, out, errOut io.Writer) int {
	if in != nil {
		defer wakes(p.ctx, in)()
	}
	var from io.Reader // not a nil *os.File
	if in != nil {
		from = in
	}
	file, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err == nil {
		err = interp.StdIO(from, out, errOut)(r)
	}
	if err == nil {
		err = r.Run(context.WithValue(p.ctx, procKey{}, p), file)
	}
	if status, ok := errors.AsType[interp.ExitStatus](err); ok {
		return int(status)
	}
	if err != nil && p.ctx.Err() == nil {
		fmt.Fprintf(errOut, "sh: %v\n", err)
	}
	if err != nil {
		return 2
	}
	return 0
}

// runText is a program that runs a text with options and arguments of the
// shell.
func runText(p *Proc, text, name string, options, args []string) int {
	r := newRunner(p.Env, p.Dir)
	if err := interp.Params(slices.Concat(options, []string{"--"}, args)...)(r); err != nil {
		fmt.Fprintf(p.Stderr, "%s: %v\n", name, err)
		return 2
	}
	in, _ := p.Stdin.(reader)
	out, errOut := p.Stdout, p.Stderr
	if w, ok := out.(writer); ok { // the interpreter's goroutines must not be ended
		out = w.w
	}
	if w, ok := errOut.(writer); ok {
		errOut = w.w
	}
	status := runLines(p, r, text, in.file, out, errOut)
	p.checkpoint()
	return status
}

// sh is the program: sh [-OPTIONS] [-c [--] TEXT [NAME [ARGUMENTS…]]], or a text on
// standard input.
func sh(p *Proc) int {
	var options []string
	args, command := p.Args[1:], false
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		if args[0] == "--" {
			args = args[1:]
			break
		}
		command = command || strings.Contains(args[0], "c")
		if letters := strings.Trim(args[0], "-cs"); letters != "" {
			options = append(options, "-"+letters)
		}
		args = args[1:]
	}
	if !command {
		text, _ := io.ReadAll(p.Stdin)
		return runText(p, string(text), "sh", options, args)
	}
	if len(args) == 0 {
		fmt.Fprintln(p.Stderr, "sh: -c requires an argument")
		return 2
	}
	return runText(p, args[0], "sh", options, args[min(len(args), 2):])
}

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
	kept     *interp.Runner // after the last line that came to its end
	reported bool           // a line has said that live has ended
}

// A shellRun is the processes of a shell, from its start to its end.
type shellRun struct {
	*tree
	main   *Proc
	runner *interp.Runner
	exited chan int // gets the status of a shell that exits
}

// OpenShell implements [sandbox.Sandbox].
func (h *handle) OpenShell(ctx context.Context, o sandbox.ShellOptions) (sandbox.Shell, error) {
	if err := h.step(ctx, "open shell", StepOpenShell); err != nil {
		return nil, err
	}
	if err := checkArgs(sandbox.Command{Args: []string{"sh"}, Env: o.Env}); err != nil {
		return nil, err
	}
	if o.From != nil {
		return nil, failure(sandbox.CodeUnsupported, "open shell", h.spec.Name, "a shell cannot begin in the state of another one")
	}
	dir, err := h.directory("open shell", o.Dir)
	if err != nil {
		return nil, err
	}
	s := &shell{
		h: h, id: o.ID, turn: make(chan struct{}, 1), shut: make(chan struct{}),
		kept: newRunner(h.environment(sandbox.Command{Env: o.Env}), dir),
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
	main := &Proc{Args: []string{"bash"}, Stdin: reader{}, Stdout: io.Discard, Stderr: io.Discard}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return s.closedError()
	}
	t, err := s.h.newTree("open shell", main, sandbox.Limits{})
	if err != nil {
		return err
	}
	run := &shellRun{t, main, s.kept.Subshell(), make(chan int, 1)}
	main.run(func(p *Proc) int {
		select {
		case status := <-run.exited:
			return status
		case <-p.ctx.Done():
		}
		p.checkpoint()
		return 0
	})
	go func() {
		<-main.done
		t.kill() // a shell takes with it what it has left running
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

// start runs a line in the shell, or in a new one where it has gone.
func (s *shell) start(ctx context.Context, text string, c sandbox.Command) (*line, error) {
	if err := ctx.Err(); err != nil {
		return nil, stepError(err, StepLine, s.h.spec.Name)
	}
	l := &line{s: s, ended: make(chan struct{}), done: make(chan struct{})}
	select {
	case <-s.live.ctx.Done():
		<-s.live.gone
		l.exit.Restarted = !s.reported
		if err := s.begin(); err != nil {
			return nil, err
		}
	default:
	}
	pipe, shut, err := stdin(c.Stdin)
	if err != nil {
		return nil, failure(sandbox.CodeInternal, "run line", s.h.spec.Name, "no pipe could be made for the input")
	}
	l.live = s.live
	stdout, stderr := newStream(), newStream()
	pumped := pump(stdout, c.Stdout, stderr, c.Stderr)
	finished := make(chan int, 1)
	go func() {
		run := l.live
		finished <- runLines(run.main, run.runner, text, pipe, output{run.main.ctx, stdout}, output{run.main.ctx, stderr})
	}()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		l.live.watch(ctx, c.Grace, l.ended)
	}()
	go func() {
		l.settle(<-finished)
		close(l.ended)
		<-watched
		shut()
		pumped()
		s.turn <- struct{}{}
		close(l.done)
	}()
	return l, nil
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
	<-live.gone
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

// A line is one line that a shell runs. It has the shell's turn until it ends.
type line struct {
	s     *shell
	live  *shellRun     // that runs it
	ended chan struct{} // closed when the shell has come to the line's end

	done chan struct{} // closed when Wait may return
	exit sandbox.Exit  // valid after done
	err  error         // valid after done
}

var _ sandbox.Process = (*line)(nil)

// settle finds the result of a line whose text has ended with status.
func (l *line) settle(status int) {
	run, restarted := l.live, l.exit.Restarted
	ends := run.main.ctx.Err() != nil
	if !ends && run.runner.Exited() {
		ends = true
		run.exited <- status
	}
	if !ends {
		l.s.kept = run.runner.Subshell()
		l.exit = sandbox.Exit{Code: status, Restarted: restarted}
		l.exit.Usage, l.exit.Limit = run.used()
		return
	}
	<-run.gone
	l.s.reported = true
	l.exit = sandbox.Exit{Code: run.main.code, Signal: run.main.signal, Restarted: true}
	l.exit.Usage, l.exit.Limit = run.used()
	if run.lost {
		l.exit, l.err = sandbox.Exit{}, fell("wait", l.s.h.spec.Name)
	}
}

// Wait implements [sandbox.Process].
func (l *line) Wait() (sandbox.Exit, error) {
	<-l.done
	return l.exit, l.err
}

// Signal implements [sandbox.Process]: every process of the shell gets it.
func (l *line) Signal(ctx context.Context, name string) error {
	if err := checkSignal(ctx, name, l.s.h.spec.Name); err != nil {
		return err
	}
	if !l.isOver() {
		l.live.signal(name)
	}
	return nil
}

func (l *line) isOver() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// Resize implements [sandbox.Process]: a line has no terminal.
func (l *line) Resize(context.Context, sandbox.TTY) error { return noTerminal(l.s.h.spec.Name) }

// Kill implements [sandbox.Process]: the whole shell ends.
func (l *line) Kill(context.Context) error {
	if !l.isOver() {
		l.live.signal("KILL")
	}
	return nil
}
