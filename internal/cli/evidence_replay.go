package cli

import (
	"context"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/replay"
)

func (a *app) evidenceReplayCommand() *ucli.Command {
	s := &evidenceSelection{command: text{}}
	var differing bool
	return &ucli.Command{
		Name:      "replay",
		Usage:     "judge recorded operations by the settings as they are now; runs nothing",
		UsageText: "sandbox evidence replay [flags]",
		Description: "Judges recorded operations and egress decisions by the settings as they are now. Selects records as list does.\n" +
			"DIFFERS is yes or no, or perhaps or unknown where the record lacks what the decision depends on: of arguments\n" +
			"and contents it has digests only. What a grant, a manifest, a consent or a budget refused stays refused.\n" +
			"All selected records are judged and counted; --limit bounds what is shown.",
		Flags: append(s.flags(), &ucli.BoolFlag{Name: "differing", Usage: "show only what differs or may differ", Destination: &differing}),
		Action: func(c *ucli.Context) error {
			f, err := s.filter(a, time.Now())
			if err == nil {
				err = noArguments(c)
			}
			if err == nil && s.kind.given && s.kind.value != typeOperation && s.kind.value != string(evidence.TypeEgress) {
				err = usagef("evidence replay", "--type must be one of %s, %s", typeOperation, evidence.TypeEgress)
			}
			if err != nil {
				return err
			}
			return a.withEvidence(func(e EvidenceStore) error { return a.replay(c.Context, e, s, f, differing) })
		},
	}
}

// A replayCount is what came of a replay.
type replayCount struct {
	shownOf
	judged     int
	differing  int   // of those, for sure or not
	uncertain  int   // of those: the record does not tell all
	incomplete int   // operations whose begin is no longer there, which are not judged
	omitted    int64 // decisions that were not kept one by one
}

func (a *app) replay(ctx context.Context, e EvidenceStore, s *evidenceSelection, f evidence.Filter, differing bool) error {
	settings, err := a.Backend.Settings(a.options())
	if err != nil {
		return err
	}
	columns := []string{"TIME", "KIND", "AGENT", "SESSION", "TOOL", "WHAT", "RECORDED", "TODAY", "DIFFERS", "RULE", "WHY"}
	if f.AllTenants {
		columns = append(columns, "TENANT")
	}
	out, n, judges := a.newStream("replay", columns, "WHY", "AGENT", "TOOL", "RULE", "SESSION"), replayCount{shownOf: shownOf{limit: f.Limit}}, replay.New(settings, a.Backend.Inside)
	all := e.Query(ctx, evidence.Filter{Tenant: f.Tenant, AllTenants: f.AllTenants})
	for i, err := range s.items(all, f) {
		if err != nil {
			if _, err := n.count(err); err != nil {
				return err
			}
			continue
		}
		if s.kind.value == string(evidence.TypeEgress) && i.Operation() {
			continue
		}
		r, ok := n.judge(judges, i)
		if !ok || differing && !r.Differs {
			continue
		}
		switch show, _ := n.count(nil); {
		case !show:
		case out.json:
			err = out.entry(r)
		default:
			err = out.row(replayRow(r, f.AllTenants)...)
		}
		if err != nil {
			return err
		}
	}
	err = out.end(
		member{"judged", n.judged}, member{"differing", n.differing}, member{"uncertain", n.uncertain}, member{"incomplete", n.incomplete},
		member{"omitted", n.omitted}, member{"more", n.more}, member{"damaged", n.damaged},
	)
	if err == nil {
		a.sayReplay(n)
	}
	return err
}

// judge judges one item and counts what came of it; ok is false where there is
// nothing to judge.
func (v *replayCount) judge(judges *replay.Settings, i evidence.Item) (r replay.Result, ok bool) {
	first := i.First()
	switch {
	case first.Omitted > 0:
		v.omitted += first.Omitted
		return r, false
	case i.Operation() && i.Begin == nil:
		v.incomplete++
		return r, false
	case i.Operation():
		o := replay.Operation{Begin: *i.Begin, End: i.End}
		if t, err := judges.For(o.Begin.Tenant, o.Begin.Agent, o.Begin.Session); err != nil {
			r = replay.Unknown(o, err)
		} else {
			r = replay.Judge(o, t)
		}
	case first.Type == evidence.TypeEgress:
		p, err := replay.ReadPlacement(first.Data)
		if err != nil {
			v.damaged++
			return r, false
		}
		if !p.Decision() {
			return r, false
		}
		w := replay.Whose{Time: first.Time, Tenant: first.Tenant, Agent: first.Agent, Session: first.Session, CommandID: first.Command}
		if t, err := judges.For(first.Tenant, first.Agent, first.Session); err != nil {
			r = replay.UnknownPlacement(p, w, err)
		} else {
			r = replay.JudgePlacement(p, w, t)
		}
	default:
		return r, false
	}
	v.judged++
	if r.Differs {
		v.differing++
	}
	if !r.Certain {
		v.uncertain++
	}
	return r, true
}

// sayReplay prints the summary for people. It reports damage in any case.
func (a *app) sayReplay(n replayCount) {
	if !a.globals.json() {
		a.say("%s judged; %d differ, %d are not certain", count(n.judged, "decision", "decisions"), n.differing, n.uncertain)
		if n.incomplete > 0 {
			a.say("of %s the begin is no longer there; they are not judged", count(n.incomplete, "operation", "operations"))
		}
		if n.omitted > 0 {
			a.say("%s were not kept one by one and are not judged", count(int(n.omitted), "decision", "decisions"))
		}
		if n.more {
			a.say("only the newest %d are shown; --limit 0 shows all", n.limit)
		}
	}
	if n.damaged > 0 {
		a.say("the records are damaged in %s; what was there is not judged, see sandbox evidence verify", count(n.damaged, "place", "places"))
	}
}

func replayRow(r replay.Result, tenants bool) []string {
	rule := r.Today.Rule
	if rule == "" {
		rule = r.Recorded.Rule
	}
	cells := []string{shownTime(r.Time), r.Kind, r.Agent, r.Session, r.Tool, r.What, string(r.Recorded.Verdict), string(r.Today.Verdict), differsCell(r), rule, r.Why}
	if tenants {
		cells = append(cells, r.Tenant)
	}
	return cells
}

func differsCell(r replay.Result) string {
	switch {
	case r.Differs && r.Certain:
		return "yes"
	case r.Differs:
		return "perhaps"
	case r.Certain:
		return "no"
	}
	return "unknown"
}
