//go:build linux || darwin

package sandboxexec

import (
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/plan"
)

// A process is a command, or a line of a shell.
type process struct {
	cmd      *exec.Cmd
	group    *group
	out, err *carrier
	in       *os.File // write end of its input; nil for an empty one
	seen     *sighting
	judge    *plan.Judge

	ending sync.Once
	killed chan struct{} // closed when it is to end at once
	line   *line         // of a shell; nil for a command
	done   chan struct{} // closed when it has ended and its output was delivered
	exit   sandbox.Exit  // once done is closed
	failed error         // likewise: how it ended is not known
}

// begin starts cmd in the group, with the streams of c. Nothing of it is left
// where it fails.
func begin(cmd *exec.Cmd, g *group, c sandbox.Command) (_ *process, err error) {
	p := &process{cmd: cmd, group: g, killed: make(chan struct{}), done: make(chan struct{})}
	var ends []*os.File
	defer func() {
		for _, f := range ends {
			f.Close()
		}
		if err != nil {
			p.letGo()
		}
	}()
	var child *os.File
	if p.out, child, err = carry(c.Stdout); err != nil {
		return nil, err
	}
	cmd.Stdout, ends = child, append(ends, child)
	if p.err, child, err = carry(c.Stderr); err != nil {
		return nil, err
	}
	cmd.Stderr, ends = child, append(ends, child)
	if c.Stdin != nil {
		r, w, err := os.Pipe()
		if err != nil {
			return nil, err
		}
		cmd.Stdin, ends, p.in = r, append(ends, r), w
	}
	g.join(cmd)
	if err := cmd.Start(); err != nil {
		return nil, sandbox.Errorf(sandbox.CodeExecution, "start", "the command cannot be started: %w", err)
	}
	if p.in != nil {
		go func() {
			_, _ = io.Copy(p.in, c.Stdin) // a program may end before its input does
			p.in.Close()
		}()
	}
	return p, nil
}

// letGo closes what a process that was not started would have had.
func (p *process) letGo() {
	for _, c := range []*carrier{p.out, p.err} {
		if c != nil {
			c.close()
		}
	}
	if p.in != nil {
		p.in.Close()
	}
}

// settle is how long a command that has failed waits for the log to tell what
// was refused. A refusal is there within some milliseconds.
const settle = 150 * time.Millisecond

// escaped is how long the output of processes is waited for that are no more
// in the group.
const escaped = time.Second

// wait collects the command. Of one that is no line everything in the group ends
// with it.
func (p *process) wait() {
	err := p.cmd.Wait()
	var ended *exec.ExitError
	if err != nil && !errors.As(err, &ended) {
		p.failed = sandbox.Errorf(sandbox.CodeUnavailable, "wait", "the end of the command is not known: %w", err)
	}
	state := p.cmd.ProcessState
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		p.exit.Code, p.exit.Signal = 128+int(status.Signal()), signalName(status.Signal())
	} else {
		p.exit.Code = state.ExitCode()
	}
	if p.line == nil {
		p.group.end()
		p.exit.Usage = sandbox.Rusage{User: state.UserTime(), System: state.SystemTime()}
		late := time.AfterFunc(escaped, func() { p.out.finish(); p.err.finish() })
		<-p.out.done
		<-p.err.done
		late.Stop()
		p.out.close()
		p.err.close()
	} else {
		p.out.finish()
		p.err.finish()
		p.line.ended(p)
	}
	if p.in != nil {
		p.in.Close()
	}
	p.seen.settle(p.exit.Code != 0)
	close(p.done)
}

// watch ends the command when ctx does.
func (p *process) watch(ctx context.Context, grace time.Duration) {
	select {
	case <-p.done:
		return
	case <-p.killed:
	case <-ctx.Done():
		if grace > 0 {
			p.signal(syscall.SIGTERM)
			select {
			case <-p.done:
				return
			case <-p.killed:
			case <-time.After(grace):
			}
		}
	}
	p.kill()
}

// kill ends the command at once.
func (p *process) kill() {
	p.ending.Do(func() { close(p.killed) })
	p.signal(syscall.SIGKILL)
}

// signal signals the group. That of a shell outlives the line.
func (p *process) signal(sig syscall.Signal) {
	select {
	case <-p.done:
	default:
		p.group.signal(sig)
	}
}

// Wait implements [sandbox.Process].
func (p *process) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.failed
}

// signals are those that can be sent by name.
var signals = map[string]syscall.Signal{
	"HUP": syscall.SIGHUP, "INT": syscall.SIGINT, "QUIT": syscall.SIGQUIT, "KILL": syscall.SIGKILL, "TERM": syscall.SIGTERM,
	"USR1": syscall.SIGUSR1, "USR2": syscall.SIGUSR2, "STOP": syscall.SIGSTOP, "CONT": syscall.SIGCONT,
}

// signalName is the name of a signal as in signal(7), without SIG.
func signalName(sig syscall.Signal) string {
	for name, s := range map[string]syscall.Signal{"ABRT": syscall.SIGABRT, "ALRM": syscall.SIGALRM, "BUS": syscall.SIGBUS, "FPE": syscall.SIGFPE,
		"ILL": syscall.SIGILL, "PIPE": syscall.SIGPIPE, "SEGV": syscall.SIGSEGV, "TRAP": syscall.SIGTRAP, "XCPU": syscall.SIGXCPU, "XFSZ": syscall.SIGXFSZ, "SYS": syscall.SIGSYS} {
		if s == sig {
			return name
		}
	}
	for name, s := range signals {
		if s == sig {
			return name
		}
	}
	return strings.ToUpper(sig.String())
}

// Signal implements [sandbox.Process].
func (p *process) Signal(_ context.Context, name string) error {
	sig, ok := signals[name]
	if !ok {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "signal", Field: "signal", Resource: name, Message: "there is no such signal"}
	}
	select {
	case <-p.done:
		return &sandbox.Error{Code: sandbox.CodeNotFound, Op: "signal", Message: "the command has ended"}
	default:
		p.signal(sig) // to the group, as a terminal does; one that has just ended is no error
		return nil
	}
}

// Resize implements [sandbox.Process].
func (p *process) Resize(context.Context, sandbox.TTY) error {
	return &sandbox.Error{Code: sandbox.CodeUnsupported, Op: "resize", Message: "the command has no terminal"}
}

// Kill implements [sandbox.Process].
func (p *process) Kill(ctx context.Context) error {
	select {
	case <-p.done:
		return nil
	default:
	}
	p.kill()
	select {
	case <-p.done:
		return nil
	case <-ctx.Done():
		return sandbox.Errorf(sandbox.CodeTimeout, "kill", "given up: %w", ctx.Err())
	}
}

// PID implements [sandbox.Identified]. The kind has no process numbers of its
// own: it is the number on the machine. A line of a shell has none.
func (p *process) PID() int {
	if p.line != nil || p.cmd == nil || p.cmd.Process == nil {
		return 0
	}
	return p.cmd.Process.Pid
}

// Violations implements [sandbox.ViolationObserver]: what the system log says that the
// profile of the command has refused, and the rules deny.
func (p *process) Violations() []sandbox.Violation {
	var out []sandbox.Violation
	for _, r := range p.seen.list() {
		kind, op, resource, ok := r.Attempt()
		if !ok {
			continue
		}
		v := sandbox.Violation{Kind: kind, Operation: op, Resource: resource, Evidence: sandbox.EvidenceCertain, Program: r.Program, PID: r.PID, Time: r.Time}
		if kind == sandbox.ResourceNetwork {
			v.Rule, v.Builtin = ruleProxy, true
		} else {
			verdict := p.judge.Judge(op, resource)
			if verdict.Allowed {
				continue
			}
			v.Rule, v.Builtin, v.HostPath = verdict.Rule, verdict.Builtin, verdict.HostPath
		}
		out = append(out, v)
	}
	return out
}

// ruleProxy is the rule of what a program reaches for without the proxy.
const ruleProxy = "network: programs reach the egress proxy of HTTP_PROXY alone"

var (
	_ sandbox.Process           = (*process)(nil)
	_ sandbox.ViolationObserver = (*process)(nil)
	_ sandbox.Identified        = (*process)(nil)
)
