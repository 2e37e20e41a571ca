package cli

import (
	"context"
	"errors"
	"time"

	ucli "github.com/urfave/cli/v2"

	"github.com/bulkhead-dev/sandbox/evidence"
	"github.com/bulkhead-dev/sandbox/evidence/pairs"
	"github.com/bulkhead-dev/sandbox/evidence/replay"
	"github.com/bulkhead-dev/sandbox/evidence/replay/today"
	"github.com/bulkhead-dev/sandbox/journal"
)

func (a *app) evidenceReplayCommand() *ucli.Command {
	s := &evidenceSelection{command: text{}}
	var differing bool
	return &ucli.Command{
		Name:      "replay",
		Usage:     "say what today's settings would make of what was decided; runs nothing",
		UsageText: "sandbox evidence replay [flags]",
		Description: "Holds operations and decisions of the way out against the settings as they are now. Selects as list does.\n" +
			"DIFFERS says yes or no, perhaps and unknown where the record does not tell all that it depends on:\n" +
			"of arguments and contents it has digests only. What a grant, a manifest, a consent or a budget refused stays\n" +
			"refused. All that is meant is judged and counted; --limit bounds what is shown.",
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

// replayView is what replay prints.
type replayView struct {
	Replay     []replay.Result `json:"replay"`
	Judged     int             `json:"judged"`
	Differing  int             `json:"differing"`  // of those, for sure or not
	Uncertain  int             `json:"uncertain"`  // of those: the record does not tell all
	Incomplete int             `json:"incomplete"` // operations whose begin is no longer there, which are not judged
	Omitted    int64           `json:"omitted"`    // decisions that were not kept one by one
	More       bool            `json:"more"`       // there are older ones than --limit shows
	Damaged    int             `json:"damaged"`    // places of the records that cannot be read
}

func (a *app) replay(ctx context.Context, e EvidenceStore, s *evidenceSelection, f evidence.Filter, differing bool) error {
	settings, err := a.Backend.Settings(a.options())
	if err != nil {
		return err
	}
	view := replayView{Replay: []replay.Result{}}
	judges := today.New(settings, a.Backend.Inside)
	all := e.Query(ctx, evidence.Filter{Tenant: f.Tenant, AllTenants: f.AllTenants})
	for i, err := range s.items(all, f) {
		var d *journal.Damage
		switch {
		case errors.As(err, &d):
			view.Damaged++
			continue
		case err != nil:
			return err
		case s.kind.value == string(evidence.TypeEgress) && i.Operation():
			continue
		}
		if r, ok := view.judge(judges, i); ok && (!differing || r.Differs) {
			if f.Limit > 0 && len(view.Replay) == f.Limit {
				view.More = true
				continue
			}
			view.Replay = append(view.Replay, r)
		}
	}
	return a.writeReplay(view, f)
}

// judge judges one item and counts what came of it; ok is false where there is
// nothing to judge.
func (v *replayView) judge(judges *today.Settings, i pairs.Item) (r replay.Result, ok bool) {
	first := i.First()
	switch {
	case first.Omitted > 0:
		v.Omitted += first.Omitted
		return r, false
	case i.Operation() && i.Begin == nil:
		v.Incomplete++
		return r, false
	case i.Operation():
		o := replay.Operation{Begin: *i.Begin, End: i.End}
		if t, err := judges.For(o.Begin.Tenant, o.Begin.Agent, o.Begin.Session); err != nil {
			r = replay.Unknown(o, err)
		} else {
			r = replay.Judge(o, t)
		}
	case first.Type == evidence.TypeEgress:
		p, err := replay.ReadPassage(first.Data)
		if err != nil {
			v.Damaged++
			return r, false
		}
		if !p.Decision() {
			return r, false
		}
		w := replay.Whose{Time: first.Time, Tenant: first.Tenant, Agent: first.Agent, Session: first.Session, CommandID: first.Command}
		if t, err := judges.For(first.Tenant, first.Agent, first.Session); err != nil {
			r = replay.UnknownPassage(p, w, err)
		} else {
			r = replay.JudgePassage(p, w, t)
		}
	default:
		return r, false
	}
	v.Judged++
	if r.Differs {
		v.Differing++
	}
	if !r.Certain {
		v.Uncertain++
	}
	return r, true
}

func (a *app) writeReplay(v replayView, f evidence.Filter) error {
	if a.globals.json() {
		if err := writeJSON(a.Stdout, v); err != nil {
			return err
		}
	} else if err := a.replayTable(v.Replay, f.AllTenants); err != nil {
		return err
	}
	if !a.globals.json() {
		a.say("%s judged; %d differ, %d are not certain", count(v.Judged, "decision", "decisions"), v.Differing, v.Uncertain)
		if v.Incomplete > 0 {
			a.say("of %s the begin is no longer there; they are not judged", count(v.Incomplete, "operation", "operations"))
		}
		if v.Omitted > 0 {
			a.say("%s were not kept one by one and are not judged", count(int(v.Omitted), "decision", "decisions"))
		}
		if v.More {
			a.say("only the newest %d are shown; --limit 0 shows all", f.Limit)
		}
	}
	if v.Damaged > 0 {
		a.say("the records are damaged in %s; what was there is not judged, see sandbox evidence verify", count(v.Damaged, "place", "places"))
	}
	return nil
}

func (a *app) replayTable(list []replay.Result, tenants bool) error {
	columns := []string{"TIME", "KIND", "AGENT", "SESSION", "TOOL", "WHAT", "RECORDED", "TODAY", "DIFFERS", "RULE", "WHY"}
	if tenants {
		columns = append(columns, "TENANT")
	}
	t := newTable(columns...)
	for _, r := range list {
		rule := r.Today.Rule
		if rule == "" {
			rule = r.Recorded.Rule
		}
		cells := []string{shownTime(r.Time), r.Kind, r.Agent, r.Session, r.Tool, r.What, string(r.Recorded.Verdict), string(r.Today.Verdict), differsCell(r), rule, r.Why}
		if tenants {
			cells = append(cells, r.Tenant)
		}
		t.add(cells...)
	}
	return t.write(a.Stdout)
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
