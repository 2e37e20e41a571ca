package sdk

import (
	"context"
	"net/http"
	"net/url"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// CheckGrant tells what a call under a grant may do now. Nothing is begun and
// nothing used up.
func (c *API) CheckGrant(ctx context.Context, r api.CheckGrant) (api.CheckedGrant, error) {
	return post[api.CheckedGrant](ctx, c, "check grant", api.Prefix+"/grants/check", r)
}

// DeriveGrant makes a grant with less than another one, or as much. It falls
// with that.
func (c *API) DeriveGrant(ctx context.Context, r api.DeriveGrant) (api.DerivedGrant, error) {
	return post[api.DerivedGrant](ctx, c, "derive grant", api.Prefix+"/grants/derive", r)
}

// RevokeGrant takes the grant id of the tenant back, and with it all that were
// or will be derived from it; what runs under them has been asked to end when it
// returns. That is remembered until expires, which is when the grant ends by
// itself; the zero time is the longest that the daemon remembers it, 366 days.
func (c *API) RevokeGrant(ctx context.Context, id string, expires time.Time) error {
	query := url.Values{}
	if !expires.IsZero() {
		query.Set("expires", expires.UTC().Format(time.RFC3339Nano))
	}
	return c.Call(ctx, Request{
		Op: "revoke grant", Method: http.MethodDelete, Path: api.Prefix + "/grants/" + url.PathEscape(id), Query: query, Again: true,
	}, nil)
}

// Operate carries out one operation under a grant. One that was refused or has
// failed is an answer with OK false and no error. The end of ctx ends it, and
// the Timeout of the client's options bounds it too.
func (c *API) Operate(ctx context.Context, r api.Operate) (api.Performed, error) {
	return post[api.Performed](ctx, c, "operate", api.Prefix+"/operate", r)
}
