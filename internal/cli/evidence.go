package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net"
	"strconv"
	"strings"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
)

// An EvidenceStore answers for what was done; *evidence.Store is one.
type EvidenceStore interface {
	Query(ctx context.Context, f evidence.Filter) iter.Seq2[evidence.Record, error]
	Verified(ctx context.Context, c evidence.Check) (evidence.Verified, error)
}

var _ EvidenceStore = (*evidence.Store)(nil)

func (a *app) evidenceCommand() *ucli.Command {
	return &ucli.Command{
		Name:        "evidence",
		Usage:       "show what was done, and check that the record of it is whole",
		UsageText:   "sandbox evidence (list | verify | replay) [flags]",
		Subcommands: []*ucli.Command{a.evidenceListCommand(), a.evidenceVerifyCommand(), a.evidenceReplayCommand()},
	}
}

func (a *app) evidenceListCommand() *ucli.Command {
	s := &evidenceSelection{}
	return &ucli.Command{
		Name:      "list",
		Usage:     "show what was done, the newest first",
		UsageText: "sandbox evidence list [flags]",
		Description: "That of the tenant, or of every one with --all. --agent and --session select when they are given.\n" +
			"A time is an age like 90s, 10m, 24h or 7d, a day like 2026-11-21, or a time like 2026-11-21T06:12:15Z.\n" +
			"Types: " + strings.Join(evidenceTypes(), ", ") + "; " + typeOperation + " is a begin and its end, in one line.\n" +
			"Operations are shown so unless begin or end is asked for. JSON has the records as they are.",
		Flags: s.flags(),
		Action: func(c *ucli.Context) error {
			f, err := s.filter(a, time.Now())
			if err == nil {
				err = noArguments(c)
			}
			if err != nil {
				return err
			}
			return a.withEvidence(func(e EvidenceStore) error { return a.listEvidence(c.Context, e, s, f) })
		},
	}
}

// An evidenceSelection is what the flags say about which records are meant.
type evidenceSelection struct {
	kind, sandbox, command text
	since, until           moment
	all                    bool
	shown                  int
	operations             operationSelection
}

// operationsOnly reports whether nothing but operations is meant.
func (s *evidenceSelection) operationsOnly() bool {
	return s.kind.value == typeOperation || s.operations.given() != ""
}

func (s *evidenceSelection) flags() []ucli.Flag {
	s.kind.check = oneOf(append(evidenceTypes(), typeOperation)...)
	s.sandbox.check, s.command.check = notEmpty, notEmpty
	return append([]ucli.Flag{
		&ucli.GenericFlag{Name: "type", Usage: "`TYPE` of what was done", Value: &s.kind},
		&ucli.GenericFlag{Name: "since", Usage: "not before this `TIME`", Value: &s.since},
		&ucli.GenericFlag{Name: "until", Usage: "before this `TIME`", Value: &s.until},
		&ucli.GenericFlag{Name: "sandbox", Usage: "of the sandbox with this `NAME`", Value: &s.sandbox},
		&ucli.GenericFlag{Name: "command", Usage: "of the run with this `ID`", Value: &s.command},
		&ucli.BoolFlag{Name: "all", Usage: "every tenant's", Destination: &s.all},
		&ucli.IntFlag{Name: "limit", Usage: "at most the newest `N`; 0 shows all", Value: defaultShown, Destination: &s.shown},
	}, s.operations.flags()...)
}

// filter reads the flags at now.
func (s *evidenceSelection) filter(a *app, now time.Time) (evidence.Filter, error) {
	f := evidence.Filter{
		Tenant: a.globals.tenant.value, AllTenants: s.all, Sandbox: s.sandbox.value, Command: s.command.value, Type: evidence.Type(s.kind.value),
		Since: s.since.at(now), Until: s.until.at(now), Limit: s.shown,
	}
	switch {
	case s.shown < 0:
		return f, usagef("evidence list", "--limit must not be negative")
	case s.all && a.globals.tenant.given:
		return f, usagef("evidence list", "--all and --tenant exclude each other")
	case s.kind.given && s.kind.value != typeOperation && s.operations.given() != "":
		return f, usagef("evidence list", "--%s is about operations; leave out --type %s", s.operations.given(), s.kind.value)
	}
	if a.globals.agent.given {
		f.Agent = a.globals.agent.value
	}
	if a.globals.session.given {
		f.Session = a.globals.session.value
	}
	return f, nil
}

func evidenceTypes() []string {
	var out []string
	for _, t := range evidence.Types() {
		out = append(out, string(t))
	}
	return out
}

func (a *app) withEvidence(fn func(EvidenceStore) error) error {
	o, err := a.hosted()
	if err != nil {
		return err
	}
	e, release, err := a.Backend.Evidence(o)
	if err != nil {
		return err
	}
	defer release()
	return fn(e)
}

func (a *app) listEvidence(ctx context.Context, e EvidenceStore, s *evidenceSelection, f evidence.Filter) error {
	columns := []string{"TIME", "TYPE", "AGENT", "SESSION", "COMMAND", "VERDICT", "WHAT", "RULE"}
	row := itemRow
	if s.operationsOnly() {
		columns, row = []string{"TIME", "KIND", "TOOL", "CAPABILITY", "STATUS", "CODE", "USED", "DURATION", "OPERATION"}, operationsRow
	}
	if f.AllTenants {
		columns = append(columns, "TENANT")
	}
	out, n := a.newStream("evidence", columns, "COMMAND", "AGENT", "TYPE", "RULE", "CAPABILITY", "USED", "CODE", "SESSION"), shownOf{limit: f.Limit}
	for i, err := range s.meant(ctx, e, f) {
		more, err := n.count(err)
		switch {
		case err != nil:
			return err
		case !more:
			continue
		case !out.json:
			cells := row(i)
			if f.AllTenants {
				cells = append(cells, i.First().Tenant)
			}
			err = out.row(cells...)
		default:
			for _, r := range i.Records {
				err = errors.Join(err, out.entry(r))
			}
		}
		if err != nil {
			return err
		}
	}
	if err := out.end(member{"more", n.more}, member{"damaged", n.damaged}); err != nil {
		return err
	}
	return a.sayMissing(n.more, f.Limit, n.damaged, ", see sandbox evidence verify")
}

// meant returns what is to be listed, with one more than the limit.
func (s *evidenceSelection) meant(ctx context.Context, e EvidenceStore, f evidence.Filter) iter.Seq2[evidence.Item, error] {
	limit := oneMore(f.Limit)
	if !s.kind.given || s.operationsOnly() {
		all := e.Query(ctx, evidence.Filter{Tenant: f.Tenant, AllTenants: f.AllTenants})
		return firstOf(s.items(all, f), limit)
	}
	f.Limit = limit
	return func(yield func(evidence.Item, error) bool) {
		for r, err := range e.Query(ctx, f) {
			if !yield(evidence.Item{Records: []evidence.Record{r}}, err) {
				return
			}
		}
	}
}

// itemRow shows what was done, of whatever type, on one line.
func itemRow(i evidence.Item) []string {
	r := i.First()
	kind, id := string(r.Type), r.Command
	verdict, what, rule := evidenceCells(r)
	if i.Operation() {
		kind = typeOperation
		id, verdict, what, rule = operationRow(i)
	}
	return []string{shownTime(r.Time), kind, r.Agent, r.Session, id, verdict, what, rule}
}

// placement holds what is shown of a decision of the egress proxy.
type placement struct {
	Phase, Verdict, Method, Host, Path, Rule, Error string
	Port                                            uint16
	Status                                          int
	BytesIn, BytesOut                               int64
	Duration                                        time.Duration
}

// evidenceCells says in three cells what was done.
func evidenceCells(r evidence.Record) (verdict, what, rule string) {
	if r.Omitted > 0 {
		var o evidence.Omission
		why := "not kept one by one"
		if json.Unmarshal(r.Data, &o) == nil && o.Reason == evidence.OmittedLost {
			why = "lost: they could not be written"
		}
		return "", fmt.Sprintf("%d more, %s", r.Omitted, why), ""
	}
	var p placement
	if r.Type != evidence.TypeEgress || json.Unmarshal(r.Data, &p) != nil {
		return "", string(r.Data), ""
	}
	what = p.Host
	if p.Port != 0 {
		what = net.JoinHostPort(p.Host, strconv.Itoa(int(p.Port)))
	}
	what = strings.TrimSpace(p.Method + " " + what + p.Path)
	if p.Phase == "end" {
		if p.Status != 0 {
			what += fmt.Sprintf(", status %d", p.Status)
		}
		what += fmt.Sprintf(", ended after %s: %d bytes in, %d out", p.Duration.Round(time.Millisecond), p.BytesIn, p.BytesOut)
		if p.Error != "" {
			what += ", " + p.Error
		}
	}
	return p.Verdict, what, p.Rule
}
