package cli

import (
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"
)

// shellGrace is what the programs in an interactive shell have between SIGTERM
// and SIGKILL. The shell itself ignores SIGTERM, so all of it passes.
const shellGrace = 300 * time.Millisecond

func (a *app) shellCommand() *ucli.Command {
	f := newRunFlags("shell")
	var line text
	flags := append([]ucli.Flag{&ucli.GenericFlag{Name: "c", Usage: "run this `LINE` instead, without a terminal unless -t is given", Value: &line}}, f.process()...)
	return &ucli.Command{
		Name:      "shell",
		Usage:     "open a shell in the session's sandbox, which is made when missing",
		UsageText: "sandbox shell [flags]\n" + "sandbox shell [flags] -c LINE",
		Description: "The shell is bash where the image has it and sh otherwise. Every key goes to it: Ctrl-C, Ctrl-Z and\n" +
			"Ctrl-D mean there what they mean in any shell, and the size of the terminal is passed on. The settings'\n" +
			"time limit does not end it; --timeout does. It is no login shell, because /etc/profile would undo docker.env.\n" +
			"\n" +
			"With -c one line is run as run does it: output as it comes, standard input empty unless -i is given, the\n" +
			"settings' time limit in force. The exit status is the shell's own; see sandbox run --help for others.",
		Flags: append(flags, f.placeFlags.flags()...),
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			return a.shell(c, f, line)
		},
	}
}

func (a *app) shell(c *ucli.Context, f *runFlags, line text) error {
	if !line.given {
		f.stdin, f.tty = true, true
	}
	switch {
	case f.tty && line.given && !isTerminal(a.Stdin):
		return usagef("shell", "-t needs a terminal as standard input")
	case f.tty && !isTerminal(a.Stdin):
		return usagef("shell", "standard input is no terminal; run a line with: sandbox shell -c LINE, or a program with: sandbox run -i -- COMMAND")
	}
	req, err := a.request(f)
	if err != nil {
		return err
	}
	if line.given {
		req.Command.Args = []string{"-c", line.value}
	} else {
		req.Command.Grace = shellGrace
	}
	return a.start(c.Context, f, req, Manager.Shell)
}

// terminalType is the TERM that a program inside gets: one that every image
// with a terminal database knows, which the caller's own may not be.
func terminalType(caller string) string {
	switch {
	case caller == "dumb":
		return caller
	case strings.Contains(caller, "256color"), strings.Contains(caller, "kitty"), strings.Contains(caller, "alacritty"), strings.Contains(caller, "ghostty"):
		return "xterm-256color"
	}
	return "xterm"
}
