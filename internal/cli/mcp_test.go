package cli

import (
	"errors"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

// TestMCP checks the calls that the backend receives, and that only the
// protocol is written to standard output.
func TestMCP(t *testing.T) {
	f := &fake{}
	r := call(t, f, "mcp", "--agent", "a", "--session", "s", "--tenant", "t", "--subagent", "--manage-tenant", "--image", "i:1")
	if r.status != 0 || r.stdout != "" || r.stderr != "" {
		t.Errorf("%+v", r)
	}
	got := f.served
	if got.Who != (config.Who{Tenant: "t", Agent: "a", Session: "s"}) || !got.Subagent || !got.Tenant || got.Flags == nil || got.Version == "" || got.In == nil || got.Out == nil {
		t.Errorf("%+v", got)
	}
	f = &fake{err: errors.New("broken")}
	if r := call(t, f, "mcp"); r.status == 0 || r.stdout != "" || r.stderr == "" || f.served.Subagent || f.served.Tenant || f.served.Flags != nil {
		t.Errorf("%+v, %+v", r, f.served)
	}
	if r := call(t, &fake{}, "mcp", "extra"); r.status != statusUsage {
		t.Errorf("%+v", r)
	}
}
