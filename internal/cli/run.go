package cli

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// grace is what a command has between SIGTERM and SIGKILL when it is ended.
const grace = 2 * time.Second

// runFlags are the flags of one run or exec.
type runFlags struct {
	placeFlags
	hostFlags
	projectFlags
	projectEnv map[string]string // that a devcontainer.json sets in the sandbox
	serviceFlags
	reportFlags
	remove, stdin, tty, ask bool
	unsandboxed, subagent   bool
	dir, user, from         text
	env                     texts
	timeout                 span
}

func (a *app) runCommand() *ucli.Command {
	f := newRunFlags("run")
	flags := append(f.common(),
		&ucli.BoolFlag{Name: "rm", Usage: "remove the sandbox and its scratch workspace afterwards; without --session a sandbox of its own is used", Destination: &f.remove},
	)
	flags = append(flags, &ucli.GenericFlag{Name: "from", Usage: "begin with this `CHECKPOINT`; refused where the session has a sandbox", Value: &f.from})
	flags = append(append(flags, f.placeFlags.flags()...), f.projectFlags.flags()...)
	flags = append(flags, f.serviceFlags.flags()...)
	flags = append(flags, f.reportFlags.flags()...)
	return &ucli.Command{
		Name:      "run",
		Usage:     "run a command in the session's sandbox, which is made when missing",
		UsageText: "sandbox run [flags] -- COMMAND [arguments]",
		Description: "Output is passed on as it comes; the exit status is the command's own.\n" +
			"Standard input is empty unless -i is given. Without --timeout limits.timeout of the settings holds.\n" +
			"Ctrl-C reaches the command as SIGINT (SIGHUP and SIGQUIT as themselves). A second one, or three seconds later if it still\n" +
			"runs, ends everything that it started: SIGTERM, and SIGKILL after two seconds. SIGTERM does that at once.\n" +
			"With --ask, a command that a rule of the sandbox stopped can be run again with a permission that you give.\n" +
			"124: ended at the time limit. 125: the sandbox failed. 126: the command cannot be executed, or the policy refuses it. 127: there is no such command. 2: wrong usage.",
		Flags:  flags,
		Action: func(c *ucli.Context) error { return a.run(c, f, false) },
	}
}

func (a *app) execCommand() *ucli.Command {
	f := newRunFlags("exec")
	return &ucli.Command{
		Name:        "exec",
		Usage:       "run a command in the session's sandbox, which must exist",
		UsageText:   "sandbox exec [flags] -- COMMAND [arguments]",
		Description: "As run, but nothing is made.",
		Flags:       f.common(),
		Action:      func(c *ucli.Context) error { return a.run(c, f, true) },
	}
}

func newRunFlags(command string) *runFlags {
	return &runFlags{
		hostFlags:  newHostFlags(command),
		placeFlags: newPlaceFlags(), reportFlags: newReportFlags(),
		dir:     text{check: absolute},
		from:    text{check: notEmpty},
		env:     texts{check: checkEnv},
		timeout: span{positive: true},
	}
}

// common are the flags that run and exec share.
func (f *runFlags) common() []ucli.Flag {
	return append(f.process(),
		&ucli.BoolFlag{Name: "ask", Usage: "ask on the terminal, when the command is stopped by a rule that can be opened, and run it again if allowed", Destination: &f.ask},
	)
}

// process are the flags of everything that is run. The long form of -e is a
// flag of its own because an alias would set the value twice.
func (f *runFlags) process() []ucli.Flag {
	return append(f.hostFlags.flags(),
		&ucli.GenericFlag{Name: "e", Usage: "set `NAME=VALUE` in the command's environment; NAME alone takes it from ours", Value: &f.env},
		&ucli.GenericFlag{Name: "env", Hidden: true, Value: &f.env},
		&ucli.GenericFlag{Name: "workdir", Aliases: []string{"w"}, Usage: "start in `FOLDER` inside", Value: &f.dir},
		&ucli.GenericFlag{Name: "user", Aliases: []string{"u"}, Usage: "run as the `ACCOUNT` inside: sandbox, user, or the number of the sandbox's own user, which is also what holds without; root is refused", Value: &f.user},
		&ucli.GenericFlag{Name: "timeout", Usage: "end the command after this `DURATION`, such as 90s, 10m or 1d", Value: &f.timeout},
		&ucli.BoolFlag{Name: "interactive", Aliases: []string{"i"}, Usage: "pass standard input on", Destination: &f.stdin},
		&ucli.BoolFlag{Name: "subagent", Usage: "judge the command as a sub-agent's", Destination: &f.subagent},
		&ucli.BoolFlag{Name: "dangerously-disable-sandbox", Usage: "run on the host, without a sandbox, where commands.allowUnsandboxed of the settings permits it", Destination: &f.unsandboxed},
		&ucli.BoolFlag{Name: "tty", Aliases: []string{"t"}, Usage: "give the command a terminal; standard input must be one", Destination: &f.tty},
	)
}

// checkEnv refuses what no environment can hold.
func checkEnv(s string) error {
	name, value, _ := strings.Cut(s, "=")
	if name == "" {
		return errors.New("it must be NAME=VALUE or NAME")
	}
	var e *sandbox.Error
	if errors.As(sandbox.CheckEnv(map[string]string{name: value}), &e) {
		return errors.New(e.Message) // the flag is named beside it
	}
	return nil
}

// run carries out run and exec.
func (a *app) run(c *ucli.Context, f *runFlags, mustExist bool) error {
	if !c.Args().Present() {
		return usagef(c.Command.Name, "which command? write: sandbox %s -- COMMAND", c.Command.Name)
	}
	if f.tty && !isTerminal(a.Stdin) {
		return usagef(c.Command.Name, "-t needs a terminal as standard input")
	}
	if f.from.given && f.unsandboxed {
		return usagef(c.Command.Name, "--from cannot be combined with --dangerously-disable-sandbox: only a sandbox begins with a checkpoint")
	}
	if f.ask && (f.tty || f.stdin) {
		return usagef(c.Command.Name, "--ask cannot be combined with -i or -t: the answers would be the command's input")
	}
	p, err := f.project()
	if err == nil && p != nil {
		err = a.applyProject(c.Context, p, f)
	}
	if err != nil {
		return err
	}
	req, err := a.request(f)
	if err != nil {
		return err
	}
	req.Command.Args, req.MustExist, req.Remove = c.Args().Slice(), mustExist, f.remove
	if req.Ask = f.ask; f.ask {
		req.Again = func() { a.say("allowed: the command is run again") }
	}
	if f.remove && !a.globals.session.given {
		req.Who.Session = freshSession()
	}
	req.Services, req.Report = f.list.values, f.reportFlags.given()
	if (len(req.Services) > 0 || req.Report) && a.globals.address() != "" {
		return usagef(c.Command.Name, "--service, --report and --summary are for sandboxes of this machine and cannot be combined with --server or $%s", serverVariable)
	}
	if p != nil && len(p.dev.PostCreate) > 0 {
		if err := a.runPostCreate(c.Context, p, req); err != nil {
			return err
		}
	}
	if !req.Report {
		return a.start(c.Context, f, req, Manager.Run)
	}
	w, err := f.reportFlags.open(req.Command.Args)
	if err != nil {
		return err
	}
	var out manager.Outcome
	err = a.start(c.Context, f, req, func(m Manager, ctx context.Context, r manager.Request) (manager.Outcome, error) {
		var err error
		out, err = m.Run(ctx, r)
		return out, err
	})
	status, failure := 0, err
	if quiet, ok := errors.AsType[silentStatus](err); ok {
		status, failure = int(quiet), nil
	} else if err != nil {
		status = failureStatus(err)
	}
	if lost := w.write(out, status, failure); lost != nil {
		return errors.Join(failure, lost)
	}
	return err
}

// request is what the flags say of a command that is not named yet.
func (a *app) request(f *runFlags) (manager.Request, error) {
	layer, err := f.layer(a.globals)
	return manager.Request{
		Who:     a.globals.who(),
		Flags:   layer,
		Command: sandbox.Command{Env: f.environment(os.LookupEnv), Dir: f.dir.value, Grace: grace},
		Timeout: f.timeout.value,

		Subagent: f.subagent, Unsandboxed: f.unsandboxed, User: f.user.value, From: f.from.value,
	}, err
}

// layer returns what the flags say of the sandbox. Hosts and secrets belong to
// it and not to the command: another command in it has them too.
func (f *runFlags) layer(g *globals) (*config.SandboxSettings, error) {
	o, err := f.overrides(g)
	if err != nil {
		return nil, err
	}
	if err := f.hostFlags.add(&o); err != nil {
		return nil, err
	}
	o.Env = f.projectEnv
	return o.Layer(), nil
}

// environment returns what the command gets beyond the sandbox's own
// environment. A name without value is taken from ours when it is set there.
func (f *runFlags) environment(lookup func(string) (string, bool)) map[string]string {
	env := map[string]string{}
	if f.tty {
		term, _ := lookup("TERM")
		env["TERM"] = terminalType(term)
	}
	for _, s := range f.env.values {
		name, value, ok := strings.Cut(s, "=")
		if !ok {
			if value, ok = lookup(name); !ok {
				continue
			}
		}
		env[name] = value
	}
	return env
}

// freshSession returns a session key that is not in use.
func freshSession() string {
	var b [8]byte
	rand.Read(b[:]) // never fails
	return "run-" + hex.EncodeToString(b[:])
}

// A runner is the way in which a manager client runs a request.
type runner func(Manager, context.Context, manager.Request) (manager.Outcome, error)

// start connects the streams, runs the request and turns its outcome into
// an exit status.
func (a *app) start(ctx context.Context, f *runFlags, req manager.Request, run runner) error {
	return a.startWith(ctx, a.options(), f, req, run, func(Manager) error { return nil })
}

// startWith is start with these options of the backend; prepare is called before
// the request is run.
func (a *app) startWith(ctx context.Context, o Options, f *runFlags, req manager.Request, run runner, prepare func(Manager) error) error {
	req.Command.Stdout, req.Command.Stderr = a.commandOutput(a.Stdout), a.commandOutput(a.Stderr)
	if f.stdin {
		in, err := newInput(a.Stdin)
		if err != nil {
			return err
		}
		defer in.Close()
		req.Command.Stdin = in
	}
	if f.tty {
		t := newTerminal(a.Stdin, a.interrupts)
		defer t.restore()
		size := t.size()
		req.Command.TTY = &size
		req.Started = func(p sandbox.Process) {
			if err := t.attach(ctx, p, f.stdin); err != nil {
				o.Log.WithError(err).Warn("the terminal cannot be set to raw mode")
			}
		}
		return a.useManager(o, func(m Manager) error {
			if err := prepare(m); err != nil {
				return err
			}
			return a.outcome(ctx, m, req, run, a.leave(t))
		})
	}
	a.interrupts.expect()
	req.Started = a.interrupts.passTo
	return a.useManager(o, func(m Manager) error {
		if err := prepare(m); err != nil {
			return err
		}
		return a.outcome(ctx, m, req, run, func(bool) {})
	})
}

// leave puts the terminal back. A command that was ended from outside has
// left the cursor somewhere in a line, which the next words must not continue.
func (a *app) leave(t *terminal) func(cut bool) {
	return func(cut bool) {
		if t.restore() && cut {
			fmt.Fprintln(a.Stderr)
		}
	}
}

// outcome runs req. Before anything is said about it, settle puts the
// terminal back; it hears whether the command was cut off.
func (a *app) outcome(ctx context.Context, m Manager, req manager.Request, run runner, settle func(cut bool)) error {
	out, err := run(m, ctx, req)
	ended := out.Exit.Limit != nil && out.Exit.Signal != ""
	settle(err != nil || out.TimedOut || ended)
	var lost *outputError
	switch {
	case errors.As(context.Cause(ctx), &lost):
		return lost
	case err != nil:
		return err
	case out.TimedOut:
		if err := a.sayTimedOut(req, out); err != nil {
			return err
		}
		return silentStatus(statusTimedOut)
	}
	if err := a.sayBlocked(out); err != nil {
		return err
	}
	if a.interrupts.passedOn() {
		out.Exit.Left = nil // a signal asks for their end too
	}
	if err := a.sayEnded(out); err != nil {
		return err
	}
	return silentStatus(out.Exit.Code & 0xff)
}

// An outputError says that output of the command was lost, which makes its
// own exit status worthless.
type outputError struct{ err error }

// Error implements error.
func (e *outputError) Error() string { return "the output cannot be written: " + e.err.Error() }

// Unwrap returns the cause.
func (e *outputError) Unwrap() error { return e.err }

// An outlet writes to a file and ends the command when a write fails, because
// its output has no reader any more.
type commandOutput struct {
	f      *os.File
	broken func(error)
}

func (a *app) commandOutput(f *os.File) io.Writer {
	return &commandOutput{f: f, broken: a.interrupts.abort}
}

// Write implements io.Writer.
func (o *commandOutput) Write(p []byte) (int, error) {
	n, err := o.f.Write(p)
	if err != nil {
		err = &outputError{err}
		o.broken(err)
	}
	return n, err
}
