package manager_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestWhatWasStoppedIsRecorded holds that each refusal, each denial of a sandbox
// and each limit that was reached leaves a record of whom it concerns.
func TestWhatWasStoppedIsRecorded(t *testing.T) {
	t.Parallel()
	g := newGuarded(t)
	n := &notebook{}
	g.recorder = n
	m := g.manager(settingsWith(`"commands": {"block": ["reach forbidden:*"]}`))
	who := config.Who{Tenant: "acme", Agent: "a", Session: "s"}
	run := func(args ...string) {
		t.Helper()
		req := manager.Request{Who: who, Command: sandbox.Command{Args: args, Stdout: io.Discard, Stderr: io.Discard}}
		if args[0] == "linger" { // the others end by themselves
			req.Timeout = 200 * time.Millisecond
		}
		_, err := m.Run(context.Background(), req)
		if err != nil && sandbox.CodeOf(err) != sandbox.CodeDenyTool {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		args []string
		want violation.Type // of the only record, or empty for none
	}{
		{"nothing was stopped", []string{"reach", "/workspace/x"}, ""},
		{"a rule of the settings", []string{"reach", "forbidden"}, violation.CommandBlocked},
		{"a sandbox", []string{"reach", "seen:HOST/x"}, violation.WallPath},
		{"a limit", []string{"linger"}, violation.LimitExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n.kept = nil
			run(tt.args...)
			if tt.want == "" {
				if len(n.kept) != 0 {
					t.Errorf("%+v", n.kept)
				}
				return
			}
			if len(n.kept) != 1 || n.kept[0].Type != tt.want {
				t.Fatalf("%+v", n.kept)
			}
			r := n.kept[0]
			if r.Tenant != "acme" || r.Agent != "a" || r.Session != "s" || !strings.HasPrefix(r.Sandbox, "sbx-") || r.Program == "" || r.Time.IsZero() || r.Message == "" {
				t.Errorf("%+v", r)
			}
		})
	}
	n.fails = errors.New("the disk is full")
	run("reach", "forbidden")
	if !strings.Contains(g.log.String(), "cannot record what was stopped") {
		t.Errorf("a record that is lost is not told of: %s", g.log)
	}
}
