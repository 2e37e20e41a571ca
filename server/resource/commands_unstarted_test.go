package resource_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// TestUnstartedIsAResult holds that a program or a folder that does not exist is
// the end of the command, with the status that shells use for it, by every
// route, and that the answer names what is missing.
func TestUnstartedIsAResult(t *testing.T) {
	t.Parallel()
	for _, wall := range []string{"memory", "docker"} {
		t.Run(wall, func(t *testing.T) {
			r := served.New(t, served.Options{Wall: wall, Resources: func(r *served.Rig) []resource.Resource {
				supervisor := running.New(running.Options{Manager: running.Managed(r.Manager), Log: r.Log})
				kits := tools.New(tools.Options{Manager: r.Manager, Running: supervisor, Log: r.Log})
				t.Cleanup(func() {
					ctx, done := context.WithTimeout(context.Background(), time.Minute)
					defer done()
					if err := supervisor.Close(ctx); err != nil {
						t.Error(err)
					}
				})
				return []resource.Resource{resource.NewCommands(r.Manager), resource.NewShells(r.Manager, supervisor, stream.Options{}), resource.NewToolCalls(r.Manager, kits)}
			}})
			base := "/v1/sandboxes/" + r.Ready("acme", "s1")
			for _, tt := range []struct {
				path, body string
				code       int
				says       string
			}{
				{"/exec", `{"args":["no-such-program"]}`, 127, "no-such-program"},
				{"/exec", `{"args":["/workspace/no/such/program"]}`, 127, "/workspace/no/such/program"},
				{"/exec", `{"args":["true"],"dir":"/workspace/nowhere"}`, 126, "/workspace/nowhere"},
				{"/exec", `{"line":"true","dir":"/workspace/nowhere"}`, 126, "/workspace/nowhere"},
				{"/exec", `{"args":["/workspace"]}`, 126, "/workspace"},
				{"/exec", `{"line":"no-such-program"}`, 127, "no-such-program"},
				{"/shells/main/run", `{"line":"no-such-program"}`, 127, "no-such-program"},
				{"/tools/exec", `{"command":"true","dir":"/workspace/nowhere","tty":true}`, 126, "/workspace/nowhere"},
				{"/tools/exec", `{"command":"true","dir":"/workspace/nowhere","background":true}`, 126, ""},
			} {
				for _, accept := range []string{"application/json", "text/event-stream"} {
					a := r.Ask("acme", "POST", base+tt.path, tt.body, "Accept", accept)
					if a.Status != 200 || !strings.Contains(a.Body, fmt.Sprintf(`"exitCode":%d`, tt.code)) || !strings.Contains(a.Body, tt.says) {
						t.Errorf("%s %s as %s: %d %.600s; want a result with the status %d", tt.path, tt.body, accept, a.Status, a.Body, tt.code)
					}
				}
			}
			if a := r.Ask("acme", "POST", base+"/shells", `{"dir":"/workspace/nowhere"}`); a.Status != 422 || !strings.Contains(a.Body, "/workspace/nowhere") {
				t.Errorf("a shell in no folder: %d %s", a.Status, a.Body)
			}
			if a := r.Want(200, "acme", "POST", base+"/exec", `{"args":["true"]}`); !strings.Contains(a.Body, `"exitCode":0`) {
				t.Errorf("afterwards: %s", a.Body)
			}
		})
	}
}
