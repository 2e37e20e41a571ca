package conduct_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/daemon/conduct"
	"github.com/bulkhead-dev/sandbox/daemon/route"
	"github.com/bulkhead-dev/sandbox/daemon/stream"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
)

// serve serves the resource with what the settings say of sandboxes.
func serve(t *testing.T, wall, settings string) *served.Rig {
	t.Helper()
	return served.New(t, served.Options{Wall: wall, Settings: `{"agents": {"defaults": {"sandbox": {` + settings + `}}}}`, Resources: func(r *served.Rig) []route.Resource {
		return []route.Resource{conduct.New(r.Manager, stream.Options{})}
	}})
}

// attach sends a first frame as somebody with a session, and returns the socket.
func attach(t *testing.T, r *served.Rig, as, session, first string) (context.Context, *websocket.Conn) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(done)
	secret := r.Secret(as)
	if secret == "" {
		secret = as
	}
	conn, _, err := websocket.Dial(ctx, "ws://daemon/v1/attach", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: r.Dial}}, HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}, "Sandbox-Session": {session}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	if err := conn.Write(ctx, websocket.MessageText, []byte(first)); err != nil {
		t.Fatal(err)
	}
	return ctx, conn
}

// last is the event with which a socket ends.
func last(ctx context.Context, t *testing.T, conn *websocket.Conn) (kind, text string) {
	t.Helper()
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			t.Fatalf("the socket ends without a word: %v", err)
		}
		var e struct{ Type string }
		if json.Unmarshal(data, &e) == nil && (e.Type == "exit" || e.Type == "error") {
			return e.Type, string(data)
		}
	}
}

// TestTimeLimitHolds holds that no number of seconds is so large that the limit
// of the settings is none.
func TestTimeLimitHolds(t *testing.T) {
	r := serve(t, "", `"provider": "local", "limits": {"timeout": "1s"}`)
	for _, seconds := range []string{"0", "10", "1e10", "1e300"} {
		begun := time.Now()
		ctx, conn := attach(t, r, "acme-s1", "s1", `{"args":["sleep","30"],"noStdin":true,"timeoutSeconds":`+seconds+`}`)
		if kind, text := last(ctx, t, conn); kind != "exit" || !strings.Contains(text, `"timedOut":true`) || time.Since(begun) > 25*time.Second {
			t.Errorf("%s seconds: %s after %v", seconds, text, time.Since(begun))
		}
	}
	ctx, conn := attach(t, r, "root", "s1", `{"args":["sleep","2"],"noStdin":true,"timeoutSeconds":20}`)
	if _, text := last(ctx, t, conn); strings.Contains(text, `"timedOut":true`) {
		t.Errorf("control: an admin: %s", text)
	}
}

// TestSharedSandboxStays holds that a session does not remove behind its command
// what all of an agent share, with what they have in it.
func TestSharedSandboxStays(t *testing.T) {
	const first = `{"args":["true"],"noStdin":true,"extra":{"remove":true}}`
	r := serve(t, "", `"provider": "local", "scope": "agent"`)
	name := r.Ready("acme", "s2")
	ctx, conn := attach(t, r, "acme-s1", "s1", first)
	if kind, text := last(ctx, t, conn); kind != "error" || !strings.Contains(text, "PERMISSION_DENY") {
		t.Errorf("it is removed: %s", text)
	}
	if _, err := r.Manager.Recorded("acme", name); err != nil {
		t.Error(err)
	}
	ctx, conn = attach(t, r, "acme", "s1", first)
	if kind, text := last(ctx, t, conn); kind != "exit" {
		t.Errorf("control: the tenant: %s", text)
	}
	own := serve(t, "", `"provider": "local"`)
	name = own.Ready("acme", "s1")
	ctx, conn = attach(t, own, "acme-s1", "s1", first)
	if kind, text := last(ctx, t, conn); kind != "exit" {
		t.Errorf("control: a session's own: %s", text)
	}
	if _, err := own.Manager.Recorded("acme", name); err == nil {
		t.Error("control: a session's own is not removed")
	}
}

// TestGraceIsBounded holds that a command which does not want to end goes on
// for a moment and no longer when its caller's token was taken back.
func TestGraceIsBounded(t *testing.T) {
	r := serve(t, "docker", `"provider": "docker"`)
	ctx, conn := attach(t, r, "acme-s1", "s1", `{"args":["sh","-c","trap '' TERM; echo begun; while :; do sleep 1; done"],"noStdin":true,"graceSeconds":3600}`)
	for {
		_, data, err := conn.Read(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(data), "begun") {
			break
		}
	}
	if _, err := r.Tokens.Revoke(r.IDs["acme-s1"]); err != nil {
		t.Fatal(err)
	}
	last(ctx, t, conn)
}
