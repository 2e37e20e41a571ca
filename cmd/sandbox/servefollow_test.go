//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"net/http"
	"syscall"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// A daemon that is asked to end does not wait for those that only listen: who
// watches files, and agents that are connected and call nothing.
func TestServeDrainsFollowers(t *testing.T) {
	t.Parallel()
	c := newBusy(t, "10m", 0)
	watch, err := c.out.ask("GET", c.path()+"/watch?path=/workspace", nil, "Accept", api.ContentEvents)
	if err != nil {
		t.Fatal(err)
	}
	defer watch.Body.Close()
	events := bufio.NewReader(watch.Body)
	if !until(events, "event: "+api.EventReady) {
		t.Fatal("the watch does not begin")
	}
	h := &http.Client{Transport: asGuest{c.out.headers, "a", c.out.http.Transport}}
	agent, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: c.out.base + "/mcp", HTTPClient: h, MaxRetries: -1}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Close()
	if res, err := agent.CallTool(t.Context(), &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "true"}}); err != nil || res.IsError {
		t.Fatalf("%+v, %v", res, err)
	}
	if err := c.d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := c.d.ended(); err != nil { // within a minute
		t.Errorf("the daemon has ended with %v", err)
	}
	if !until(events, "event: "+api.EventError) || !until(events, "going down") {
		t.Error("the watch does not say why it has ended")
	}
	c.d.quiet()
}
