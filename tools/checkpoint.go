package tools

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/schema"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// maxProgram is how many bytes of a program and its arguments an answer shows.
const maxProgram = 256

// maxCheckpoints is how many checkpoints one answer lists.
const maxCheckpoints = 50

// checkpoint keeps states of the session's sandbox and goes back to them. It
// reaches no checkpoint of another sandbox, and neither removes nor forks.
func (c *call) checkpoint(ctx context.Context, in schema.Checkpoint) (Answer, error) {
	own, err := c.tools.o.Manager.Name(c.session.Who, c.session.Flags)
	if err != nil {
		return Answer{}, err
	}
	req := c.request()
	req.MustExist = true
	switch in.Action {
	case "create":
		r, err := c.tools.o.Manager.Checkpoint(ctx, req, manager.CheckpointOptions{Name: in.Name})
		if err != nil {
			return Answer{}, err
		}
		return checkpointAnswer(in.Action, r), nil
	case "rollback":
		return c.rollback(ctx, req, own, in.Checkpoint)
	}
	return c.checkpoints(ctx, own)
}

// checkpoints lists those of the sandbox own, the newest first.
func (c *call) checkpoints(ctx context.Context, own string) (Answer, error) {
	all, err := c.tools.o.Manager.Checkpoints(ctx, manager.CheckpointFilter{Tenant: c.session.Who.Tenant})
	if err != nil {
		return Answer{}, err
	}
	all = slices.DeleteFunc(slices.Clone(all), func(r checkpoint.Record) bool { return !c.owns(r, own) })
	slices.Reverse(all)
	page := &schema.Page{Total: len(all), Shown: min(len(all), maxCheckpoints), More: len(all) > maxCheckpoints}
	a := checkpointAnswer("list", all[:page.Shown]...)
	d := a.Data.(schema.CheckpointResult)
	notes := ""
	switch {
	case page.Total == 0:
		page.Hint = "nothing was kept yet; the action create keeps the state"
		notes = page.Hint
	case page.More:
		page.Hint = fmt.Sprintf("%d older ones are left out", page.Total-page.Shown)
		notes = page.Hint
	}
	d.Page = page
	a.Data, a.Text = d, lines(a.Text, remarks(notes))
	return a, nil
}

// owns reports whether a checkpoint is one of the sandbox own, or was imported
// for its session.
func (c *call) owns(r checkpoint.Record, own string) bool {
	who := c.session.Who
	if r.Tenant != who.Tenant {
		return false
	}
	return r.Sandbox == own || r.Sandbox == "" && r.Agent == cmp.Or(who.Agent, config.DefaultAgent) && r.Session == cmp.Or(who.Session, config.DefaultSession)
}

// rollback goes back to a checkpoint of the sandbox own. Where others share it
// their work would be given up as well, so it is refused.
func (c *call) rollback(ctx context.Context, req manager.Request, own, ref string) (Answer, error) {
	usable, err := c.usable()
	if err != nil {
		return Answer{}, err
	}
	if usable.Scope != sandbox.ScopeSession {
		return Answer{}, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: c.tool, Field: "scope", Message: "other sessions share this sandbox, and would lose their work",
			Hint: "undo the changes by other tools, or have a person roll it back",
		}
	}
	to, err := c.tools.o.Manager.FindCheckpoint(ctx, c.session.Who.Tenant, ref)
	switch {
	case err == nil && c.owns(to, own):
	case err == nil, sandbox.IsNotFound(err), sandbox.CodeOf(err) == sandbox.CodeValidation:
		return Answer{}, &sandbox.Error{
			Code: sandbox.CodeNotFound, Op: c.tool, Field: "checkpoint", Resource: shown(ref), Message: "this sandbox has no checkpoint " + shown(ref), Hint: "the action list names those that it has",
		}
	default:
		return Answer{}, err
	}
	out, err := c.tools.o.Manager.Rollback(ctx, req, to.ID)
	if err != nil {
		return Answer{}, err
	}
	a := checkpointAnswer("rollback", out.Checkpoint)
	d := a.Data.(schema.CheckpointResult)
	d.Ended, d.Recreated = checkpointPrograms(out.Ended), out.Recreated
	notes := []string{"the sandbox holds this state now"}
	for _, p := range d.Ended {
		notes = append(notes, fmt.Sprintf("ended: %s (process %d)", p.Command, p.PID))
	}
	if out.Recreated {
		notes = append(notes, "the sandbox was started again")
	}
	a.Data, a.Text = d, lines(a.Text, remarks(notes...))
	return a, nil
}

// checkpointAnswer is the answer with checkpoints.
func checkpointAnswer(action string, list ...checkpoint.Record) Answer {
	d := schema.CheckpointResult{Action: action, Checkpoints: []schema.CheckpointState{}}
	var rows []string
	for _, r := range list {
		s := schema.CheckpointState{
			ID: r.ID, Name: r.Name, Parent: r.Parent, Created: r.CreatedAt.UTC(), Auto: r.Auto, Busy: r.Busy, Folders: []string{},
			Running: checkpointPrograms(r.Running), Bytes: r.Bytes, LeftOut: r.LeftOut.Special + r.LeftOut.Unreadable + r.LeftOut.Vanished,
		}
		for _, t := range r.Trees {
			s.Folders = append(s.Folders, t.Target)
		}
		d.Checkpoints = append(d.Checkpoints, s)
		row := "[checkpoint " + s.ID
		if s.Name != "" {
			row += " " + nameShow(s.Name)
		}
		row += " of " + s.Created.Format("2006-01-02 15:04:05") + " UTC"
		if s.Auto {
			row += ", made before a command"
		}
		rows = append(rows, row+"]")
		if action != "create" {
			continue
		}
		var notes []string
		if s.Busy {
			notes = append(notes, "commands ran meanwhile, so files may be of different moments")
		}
		for _, p := range s.Running {
			notes = append(notes, fmt.Sprintf("not kept: %s (process %d)", p.Command, p.PID))
		}
		if s.LeftOut > 0 {
			notes = append(notes, fmt.Sprintf("not kept: %d pipes, sockets, devices or files that cannot be read", s.LeftOut))
		}
		rows = append(rows, remarks(notes...))
	}
	return Answer{Text: lines(rows...), Data: d}
}

// checkpointPrograms are programs as answers have them.
func checkpointPrograms(list []sandbox.RunningCommand) (out []schema.CheckpointProgram) {
	for _, p := range list {
		out = append(out, schema.CheckpointProgram{PID: p.PID, Command: shorten([]byte(strings.Join(p.Args, " ")), maxProgram)})
	}
	return out
}
