package manager_test

import (
	"context"
	"errors"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/violation/store"
)

// A notebook keeps records in memory.
type notebook struct {
	mu      sync.Mutex
	records []store.Record
	fails   error
}

// Append implements store.Recorder.
func (n *notebook) Append(ctx context.Context, rs ...store.Record) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	n.records = append(n.records, rs...)
	return n.fails
}

// TestWhatWasStoppedIsRecorded holds that each refusal, each denial of a wall
// and each limit that was reached leaves a record of whom it concerns.
func TestWhatWasStoppedIsRecorded(t *testing.T) {
	g := newGuarded(t)
	n := &notebook{}
	g.recorder = n
	m := g.manager(settingsWith(`"commands": {"block": ["reach forbidden:*"]}`))
	who := config.Who{Tenant: "acme", Agent: "a", Session: "s"}
	run := func(args ...string) {
		t.Helper()
		_, err := m.Run(context.Background(), manager.Request{Who: who, Timeout: 200 * time.Millisecond, Command: sandbox.Command{Args: args, Stdout: io.Discard, Stderr: io.Discard}})
		if err != nil && sandbox.CodeOf(err) != sandbox.CodeDenyTool {
			t.Fatal(err)
		}
	}
	for _, tt := range []struct {
		name string
		args []string
		want store.Type // of the only record, or empty for none
	}{
		{"nothing was stopped", []string{"reach", "/workspace/x"}, ""},
		{"a rule of the settings", []string{"reach", "forbidden"}, store.CommandBlocked},
		{"a wall", []string{"reach", "seen:HOST/x"}, store.WallPath},
		{"a limit", []string{"linger"}, store.LimitExceeded},
	} {
		t.Run(tt.name, func(t *testing.T) {
			n.records = nil
			run(tt.args...)
			if tt.want == "" {
				if len(n.records) != 0 {
					t.Errorf("%+v", n.records)
				}
				return
			}
			if len(n.records) != 1 || n.records[0].Type != tt.want {
				t.Fatalf("%+v", n.records)
			}
			r := n.records[0]
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
