package sdk

import (
	"context"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// Approvals lists the questions that wait for an answer. With wait it is
// answered when there is one that is not in known, at the latest after so many
// seconds.
func (c *API) Approvals(ctx context.Context, waitSeconds int, known ...string) (api.ApprovalList, error) {
	q := url.Values{}
	if waitSeconds > 0 {
		q.Set("waitSeconds", strconv.Itoa(waitSeconds))
	}
	for _, id := range known {
		q.Add("known", id)
	}
	return get[api.ApprovalList](ctx, c, "list approvals", api.Prefix+"/approvals", q)
}

// AnswerApproval answers a question; the first answer counts.
func (c *API) AnswerApproval(ctx context.Context, id string, a api.AnswerApproval) error {
	return c.Call(ctx, Request{Op: "answer approval", Method: http.MethodPost, Path: api.Prefix + "/approvals/" + url.PathEscape(id), JSON: a}, nil)
}

// Violations lists what was tried and stopped, the newest first; filter has the
// parameters of the route.
func (c *API) Violations(ctx context.Context, filter url.Values) (api.ViolationList, error) {
	return get[api.ViolationList](ctx, c, "list violations", api.Prefix+"/violations", filter)
}

// Evidence lists what was done, the newest first; filter has the parameters of
// the route.
func (c *API) Evidence(ctx context.Context, filter url.Values) (api.EvidenceList, error) {
	return get[api.EvidenceList](ctx, c, "list evidence", api.Prefix+"/evidence", filter)
}

// ClearViolations forgets what filter selects, which has the parameters of the
// route. How many, when and by whom stays on record.
func (c *API) ClearViolations(ctx context.Context, filter url.Values) (api.Cleared, error) {
	return ask[api.Cleared](ctx, c, Request{Op: "clear violations", Method: http.MethodDelete, Path: api.Prefix + "/violations", Query: filter})
}

// Operations lists operations with their begin and end, the newest first;
// filter has the parameters of the route.
func (c *API) Operations(ctx context.Context, filter url.Values) (api.OperationList, error) {
	return get[api.OperationList](ctx, c, "list operations", api.Prefix+"/evidence/operations", filter)
}

// EachViolation returns what was tried and stopped, the newest first, as many as
// there are; filter has the parameters of the route. A place that the daemon
// cannot read comes as an error of type *[Damage], and the records behind it
// follow; any other error is the last.
func (c *API) EachViolation(ctx context.Context, filter url.Values) iter.Seq2[api.ViolationRecord, error] {
	return each[api.ViolationRecord](ctx, c, Request{Op: "list violations", Method: http.MethodGet, Path: api.Prefix + "/violations", Query: filter, Again: true})
}

// EachEvidence returns what was done as EachViolation what was stopped.
func (c *API) EachEvidence(ctx context.Context, filter url.Values) iter.Seq2[api.EvidenceRecord, error] {
	return each[api.EvidenceRecord](ctx, c, Request{Op: "list evidence", Method: http.MethodGet, Path: api.Prefix + "/evidence", Query: filter, Again: true})
}

// A Damage is a place of the daemon's records that cannot be read.
type Damage struct{ Kind string }

// Error implements error.
func (d *Damage) Error() string {
	return "the records of the daemon are damaged: " + termsafe.Line(d.Kind)
}

// each is a stream of records.
func each[T any](ctx context.Context, c *API, q Request) iter.Seq2[T, error] {
	return func(yield func(T, error) bool) {
		var none T
		err := c.follow(ctx, q, func(e event) (last bool, err error) {
			switch e.name {
			case api.EventRecord:
				r, err := reported[T](q.Op, e)
				return err == nil && !yield(r, nil), err
			case api.EventDamaged:
				d, err := reported[api.DamagedPlace](q.Op, e)
				return err == nil && !yield(none, &Damage{Kind: d.Kind}), err
			}
			return e.name == api.EventEnd, nil
		})
		if err != nil {
			yield(none, err)
		}
	}
}

// A Verification says which records are checked, and against what.
type Verification struct {
	All    bool     // every tenant's; for admins
	Keys   []string // public keys in base64, whose signatures alone count; the daemon's own without
	Signed string   // LINE:HASH that has to be there and signed; with one tenant
}

// VerifyEvidence has the daemon check that nothing on record is missing or
// changed. That something is is an answer and no error.
func (c *API) VerifyEvidence(ctx context.Context, v Verification) (api.EvidenceReport, error) {
	q := url.Values{}
	if v.All {
		q.Set("all", "true")
	}
	for _, k := range v.Keys {
		q.Add("key", k)
	}
	if v.Signed != "" {
		q.Set("signed", v.Signed)
	}
	return get[api.EvidenceReport](ctx, c, "verify evidence", api.Prefix+"/evidence/verify", q)
}

// CreateToken makes a token with less than the client's own, or as much. The
// secret is in the answer and never again.
func (c *API) CreateToken(ctx context.Context, r api.CreateToken) (api.NewToken, error) {
	return post[api.NewToken](ctx, c, "create token", api.Prefix+"/tokens", r)
}

// Tokens lists those that were made from the client's own.
func (c *API) Tokens(ctx context.Context) (api.TokenList, error) {
	return get[api.TokenList](ctx, c, "list tokens", api.Prefix+"/tokens", nil)
}

// Token tells of the client's own token, or of one that was made from it.
func (c *API) Token(ctx context.Context, id string) (api.Token, error) {
	return get[api.Token](ctx, c, "get token", api.Prefix+"/tokens/"+url.PathEscape(id), nil)
}

// RevokeToken takes a token back, and with it all that were made from it.
func (c *API) RevokeToken(ctx context.Context, id string) (api.Revoked, error) {
	return ask[api.Revoked](ctx, c, Request{Op: "revoke token", Method: http.MethodDelete, Path: api.Prefix + "/tokens/" + url.PathEscape(id), Again: true})
}

// StageMedia copies files from outside into the workspace, all or none.
func (c *API) StageMedia(ctx context.Context, name string, r api.StageMedia) (api.StagedMedia, error) {
	return post[api.StagedMedia](ctx, c, "stage media", one(name, "/media"), r)
}

// CreateConsoleLink makes a link that logs one browser in to the web console, with
// the rights of the client, or to look on alone.
func (c *API) CreateConsoleLink(ctx context.Context, readOnly bool) (api.ConsoleLink, error) {
	return post[api.ConsoleLink](ctx, c, "log in", api.Prefix+"/console/links", api.CreateConsoleLink{ReadOnly: readOnly})
}

// Console reports whose rights the client has.
func (c *API) Console(ctx context.Context) (api.Console, error) {
	return get[api.Console](ctx, c, "get console", api.Prefix+"/console", nil)
}

// Tenants lists the tenants that the client may see, with what they may hold and
// hold.
func (c *API) Tenants(ctx context.Context) (api.TenantList, error) {
	return get[api.TenantList](ctx, c, "list tenants", api.Prefix+"/tenants", nil)
}

// EndConsole ends the login of the console that the client uses: a client with a
// token has none, and gets CodeNotFound.
func (c *API) EndConsole(ctx context.Context) error {
	return c.Call(ctx, Request{Op: "log out", Method: http.MethodDelete, Path: api.Prefix + "/console"}, nil)
}
