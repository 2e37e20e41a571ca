package mcp

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// maxShown is how much of a command a question shows, in bytes.
const maxShown = 1000

// An Asker asks the person behind a client whether something that was stopped
// may be done. It is a [sandbox.Approver], usually the front of a manager.ApprovalQueue,
// and is made before the manager that uses it; a [Server] registers its clients
// with it. It is safe for concurrent use.
type Asker struct {
	others bool

	mu      sync.Mutex
	clients []client // the one that came last, last
}

type client struct {
	session *session
	peer    *mcp.ServerSession
}

// NewAsker returns an Asker without clients. others says that questions can also
// be answered elsewhere: then, where no client can be asked, the Asker leaves
// the question open instead of denying it.
func NewAsker(others bool) *Asker { return &Asker{others: others} }

var _ sandbox.Approver = (*Asker)(nil)

// An Answers says which permissions a client may allow when it is asked. The
// agent that asks must not answer itself, so the zero value allows nothing: then
// the question goes elsewhere.
type Answers int

// What a client may allow; each value includes those above it.
const (
	AnswersNothing Answers = iota
	AnswersForNow          // once, or until the program ends, and no files of this machine, which belong to no tenant
	AnswersForGood         // everything, also in the settings file, which holds for every tenant
)

// cover reports whether a client may allow what is asked.
func (x Answers) cover(r sandbox.PermissionRequest) bool {
	return x >= AnswersForGood || x == AnswersForNow && r.Kind != sandbox.ResourcePath
}

// join registers a client, if it can be asked. A nil Asker registers none.
func (a *Asker) join(s *session, peer *mcp.ServerSession) {
	if a == nil || !s.asks(peer) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if s.life.Err() == nil {
		a.clients = append(a.clients, client{s, peer})
	}
}

// leave removes the clients of a session.
func (a *Asker) leave(s *session) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	var rest []client
	for _, c := range a.clients {
		if c.session != s {
			rest = append(rest, c)
		}
	}
	a.clients = rest
}

// asks reports whether the client may answer, and can display a form.
func (x *session) asks(peer *mcp.ServerSession) bool {
	if x.bound.Answers < AnswersForNow {
		return false
	}
	p := peer.InitializeParams()
	if p == nil || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	e := p.Capabilities.Elicitation
	return e.Form != nil || e.URL == nil // neither is a client from before there were two
}

type clientKey struct{}

// asking returns ctx for a call of a client, which is then asked about what is
// stopped of the call.
func asking(ctx context.Context, s *session, peer *mcp.ServerSession) context.Context {
	return context.WithValue(ctx, clientKey{}, client{s, peer})
}

// client returns the client to ask: the one whose call was stopped, else the
// last one of the session.
func (a *Asker) client(ctx context.Context, r sandbox.PermissionRequest) (client, bool) {
	want := config.Who{Tenant: r.Tenant, Agent: r.Agent, Session: r.Session}
	if c, ok := ctx.Value(clientKey{}).(client); ok && c.session.bound.Who == want && c.session.bound.Answers.cover(r) && c.session.asks(c.peer) {
		return c, true
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, c := range slices.Backward(a.clients) {
		if c.session.bound.Who == want && c.session.bound.Answers.cover(r) {
			return c, true
		}
	}
	return client{}, false
}

// Approve implements [sandbox.Approver]. Declining, closing the question, and
// any answer that was not offered deny.
func (a *Asker) Approve(ctx context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	c, ok := a.client(ctx, r)
	if !ok {
		if a.others {
			<-ctx.Done()
			return sandbox.Deny, context.Cause(ctx)
		}
		return sandbox.Deny, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "ask", Resource: r.Resource,
			Message: "no approval can be asked for, because the client has no elicitation, or may not answer", Hint: "allow it in the settings, or use a client that can ask"}
	}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	defer context.AfterFunc(c.session.life, stop)()
	offer := offered(r, c.session.bound.Answers)
	answer, err := c.peer.Elicit(ctx, &mcp.ElicitParams{Mode: "form", Message: question(r), RequestedSchema: form(offer)})
	switch {
	case err != nil:
		return sandbox.Deny, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "ask", Resource: r.Resource, Message: "the client was asked and did not answer", Err: err}
	case answer.Action != "accept":
		return sandbox.Deny, nil
	}
	given, _ := answer.Content["permission"].(string)
	for _, p := range offer {
		if string(p) == given {
			return p, nil
		}
	}
	return sandbox.Deny, nil
}

// offered returns the answers to offer: the settings file keeps no commands.
func offered(r sandbox.PermissionRequest, may Answers) []sandbox.Permission {
	if r.Kind == sandbox.ResourceCommand || may < AnswersForGood {
		return []sandbox.Permission{sandbox.AllowOnce, sandbox.AllowSession, sandbox.Deny}
	}
	return []sandbox.Permission{sandbox.AllowOnce, sandbox.AllowSession, sandbox.AllowPermanent, sandbox.Deny}
}

// form returns the schema of the form that a client shows below the question.
func form(offer []sandbox.Permission) any {
	return map[string]any{
		"type": "object", "required": []string{"permission"},
		"properties": map[string]any{"permission": map[string]any{
			"type": "string", "title": "Permission", "enum": offer,
			"description": "allow_once: this run of this command. allow_session: until the program ends. allow_permanent: in the settings file. deny: not at all.",
		}},
	}
}

// question returns the text that a person reads. All its parts come from inside
// the sandbox, so they are made safe for a terminal.
func question(r sandbox.PermissionRequest) string {
	command := termsafe.Line(strings.Join(r.Command, " "))
	if len(command) > maxShown {
		command = strings.ToValidUTF8(command[:maxShown], "") + " …"
	}
	what := fmt.Sprintf("%s %s %s, and everything below it", termsafe.Line(string(r.Operation)), termsafe.Line(r.Kind), termsafe.Line(r.Resource))
	head := "A command was stopped, and can be run again if you allow this."
	switch r.Kind {
	case sandbox.ResourceCommand:
		head, what = "A command needs your permission before it is run.", "execute this command"
		command = termsafe.Line(r.Resource) // in full: a person must see what they permit
	case sandbox.ResourceNetwork:
		head, what = "A command waits because it wants to reach a host.", "reach "+termsafe.Line(r.Resource)
	}
	return head + "\nPermission: " + what + "\nCommand: " + command + "\nBecause: " + termsafe.Line(r.Reason) + "\nSandbox: " + termsafe.Line(r.Sandbox)
}
