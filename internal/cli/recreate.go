package cli

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

func (a *app) recreateCommand() *ucli.Command {
	var all, browsers, force bool
	return &ucli.Command{
		Name:        "recreate",
		Usage:       "remove sandboxes, so that their next use builds them anew; workspaces stay",
		UsageText:   "sandbox recreate (--session KEY [--agent ID] | --agent ID | --all) [flags]",
		Description: "--session names the session of the agent main, and with --agent that of another agent; --agent alone names all of that agent.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "all", Usage: "every sandbox", Destination: &all},
			&ucli.BoolFlag{Name: "browser", Usage: "browsers instead", Destination: &browsers},
			&ucli.BoolFlag{Name: "force", Usage: "do not ask", Destination: &force},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			s, err := a.selector(all)
			if err != nil {
				return err
			}
			if !force && !isTerminal(a.Stdin) {
				return usagef("recreate", "standard input is no terminal to ask on; add --force")
			}
			return a.useManager(a.options(), func(m Manager) error {
				rows, err := m.Select(c.Context, a.globals.tenant.value, s, browsers)
				if err != nil {
					return err
				}
				if len(rows) > 0 && !force {
					if err := a.confirm(c.Context, rows); err != nil {
						return err
					}
				}
				return a.showRecreated(m.Recreate(c.Context, rows))
			})
		},
	}
}

// selector reads --session and --agent as what to select: only when they
// were given, whatever they default to elsewhere.
func (a *app) selector(all bool) (manager.Selector, error) {
	s := manager.Selector{All: all}
	n := 0
	if all {
		n++
	}
	if a.globals.session.given {
		s.Session = a.globals.session.value
		n++
	}
	if a.globals.agent.given {
		s.Agent = a.globals.agent.value
		n++
	}
	if n != 1 && (all || n != 2) {
		return s, usagef("recreate", "exactly one of --session, --agent and --all is needed, and there are %d", n)
	}
	return s, nil
}

// confirm asks on the terminal and fails unless the answer is "y" or "yes".
func (a *app) confirm(ctx context.Context, rows []manager.Row) error {
	var b strings.Builder
	for _, r := range rows {
		fmt.Fprintf(&b, "%s  %s\n", termsafe.Line(r.Name), termsafe.Line(r.ScopeKey))
	}
	what := count(len(rows), "sandbox", "sandboxes")
	if len(rows) > 0 && rows[0].Kind == sandbox.KindBrowser { // all of them are
		what = count(len(rows), "browser", "browsers")
	}
	fmt.Fprintf(&b, "Remove %s? [y/N] ", what)
	return a.agreed(ctx, b.String(), "nothing was removed")
}

// agreed asks the question on the terminal. Unless the answer is "y" or "yes"
// it says otherwise and fails.
func (a *app) agreed(ctx context.Context, question, otherwise string) error {
	answer, err := a.answer(ctx, question)
	if err != nil {
		return err
	}
	if isYes(answer) {
		return nil
	}
	a.say("%s", otherwise)
	return silentStatus(statusFailed)
}

// answer asks the question on the terminal and returns the line that is typed, in
// lower case and without spaces around it. It is empty at the end of input.
func (a *app) answer(ctx context.Context, question string) (string, error) {
	in, err := newInput(a.Stdin)
	if err != nil {
		return "", err
	}
	defer in.Close()
	defer context.AfterFunc(ctx, func() { in.Close() })()
	fmt.Fprint(a.Stderr, question)
	line, err := bufio.NewReader(io.LimitReader(in, 1024)).ReadString('\n')
	switch {
	case ctx.Err() != nil:
		return "", ctx.Err()
	case err != nil && err != io.EOF:
		return "", err
	}
	return strings.ToLower(strings.TrimSpace(line)), nil
}

func isYes(answer string) bool { return answer == "y" || answer == "yes" }

func (a *app) showRecreated(r manager.Recreated) error {
	r.Removed, r.Failed = notNil(r.Removed), notNil(r.Failed)
	if err := a.writeRecreated(r); err != nil {
		return err
	}
	return a.failures(r.Failed)
}

func (a *app) writeRecreated(r manager.Recreated) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, r)
	}
	var b strings.Builder
	for _, x := range r.Removed {
		fmt.Fprintf(&b, "removed %s\n", ofProvider(x.Name, x.Provider))
	}
	if len(r.Removed) == 0 && len(r.Failed) == 0 {
		b.WriteString("there is none\n")
	}
	_, err := io.WriteString(a.Stdout, b.String())
	return err
}

// failures reports what could not be removed and fails when there is any.
func (a *app) failures(failed []manager.Failed) error {
	for _, f := range failed {
		text := strings.TrimPrefix(f.Error, string(f.Code)+": ")
		a.say("%s: %s: %s", termsafe.Line(string(f.Code)), termsafe.Line(f.Name), termsafe.Line(text))
	}
	if len(failed) > 0 {
		return silentStatus(statusFailed)
	}
	return nil
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
