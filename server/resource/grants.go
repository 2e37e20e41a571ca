// This file holds the resource for operations under grants: what a call may do,
// carrying one out, revoking a grant, and deriving a lesser one.
//
// The daemon trusts the grant of a request, so the resource is for the callers
// that give grants: the backend of a tenant, and not the session that an agent
// uses. A grant cannot allow what the settings forbid.

package resource

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A grantsPerformer carries out operations; *manager.Manager is one.
type grantsPerformer interface {
	Operate(ctx context.Context, req manager.Operation) (manager.Performed, error)
	Profile(ctx context.Context, req manager.Operation) (grant.Profile, error)
}

// A Registrar revokes grants and registers derived ones; *control.Control of
// package orchestrator opens one.
type Registrar interface {
	Derive(g grant.Grant, w grant.Wish) (grant.Grant, error)
	// Revoke revokes the grant with g's tenant and ID, and remembers that until
	// its Expires.
	Revoke(g grant.Grant) error
	// RevokeOf revokes g only if it is a grant of that agent.
	RevokeOf(agent string, g grant.Grant) error
}

// A grantsResource has the routes.
type grantsResource struct {
	performer grantsPerformer
	registrar func() (Registrar, error)
	now       func() time.Time
}

// NewGrants returns the resource. It calls r when it first needs the registrar.
func NewGrants(p grantsPerformer, r func() (Registrar, error)) *grantsResource {
	return &grantsResource{performer: p, registrar: r, now: time.Now}
}

const (
	// grantsMaxBody is the most of a request in bytes, with the data that an
	// operation writes.
	grantsMaxBody = 16 << 20
	// operating is how long one operation may take; its grant sets a shorter
	// time.
	operating = time.Hour
	// maxAhead is how long a revocation is remembered at most.
	maxAhead = 366 * 24 * time.Hour
)

// Routes implements [Resource].
func (x *grantsResource) Routes() []Route {
	return []Route{{
		ID: "checkGrant", Method: http.MethodPost, Path: api.Prefix + "/grants/check", Tag: "grants", Role: token.Tenant,
		Summary: "Explain what a call under a grant may do", Doc: "What grant, manifest and settings come to now. Nothing is begun and nothing used up.",
		Request: api.CheckGrant{}, Response: api.CheckedGrant{}, Errors: []int{501, 503}, Do: x.check,
	}, {
		ID: "deriveGrant", Method: http.MethodPost, Path: api.Prefix + "/grants/derive", Tag: "grants", Role: token.Tenant,
		Summary: "Derive a lesser grant from a grant", Doc: "It never gives more, and falls with the grant that it comes from.",
		Request: api.DeriveGrant{}, Response: api.DerivedGrant{}, Status: http.StatusCreated, Errors: []int{501, 503}, Do: x.derive,
	}, {
		ID: "revokeGrant", Method: http.MethodDelete, Path: api.Prefix + "/grants/{id}", Tag: "grants", Role: token.Tenant,
		Summary: "Revoke a grant", Doc: "And with it all that were or will be derived from it. What runs under them ends. It is done when the answer comes.",
		Query:  []Param{{Name: "expires", Length: 64, Doc: "When the grant ends by itself, as 2026-11-21T06:12:15Z; until then this is remembered. Without it this is remembered for 366 days"}},
		Errors: []int{501, 503}, Do: x.revoke,
	}, {
		ID: "operate", Method: http.MethodPost, Path: api.Prefix + "/operate", Tag: "grants", Role: token.Tenant,
		Summary: "Carry out one operation under a grant", Doc: "Begin and end are on record, also where it is refused; a refusal is an answer with ok false.",
		Request: api.Operate{}, Response: api.Performed{}, Errors: []int{501, 503, 504}, Body: grantsMaxBody, Timeout: operating, Do: x.operate,
	}}
}

// owned refuses grants that the caller may not use.
func owned(c *Call, g grant.Grant, line []grant.Grant) error {
	for i, g := range append([]grant.Grant{g}, line...) {
		at := "grant"
		if i > 0 {
			at = "line[" + strconv.Itoa(i-1) + "]"
		}
		who := config.Who{Tenant: g.Tenant, Agent: cmp.Or(g.Agent, config.DefaultAgent), Session: cmp.Or(g.Session, config.DefaultSession)}
		if err := c.Caller.Speaks(who); err != nil {
			return placed(at+".", err)
		}
		if g.Tenant != c.Who.Tenant {
			return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "operate", Field: at + ".tenant", Message: "the grant is another tenant's than the request speaks for"}
		}
	}
	return nil
}

// placed prefixes the field of an error with its place.
func placed(before string, err error) error {
	e, ok := err.(*sandbox.Error)
	if !ok || e.Code != sandbox.CodeValidation || e.Field == "" {
		return err
	}
	named := *e
	named.Field = before + e.Field
	return &named
}

// ofRequest returns err with the field of the request that the wish was made
// from.
func ofRequest(err error) error {
	e, ok := err.(*sandbox.Error)
	if !ok || !strings.HasPrefix(e.Field, "wish.") {
		return err
	}
	named := *e
	if named.Field = strings.TrimPrefix(e.Field, "wish."); named.Field == "decisionKey" {
		named.Field = "decisionKeyFingerprint"
	}
	return &named
}

func (x *grantsResource) check(c *Call) (any, error) {
	in, err := Body[api.CheckGrant](c)
	if err != nil {
		return nil, err
	}
	if err := owned(c, in.Grant, in.Line); err != nil {
		return nil, err
	}
	p, err := x.performer.Profile(c.Context(), manager.Operation{Grant: in.Grant, Line: in.Line, Manifest: in.Manifest})
	if err != nil {
		return nil, err
	}
	profile, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return api.CheckedGrant{Hash: p.Hash, Profile: profile}, nil
}

func (x *grantsResource) derive(c *Call) (any, error) {
	in, err := Body[api.DeriveGrant](c)
	if err != nil {
		return nil, err
	}
	if err := owned(c, in.Grant, in.Line); err != nil {
		return nil, err
	}
	if agent := cmp.Or(in.Agent, in.Grant.Agent, config.DefaultAgent); c.Caller.Agent != "" && c.Caller.Agent != agent {
		return nil, &sandbox.Error{
			Code: sandbox.CodePermissionDeny, Op: "derive grant", Field: "agent", Resource: agent, Message: "the token is bound to another agent",
			Hint: "derive for the agent " + c.Caller.Agent,
		}
	}
	r, err := x.registrar()
	if err != nil {
		return nil, err
	}
	made, err := r.Derive(in.Grant, grant.Wish{
		ID: cmp.Or(in.ID, strings.ToLower(rand.Text())), Call: in.Call, DecisionKey: in.DecisionKey, Agent: in.Agent,
		Capabilities: in.Capabilities, Budget: in.Budget, Expires: in.Expires,
	})
	if err != nil {
		return nil, ofRequest(err)
	}
	return api.DerivedGrant{Grant: made, Line: append([]grant.Grant{in.Grant}, in.Line...)}, nil
}

func (x *grantsResource) revoke(c *Call) (any, error) {
	expires, err := x.until(c)
	if err != nil {
		return nil, err
	}
	r, err := x.registrar()
	if err != nil {
		return nil, err
	}
	g := grant.Grant{ID: c.Path("id"), Tenant: c.Who.Tenant, Expires: expires}
	if c.Caller.Agent != "" {
		return nil, r.RevokeOf(c.Caller.Agent, g)
	}
	return nil, r.Revoke(g)
}

// until returns how long a revocation is remembered: until the time that the
// request names, which is at most [maxAhead] from now, and for maxAhead where it
// names none. The longest time is the default because forgetting a revocation
// before its grant ends makes the grant valid again.
func (x *grantsResource) until(c *Call) (time.Time, error) {
	most := x.now().Add(maxAhead)
	text := c.Text("expires")
	if text == "" {
		return most, nil
	}
	expires, err := time.Parse(time.RFC3339Nano, text)
	switch {
	case err != nil:
		return expires, Invalid("expires", "is no time like 2026-11-21T06:12:15Z")
	case expires.After(most):
		return expires, Invalid("expires", "is more than a year ahead")
	}
	return expires, nil
}

func (x *grantsResource) operate(c *Call) (any, error) {
	in, err := Body[api.Operate](c)
	if err != nil {
		return nil, err
	}
	if err := owned(c, in.Grant, in.Line); err != nil {
		return nil, err
	}
	release, err := c.Admitted(c.Context())
	if err != nil {
		return nil, err
	}
	defer release()
	in.Operation.Data = in.Data
	p, err := x.performer.Operate(c.Context(), manager.Operation{
		Grant: in.Grant, Line: in.Line, Manifest: in.Manifest, Do: in.Operation, Keep: in.KeepBytes, RequestID: c.RequestID, TraceParent: c.TraceParent,
	})
	if err != nil && p.ID == "" {
		return nil, err // there is no record that an answer could name
	}
	output, err := json.Marshal(p.Output)
	if err != nil {
		return nil, err
	}
	return api.Performed{
		ID: p.ID, OK: p.OK, Code: p.Code, Field: p.Field, Message: p.Message, Retryable: p.Retryable, Output: output,
		Used: p.Used, Duration: int64(p.Duration), Profile: p.Profile, Sandbox: p.Sandbox,
	}, nil
}
