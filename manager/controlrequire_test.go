//go:build linux

package manager_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A failing sink has no room while it fails.
type failingSink struct {
	recorder.Keeper
	fails atomic.Bool
}

// Write implements recorder.Sink.
func (f *failingSink) Write(ctx context.Context, rs ...evidence.Record) error {
	if f.fails.Load() {
		return errors.New("no space left on device")
	}
	return f.Keeper.Write(ctx, rs...)
}

// failable puts a sink that can fail under the evidence of c.
func failable(f *failingSink, queue int) func(*controlled, *manager.Options, *statedir.Dir) {
	return func(c *controlled, o *manager.Options, _ *statedir.Dir) {
		must(c.t, c.ctl.Close())
		f.fails.Store(false)
		c.ctl = c.observed(queue, func(k recorder.Keeper) recorder.Sink {
			f.Keeper = k
			return f
		})
		o.Control = func() (*manager.Control, error) { return &c.ctl.Control, nil }
	}
}

// TestNothingRunsThatIsNotOnRecord lets the record fail where it is required:
// no operation and no command is carried out, and each caller's error says why.
func TestNothingRunsThatIsNotOnRecord(t *testing.T) {
	t.Parallel()
	f := &failingSink{}
	onControlled(t, `, "requireEvidence": true`, func(c *controlled) {
		write := grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/a", Data: []byte("a")}
		must(c.t, second(c.operate(c.operation(write))))
		hits := c.net.Hits(testenv.Files)
		f.fails.Store(true)
		for _, do := range []grant.Operation{
			{Kind: grant.OpFsWrite, Path: "/workspace/b", Data: []byte("b")},
			{Kind: grant.OpProcExec, Tool: "sh", Args: []string{"-c", "touch /workspace/b"}},
			{Kind: grant.OpNetHTTP, Method: "GET", URL: c.net.URL("http", testenv.Files, "/greeting.txt")},
			{Kind: grant.OpTmpAlloc, Bytes: 4096},
		} {
			op := c.shell("true")
			op.Do = do
			done, err := c.operate(op)
			var e *sandbox.Error
			if done.Code != sandbox.CodeUnavailable || !errors.As(err, &e) || e.Field != "requireEvidence" || e.Hint == "" || done.Used.Calls != 0 {
				c.t.Errorf("%s without a record: %+v, %v", do.Kind, done, err)
			}
		}
		for name, call := range c.plainCalls() {
			err := call("touch /workspace/b")
			var e *sandbox.Error
			if !errors.As(err, &e) || e.Code != sandbox.CodeUnavailable || e.Field != "requireEvidence" || e.Hint == "" {
				c.t.Errorf("%s without a record: %v", name, err)
			}
		}
		f.fails.Store(false)
		done, err := c.operate(c.shell("ls /workspace"))
		must(c.t, err)
		if got := strings.TrimSpace(string(done.Output.Data)); got != "a" || c.net.Hits(testenv.Files) != hits {
			c.t.Errorf("something was carried out: %q, %d requests", got, c.net.Hits(testenv.Files)-hits)
		}
		must(c.t, c.ctl.Recorder.Close())
		c.verified()
	}, failable(f, 0))
}

// TestLossesAreReported lets the record fail where it is not required: operations
// go on, the log tells, and so does the record as soon as it can.
func TestLossesAreReported(t *testing.T) {
	t.Parallel()
	const queue = 64
	f := &failingSink{}
	onControlled(t, "", func(c *controlled) {
		op := c.operation(grant.Operation{Kind: grant.OpFsList, Path: "/workspace"})
		op.Grant.Budget.Calls = 10_000
		must(c.t, second(c.operate(op)))
		f.fails.Store(true)
		for range queue { // twice as many records as are kept
			must(c.t, second(c.operate(op)))
		}
		if !strings.Contains(c.log.String(), "no space left") {
			c.t.Error("the log does not tell")
		}
		f.fails.Store(false)
		done := 1 + queue
		waitFor(c.t, func() *bool {
			must(c.t, second(c.operate(op)))
			done++
			if _, lost := c.balance(); lost > 0 {
				return new(bool)
			}
			return nil
		})
		must(c.t, c.ctl.Recorder.Close())
		kept, lost := c.balance()
		if kept+lost != 2*done {
			c.t.Errorf("%d records are kept and %d are told to be lost, of %d operations", kept, lost, done)
		}
		c.t.Logf("%d operations: %d records are kept, %d are told to be lost", done, kept, lost)
		c.verified()
	}, failable(f, queue))
}

// plainCalls are the ways to run a line without a grant.
func (c *controlled) plainCalls() map[string]func(line string) error {
	ctx := func() context.Context {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		c.t.Cleanup(done)
		return ctx
	}
	run := func(line string) manager.Request {
		return manager.Request{Who: c.who, Command: sandbox.Command{Args: []string{"sh", "-c", line}}}
	}
	return map[string]func(string) error{
		"Run":     func(line string) error { return second(c.Run(ctx(), run(line))) },
		"Capture": func(line string) error { return second(c.Capture(ctx(), run(line))) },
		"Shell": func(line string) error {
			return second(c.Shell(ctx(), manager.Request{Who: c.who, Command: sandbox.Command{Args: []string{"-c", line}}}))
		},
		"Files": func(string) error {
			return c.Files(ctx(), manager.Request{Who: c.who}, func(s manager.Share) error {
				return s.Write(ctx(), "/workspace/b", strings.NewReader("b"), sandbox.WriteOptions{})
			})
		},
	}
}
