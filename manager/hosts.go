package manager

import (
	"context"
	"slices"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
)

const maxHeard = 64 // answers of one command that are reported

// permitted answers the proxy's question about a host that no rule names by
// what was permitted before.
func (s *egressSession) permitted(q proxy.Question) (proxy.Answer, bool) {
	target, c := q.Target, s.asking(q.Caller)
	switch {
	case c == nil:
	case s.m.grants.reaches(c.owner, target):
		return proxy.Answer{Allowed: true, Rule: "permitted to the session"}, true
	case c.may(target):
		return proxy.Answer{Allowed: true, Rule: "permitted to the command"}, true
	}
	return proxy.Answer{}, false
}

// ask asks the approver. Without an approver the answer is no.
func (s *egressSession) ask(ctx context.Context, q proxy.Question) proxy.Answer {
	c := s.asking(q.Caller)
	if c == nil {
		return proxy.Answer{Note: "it is not known which command asks"}
	}
	a := s.m.approvals.put(sandbox.WithSpan(ctx, c.span.Load()), sandbox.PermissionRequest{
		ID: newID(), Tenant: c.owner.Tenant, Agent: c.request.Load().Who.Agent, Session: c.request.Load().Who.Session, Sandbox: c.sandbox,
		Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: q.Target,
		Command: c.request.Load().asked(), Reason: q.Reason, Expires: s.m.now().Add(askWithin),
	})
	said := s.m.approvals.answerHost(c, q.Target, a)
	if a.Permission == sandbox.AllowPermanent {
		a.Note = said.Note
	}
	c.heard(a)
	return said
}

// answerHost keeps a permission for as long as it was given.
func (ap *approvals) answerHost(c *caller, target string, a Answer) proxy.Answer {
	switch a.Permission {
	case sandbox.AllowOnce:
		c.permit(target)
		return proxy.Answer{Allowed: true, Rule: "permitted to the command"}
	case sandbox.AllowSession, sandbox.AllowPermanent:
		ap.m.grants.reach(c.owner, target)
		out := proxy.Answer{Allowed: true, Rule: "permitted to the session"}
		if a.Permission == sandbox.AllowPermanent {
			out.Note = ap.keepHost(c, target)
		}
		return out
	}
	out := proxy.Answer{Note: "permission was asked for and denied"}
	if a.Note != "" {
		out.Note += " (" + a.Note + ")"
	}
	return out
}

// keepHost writes the host into the settings file and into the settings in
// force. It returns why not when it cannot.
func (ap *approvals) keepHost(c *caller, target string) (note string) {
	g := sandbox.Grant{Operation: sandbox.OpConnect, Path: target}
	agent := c.request.Load().Who.Agent
	if !config.HostGrantable(ap.m.current(), agent) {
		note = "the permission holds for this session only: agent " + agent + " has no network.allowedDomains of its own"
		ap.m.log.WithField("sandbox", c.sandbox).Warn(note)
		return note
	}
	return ap.keepGrant(c.owner, c.sandbox, agent, g)
}

// asking returns the command that a question is about. Programs may leave the
// credentials out that tell which command they belong to; then it is any that
// runs, when all of them are one agent's: what one is permitted another must
// not ask for.
func (s *egressSession) asking(id string) *caller {
	s.mu.Lock()
	defer s.mu.Unlock()
	if c := s.callers[id]; c != nil {
		return c
	}
	var any *caller
	for _, c := range s.callers {
		if any != nil && any.request.Load().Who != c.request.Load().Who {
			return nil
		}
		any = c
	}
	return any
}

func (c *caller) may(target string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.once[target]
}

func (c *caller) permit(target string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.once[target] = true
}

// heard keeps an answer, the last ones of many.
func (c *caller) heard(a Answer) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.answers = append(c.answers[max(0, len(c.answers)-maxHeard+1):], a)
}

// asked returns what was answered about hosts while the command ran. A nil
// caller was asked nothing.
func (c *caller) asked() []Answer {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.answers)
}
