package sdk

import (
	"context"
	"encoding/json"
	"io"
	"net/http"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// Health reports whether the process answers; it needs no token.
func (c *API) Health(ctx context.Context) (api.Health, error) {
	return get[api.Health](ctx, c, "health", "/healthz", nil)
}

// Ready reports whether the daemon can serve, nil when it can.
func (c *API) Ready(ctx context.Context) error {
	return c.Call(ctx, Request{Op: "readiness", Method: http.MethodGet, Path: "/readyz"}, nil)
}

// Readiness tells what was looked at. A daemon that cannot serve is an error
// that names what hinders it.
func (c *API) Readiness(ctx context.Context) (api.Readiness, error) {
	return ask[api.Readiness](ctx, c, Request{Op: "readiness", Method: http.MethodGet, Path: "/readyz"})
}

// Document is the OpenAPI document of the daemon.
func (c *API) Document(ctx context.Context) (json.RawMessage, error) {
	return get[json.RawMessage](ctx, c, "document", "/openapi.json", nil)
}

// Metrics returns the figures of the daemon's process as Prometheus reads them,
// which are to be closed; they are for admins. ctx has to last until then.
func (c *API) Metrics(ctx context.Context) (io.ReadCloser, error) {
	a, err := c.Do(ctx, Request{Op: "metrics", Method: http.MethodGet, Path: "/metrics", Again: true})
	if err != nil {
		return nil, err
	}
	return a.Body, nil
}
