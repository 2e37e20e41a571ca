package mcp_test

import (
	"context"
	"encoding/json"
	"sync/atomic"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestCallsEndWithTheRightToThem holds that running calls end when their caller
// loses its rights, with that reason, and report no progress afterwards; that a
// later call does nothing; and that the rights are watched once, however many
// calls there are.
func TestCallsEndWithTheRightToThem(t *testing.T) {
	r := newRig(t, settingsWith(""))
	over := make(chan struct{})
	var watches atomic.Int64
	b := bound("default")
	b.Watch = func(ctx context.Context) (context.Context, func()) {
		watches.Add(1)
		ctx, end := context.WithCancelCause(ctx)
		done := make(chan struct{})
		go func() {
			defer close(done)
			select {
			case <-over:
				end(&sandbox.Error{Code: sandbox.CodePermissionDeny, Message: "the token is not good any more"})
			case <-ctx.Done():
			}
		}()
		return ctx, func() { end(nil); <-done; watches.Add(-1) }
	}
	var notes atomic.Int64
	c := r.connect(b, &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) { notes.Add(1) }})
	answer := make(chan *mcp.CallToolResult, 1)
	go func() {
		p := &mcp.CallToolParams{Name: "exec", Arguments: json.RawMessage(`{"command":"sleep 600; echo survived > /workspace/note"}`)}
		p.SetProgressToken("p")
		res, err := c.CallTool(deadline(t), p)
		if err != nil {
			t.Error(err)
		}
		answer <- res
	}()
	testenv.Until(t, "it tells of progress", func() bool { return notes.Load() > 2 })
	if n := watches.Load(); n != 1 {
		t.Errorf("it is watched for %d times", n)
	}
	close(over)
	select {
	case res := <-answer:
		if res == nil || codeOf(t, res) != string(sandbox.CodePermissionDeny) {
			t.Errorf("it ends with %+v", res)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("it goes on")
	}
	// Notes from before the end may arrive a little after it; if calls went on,
	// their number would keep growing.
	reported := int64(-1)
	testenv.Until(t, "no progress is told of", func() bool {
		before := reported
		reported = notes.Load()
		if reported != before {
			<-time.After(200 * time.Millisecond)
		}
		return reported == before
	})
	late, err := c.CallTool(deadline(t), &mcp.CallToolParams{Name: "write", Arguments: json.RawMessage(`{"path":"/workspace/late","content":"x"}`)})
	if err == nil && codeOf(t, late) == "" {
		t.Errorf("a later call is answered %q", text(late))
	}
	if _, err := c.ReadResource(deadline(t), &mcp.ReadResourceParams{URI: "sandbox:///workspace/late"}); err == nil {
		t.Error("a later call has written")
	}
	if notes.Load() > reported+1 { // one may have been under way
		t.Errorf("progress is told of after the end: %d, then %d", reported, notes.Load())
	}
	testenv.Until(t, "nothing is watched for any more", func() bool { return watches.Load() == 0 })
}
