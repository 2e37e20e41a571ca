// This file holds the resource through which people answer requests for a
// permission.
//
// Only callers with more rights than a session may answer: an agent may hold the
// token of its session, and must not allow itself what it asks for. Answers that
// go into the settings file hold for every tenant, and files of this machine
// belong to no tenant, so these are for admins.

package resource

import (
	"context"
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// An approvalQueue holds the open questions; *manager.ApprovalQueue is one.
type approvalQueue interface {
	Pending(tenant string) []sandbox.PermissionRequest
	Answer(tenant, id string, p sandbox.Permission) error
}

// An approvalsResource has the routes.
type approvalsResource struct{ queue approvalQueue }

// NewApprovals returns the resource.
func NewApprovals(d approvalQueue) *approvalsResource { return &approvalsResource{d} }

const (
	maxWait = 50 // seconds
	// look is the interval between two looks for new questions while a request
	// waits.
	look = 200 * time.Millisecond
)

// Routes implements [Resource].
func (x *approvalsResource) Routes() []Route {
	return []Route{{
		ID: "listApprovals", Method: http.MethodGet, Path: api.Prefix + "/approvals", Tag: "approvals", Role: token.Session,
		Summary: "List the questions that wait for an answer", Doc: "What expires first is in front. A question that is not answered until then is denied.",
		Query: []Param{
			{Name: "waitSeconds", Type: Integer, Min: 0, Max: maxWait, Doc: "Answer when there is a question that is not in known, at the latest after so long"},
			{Name: "known", Length: 64, Repeat: true, Doc: "The id of a question that is known already"},
		},
		Response: api.ApprovalList{}, Timeout: (maxWait + 10) * time.Second, Do: x.list,
	}, {
		ID: "answerApproval", Method: http.MethodPost, Path: api.Prefix + "/approvals/{id}", Tag: "approvals", Role: token.Tenant,
		Summary: "Answer a question", Doc: "The first answer counts. allow_permanent goes into the settings file and is for admins; so is allowing a path, which is one of the daemon's machine.",
		Request: api.AnswerApproval{}, Errors: []int{404}, Do: x.answer,
	}}
}

// pending returns the questions that the caller may see, without what it may
// not.
func (x *approvalsResource) pending(c *Call) []sandbox.PermissionRequest {
	var out []sandbox.PermissionRequest
	for _, q := range x.queue.Pending(c.Who.Tenant) {
		if q.Tenant == c.Who.Tenant && approvalsBound(c.Caller.Agent, q.Agent) && approvalsBound(c.Caller.Session, q.Session) {
			if !c.Admin() {
				q = q.Inward()
			}
			out = append(out, q)
		}
	}
	return out
}

func approvalsBound(to, have string) bool { return to == "" || to == have }

func (x *approvalsResource) list(c *Call) (any, error) {
	known := map[string]bool{}
	for _, id := range c.Texts("known") {
		known[id] = true
	}
	ctx, done := context.WithTimeout(c.Context(), time.Duration(c.Number("waitSeconds", 0))*time.Second)
	defer done()
	again := time.NewTicker(look)
	defer again.Stop()
	for {
		questions := x.pending(c)
		for _, q := range questions {
			if !known[q.ID] {
				return listOf(questions), nil
			}
		}
		select {
		case <-ctx.Done():
			return listOf(questions), nil
		case <-again.C:
		}
	}
}

func listOf(questions []sandbox.PermissionRequest) api.ApprovalList {
	out := api.ApprovalList{Items: []api.Approval{}}
	for _, q := range questions {
		out.Items = append(out.Items, api.Approval{
			ID: q.ID, Tenant: q.Tenant, Agent: q.Agent, Session: q.Session, Sandbox: q.Sandbox, Kind: q.Kind, Operation: string(q.Operation),
			Resource: q.Resource, Command: append([]string{}, q.Command...), Reason: q.Reason, Expires: q.Expires.UTC(),
		})
	}
	return out
}

func (x *approvalsResource) answer(c *Call) (any, error) {
	in, err := Body[api.AnswerApproval](c)
	if err != nil {
		return nil, err
	}
	p := sandbox.Permission(in.Permission)
	if p == sandbox.AllowPermanent && !c.Admin() {
		return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "answer", Field: "permission",
			Message: "what is allowed for good goes into the settings of all tenants, which is for admins", Hint: "answer allow_session"}
	}
	id := c.Path("id")
	for _, q := range x.pending(c) {
		if q.ID == id && q.Kind == sandbox.ResourcePath && p != sandbox.Deny && !c.Admin() {
			return nil, &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "answer", Field: "permission",
				Message: "files of the daemon's machine are no tenant's, so allowing them is for admins", Hint: "answer deny, or ask an admin"}
		}
		if q.ID == id {
			return nil, x.queue.Answer(c.Who.Tenant, id, p)
		}
	}
	return nil, Hide("question", id)
}
