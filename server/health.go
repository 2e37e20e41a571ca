package server

import (
	"context"
	"net/http"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A Check reports whether a dependency of the server is available.
type Check struct {
	Name string
	Look func(context.Context) error

	// Advice marks a check without which the server works as before: a failure
	// is reported, and the server stays ready.
	Advice bool
}

// lookWithin bounds all checks of one request.
const lookWithin = 5 * time.Second

// health is the resource of the daemon itself.
type health struct{ s *Server }

// Routes implements [resource.Resource].
func (h health) Routes() []resource.Route {
	const tag = "daemon"
	routes := []resource.Route{
		{ID: "health", Method: "GET", Path: "/healthz", Tag: tag, Exempt: true, Summary: "Report that the process runs", Response: api.Health{}, Do: func(*resource.Call) (any, error) {
			return api.Health{Status: "ok"}, nil
		}},
		{ID: "readiness", Method: "GET", Path: "/readyz", Tag: tag, Exempt: true, Role: token.Session, Summary: "Report whether the daemon can serve", Response: api.Readiness{}, Status: http.StatusOK, Do: h.ready},
		{ID: "openapi", Method: "GET", Path: "/openapi.json", Tag: tag, Exempt: true, Role: token.Session, Summary: "Return the OpenAPI document", Response: anything{}, Do: h.document},
	}
	if h.s.o.Metrics != nil {
		routes = append(routes, resource.Route{
			ID: "metrics", Method: "GET", Path: "/metrics", Tag: tag, Exempt: true, Role: token.Admin, Summary: "Return the metrics of this process, for Prometheus",
			ResponseContent: []string{"text/plain"}, Do: h.metrics,
		})
	}
	return routes
}

// anything is a JSON object with any fields.
type anything = map[string]any

// ready runs all checks. Only admins see more than the name of a failed one.
func (h health) ready(c *resource.Call) (any, error) {
	ctx, done := context.WithTimeout(c.Context(), lookWithin)
	defer done()
	checks := append([]Check{{Name: "draining", Look: h.draining}}, h.s.o.Checks...)
	out := api.Readiness{Ready: true, Checks: make([]api.ReadinessCheck, len(checks))}
	for i, check := range checks {
		err := check.Look(ctx)
		out.Checks[i] = api.ReadinessCheck{Name: check.Name, OK: err == nil}
		if err == nil {
			continue
		}
		out.Ready = out.Ready && check.Advice
		if c.Admin() {
			out.Checks[i].Detail = err.Error()
		}
	}
	if out.Ready {
		return out, nil
	}
	return nil, unready(out)
}

func (h health) draining(context.Context) error {
	if h.s.draining.Load() {
		return errDraining
	}
	return nil
}

// unready returns the problem of a daemon that cannot serve.
func unready(r api.Readiness) error {
	e := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "serve", Message: "the server is not ready", Retryable: true}
	for _, c := range r.Checks {
		if c.OK {
			continue
		}
		if e.Resource == "" {
			e.Resource = c.Name
		}
		e.Message += "; " + c.Name
		if c.Detail != "" {
			e.Message += ": " + c.Detail
		}
	}
	return e
}

func (h health) document(c *resource.Call) (any, error) {
	data, err := h.s.document()
	if err != nil {
		return nil, err
	}
	header := c.Writer.Header()
	header.Set("Content-Type", api.ContentJSON)
	if c.Request.Method != http.MethodHead {
		_, _ = c.Writer.Write(data) // an error means that the client has gone
	}
	return resource.Sent{}, nil
}

func (h health) metrics(c *resource.Call) (any, error) {
	h.s.o.Metrics.ServeHTTP(c.Writer, c.Request)
	return resource.Sent{}, nil
}

// Document returns the OpenAPI document of a server with these routes, and with
// metrics.
func (s *Server) Document() ([]byte, error) { return s.document() }

func documentOf(routes []resource.Route) func() ([]byte, error) {
	return func() ([]byte, error) { return resource.Document(routes) }
}
