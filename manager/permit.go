package manager

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"slices"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
)

// Bounds of asking.
const (
	maxRounds = 8 // questions, and runs after the first, of one command
	askWithin = 5 * time.Minute
)

// An asking is one command that may be run again with more permissions.
type asking struct {
	m       *Manager
	live    *acquired
	req     Request
	input   *repeater
	once    []sandbox.Grant // for this command alone
	given   []sandbox.Grant // all that were given on the way
	answers []Answer        // to questions about paths
	hosts   []Answer        // to what was asked while the command ran
}

// runAsking runs the command and asks for permission as long as it is blocked
// by something that can be permitted.
func (x *executor) runAsking(ctx context.Context, l *acquired, req Request) (Outcome, error) {
	if !req.Ask {
		return x.run(ctx, l, req)
	}
	a := &asking{m: x.m, live: l, req: req, input: newRepeater(req.Command.Stdin)}
	out, err := a.run(ctx, l)
	for err == nil && !out.TimedOut && out.Exit.Code != 0 && a.permit(ctx, &out) {
		created := out.Created
		if out, err = a.again(ctx); err != nil {
			return out, err
		}
		out.Created = created
	}
	out.Answers = slices.Concat(a.hosts, a.answers)
	return out, err
}

// run runs the command in l, with its input from the start.
func (a *asking) run(ctx context.Context, l *acquired) (Outcome, error) {
	req := a.req
	in, ok := a.input.next()
	if !ok {
		return Outcome{Name: l.name()}, &sandbox.Error{Code: sandbox.CodeExecution, Op: "run", Resource: l.name(), Message: "the command cannot be run again because its input is gone"}
	}
	req.Command.Stdin = in
	out, err := a.m.executor.run(ctx, l, req)
	a.hosts = append(a.hosts, out.Answers...)
	return out, err
}

// again runs the command once more, in a handle that has what was given. The
// first one stays leased meanwhile.
func (a *asking) again(ctx context.Context) (Outcome, error) {
	w := *a.live.want
	w.permit(with(a.m.grants.list(w.spec.Owner), a.once...))
	w.private = len(a.once) > 0
	l, err := a.m.builder.ensure(ctx, &w, a.req.MustExist)
	if err != nil {
		return Outcome{Name: a.live.name()}, err
	}
	defer l.close()
	l.seen, l.spent, l.counted, l.shell = a.live.seen, a.live.spent, a.live.counted, a.live.shell
	if a.req.Again != nil {
		a.req.Again()
	}
	return a.run(ctx, l)
}

// permit asks about the first cause that a grant opens, and reports whether
// the command is to be run again. If not, the outcome says why.
//
// Of a command that is not blocked it asks about what it names, is hidden from
// it and is there on the host: hidden files are missing inside, which no
// denial's text tells of. Without such a thing nothing is asked or said.
func (a *asking) permit(ctx context.Context, out *Outcome) bool {
	if out.Blocked && out.Causes[0].Kind == sandbox.ResourceNetwork {
		out.BlockedReason += denialOf(out)
		return false // it was asked about while the command ran, or no approver may permit it
	}
	causes := out.Causes
	if !out.Blocked {
		causes = slices.DeleteFunc(slices.Clone(out.Violations), func(v sandbox.Violation) bool {
			return v.Evidence != sandbox.EvidenceWeak || v.Operation != sandbox.OpRead
		})
	}
	v, g, why := a.choose(causes)
	reason := out.BlockedReason
	if !out.Blocked {
		reason = violation.Reason(v)
	}
	if why == "" && !a.input.can() {
		why = "no approval was asked for, because the command's input cannot be given again: pass at most 1 MiB and close it, or use a file"
	}
	if why == "" && len(a.answers) == maxRounds {
		why = fmt.Sprintf("no approval was asked for, because %d questions are enough for one command", maxRounds)
	}
	switch {
	case why != "" && out.Blocked:
		out.BlockedReason += "; " + why
		fallthrough
	case why != "":
		return false
	}
	answer := a.ask(ctx, v, g, reason)
	defer func() { a.answers = append(a.answers, answer) }()
	switch answer.Permission {
	case sandbox.AllowOnce, sandbox.AllowSession, sandbox.AllowPermanent:
		a.m.grants.given(g)
	}
	switch answer.Permission {
	case sandbox.AllowOnce:
		a.once = append(a.once, g)
	case sandbox.AllowPermanent:
		answer.Note = a.keep(g)
		a.m.grants.add(a.live.spec.Owner, g)
	case sandbox.AllowSession:
		a.m.grants.add(a.live.spec.Owner, g)
	default:
		if !out.Blocked {
			// It is denied by the person now, whatever stopped it before.
			out.Blocked, out.BlockedResource, out.Causes = true, v.Resource, []sandbox.Violation{v}
		}
		out.BlockedReason = reason + denial(answer)
		return false
	}
	a.given = append(a.given, g)
	a.m.log.WithField("sandbox", a.live.name()).Infof("%s of %q is permitted: %s", g.Operation, g.Path, answer.Permission)
	return true
}

// denialOf says that an approver denied the host that blocked the command.
func denialOf(out *Outcome) string {
	for _, a := range slices.Backward(out.Answers) {
		if a.Request.Kind == sandbox.ResourceNetwork && a.Request.Resource == out.BlockedResource && a.Permission == sandbox.Deny {
			return denial(a)
		}
	}
	return ""
}

func denial(a Answer) string {
	text := "; permission was asked for and denied"
	if a.Note != "" {
		text += " (" + a.Note + ")"
	}
	return text + ": do without it, and do not try again in another way"
}

// listed says that a deny stands against it.
const listed = "it cannot be permitted: it is on a list of denials (" + string(sandbox.CodeCapabilityBlocked) + ")"

// choose returns the first of causes that a grant opens, with the grant, or
// why there is none.
func (a *asking) choose(causes []sandbox.Violation) (v sandbox.Violation, g sandbox.Grant, why string) {
	why = "there is nothing to permit: no path of the host stands behind it"
	for _, v := range causes {
		switch {
		case v.Builtin:
			why = listed
			continue
		case v.Kind != sandbox.ResourcePath || v.HostPath == "":
			continue
		}
		g, no := opening(a.live, v)
		switch {
		case no != "":
			why = no
		case slices.Contains(a.given, g):
			why = "it was permitted, and is denied all the same"
		default:
			return v, g, ""
		}
	}
	return v, g, why
}

// ask asks the approver. Whatever goes wrong is a denial.
func (a *asking) ask(ctx context.Context, v sandbox.Violation, g sandbox.Grant, reason string) Answer {
	o := a.live.spec.Owner
	r := sandbox.PermissionRequest{
		ID: newID(), Tenant: o.Tenant, Agent: a.req.Who.Agent, Session: a.req.Who.Session, Sandbox: a.live.name(),
		Kind: v.Kind, Operation: g.Operation, Resource: g.Path, Inside: v.Resource,
		Command: a.req.asked(), Reason: reason, Expires: a.m.now().Add(askWithin),
	}
	return a.m.approvals.put(ctx, r)
}

// keep writes g into the settings file and into the settings in force. It
// returns why not when it cannot: the grant then ends with this program.
func (a *asking) keep(g sandbox.Grant) (note string) {
	return a.m.approvals.keepGrant(a.live.spec.Owner, a.live.name(), a.req.Who.Agent, g)
}

func (ap *approvals) keepGrant(owner sandbox.Owner, name, agent string, g sandbox.Grant) (note string) {
	switch {
	case owner.Tenant != "":
		note = "the settings file is shared by all tenants, so the permission holds for this session only"
	case ap.m.permanent == nil:
		note = "there is no settings file to write to, so the permission holds for this session only"
	default:
		if err := ap.m.permanent(agent, g); err != nil {
			note = "the permission holds for this session only: " + err.Error()
		}
	}
	if note != "" {
		ap.m.log.WithField("sandbox", name).Warn(note)
		return note
	}
	for {
		old := ap.m.settings.Load()
		if ap.m.settings.CompareAndSwap(old, config.Granted(old, agent, g)) {
			return ""
		}
	}
}

func newID() string {
	var b [16]byte
	rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
