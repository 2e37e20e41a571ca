package resource_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// TestSessionsAreAgents holds that over HTTP the token of a session may do what
// the agent's tools may do, and no more, while the tools do not restrict the
// token of the tenant.
func TestSessionsAreAgents(t *testing.T) {
	t.Parallel()
	const settings = `{"agents": {"defaults": {"sandbox": {"provider": "local", "tools": {"deny": ["exec", "write"]}}}}}`
	r := served.New(t, served.Options{Settings: settings, Resources: func(r *served.Rig) []resource.Resource {
		supervisor := running.New(running.Options{Manager: running.Managed(r.Manager), Log: r.Log})
		t.Cleanup(func() {
			ctx, done := context.WithTimeout(context.Background(), time.Minute)
			defer done()
			if err := supervisor.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return []resource.Resource{
			resource.NewCommands(r.Manager), resource.NewShells(r.Manager, supervisor, stream.Options{}), resource.NewFilesResource(r.Manager, resource.Limits{}), resource.NewWatchResource(r.Manager, resource.WatchOptions{}),
		}
	}})
	base := "/v1/sandboxes/" + r.Ready("acme", "s1")
	for _, tt := range []struct {
		method, path, body string
		people, agent      int
	}{
		{"POST", "/exec", `{"args": ["true"]}`, 200, 403},
		{"POST", "/exec", `{"args": ["true"], "tool": "read"}`, 200, 403},
		{"POST", "/exec", `{"line": "true"}`, 200, 403},
		{"POST", "/shells", `{}`, 201, 403},
		{"POST", "/shells/main/run", `{"line": "true"}`, 200, 403},
		{"PUT", "/files/workspace/a", "x", 201, 403},
		{"GET", "/files/workspace/a", "", 200, 200},
		{"POST", "/files:mkdir", `{"path": "d"}`, 201, 403},
		{"POST", "/files:glob", `{"pattern": "/workspace/*"}`, 200, 200},
		{"DELETE", "/files/workspace/a", "", 204, 403},
	} {
		if tt.method != "DELETE" {
			r.Want(tt.people, "acme", tt.method, base+tt.path, tt.body)
		}
		got := r.Want(tt.agent, "acme-s1", tt.method, base+tt.path, tt.body)
		if tt.agent == 403 && !strings.Contains(got.Body, "POLICY.DENY_TOOL") {
			t.Errorf("%s %s: %s", tt.method, tt.path, got.Body)
		}
	}
	r.Want(204, "acme", "DELETE", base+"/files/workspace/a", "")
}
