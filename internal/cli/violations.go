package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"iter"
	"os"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/policy"
)

// A ViolationStore answers for what was tried and stopped; *store.Store is one.
type ViolationStore interface {
	Query(ctx context.Context, f violation.Filter) iter.Seq2[violation.Record, error]
	Count(ctx context.Context, f violation.Filter) (map[violation.Type]int64, error)
	Clear(ctx context.Context, f violation.Filter, by string) (int64, error)
}

var _ ViolationStore = (*violation.Store)(nil)

// defaultShown is how many violations are listed by default.
const defaultShown = 100

func (a *app) violationsCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "violations",
		Usage:       "show or forget what was tried and stopped",
		UsageText:   "sandbox violations (list | clear) [flags]",
		Subcommands: []*ucli.Command{a.violationsListCommand(), a.violationsClearCommand()},
	}
}

func (a *app) violationsListCommand() *ucli.Command {
	s := &selection{shown: defaultShown}
	return &ucli.Command{
		Name:      "list",
		Usage:     "show what was tried and stopped, the newest first",
		UsageText: "sandbox violations list [flags]",
		Description: "Those of the tenant, or of every one with --all. --agent and --session select when they are given.\n" +
			"A time is an age like 90s, 10m, 24h or 7d, a day like 2026-11-21, or a time like 2026-11-21T06:12:15Z.\n" +
			"Types: " + strings.Join(typeNames(), ", ") + ".",
		Flags: append(s.flags(), &ucli.IntFlag{Name: "limit", Usage: "at most the newest `N`; 0 shows all", Value: defaultShown, Destination: &s.shown}),
		Action: func(c *ucli.Context) error {
			f, err := s.filter(a, "violations list", time.Now())
			if err == nil {
				err = noArguments(c)
			}
			if err != nil {
				return err
			}
			return a.withViolations(func(v ViolationStore) error { return a.listViolations(c.Context, v, f) })
		},
	}
}

func (a *app) violationsClearCommand() *ucli.Command {
	s := &selection{}
	var force bool
	return &ucli.Command{
		Name:      "clear",
		Usage:     "forget what was tried and stopped; how many, when and by whom stays recorded",
		UsageText: "sandbox violations clear [flags]",
		Description: "Selects as list does; without flags, everything of the tenant.\n" +
			"Asks unless --force.",
		Flags: append(s.flags(), &ucli.BoolFlag{Name: "force", Usage: "do not ask", Destination: &force}),
		Action: func(c *ucli.Context) error {
			f, err := s.filter(a, "violations clear", time.Now())
			if err == nil {
				err = noArguments(c)
			}
			if err != nil {
				return err
			}
			if !force && !isTerminal(a.Stdin) {
				return usagef("violations clear", "standard input is no terminal to ask on; add --force")
			}
			return a.withViolations(func(v ViolationStore) error { return a.clearViolations(c.Context, v, f, force) })
		},
	}
}

// A selection is what the flags say about which violations are meant.
type selection struct {
	types, sandbox texts
	severity       text
	since, until   moment
	all            bool
	shown          int
}

func (s *selection) flags() []ucli.Flag {
	s.types.check, s.sandbox.check = oneOf(typeNames()...), notEmpty
	s.severity.check = oneOf("low", "medium", "high", "critical")
	return []ucli.Flag{
		&ucli.GenericFlag{Name: "type", Usage: "`TYPE` of violation; may be repeated", Value: &s.types},
		&ucli.GenericFlag{Name: "severity", Usage: "this `SEVERITY` or a graver one: low, medium, high, critical", Value: &s.severity},
		&ucli.GenericFlag{Name: "since", Usage: "not before this `TIME`", Value: &s.since},
		&ucli.GenericFlag{Name: "until", Usage: "before this `TIME`", Value: &s.until},
		&ucli.GenericFlag{Name: "sandbox", Usage: "of the sandbox with this `NAME`", Value: &s.sandbox},
		&ucli.BoolFlag{Name: "all", Usage: "every tenant's", Destination: &s.all},
	}
}

// filter reads the flags of the command at now.
func (s *selection) filter(a *app, command string, now time.Time) (violation.Filter, error) {
	f := violation.Filter{Tenant: a.globals.tenant.value, AllTenants: s.all, Since: s.since.at(now), Until: s.until.at(now), Limit: s.shown}
	switch {
	case s.shown < 0:
		return f, usagef(command, "--limit must not be negative")
	case s.all && a.globals.tenant.given:
		return f, usagef(command, "--all and --tenant exclude each other")
	case len(s.sandbox.values) > 1:
		return f, usagef(command, "--sandbox may be given once")
	}
	for _, t := range s.types.values {
		f.Types = append(f.Types, violation.Type(t))
	}
	f.Sandbox = strings.Join(s.sandbox.values, "")
	if s.severity.given {
		if err := f.MinSeverity.UnmarshalText([]byte(s.severity.value)); err != nil {
			return f, usagef(command, "%v", err)
		}
	}
	if a.globals.agent.given {
		f.Agent = a.globals.agent.value
	}
	if a.globals.session.given {
		f.Session = a.globals.session.value
	}
	return f, nil
}

func typeNames() []string {
	var out []string
	for _, t := range violation.Types() {
		out = append(out, string(t))
	}
	return out
}

func (a *app) withViolations(fn func(ViolationStore) error) error {
	o, err := a.hosted()
	if err != nil {
		return err
	}
	v, release, err := a.Backend.Violations(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(v)
}

// violationsView is what list prints.
type violationsView struct {
	Violations []violation.Record `json:"violations"`
	More       bool               `json:"more"`    // there are older ones than --limit shows
	Damaged    int                `json:"damaged"` // places of the records that cannot be read
}

func (a *app) listViolations(ctx context.Context, v ViolationStore, f violation.Filter) error {
	limit := f.Limit
	f.Limit = oneMore(limit)
	n, err := gather(v.Query(ctx, f), limit)
	if err != nil {
		return err
	}
	if err := a.writeViolations(violationsView{Violations: n.records, More: n.more, Damaged: n.damaged}, f.AllTenants); err != nil {
		return err
	}
	return a.sayMissing(n.more, limit, n.damaged, "")
}

func (a *app) writeViolations(view violationsView, tenants bool) error {
	if a.globals.json() {
		return writeJSON(a.Stdout, view)
	}
	columns := []string{"TIME", "SEVERITY", "TYPE", "VERDICT", "AGENT", "SESSION", "PROGRAM", "WHAT", "COUNT", "RULE"}
	if tenants {
		columns = append(columns, "TENANT")
	}
	t := a.newTable(columns, "PROGRAM", "AGENT", "TYPE", "COUNT", "SESSION", "SEVERITY", "RULE")
	for _, r := range view.Violations {
		cells := []string{r.Time.Local().Format("2006-01-02 15:04:05"), severityCell(r.Severity), string(r.Type), string(r.Verdict),
			r.Agent, r.Session, r.Program, whatCell(r), fmt.Sprint(r.Count), r.Rule}
		if tenants {
			cells = append(cells, r.Tenant)
		}
		t.add(cells...)
	}
	return t.write(a.Stdout)
}

func severityCell(s policy.Severity) string {
	if s < policy.Low || s > policy.Critical {
		return "?"
	}
	return s.String()
}

// whatCell says in one cell what was tried.
func whatCell(r violation.Record) string {
	return strings.TrimSpace(string(r.Op) + " " + cmp.Or(r.Resource, r.Command, r.Message))
}

func (a *app) clearViolations(ctx context.Context, v ViolationStore, f violation.Filter, force bool) error {
	if !force {
		counts, err := v.Count(ctx, f)
		if err != nil {
			return err
		}
		var n int64
		for _, c := range counts {
			n += c
		}
		if n > 0 {
			question := fmt.Sprintf("%s\nForget %s? [y/N] ", termsafe.Line(f.String()), count(int(n), "violation", "violations"))
			if err := a.agreed(ctx, question, "nothing was forgotten"); err != nil {
				return err
			}
		}
	}
	n, err := v.Clear(ctx, f, fmt.Sprintf("uid %d by sandbox violations clear", os.Geteuid()))
	if err != nil {
		return err
	}
	if a.globals.json() {
		return writeJSON(a.Stdout, struct {
			Removed int64 `json:"removed"`
		}{n})
	}
	text := fmt.Sprintf("removed %s\n", count(int(n), "record", "records"))
	if n == 0 {
		text = "there is none\n"
	}
	_, err = io.WriteString(a.Stdout, text)
	return err
}
