package cli

import (
	"fmt"
	"io"
	"strings"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/command"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// Exit statuses of check beside 0.
const (
	statusAsk  = 3 // a person would have to approve
	statusDeny = 4 // the command would be refused
)

// maxPart is how much of a command a line shows, in bytes.
const maxPart = 60

func (a *app) checkCommand() *ucli.Command {
	strictness, dir, tool := text{}, text{check: absolute}, text{check: notEmpty}
	rules := text{check: oneOf(checksWithRules()...)}
	env := texts{check: checkEnv}
	var subagent bool
	return &ucli.Command{
		Name:      "check",
		Usage:     "say what the policy makes of a command, without running anything",
		UsageText: "sandbox check [flags] -- COMMAND [arguments]\nsandbox check --rules CHECK",
		Description: "One argument is a line for a shell; several are a program and its arguments.\n" +
			"This is the gate alone, as the settings have it: inside a sandbox a question is answered by\n" +
			"commands.autoAllowIfSandboxed, which sandbox explain --command shows.\n" +
			"Exit status: 0 allow, 3 ask, 4 deny. 2: wrong usage. 125: the settings cannot be read.",
		Flags: []ucli.Flag{
			&ucli.GenericFlag{Name: "strictness", Usage: "judge as under `STRICTNESS`: permissive, normal, restricted or strict", Value: &strictness},
			&ucli.GenericFlag{Name: "workdir", Aliases: []string{"w"}, Usage: "as if started in `FOLDER` inside", Value: &dir},
			&ucli.GenericFlag{Name: "e", Usage: "as with the variable `NAME` set by the call; a value behind it does not matter", Value: &env},
			&ucli.GenericFlag{Name: "tool", Usage: "as a use of `TOOL` by an agent", Value: &tool},
			&ucli.BoolFlag{Name: "subagent", Usage: "as a sub-agent", Destination: &subagent},
			&ucli.GenericFlag{Name: "rules", Usage: "in place of a command: show the built-in table of `CHECK`: " + strings.Join(checksWithRules(), ", "), Value: &rules},
		},
		Action: func(c *ucli.Context) error {
			if rules.given {
				if c.Args().Present() {
					return usagef(c.Command.Name, "--rules shows a table and judges no command: leave out %q", c.Args().First())
				}
				return a.showRules(rules.value)
			}
			call := gate.Call{Tool: tool.value, Dir: dir.value, Subagent: subagent}
			for _, v := range env.values {
				name, _, _ := strings.Cut(v, "=")
				call.Env = append(call.Env, name)
			}
			switch args := c.Args().Slice(); len(args) {
			case 0:
				return usagef(c.Command.Name, "which command? write: sandbox check -- COMMAND")
			case 1:
				call.Line = args[0]
			default:
				call.Args = args
			}
			return a.check(call, strictness)
		},
	}
}

func (a *app) check(call gate.Call, strictness text) error {
	settings, err := a.Backend.Settings(a.options())
	if err != nil {
		return err
	}
	var flags *config.SandboxSettings
	if strictness.given {
		flags = &config.SandboxSettings{Commands: &config.CommandSettings{Strictness: &strictness.value}}
	}
	res, err := config.Resolve(settings, a.globals.who(), flags)
	if err != nil {
		return err
	}
	in, err := a.Backend.Inside(res)
	if err != nil {
		return err
	}
	g, err := gate.New(res, in)
	if err != nil {
		return err
	}
	j := g.Judge(call)
	if a.globals.json() {
		err = writeJSON(a.Stdout, j)
	} else {
		_, err = io.WriteString(a.Stdout, checkText(j, len(res.Commands.Excluded) > 0))
	}
	switch {
	case err != nil:
		return err
	case j.Verdict == policy.Ask:
		return silentStatus(statusAsk)
	case j.Verdict == policy.Deny:
		return silentStatus(statusDeny)
	}
	return nil
}

// checkText writes j for people; rules says that commands.excluded has some.
func checkText(j gate.Judgement, rules bool) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s\n", j.Verdict, termsafe.Line(j.Summary()))
	section := func(title string, t *table) {
		if len(t.rows) > 0 {
			b.WriteString("\n" + title + "\n")
			_ = t.write(indented{&b, true}) // a strings.Builder never fails
		}
	}
	for _, r := range j.Reasons {
		fmt.Fprintf(&b, "\n%s, %s: %s", r.Verdict, r.Severity, r.Check)
		if text := r.Span.Of(j.Text); text != "" {
			fmt.Fprintf(&b, ": %s", part(text))
		}
		fmt.Fprintf(&b, "\n  %s\n", termsafe.Line(r.Message))
		if r.Hint != "" {
			fmt.Fprintf(&b, "  instead: %s\n", termsafe.Line(r.Hint))
		}
	}
	for _, w := range j.Warnings {
		fmt.Fprintf(&b, "\nwarning: %s: %s\n  %s, which strictness strict refuses\n  instead: %s\n", w.Check, part(w.Span.Of(j.Text)), termsafe.Line(w.Message), termsafe.Line(w.Hint))
	}
	commands := &table{}
	for _, c := range j.Commands {
		if by := how(c); by != "" {
			commands.add(part(c.Text), by)
			continue
		}
		commands.add(part(c.Text))
	}
	section("What would run", commands)
	if rules {
		section("Outside of the sandbox", explainLines([]string{j.ExcludedReason}))
	}
	return b.String()
}

// part returns as much of a text as fits into a line of a table.
func part(s string) string {
	s = termsafe.Line(s)
	if len(s) > maxPart {
		s = strings.ToValidUTF8(s[:maxPart], "") + " …"
	}
	return s
}

// how says by which way the shell comes to c.
func how(c command.Simple) string {
	var out []string
	if len(c.Wrappers) > 0 {
		out = append(out, "behind "+strings.Join(c.Wrappers, ", "))
	}
	if c.Via != "" {
		out = append(out, c.Via)
	}
	return strings.Join(out, "; ")
}
