package daemon

import (
	"github.com/bulkhead-dev/sandbox/daemon/api"
	"github.com/bulkhead-dev/sandbox/daemon/route"
)

// health is the resource of the daemon itself.
type health struct{ s *Server }

// Routes implements [route.Resource].
func (h health) Routes() []route.Route {
	return []route.Route{{
		ID: "health", Method: "GET", Path: "/healthz", Tag: "daemon", Exempt: true,
		Summary: "Say that the process runs", Response: api.Health{},
		Do: func(*route.Call) (any, error) { return api.Health{Status: "ok"}, nil },
	}}
}
