package server_test

import (
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// TestBoundsAreThoseOfNow holds that each request has the bounds that are set
// when it arrives, and that a route with its own bounds keeps them.
func TestBoundsAreThoseOfNow(t *testing.T) {
	var now atomic.Pointer[server.Bounds]
	now.Store(&server.Bounds{})
	left := make(chan time.Duration, 1)
	tells := func(id string, own time.Duration) resource.Route {
		return resource.Route{ID: id, Method: "GET", Path: "/v1/" + id, Tag: "test", Summary: "Tell the deadline", Role: token.Session, Timeout: own, Do: func(c *resource.Call) (any, error) {
			at, ok := c.Context().Deadline()
			if !ok {
				return nil, &sandbox.Error{Code: sandbox.CodeInternal, Message: "there is none"}
			}
			left <- time.Until(at)
			return nil, nil
		}}
	}
	srv := serve(t, server.Options{
		Resources: []resource.Resource{echo(), table{tells("usual", 0), tells("own", time.Minute)}},
		Bounds:    func() server.Bounds { return *now.Load() },
	})
	long := `{"text":"a"}` + strings.Repeat(" ", 4096)
	for _, tt := range []struct {
		bounds   server.Bounds
		usual    time.Duration
		tooLarge bool
	}{
		{server.Bounds{}, time.Minute, false},
		{server.Bounds{Timeout: time.Hour, Body: 1024}, time.Hour, true},
		{server.Bounds{Timeout: 10 * time.Minute, Body: 1 << 20}, 10 * time.Minute, false},
	} {
		now.Store(&tt.bounds)
		for path, want := range map[string]time.Duration{"/v1/usual": tt.usual, "/v1/own": time.Minute} {
			if res, body := ask(t, srv, "GET", path, ""); res.StatusCode != 204 {
				t.Fatalf("%s: %d %s", path, res.StatusCode, body)
			}
			if got := <-left; got > want || got < want-30*time.Second {
				t.Errorf("%+v: %s has %v, want %v", tt.bounds, path, got, want)
			}
		}
		res, body := ask(t, srv, "POST", "/v1/echo/x", long, "Content-Type", "application/json")
		if (res.StatusCode == 413) != tt.tooLarge {
			t.Errorf("%+v: a body is answered %d %s", tt.bounds, res.StatusCode, body)
		}
	}
}
