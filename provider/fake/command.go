package fake

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
)

// defaultPath is the PATH of a sandbox that sets none.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// A command is one started program with its process tree.
type command struct {
	handle *handle
	spec   sandbox.Command
	env    map[string]string
	dir    string
	limits sandbox.Limits
	stdout *stream
	stderr *stream

	treeGone chan struct{} // closed when no process of it is left
	done     chan struct{} // closed when Wait may return
	exit     sandbox.Exit  // valid after done
	err      error         // valid after done

	// Guarded by Engine.mu.
	main   *Proc
	procs  map[*Proc]bool
	tty    *sandbox.TTY
	killed bool
	lost   bool // the sandbox ended under it
}

var _ sandbox.Process = (*command)(nil)

// launch checks c, starts its first process and the goroutines around it.
func (h *handle) launch(ctx context.Context, c sandbox.Command) (*command, error) {
	cmd := &command{
		handle: h, spec: c, limits: mergeLimits(h.spec.Limits, c.Limits),
		treeGone: make(chan struct{}), done: make(chan struct{}),
		procs: make(map[*Proc]bool),
	}
	program, err := cmd.resolve()
	if err != nil {
		return nil, err
	}
	cmd.stdout = &stream{chunks: make(chan []byte), crlf: c.TTY != nil}
	cmd.stderr = &stream{chunks: make(chan []byte)}
	if c.TTY != nil {
		size := *c.TTY
		cmd.tty, cmd.stderr = &size, cmd.stdout
	}
	main, err := cmd.enter()
	if err != nil {
		return nil, err
	}
	if c.Stdin != nil {
		chunks := make(chan []byte)
		main.Stdin = &input{p: main, chunks: chunks}
		go feed(c.Stdin, chunks, main.done)
	}
	main.run(program)
	go cmd.supervise(main)
	go cmd.watch(ctx)
	return cmd, nil
}

// enter registers the command with its boot.
func (c *command) enter() (*Proc, error) {
	h := c.handle
	h.e.mu.Lock()
	defer h.e.mu.Unlock()
	switch {
	case h.ended():
		return nil, fell("start", h.spec.Name)
	case h.boot.paused:
		return nil, failure(sandbox.CodeUnavailable, "start", h.spec.Name, "the sandbox is paused")
	}
	h.boot.running[c] = true
	c.main = c.newProcLocked(slices.Clone(c.spec.Args), nil)
	return c.main, nil
}

// resolve finds environment, folder and program of the command.
func (c *command) resolve() (Program, error) {
	h := c.handle
	if err := checkArgs(c.spec); err != nil {
		return nil, err
	}
	c.env = map[string]string{"PATH": defaultPath, "HOME": sandbox.HomeDir}
	maps.Copy(c.env, h.spec.Env)
	maps.Copy(c.env, c.spec.Env)
	c.dir = h.spec.Workdir
	if c.spec.Dir != "" {
		c.dir = path.Clean(c.spec.Dir)
	}
	if !h.isDir(c.dir) {
		return nil, &sandbox.Error{
			Code: sandbox.CodeExecution, Op: "start", Field: "dir", Resource: c.dir,
			Message: "the working directory cannot be entered", Err: fs.ErrNotExist,
		}
	}
	return c.lookup(c.spec.Args[0])
}

func (c *command) lookup(arg string) (Program, error) {
	missing := &sandbox.Error{
		Code: sandbox.CodeExecution, Op: "start", Field: "args", Resource: arg,
		Message: "the program was not found", Err: fs.ErrNotExist,
	}
	denied := &sandbox.Error{
		Code: sandbox.CodeExecution, Op: "start", Field: "args", Resource: arg,
		Message: "the program cannot be executed", Err: fs.ErrPermission,
	}
	dirs, name := strings.Split(c.env["PATH"], ":"), arg
	if strings.Contains(arg, "/") {
		if arg == "/etc/passwd" || c.handle.isDir(arg) {
			return nil, denied
		}
		dirs, name = []string{path.Dir(arg)}, path.Base(arg)
	}
	program := c.handle.e.programs[name]
	if program == nil || !slices.ContainsFunc(dirs, func(d string) bool { return d == "/bin" || d == "/usr/bin" }) {
		return nil, missing
	}
	return program, nil
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
	for k, v := range c.Env {
		if k == "" || strings.ContainsAny(k, "=\x00") || strings.ContainsRune(v, 0) {
			return refuse("env", fmt.Sprintf("the variable %q cannot be set", k))
		}
	}
	return nil
}

// isDir knows the folders that every sandbox has and those of its mounts.
func (h *handle) isDir(dir string) bool {
	if slices.Contains([]string{
		"/", "/bin", "/etc", "/tmp", "/usr", "/usr/bin", "/var", "/var/tmp",
		sandbox.WorkspaceDir, sandbox.HomeDir,
	}, dir) {
		return true
	}
	return slices.ContainsFunc(h.box.Mounts, func(m sandbox.Mount) bool { return m.Target == dir }) ||
		slices.ContainsFunc(h.box.Tmpfs, func(m sandbox.Tmpfs) bool { return m.Target == dir })
}

// mergeLimits takes the stricter of two bounds: a command cannot loosen what
// its sandbox says. Zero is no bound.
func mergeLimits(a, b sandbox.Limits) sandbox.Limits {
	stricter := func(x, y int64) int64 {
		if x == 0 || y == 0 {
			return max(x, y)
		}
		return min(x, y)
	}
	return sandbox.Limits{
		Memory:     stricter(a.Memory, b.Memory),
		CPUSeconds: stricter(a.CPUSeconds, b.CPUSeconds),
		FileSize:   stricter(a.FileSize, b.FileSize),
		OpenFiles:  stricter(a.OpenFiles, b.OpenFiles),
		Processes:  stricter(a.Processes, b.Processes),
	}
}

// supervise turns the end of the first process into the end of the command:
// stray children are killed unless the command is detached, the streams are
// drained, and Wait may return.
func (c *command) supervise(main *Proc) {
	var pumps sync.WaitGroup
	pumps.Go(func() { c.stdout.drain(c.spec.Stdout) })
	if c.stderr != c.stdout {
		pumps.Go(func() { c.stderr.drain(c.spec.Stderr) })
	}
	e := c.handle.e
	<-main.done
	if !c.spec.Detach {
		e.mu.Lock()
		c.killLocked()
		e.mu.Unlock()
	}
	<-c.treeGone
	close(c.stdout.chunks)
	if c.stderr != c.stdout {
		close(c.stderr.chunks)
	}
	pumps.Wait()

	e.mu.Lock()
	defer e.mu.Unlock()
	delete(c.handle.boot.running, c)
	c.exit = sandbox.Exit{Code: main.code, Signal: main.signal, Usage: sandbox.Rusage{MaxRSS: 1 << 20}}
	if c.lost {
		c.exit, c.err = sandbox.Exit{}, fell("wait", c.handle.spec.Name)
	}
	close(c.done)
}

// watch kills the tree when ctx ends.
func (c *command) watch(ctx context.Context) {
	select {
	case <-c.treeGone:
		return
	case <-ctx.Done():
	}
	if c.spec.Grace > 0 {
		c.signalTree("TERM")
		grace := time.NewTimer(c.spec.Grace)
		defer grace.Stop()
		select {
		case <-c.treeGone:
			return
		case <-grace.C:
		}
	}
	c.signalTree("KILL")
}

func (c *command) signalTree(signal string) {
	e := c.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if signal == "KILL" {
		c.killLocked()
		return
	}
	for p := range c.procs {
		p.deliverLocked(signal)
	}
}

// killLocked ends every process of the command, also those still to be born.
func (c *command) killLocked() {
	c.killed = true
	for p := range c.procs {
		p.endLocked("KILL")
	}
}

// emptyLocked is called when a process has left and none remains. No other
// can come: only processes fork.
func (c *command) emptyLocked() { close(c.treeGone) }

// Wait implements [sandbox.Process].
func (c *command) Wait() (sandbox.Exit, error) {
	<-c.done
	return c.exit, c.err
}

// Signal implements [sandbox.Process]: the first process gets the signal.
// After its end the signal goes nowhere.
func (c *command) Signal(ctx context.Context, name string) error {
	if _, ok := signalNumber(name); !ok {
		return &sandbox.Error{
			Code: sandbox.CodeValidation, Op: "signal", Field: "signal", Message: fmt.Sprintf("unknown signal %q", name),
		}
	}
	if err := ctx.Err(); err != nil {
		return stepError(err, StepExec, c.handle.spec.Name)
	}
	e := c.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.procs[c.main] {
		c.main.deliverLocked(name)
	}
	return nil
}

// Resize implements [sandbox.Process].
func (c *command) Resize(_ context.Context, t sandbox.TTY) error {
	e := c.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.tty == nil {
		return failure(sandbox.CodeUnsupported, "resize", c.handle.spec.Name, "the command has no terminal")
	}
	*c.tty = t
	for p := range c.procs {
		p.deliverLocked("WINCH")
	}
	return nil
}

// Kill implements [sandbox.Process].
func (c *command) Kill(context.Context) error {
	c.signalTree("KILL")
	<-c.treeGone
	return nil
}
