// Package cli is the command line: flags, output and exit statuses. It
// decides nothing about sandboxes; a [Backend], which the program's main
// package wires, does the work.
//
// What people read goes to standard output, logs and errors to standard
// error. Text that comes from a sandbox, an engine or a file is made safe
// for a terminal, except the output of a command that was asked for: that
// is passed on byte by byte.
package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/images/about"
)

// A Program is one call of the command line.
type Program struct {
	Args    []string // the program's name first
	Stdin   *os.File
	Stdout  *os.File
	Stderr  *os.File
	Backend Backend
	Exit    func(status int) // ends the process at once; used for a second signal only
}

// Run carries out the call and returns the exit status.
func (p Program) Run(parent context.Context) int {
	ctx, in := watchInterrupts(parent, p.Exit)
	defer in.stop()
	a := &app{Program: p, globals: newGlobals(), interrupts: in}
	root := a.cli()
	err := root.RunContext(ctx, arrange(a.Args, lookup(root)))
	if exit, ok := err.(ucli.ExitCoder); ok {
		err = &usageError{message: exit.Error()}
	}
	return a.status(ctx, err)
}

// An app is what the commands share.
type app struct {
	Program
	globals    *globals
	interrupts *interrupts
}

// cli describes the command line.
func (a *app) cli() *ucli.App {
	root := &ucli.App{
		Name:                      "sandbox",
		Compiled:                  time.Unix(0, 0), // or the library looks at the file
		Usage:                     "run untrusted code in sandboxes",
		UsageText:                 "sandbox [flags] COMMAND [flags] [arguments]",
		HideVersion:               true,
		UseShortOptionHandling:    true,
		DisableSliceFlagSeparator: true,
		Writer:                    a.help(),
		ErrWriter:                 a.Stderr,
		Flags:                     named(a.globals.flags()),
		OnUsageError:              onUsageError,
		ExitErrHandler:            func(*ucli.Context, error) {},
		Action:                    a.noCommand,
	}
	root.Commands = []*ucli.Command{
		a.runCommand(), a.execCommand(), a.shellCommand(), a.codeCommand(), a.agentCommand(), a.shellPrefixCommand(), a.fsCommand(), a.cpCommand(), a.mediaCommand(), a.listCommand(), a.recreateCommand(), a.pruneCommand(),
		a.checkpointCommand(), a.rollbackCommand(), a.forkCommand(), a.diffCommand(), a.applyCommand(), a.discardCommand(), a.undoCommand(),
		a.explainCommand(), a.checkCommand(), a.statsCommand(), a.topCommand(), a.poolCommand(), a.violationsCommand(), a.evidenceCommand(), a.tokenCommand(), a.portCommand(), a.browserCommand(), a.serveCommand(), a.uiCommand(), a.mcpCommand(), a.imagesCommand(), a.configCommand(), a.doctorCommand(),
		a.versionCommand(), a.completionCommand(root),
	}
	root.Commands = append(root.Commands, a.manCommands(root)...)
	for _, c := range root.Commands {
		a.complete(c, "")
	}
	return root
}

// complete gives c and what is below it the global flags and our way of
// failing.
func (a *app) complete(c *ucli.Command, above string) {
	name := above + c.Name
	c.OnUsageError = func(ctx *ucli.Context, err error, _ bool) error {
		return &usageError{command: name, message: flagFault(err.Error()), hint: unknownFlag(err.Error(), ctx.Command.Flags)}
	}
	c.HideHelpCommand = true // or "sandbox run -- help" would not run help
	if !slices.ContainsFunc(c.Names(), a.mentions) {
		return
	}
	c.Flags = named(append(c.Flags, a.globals.flagsFor(c)...))
	if above == "" {
		c.Flags = append(c.Flags, ucli.HelpFlag) // the library adds it as well, but after it has listed the flags
	}
	c.Action = a.guard(name, c.Action)
	for _, sub := range c.Subcommands {
		a.complete(sub, name+" ")
	}
	if len(c.Subcommands) > 0 && c.Action == nil {
		c.Action = func(ctx *ucli.Context) error {
			if ctx.Args().Present() {
				return unknownCommand(name, ctx.Args().First(), c.Subcommands)
			}
			return usagef(name, "%q needs a further word", "sandbox "+name)
		}
	}
}

// mentions reports whether this call can come to the command called name, or
// shows all of them. Describing those that it cannot come to would take as
// long as carrying out a small one.
func (a *app) mentions(name string) bool {
	return len(a.Args) == 0 || slices.Contains(a.Args, name) || slices.Contains(a.Args, completionName)
}

func onUsageError(c *ucli.Context, err error, _ bool) error {
	return &usageError{message: flagFault(err.Error()), hint: unknownFlag(err.Error(), c.App.Flags)}
}

// noCommand is the action of the program itself: no known command was named.
func (a *app) noCommand(c *ucli.Context) error {
	if c.Args().Present() {
		return unknownCommand("", c.Args().First(), c.App.Commands)
	}
	c.App.Writer = wrapped(a.Stderr)
	if err := ucli.ShowAppHelp(c); err != nil {
		return err
	}
	return silentStatus(statusUsage)
}

// noArguments refuses arguments of a command that takes none.
func noArguments(c *ucli.Context) error {
	if c.Args().Present() {
		return usagef(strings.TrimPrefix(c.Command.HelpName, "sandbox "), "%q takes no arguments, but there is %q", c.Command.HelpName, c.Args().First())
	}
	return nil
}

// options returns what the global flags say to the backend.
func (a *app) options() Options {
	progress := about.NewProgress(a.Stderr)
	if a.globals.json() {
		progress = about.Warnings(progress)
	}
	return Options{
		ConfigFile:   a.globals.config.value,
		StateDir:     a.globals.stateDir.value,
		Provider:     a.globals.provider.value,
		CommandFlags: a.globals.where(),
		Log:          newLog(a.Stderr, a.globals.logLevel.value),
		Progress:     progress,
		Approver:     a.approver(),
	}
}

// hosted returns what the global flags say to the backend, with the daemon that
// is to do it.
func (a *app) hosted() (Options, error) {
	o := a.options()
	var err error
	o.Host, err = a.globals.daemon()
	return o, err
}

// useManager calls fn with a manager client and closes it afterwards.
func (a *app) useManager(o Options, fn func(Manager) error) error {
	var err error
	if o.Host, err = a.globals.daemon(); err != nil {
		return err
	}
	m, release, err := a.Backend.Manager(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(m)
}

// help returns where help texts go. Nothing else is written there.
func (a *app) help() io.Writer { return wrapped(a.Stdout) }

// wrapped returns a writer that breaks lines which are too long for the
// terminal f; where f is none, f itself.
func wrapped(f *os.File) io.Writer {
	if width := columnsOf(f); width > 0 {
		return &wrapper{w: f, width: width}
	}
	return f
}

// say writes one line for people to standard error.
func (a *app) say(format string, args ...any) {
	fmt.Fprintf(a.Stderr, "sandbox: "+format+"\n", args...)
}
