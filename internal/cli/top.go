package cli

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A TopView says what `sandbox top` shows, and has what it needs of the command
// line.
type TopView struct {
	In, Out *os.File
	Once    bool // one picture as plain text
	JSON    bool // one picture as JSON
	Every   time.Duration

	Tenant string // whose sandboxes are listed, as by list
	All    bool
	Agent  string // the filters to begin with; empty is none
	Text   string
	Sort   string // name of a column; empty: what runs first, by its last use
	Place  string // where the sandboxes are, for the first line

	Words     TopWords
	WriteJSON func(v any) error
	// Shell has a shell run on the terminal until it ends.
	Shell func(ShellPlace) error
	// AtExit registers fn to run before a second signal ends the program.
	AtExit func(fn func()) (remove func())
}

// TopWords write what other commands print too, as those do. The cells of a record
// may hold anything.
type TopWords struct {
	Explanation func(e manager.Explanation, width int) string
	Mounts      func(e manager.Explanation, width int) string
	Violation   func(r violation.Record) []string
	Evidence    func(r evidence.Record) []string
}

// A ShellPlace says in which sandbox a shell is opened.
type ShellPlace struct {
	Who                        config.Who
	Provider, Workspace, Image string // empty: as the settings say
}

// Layer returns what the place says as settings of a call.
func (p ShellPlace) Layer() *config.SandboxSettings {
	return config.Overrides{Provider: p.Provider, Workspace: p.Workspace, Image: p.Image}.Layer()
}

// sortColumns are the values of --sort, which are the names of columns.
func sortColumns() []string {
	return []string{"key", "name", "state", "provider", "tenant", "agent", "cpu", "memory", "pids", "disk", "net", "idle", "command"}
}

func (a *app) topCommand() *ucli.Command {
	var once, all bool
	sort, filter := text{check: oneOf(sortColumns()...)}, text{}
	every := span{positive: true}
	return &ucli.Command{
		Name:      "top",
		Usage:     "watch sandboxes: what runs, what it costs, what was stopped",
		UsageText: "sandbox top [flags]",
		Description: "Shows the sandboxes on the terminal until q is typed; ? lists the keys. --tenant selects as it does for list, --agent\n" +
			"and --filter are filters to begin with. Where standard output is no terminal, and with --once or -o json, it writes one\n" +
			"picture without any control character; figures of a second are in it, so that takes as long.\n" +
			"NO_COLOR is heeded. docs/watching.md says what the columns mean.",
		Flags: []ucli.Flag{
			&ucli.BoolFlag{Name: "all", Usage: "every tenant's", Destination: &all},
			&ucli.BoolFlag{Name: "once", Aliases: []string{"b"}, Usage: "write one picture as plain text and end", Destination: &once},
			&ucli.GenericFlag{Name: "filter", Usage: "show what has this `TEXT` in its name, key, image, labels or command", Value: &filter},
			&ucli.GenericFlag{Name: "sort", Usage: "sort by this `COLUMN`: " + strings.Join(sortColumns(), ", "), Value: &sort},
			&ucli.GenericFlag{Name: "every", Usage: "`DURATION` between two pictures; default 2s", Value: &every},
		},
		Action: func(c *ucli.Context) error {
			if err := noArguments(c); err != nil {
				return err
			}
			o, err := a.hosted()
			if err != nil {
				return err
			}
			v := TopView{
				In: a.Stdin, Out: a.Stdout, Once: once || !isTerminal(a.Stdout), JSON: a.globals.json(), Every: max(every.value, minEvery),
				Tenant: a.globals.tenant.value, All: all, Text: filter.value, Sort: sort.value, Place: o.place(),
				Words:     TopWords{Explanation: topExplanation, Mounts: topMounts, Violation: topViolation, Evidence: topEvidence},
				WriteJSON: func(v any) error { return writeJSON(a.Stdout, v) },
				Shell:     func(p ShellPlace) error { return a.shellBelow(c.Context, p) },
				AtExit:    a.interrupts.atExit,
			}
			if !every.given {
				v.Every = WatchEvery
			}
			if a.globals.agent.given {
				v.Agent = a.globals.agent.value
			}
			if !v.Once && !v.JSON {
				if !isTerminal(a.Stdin) {
					return usagef("top", "standard input is no terminal, so no key can be read; write one picture with: sandbox top --once")
				}
				// A line of the log in the midst of the view would tear it.
				o.Log, o.Progress = newLog(discard{}, "error"), nil
			}
			return a.Backend.Top(c.Context, o, v)
		},
	}
}

// minEvery is the least time between two pictures.
const minEvery = 250 * time.Millisecond

// discard is nothing to write to.
type discard struct{}

// Write implements io.Writer.
func (discard) Write(p []byte) (int, error) { return len(p), nil }

// place says where the sandboxes are.
func (o Options) place() string {
	if o.Host.Remote() {
		return termsafe.Line(o.Host.Address)
	}
	return "this machine"
}

// shellBelow runs this program once more, for a shell in a sandbox. An interrupt
// from the keyboard is meant for that shell.
func (a *app) shellBelow(ctx context.Context, p ShellPlace) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	args := append(a.globals.connection(), "shell", "--agent="+p.Who.Agent, "--session="+p.Who.Session)
	for _, f := range []struct{ name, value string }{{"tenant", p.Who.Tenant}, {"provider", p.Provider}, {"workspace", p.Workspace}, {"image", p.Image}} {
		if f.value != "" {
			args = append(args, "--"+f.name+"="+f.value)
		}
	}
	_, back := a.interrupts.divert(syscall.SIGINT)
	defer back()
	cmd := exec.CommandContext(ctx, self, args...)
	cmd.Args[0] = a.Args[0]
	said := &lastLines{w: a.Stderr}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = a.Stdin, a.Stdout, said
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = shellEnd
	err = cmd.Run()
	if exit, ok := err.(*exec.ExitError); ok && exit.Exited() && exit.ExitCode() != statusSandbox && exit.ExitCode() != statusUsage {
		return nil // how the last command in the shell has ended
	}
	if err != nil {
		return fmt.Errorf("the shell has failed: %w: %s", err, termsafe.Line(strings.TrimSpace(string(said.kept))))
	}
	return nil
}

// lastLines passes on what is written and keeps the end of it.
type lastLines struct {
	w    io.Writer
	kept []byte
}

// Write implements io.Writer.
func (l *lastLines) Write(p []byte) (int, error) {
	l.kept = append(l.kept, p...)
	l.kept = l.kept[max(0, len(l.kept)-512):]
	return l.w.Write(p)
}

// shellEnd is what a shell has to end in when this program is ended.
const shellEnd = 5 * time.Second

// topExplanation writes an explanation as explain does.
func topExplanation(e manager.Explanation, width int) string { return explainText(e, false, width) }

// topMounts writes the folders of a sandbox.
func topMounts(e manager.Explanation, width int) string {
	var b strings.Builder
	t := explainMounts(e)
	if len(t.rows) == 0 {
		return "It has no folders of its own."
	}
	t.limit = width
	_ = t.write(&b) // a strings.Builder never fails
	return b.String()
}

func topViolation(r violation.Record) []string {
	n := ""
	if r.Count > 1 {
		n = fmt.Sprintf("%d times", r.Count)
	}
	return []string{severityCell(r.Severity), string(r.Verdict), r.Program, whatCell(r), n, r.Rule}
}

func topEvidence(r evidence.Record) []string {
	verdict, what, rule := evidenceCells(r)
	return []string{string(r.Type), verdict, what, rule}
}
