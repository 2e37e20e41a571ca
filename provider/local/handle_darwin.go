package local

import (
	"context"
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/scan"
	"github.com/bulkhead-dev/sandbox/provider/local/seatbelt"
)

// A handle is an open local sandbox.
type handle struct {
	p       *Provider
	info    sandbox.Info
	spec    sandbox.Spec
	scanner *scan.Scanner

	mu      sync.Mutex
	running map[*process]bool
	over    bool
}

// Info implements [sandbox.Sandbox].
func (h *handle) Info() sandbox.Info { return h.info }

// defaultPath is where programs are looked for.
const defaultPath = "/usr/local/bin:/opt/homebrew/bin:/usr/bin:/bin:/usr/sbin:/sbin"

// Start implements [sandbox.Sandbox]. The command is the leader of a process
// group, and the whole group is ended with it.
func (h *handle) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	if err := unsupported(c); err != nil {
		return nil, err
	}
	if _, err := h.p.Inspect(ctx, h.spec.Name); err != nil {
		return nil, err
	}
	pl, err := h.p.profile(ctx, h.spec)
	if err != nil {
		return nil, err
	}
	text, err := seatbelt.Profile(pl.rules)
	if err != nil {
		return nil, err
	}
	argv, err := seatbelt.Args(text, append([]string{"/usr/bin/env"}, c.Args...))
	if err != nil {
		return nil, err
	}
	cmd := &exec.Cmd{
		Path: seatbelt.Exec, Args: argv, Dir: c.Dir, Stdin: c.Stdin, Stdout: c.Stdout, Stderr: c.Stderr,
		SysProcAttr: &syscall.SysProcAttr{Setpgid: true}, WaitDelay: 2 * time.Second,
	}
	if cmd.Dir == "" || cmd.Dir == sandbox.WorkspaceDir {
		cmd.Dir = pl.workdir
	}
	env := map[string]string{"PATH": defaultPath}
	if c.Bare {
		clear(env)
	} else {
		maps.Copy(env, h.spec.Env)
	}
	maps.Copy(env, c.Env)
	if !c.Bare {
		env["HOME"], env["TMPDIR"] = h.p.tmp(h.spec.Name), h.p.tmp(h.spec.Name)
	}
	for _, k := range slices.Sorted(maps.Keys(env)) {
		cmd.Env = append(cmd.Env, k+"="+env[k])
	}
	return h.launch(ctx, cmd, c.Grace)
}

// unsupported refuses what cannot be done without a guest.
func unsupported(c sandbox.Command) error {
	switch {
	case len(c.Args) == 0 || strings.ContainsRune(c.Args[0], '=') || strings.HasPrefix(c.Args[0], "-"):
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "start", Field: "args", Message: "it does not begin with the name of a program"}
	case c.TTY != nil, c.Detach:
		return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "start", Message: "a local wall of macOS has no terminals and no detached commands"}
	}
	return unbounded(c.Limits)
}

// unbounded refuses limits that nobody would hold: those of a command are held
// by the guest, and there is none. Wall time and output are the caller's.
func unbounded(l sandbox.Limits) error {
	for _, b := range []struct {
		limit string
		n     int64
	}{
		{sandbox.LimitMemory, l.Memory}, {sandbox.LimitCPUSeconds, l.CPUSeconds}, {sandbox.LimitFileSize, l.FileSize},
		{sandbox.LimitOpenFiles, l.OpenFiles}, {sandbox.LimitProcesses, l.Processes},
	} {
		if b.n > 0 {
			return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "start", Field: b.limit, Message: "a local wall of macOS cannot hold this limit",
				Hint: "leave the setting out, or use the docker provider"}
		}
	}
	return nil
}

func (h *handle) launch(ctx context.Context, cmd *exec.Cmd, grace time.Duration) (sandbox.Process, error) {
	if err := ctx.Err(); err != nil {
		return nil, sandbox.Errorf(sandbox.CodeTimeout, "start", "given up: %w", err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "start", Resource: h.spec.Name, Message: "the handle was closed"}
	}
	if err := cmd.Start(); err != nil {
		return nil, sandbox.Errorf(sandbox.CodeExecution, "start", "the command cannot be started: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	h.running[p] = true
	go p.watch(ctx, grace)
	go func() {
		p.wait()
		h.mu.Lock()
		delete(h.running, p)
		h.mu.Unlock()
	}()
	return p, nil
}

// OpenShell implements [sandbox.Sandbox].
func (h *handle) OpenShell(context.Context, sandbox.ShellOptions) (sandbox.Shell, error) {
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "open shell", Resource: h.spec.Name, Message: "a local wall of macOS has no persistent shells"}
}

// Usage implements [sandbox.Sandbox].
func (h *handle) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "usage", Resource: h.spec.Name, Message: "a local wall of macOS is not counted"}
}

// Close implements [sandbox.Sandbox].
func (h *handle) Close() error {
	h.mu.Lock()
	h.over = true
	all := slices.Collect(maps.Keys(h.running))
	h.mu.Unlock()
	for _, p := range all {
		p.kill(syscall.SIGKILL)
		<-p.done
	}
	return nil
}

// A process is a command.
type process struct {
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended and its output was delivered
	exit sandbox.Exit
	err  error
}

// wait collects the command and what is left of its group.
func (p *process) wait() {
	err := p.cmd.Wait()
	p.kill(syscall.SIGKILL)
	state := p.cmd.ProcessState
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		p.err = sandbox.Errorf(sandbox.CodeUnavailable, "wait", "the end of the command is not known: %w", err)
	}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.exit.Code, p.exit.Signal = 128+int(status.Signal()), strings.ToUpper(status.Signal().String())
	} else {
		p.exit.Code = state.ExitCode()
	}
	p.exit.Usage = sandbox.Rusage{User: state.UserTime(), System: state.SystemTime()}
	close(p.done)
}

// watch ends the group when ctx does.
func (p *process) watch(ctx context.Context, grace time.Duration) {
	select {
	case <-p.done:
		return
	case <-ctx.Done():
	}
	if grace > 0 {
		p.kill(syscall.SIGTERM)
		select {
		case <-p.done:
			return
		case <-time.After(grace):
		}
	}
	p.kill(syscall.SIGKILL)
}

func (p *process) kill(sig syscall.Signal) { _ = syscall.Kill(-p.cmd.Process.Pid, sig) }

// Wait implements [sandbox.Process].
func (p *process) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

// Signal implements [sandbox.Process].
func (p *process) Signal(_ context.Context, name string) error {
	signals := map[string]syscall.Signal{
		"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM,
		"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
	}
	sig, ok := signals[name]
	if !ok {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "signal", Field: "signal", Resource: name, Message: "there is no such signal"}
	}
	select {
	case <-p.done:
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "signal", Message: "the command has ended"}
	default:
		p.kill(sig) // to the group, as a terminal does; one that has just ended is no error
		return nil
	}
}

// Resize implements [sandbox.Process].
func (p *process) Resize(context.Context, sandbox.TTY) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resize", Message: "the command has no terminal"}
}

// Kill implements [sandbox.Process].
func (p *process) Kill(ctx context.Context) error {
	p.kill(syscall.SIGKILL)
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return sandbox.Errorf(sandbox.CodeTimeout, "kill", "given up: %w", ctx.Err())
	}
}

var _ sandbox.Sandbox = (*handle)(nil)
