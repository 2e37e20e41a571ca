package manager_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
)

// observed keeps what metrics are made of.
type observed struct {
	mu   sync.Mutex
	list []operation.Ended
}

func (o *observed) Built(time.Duration)     {}
func (o *observed) Validated(time.Duration) {}
func (o *observed) Ended(e operation.Ended) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.list = append(o.list, e)
}

// TestCallsWithoutGrantsAreCounted holds that commands, lines and uses of files
// are counted for metrics, and refusals and errors with their code.
func TestCallsWithoutGrantsAreCounted(t *testing.T) {
	t.Parallel()
	var seen observed
	onControlled(t, `, "commands": {"block": ["touch:*"]}`, func(c *controlled) {
		ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
		defer done()
		run := func(timeout time.Duration, args ...string) {
			_, _ = c.Run(ctx, manager.Request{Who: c.who, Tool: "exec", Command: sandbox.Command{Args: args}, Timeout: timeout}) // which is what is counted
		}
		seen.list = nil
		run(0, "true")
		run(0, "false")
		run(0, "touch", "x")
		run(0, "no-such-program")
		run(300*time.Millisecond, "sleep", "1000")
		must(c.t, second(c.Shell(ctx, manager.Request{Who: c.who, Command: sandbox.Command{Args: []string{"-c", "true"}}})))
		must(c.t, c.Files(ctx, manager.Request{Who: c.who, Tool: "write"}, func(s manager.Share) error {
			return s.Write(ctx, "a", strings.NewReader("x"), sandbox.WriteOptions{})
		}))
		var got []string
		for _, e := range seen.list {
			how := "ok"
			if e.Code != "" {
				how = "error " + string(e.Code)
			}
			if e.Denied {
				how = "denied " + string(e.Code)
			}
			got = append(got, string(e.Domain)+" "+string(e.Resource)+" "+e.Tool+": "+how)
			if e.Tenant != tenant || e.Duration <= 0 || len(e.Effects) != 1 {
				c.t.Errorf("%+v", e)
			}
		}
		proc := string(grant.DomainProc)
		want := []string{
			proc + " command exec: ok", proc + " command exec: ok", proc + " command exec: denied " + string(sandbox.CodeDenyTool),
			proc + " command exec: error " + string(sandbox.CodeExecution), proc + " command exec: error " + string(sandbox.CodeTimeout),
			proc + " line : ok", string(grant.DomainFS) + " file write: ok",
		}
		if !slices.Equal(got, want) {
			c.t.Errorf("counted is\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}, func(_ *controlled, o *manager.Options, _ *statedir.Dir) { o.Observer = &seen })
}
