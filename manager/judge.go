package manager

import (
	"context"
	"crypto/sha256"
	"fmt"
	"maps"
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

// An approvals obtains permissions: from the settings, from what was permitted
// before, or from the approver.
type approvals struct{ m *Manager }

// maxGates bounds the gates that are kept compiled, one for each agent.
const maxGates = 256

// gates keeps compiled gates. They depend on the settings and the agent
// alone, unless a call has flags.
type gates struct {
	m        *Manager
	mu       sync.Mutex
	settings *config.Settings
	of       map[string]*gate.Gate // by agent
}

// gate returns the gate of res, which was resolved from settings. With flags
// it is made for this call.
func (gs *gates) gate(settings *config.Settings, res config.Resolved, flags *config.SandboxSettings) (*gate.Gate, error) {
	if flags != nil {
		return gate.New(res, gs.m.host.Inside(res))
	}
	gs.mu.Lock()
	defer gs.mu.Unlock()
	if gs.of == nil || gs.settings != settings || len(gs.of) >= maxGates {
		gs.settings, gs.of = settings, map[string]*gate.Gate{}
	}
	if g := gs.of[res.Agent]; g != nil {
		return g, nil
	}
	g, err := gate.New(res, gs.m.host.Inside(res))
	if err == nil {
		gs.of[res.Agent] = g
	}
	return g, err
}

// Inside is what policies have to know of the place where commands of res run.
// A container never shows the host's home at its place.
func (h Host) Inside(res config.Resolved) config.Inside {
	in := config.Inside{Env: h.Env, HostHome: h.Home}
	if res.Provider != "docker" {
		in.FoldCase, in.Home = runtime.GOOS == "darwin", h.Home
	}
	return in
}

// callOf is what the gate is asked about a request.
func callOf(req Request) gate.Call {
	return gate.Call{
		Tool: req.Tool, Args: req.Command.Args, Dir: req.Command.Dir, Subagent: req.Subagent,
		Env: slices.Sorted(maps.Keys(req.Command.Env)),
	}
}

// A ruling is what the gate said of one request.
type ruling struct {
	gate    *gate.Gate
	judged  gate.Judgement
	outing  outing
	req     *Request
	owner   sandbox.Owner
	sandbox string // its name
	granted bool   // an operation under a grant, whose arguments no record has

	answer sandbox.Permission // to the question about the command; empty where there was none
}

// judge asks the gate about a call. What it denies is refused here, before
// anything is made or looked for; what becomes of a question depends on where
// the call would run, see consent.
func (gs *gates) judge(ctx context.Context, settings *config.Settings, res config.Resolved, req Request, call gate.Call) (*ruling, error) {
	g, err := gs.gate(settings, res, req.Flags)
	if err != nil {
		return nil, err
	}
	call.Subagent = req.Subagent
	r := &ruling{gate: g, judged: g.Judge(call), req: &req, owner: gs.m.describer.owner(res), granted: call.Operation != nil}
	r.outing = outing{asked: req.Unsandboxed, excluded: r.judged.Excluded}
	if r.sandbox, err = config.Name(res.Docker.ContainerPrefix, r.owner); err != nil {
		return nil, err
	}
	if r.judged.Verdict != policy.Deny {
		return r, nil
	}
	gs.m.reporter.tellRefused(ctx, r)
	return nil, r.judged.Err("run")
}

// consent obtains approval for what the gate asks about: from the sandbox, by
// commands.autoAllowIfSandboxed, from what was permitted to the session before,
// or from the approver. Without any of them the call is denied.
func (ap *approvals) consent(ctx context.Context, r *ruling, sandboxed bool) error {
	switch v, note := r.gate.Effective(r.judged, sandboxed); {
	case v == policy.Allow:
		if note != "" {
			ap.m.log.WithField("sandbox", r.sandbox).Debugf("%s: %s", r.judged.Summary(), note)
		}
		return nil
	case v != policy.Ask || r.judged.Text == "":
		ap.m.reporter.tellRefused(ctx, r)
		return r.judged.Err("run")
	case ap.m.grants.permits(r.owner, r.question(sandboxed)):
		return nil
	}
	why, hint := "no approval was asked for", "allow it with --ask, or name the command in commands.allow"
	if r.req.Ask {
		a := ap.askCommand(ctx, r, sandboxed)
		r.answer = a.Permission
		switch a.Permission {
		case sandbox.AllowOnce:
			return nil
		case sandbox.AllowSession, sandbox.AllowPermanent:
			ap.m.grants.permitCommand(r.owner, r.question(sandboxed))
			if a.Permission == sandbox.AllowPermanent {
				ap.m.log.WithField("sandbox", r.sandbox).Warn("the command is permitted for this session only: to permit it for good, name it in commands.allow of the settings")
			}
			return nil
		default:
			why, hint = "it was asked about and denied", "do without it, and do not try again in another way; commands.allow of the settings can name it"
			if a.Note != "" {
				why += " (" + a.Note + ")"
			}
		}
	}
	ap.m.reporter.tellRefused(ctx, r)
	err := r.judged.Err("run")
	if e, ok := err.(*sandbox.Error); ok {
		e.Message += "; this needs an approval, and " + why
		if e.Hint != "" {
			e.Hint += "; or "
		}
		e.Hint += hint
	}
	return err
}

// A question is what a permission for the session is for: this text of this
// agent, with these variables and this tool, in this folder, with input or
// without, and where it runs.
type question [sha256.Size]byte

func (r *ruling) question(sandboxed bool) question {
	c := r.req.Command
	parts := []any{r.req.Who.Agent, r.req.Subagent, r.req.Tool, sandboxed, c.Dir, c.Stdin != nil, r.judged.Text}
	for _, name := range slices.Sorted(maps.Keys(c.Env)) {
		parts = append(parts, name, c.Env[name])
	}
	return sha256.Sum256(fmt.Appendf(nil, "%q", parts))
}

// maxNames bounds how much of the names of variables a question tells, in bytes.
const maxNames = 400

// bounded returns s, or its start when it is longer than most bytes.
func bounded(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}

// askCommand puts the question about a command to the approver.
func (ap *approvals) askCommand(ctx context.Context, r *ruling, sandboxed bool) Answer {
	reason := r.judged.Summary()
	if !sandboxed {
		reason += "; it would run on the host, without a sandbox"
	}
	if names := slices.Sorted(maps.Keys(r.req.Command.Env)); len(names) > 0 {
		reason += "; the call sets " + bounded(strings.Join(names, ", "), maxNames)
	}
	if r.req.Command.Stdin != nil {
		reason += "; it gets input that was not checked"
	}
	p := sandbox.PermissionRequest{
		ID: newID(), Tenant: r.owner.Tenant, Agent: r.req.Who.Agent, Session: r.req.Who.Session, Sandbox: r.sandbox,
		Kind: sandbox.ResourceCommand, Operation: sandbox.OpExecute, Resource: r.judged.Text,
		Command: r.req.asked(), Reason: reason, Expires: ap.m.now().Add(askWithin),
	}
	return ap.put(ctx, p)
}

// put puts a question to the approver. Whatever goes wrong is a denial.
func (ap *approvals) put(ctx context.Context, r sandbox.PermissionRequest) (a Answer) {
	denied := func(note string) Answer { return Answer{Request: r, Permission: sandbox.Deny, Note: note} }
	if ap.m.approver == nil {
		return denied("approvals cannot be asked for")
	}
	ctx, done := context.WithTimeout(ctx, askWithin)
	defer done()
	ctx, span := sandbox.StartSpan(ctx, spanApproval)
	defer func() { traceAnswered(span, a) }()
	asked := r
	asked.Command = slices.Clone(r.Command)
	p, err := ap.m.approver.Approve(ctx, asked)
	switch {
	case err != nil:
		return denied(err.Error())
	case ctx.Err() != nil:
		return denied("no answer came in time")
	case p == sandbox.AllowOnce, p == sandbox.AllowSession, p == sandbox.AllowPermanent, p == sandbox.Deny:
		return Answer{Request: r, Permission: p}
	}
	return denied("the answer was none of the four")
}
