package fake

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
)

// A Program is what a name in PATH runs. It returns the exit status. It must
// do its waiting, reading and writing through p: these end the goroutine when
// the process is killed. It must not start goroutines that outlive it.
type Program func(p *Proc) int

// A Proc is one process inside a sandbox, as its program sees it.
type Proc struct {
	Args []string
	Env  map[string]string
	Dir  string

	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer

	tree *tree
	pid  int
	ctx  context.Context // ended when a signal ends the process, or its tree is killed
	end  context.CancelFunc
	done chan struct{} // closed when its goroutine has ended

	signal string // that ended it, or empty; guarded by Engine.mu
	code   int    // valid after done
}

// PID returns the process id.
func (p *Proc) PID() int { return p.pid }

// Path returns the absolute path of a name in the working directory.
func (p *Proc) Path(name string) string {
	if path.IsAbs(name) {
		return name
	}
	return p.Dir + "/" + name
}

// Sleep waits for d.
func (p *Proc) Sleep(d time.Duration) {
	select {
	case <-time.After(d):
	case <-p.ctx.Done():
	}
	p.checkpoint()
}

// Work has the process use processor time. It takes none of ours.
func (p *Proc) Work(d time.Duration) {
	e, t := p.tree.h.e, p.tree
	e.mu.Lock()
	t.cpu += d
	if bound := t.limits.CPUSeconds; bound > 0 && t.cpu >= time.Duration(bound)*time.Second && t.hit == nil {
		t.hit = &sandbox.LimitHit{Limit: sandbox.LimitCPUSeconds, Current: int64(t.cpu / time.Second), Bound: bound, Unit: sandbox.UnitSeconds}
		t.kill()
	}
	e.mu.Unlock()
	p.checkpoint()
}

// checkpoint waits while the sandbox is paused and ends the goroutine when
// the process was killed.
func (p *Proc) checkpoint() {
	e := p.tree.h.e
	e.mu.Lock()
	thawed := p.tree.h.boot.thawed
	e.mu.Unlock()
	select {
	case <-p.ctx.Done():
	case <-thawed:
	}
	if p.ctx.Err() != nil {
		runtime.Goexit()
	}
}

// run starts the goroutine of p.
func (p *Proc) run(program Program) {
	go func() {
		code, returned := 0, false
		defer func() { p.finish(code, returned) }()
		p.checkpoint()
		code = program(p)
		returned = true
	}()
}

func (p *Proc) finish(code int, returned bool) {
	t := p.tree
	t.h.e.mu.Lock()
	defer t.h.e.mu.Unlock()
	p.code = code & 0xff
	switch {
	case returned:
		p.signal = ""
	case p.signal == "":
		p.signal = "KILL"
	}
	if n, ok := signalNumber(p.signal); ok {
		p.code = 128 + n
	}
	close(p.done)
	delete(t.procs, p)
	delete(t.h.boot.procs, p)
	if len(t.procs) == 0 {
		delete(t.h.boot.trees, t)
		t.kill()
		close(t.gone)
	}
}

// deliverLocked sends a signal. There are no handlers: most signals end the
// process.
func (p *Proc) deliverLocked(name string) {
	if !slices.Contains([]string{"CHLD", "CONT", "URG", "WINCH"}, name) && p.ctx.Err() == nil {
		p.signal = name
		p.end()
	}
}

func signalNumber(name string) (int, bool) {
	n := int(unix.SignalNum("SIG" + name))
	return n, n != 0
}

// A tree is the processes that end together: those of a command, or those of
// a shell from its start to its end.
type tree struct {
	h      *handle
	limits sandbox.Limits
	detach bool
	ctx    context.Context // of all its processes
	kill   context.CancelFunc
	gone   chan struct{} // closed when no process is left

	// Guarded by Engine.mu.
	procs map[*Proc]bool
	tty   *sandbox.TTY
	lost  bool // the sandbox ended under it
	seen  []sandbox.Violation
	cpu   time.Duration
	hit   *sandbox.LimitHit
}

// newTree makes a tree and its first process, which does not run yet.
func (h *handle) newTree(op string, first *Proc, limits sandbox.Limits) (*tree, error) {
	t := &tree{h: h, limits: limits, gone: make(chan struct{}), procs: map[*Proc]bool{}}
	if t.limits.CPUSeconds == 0 {
		t.limits.CPUSeconds = h.spec.Limits.CPUSeconds
	}
	t.ctx, t.kill = context.WithCancel(context.Background())
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	switch {
	case h.ended():
		return nil, fell(op, h.spec.Name)
	case h.shut():
		return nil, closedHandle(op, h.spec.Name)
	case h.boot.paused:
		return nil, failure(sandbox.CodeUnavailable, op, h.spec.Name, "the sandbox is paused")
	}
	h.boot.trees[t] = true
	t.addLocked(first)
	return t, nil
}

// addLocked makes p a process of the tree.
func (t *tree) addLocked(p *Proc) {
	t.h.e.nextPID++
	p.tree, p.pid, p.done = t, t.h.e.nextPID, make(chan struct{})
	p.ctx, p.end = context.WithCancel(t.ctx)
	t.procs[p], t.h.boot.procs[p] = true, true
}

// signal sends every process a signal.
func (t *tree) signal(name string) {
	t.h.e.mu.Lock()
	defer t.h.e.mu.Unlock()
	if name == "KILL" {
		t.kill() // also those still to be born
	}
	for p := range t.procs {
		p.deliverLocked(name)
	}
}

// watch kills the tree when ctx ends, after TERM and grace, unless over is
// closed first.
func (t *tree) watch(ctx context.Context, grace time.Duration, over <-chan struct{}) {
	select {
	case <-over:
		return
	case <-ctx.Done():
	}
	if grace > 0 {
		t.signal("TERM")
		select {
		case <-over:
			return
		case <-time.After(grace):
		}
	}
	select {
	case <-over: // at the same moment
	default:
		t.signal("KILL")
	}
}

// used is what the tree has used, by its programs' own account.
func (t *tree) used() (sandbox.Rusage, *sandbox.LimitHit) {
	t.h.e.mu.Lock()
	defer t.h.e.mu.Unlock()
	return sandbox.Rusage{MaxRSS: 1 << 20, User: t.cpu}, t.hit
}

// A stream hands bytes from processes to a pump without a buffer between: a
// process that writes waits until its bytes are taken.
type stream struct {
	chunks chan []byte
	ended  chan struct{} // closed by the pump's owner
}

func newStream() *stream { return &stream{chunks: make(chan []byte), ended: make(chan struct{})} }

// drain copies until the stream has ended. A nil w discards, and so does one
// that has failed: the program must not hang for lack of a reader.
func (s *stream) drain(w io.Writer) {
	for {
		select {
		case chunk := <-s.chunks:
			if w == nil {
				continue
			}
			if _, err := w.Write(chunk); err != nil {
				w = nil
			}
		case <-s.ended:
			return
		}
	}
}

// errDead is what a process gets that was killed while it waited.
var errDead = errors.New("the process was killed")

// An output is a process's end of a stream.
type output struct {
	ctx context.Context // of the process
	s   *stream
}

func (o output) Write(b []byte) (int, error) {
	const most = 32 << 10
	for chunk := range slices.Chunk(b, most) {
		select {
		case o.s.chunks <- bytes.Clone(chunk):
		case <-o.s.ended: // what comes later is dropped
		case <-o.ctx.Done():
			return 0, errDead
		}
	}
	return len(b), nil
}

// A writer is what a program writes to. It ends a killed process, and one
// whose reader has gone.
type writer struct {
	p *Proc
	w io.Writer
}

func (w writer) Write(b []byte) (int, error) {
	w.p.checkpoint()
	n, err := w.w.Write(b)
	if err != nil {
		w.p.tree.h.e.mu.Lock()
		w.p.deliverLocked("PIPE")
		w.p.tree.h.e.mu.Unlock()
	}
	w.p.checkpoint()
	return n, err
}

// A reader is what a program reads from.
type reader struct {
	p    *Proc
	file *os.File // or nil, which is at its end
}

func (r reader) Read(b []byte) (int, error) {
	r.p.checkpoint()
	if r.file == nil {
		return 0, io.EOF
	}
	defer wakes(r.p.ctx, r.file)()
	n, err := r.file.Read(b)
	r.p.checkpoint()
	return n, err
}

// wakes ends reading from a pipe when ctx ends.
func wakes(ctx context.Context, pipe *os.File) (stop func() bool) {
	return context.AfterFunc(ctx, func() { pipe.SetReadDeadline(time.Unix(0, 1)) })
}

// stdin returns a pipe that carries what from holds, and what closes it. A nil
// reader is a nil pipe.
func stdin(from io.Reader) (pipe *os.File, shut func(), err error) {
	if from == nil {
		return nil, func() {}, nil
	}
	out, in, err := os.Pipe()
	if err != nil {
		return nil, nil, err
	}
	go func() {
		io.Copy(in, struct{ io.Reader }{from}) // it may stay in Read after the end: that reader is the caller's
		in.Close()
	}()
	return out, func() { out.Close(); in.Close() }, nil
}

// A command is one started program with its process tree.
type command struct {
	*tree
	main *Proc

	done chan struct{} // closed when Wait may return
	exit sandbox.Exit  // valid after done
	err  error         // valid after done
}

var (
	_ sandbox.Process = (*command)(nil)
	_ sandbox.Metered = (*command)(nil)

	_ sandbox.Identified = (*command)(nil)
)

// PID implements [sandbox.Identified].
func (c *command) PID() int { return c.main.pid }

// launch checks c, starts its first process and the goroutines around it.
func (h *handle) launch(ctx context.Context, c sandbox.Command) (*command, error) {
	if err := checkArgs(c); err != nil {
		return nil, err
	}
	dir, err := h.directory("start", c.Dir)
	if err != nil {
		return nil, err
	}
	program, err := h.lookup(c.Args[0], dir)
	if err != nil {
		return nil, &sandbox.Error{
			Code: sandbox.CodeExecution, Op: "start", Field: "args", Resource: c.Args[0],
			Message: fmt.Sprintf("%q cannot be started in the sandbox", c.Args[0]), Err: err,
		}
	}
	main := &Proc{Args: slices.Clone(c.Args), Env: h.environment(c), Dir: dir}
	pipe, shut, err := stdin(c.Stdin)
	if err != nil {
		return nil, failure(sandbox.CodeInternal, "start", h.spec.Name, "no pipe could be made for the input")
	}
	t, err := h.newTree("start", main, c.Limits)
	if err != nil {
		shut()
		return nil, err
	}
	cmd := &command{tree: t, main: main, done: make(chan struct{})}
	t.detach = c.Detach
	stdout, stderr := newStream(), newStream()
	if c.TTY != nil {
		size := *c.TTY
		t.tty, stderr = &size, stdout
	}
	main.Stdin = reader{main, pipe}
	main.Stdout, main.Stderr = writer{main, output{main.ctx, stdout}}, writer{main, output{main.ctx, stderr}}
	main.run(program)
	go t.watch(ctx, c.Grace, t.gone)
	go func() {
		pumped := pump(stdout, c.Stdout, stderr, c.Stderr)
		<-main.done
		if !c.Detach {
			t.kill() // stray children end with their command
		}
		<-t.gone
		shut()
		pumped()
		cmd.exit = sandbox.Exit{Code: main.code, Signal: main.signal}
		cmd.exit.Usage, cmd.exit.Limit = t.used()
		if t.lost {
			cmd.exit, cmd.err = sandbox.Exit{}, fell("wait", h.spec.Name)
		}
		close(cmd.done)
	}()
	return cmd, nil
}

// pump copies two streams, which may be one, until the function that it
// returns is called.
func pump(stdout *stream, to io.Writer, stderr *stream, errTo io.Writer) (end func()) {
	var pumps sync.WaitGroup
	pumps.Go(func() { stdout.drain(to) })
	if stderr != stdout {
		pumps.Go(func() { stderr.drain(errTo) })
	}
	return func() {
		close(stdout.ended)
		if stderr != stdout {
			close(stderr.ended)
		}
		pumps.Wait()
	}
}

// environment lays that of c over what the sandbox and the handle set, unless
// c is bare.
func (h *handle) environment(c sandbox.Command) map[string]string {
	env := map[string]string{}
	if !c.Bare {
		env["PATH"], env["HOME"] = "/usr/local/bin:/usr/bin:/bin", sandbox.HomeDir
		maps.Copy(env, h.spec.Env)
	}
	maps.Copy(env, c.Env)
	return env
}

// directory returns where a command starts that asks for dir.
func (h *handle) directory(op, dir string) (string, error) {
	dir = h.spec.DirOf(dir)
	h.e.disk.RLock()
	defer h.e.disk.RUnlock()
	real, n, err := h.boot.files.existing(path.Clean("/"+dir), true)
	if err != nil || !n.mode.IsDir() {
		return "", &sandbox.Error{
			Code: sandbox.CodeExecution, Op: op, Field: "dir", Resource: dir,
			Message: fmt.Sprintf("cannot enter the working directory %q", dir), Err: err,
		}
	}
	return real, nil
}

// lookup returns the program that name means to a process in dir, or ENOENT or
// EACCES. An executable file is a script of the shell.
func (h *handle) lookup(name, dir string) (Program, error) {
	if d := path.Dir(name); !strings.Contains(name, "/") || d == "/bin" || d == "/usr/bin" {
		if program := h.e.programs[path.Base(name)]; program != nil {
			return program, nil
		}
		return nil, unix.ENOENT
	}
	if !path.IsAbs(name) {
		name = dir + "/" + name
	}
	info, err := h.boot.files.stat(name, false)
	switch {
	case err != nil:
		return nil, unix.ENOENT
	case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
		return nil, unix.EACCES
	}
	return func(p *Proc) int {
		text, _ := h.boot.files.read(name)
		return runText(p, string(text), name, nil, p.Args[1:])
	}, nil
}

// checkArgs refuses what no kernel can pass on.
func checkArgs(c sandbox.Command) error {
	refuse := func(field, message string) error {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "start", Field: field, Message: message}
	}
	if len(c.Args) == 0 || c.Args[0] == "" {
		return refuse("args", "no program is named")
	}
	for i, a := range c.Args {
		if strings.ContainsRune(a, 0) {
			return refuse(fmt.Sprintf("args[%d]", i), "an argument holds a NUL")
		}
	}
	return sandbox.CheckEnv(c.Env)
}

// Wait implements [sandbox.Process].
func (c *command) Wait() (sandbox.Exit, error) {
	<-c.done
	return c.exit, c.err
}

// Used implements [sandbox.Metered].
func (c *command) Used(context.Context) (sandbox.Rusage, error) {
	u, _ := c.used()
	return u, nil
}

// Signal implements [sandbox.Process]: the first process gets the signal.
func (c *command) Signal(ctx context.Context, name string) error {
	if err := checkSignal(ctx, name, c.h.spec.Name); err != nil {
		return err
	}
	c.h.e.mu.Lock()
	defer c.h.e.mu.Unlock()
	if c.procs[c.main] {
		c.main.deliverLocked(name)
	}
	return nil
}

func checkSignal(ctx context.Context, name, box string) error {
	if _, ok := signalNumber(name); !ok {
		return &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "signal", Field: "signal", Message: fmt.Sprintf("unknown signal %q", name),
		}
	}
	if err := ctx.Err(); err != nil {
		return stepError(err, StepExec, box)
	}
	return nil
}

// Resize implements [sandbox.Process].
func (c *command) Resize(_ context.Context, t sandbox.TTY) error {
	c.h.e.mu.Lock()
	defer c.h.e.mu.Unlock()
	if c.tty == nil {
		return noTerminal(c.h.spec.Name)
	}
	*c.tty = t
	return nil
}

func noTerminal(box string) error {
	return failure(sandbox.CodeUnsupported, "resize", box, "the command has no terminal")
}

// Kill implements [sandbox.Process].
func (c *command) Kill(context.Context) error {
	c.kill()
	<-c.gone
	return nil
}
