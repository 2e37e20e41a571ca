package fake

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"

	"github.com/bulkhead-dev/sandbox"
)

// defaultPath is the PATH of a sandbox that sets none.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// A command is one started program with its process tree.
type command struct {
	*tree
	spec   sandbox.Command
	env    map[string]string
	stdout *stream
	stderr *stream // that of stdout on a terminal
	stdin  *pipe   // or nil
	main   *Proc

	done chan struct{} // closed when Wait may return
	exit sandbox.Exit  // valid after done
	err  error         // valid after done
}

var (
	_ sandbox.Process = (*command)(nil)
	_ sandbox.Metered = (*command)(nil)
)

// launch checks c, starts its first process and the goroutines around it.
func (h *handle) launch(ctx context.Context, c sandbox.Command) (*command, error) {
	cmd := &command{tree: h.newTree(c.Limits), spec: c, done: make(chan struct{})}
	cmd.detach = c.Detach
	if err := checkArgs(c); err != nil {
		return nil, err
	}
	cmd.env = h.environment(c)
	dir, err := h.directory("start", c.Dir)
	if err != nil {
		return nil, err
	}
	program, err := cmd.resolve(dir)
	if err != nil {
		return nil, err
	}
	cmd.stdout, cmd.stderr = newStream(c.TTY != nil), newStream(false)
	if c.TTY != nil {
		size := *c.TTY
		cmd.tty, cmd.stderr = &size, cmd.stdout
	}
	main := cmd.newProc(slices.Clone(c.Args))
	main.Env, main.Dir = cmd.env, dir
	main.Stdout, main.Stderr = &output{main, cmd.stdout}, &output{main, cmd.stderr}
	cmd.main = main
	if c.Stdin != nil {
		if cmd.stdin, err = newPipe(); err != nil {
			return nil, noPipe("start", h.spec.Name, err)
		}
		main.Stdin = &reader{main, cmd.stdin.out}
	}
	if err := cmd.enter("start", main); err != nil {
		if cmd.stdin != nil {
			cmd.stdin.close()
		}
		return nil, err
	}
	if c.Stdin != nil {
		go cmd.stdin.feed(c.Stdin)
	}
	main.run(program)
	go cmd.supervise()
	go cmd.watch(ctx, c.Grace, cmd.gone)
	return cmd, nil
}

// environment lays that of c over what the sandbox and the handle set, unless
// c is bare.
func (h *handle) environment(c sandbox.Command) map[string]string {
	env := map[string]string{}
	if !c.Bare {
		env["PATH"], env["HOME"] = defaultPath, sandbox.HomeDir
		maps.Copy(env, h.spec.Env)
	}
	maps.Copy(env, c.Env)
	return env
}

// directory returns where a command starts that asks for dir.
func (h *handle) directory(op, dir string) (string, error) {
	if dir == "" {
		dir = h.spec.Workdir
	}
	real, err := h.boot.files.Free().Real(path.Clean("/" + dir))
	if err != nil {
		return "", &sandbox.Error{
			Code: sandbox.CodeExecution, Op: op, Field: "dir", Resource: dir,
			Message: fmt.Sprintf("cannot enter the working directory %q", dir), Err: err,
		}
	}
	return real, nil
}

// resolve finds the program of the command.
func (c *command) resolve(dir string) (Program, error) {
	arg := c.spec.Args[0]
	search, ok := c.env["PATH"]
	if !ok {
		search = defaultPath
	}
	_, program, err := c.handle.lookup(arg, search, dir)
	if err == nil {
		return program, nil
	}
	message := fmt.Sprintf("no program %q in the sandbox", arg)
	if errors.Is(err, fs.ErrPermission) {
		message = fmt.Sprintf("cannot execute %q", arg)
	}
	return nil, &sandbox.Error{
		Code: sandbox.CodeExecution, Op: "start", Field: "args", Resource: arg, Message: message, Err: err,
	}
}

// lookup finds the program that name means to a process in dir, and its file.
// Errors are ENOENT and EACCES. A file that is no program of the engine is a
// script.
func (h *handle) lookup(name, search, dir string) (string, Program, error) {
	view := h.boot.files.Free()
	try := func(file string) (string, Program, error) {
		if !path.IsAbs(file) {
			file = dir + "/" + file
		}
		info, err := view.Stat(file)
		switch {
		case err != nil:
			return "", nil, syscall.ENOENT
		case !info.Mode().IsRegular() || info.Mode().Perm()&0o111 == 0:
			return "", nil, syscall.EACCES
		}
		if d := path.Dir(file); d == "/bin" || d == "/usr/bin" {
			return file, h.e.programs[path.Base(file)], nil
		}
		return file, scriptFile(file), nil
	}
	if strings.Contains(name, "/") {
		return try(name)
	}
	last := error(syscall.ENOENT)
	for d := range strings.SplitSeq(search, ":") {
		file, program, err := try(d + "/" + name)
		if err == nil {
			return file, program, nil
		}
		if err == syscall.EACCES {
			last = err
		}
	}
	return "", nil, last
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
func (c *command) supervise() {
	var pumps sync.WaitGroup
	pumps.Go(func() { c.stdout.drain(c.spec.Stdout) })
	if c.stderr != c.stdout {
		pumps.Go(func() { c.stderr.drain(c.spec.Stderr) })
	}
	<-c.main.done
	if !c.detach {
		c.kill()
	}
	<-c.gone
	if c.stdin != nil {
		c.stdin.close()
	}
	close(c.stdout.ended)
	if c.stderr != c.stdout {
		close(c.stderr.ended)
	}
	pumps.Wait()

	c.exit = sandbox.Exit{Code: c.main.code, Signal: c.main.signal, Usage: c.used()}
	c.exit.Limit = c.limitHit(c.exit)
	if c.fellDown() {
		c.exit, c.err = sandbox.Exit{}, fell("wait", c.handle.spec.Name)
	}
	close(c.done)
}

// Wait implements [sandbox.Process].
func (c *command) Wait() (sandbox.Exit, error) {
	<-c.done
	return c.exit, c.err
}

// Signal implements [sandbox.Process]: the first process gets the signal.
// After its end the signal goes nowhere.
func (c *command) Signal(ctx context.Context, name string) error {
	if err := checkSignal(ctx, name, c.handle.spec.Name); err != nil {
		return err
	}
	e := c.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.procs[c.main] {
		c.main.deliverLocked(name)
	}
	return nil
}

func noPipe(op, box string, err error) error {
	e := failure(sandbox.CodeInternal, op, box, "no pipe could be made for the input")
	e.Err = err
	return e
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
	e := c.handle.e
	e.mu.Lock()
	defer e.mu.Unlock()
	if c.tty == nil {
		return noTerminal(c.handle.spec.Name)
	}
	*c.tty = t
	for p := range c.procs {
		p.deliverLocked("WINCH")
	}
	return nil
}

func noTerminal(box string) error {
	return failure(sandbox.CodeUnsupported, "resize", box, "the command has no terminal")
}

// Kill implements [sandbox.Process].
func (c *command) Kill(context.Context) error {
	c.kill()
	return nil
}
