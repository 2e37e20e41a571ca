package resource_test

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

// serve serves the resource with these settings for sandboxes.
func serve(t *testing.T, wall, settings string) *served.Rig {
	t.Helper()
	return served.New(t, served.Options{Wall: wall, Settings: `{"agents": {"defaults": {"sandbox": {` + settings + `}}}}`, Resources: func(r *served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewSessions(r.Manager, stream.Options{})}
	}})
}

// attach sends a first frame as the caller of that name with a session, and
// returns the socket.
func attach(t *testing.T, r *served.Rig, as, session, first string) (context.Context, *websocket.Conn) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute) // only what fails lasts so long
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

// last returns the event with which a socket ends.
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

// TestTimeLimitHolds holds that no number of seconds, however large, disables
// the limit of the settings.
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

// TestSharedSandboxStays holds that a session cannot have its command remove a
// sandbox that all sessions of an agent share, with their files.
func TestSharedSandboxStays(t *testing.T) {
	t.Parallel()
	const first = `{"args":["true"],"noStdin":true,"extra":{"remove":true}}`
	r := serve(t, "", `"provider": "local", "scope": "agent"`)
	name := r.Ready("acme", "s2")
	ctx, conn := attach(t, r, "acme-s1", "s1", first)
	if kind, text := last(ctx, t, conn); kind != "error" || !strings.Contains(text, "PERMISSION_DENY") {
		t.Errorf("it is removed: %s", text)
	}
	if _, err := r.Manager.Recorded(context.Background(), "acme", name, ""); err != nil {
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
	if _, err := own.Manager.Recorded(context.Background(), "acme", name, ""); err == nil {
		t.Error("control: a session's own is not removed")
	}
}

// openHandle requests access to the files of a session, and returns the path below
// which they are served.
func openHandle(t *testing.T, r *served.Rig, as, session string) string {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	t.Cleanup(done)
	conn, _, err := websocket.Dial(ctx, "ws://daemon/v1/lend", &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: r.Dial}}, HTTPHeader: http.Header{"Authorization": {"Bearer " + r.Secret(as)}, "Sandbox-Session": {session}},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.CloseNow() })
	if err := conn.Write(ctx, websocket.MessageText, []byte("{}")); err != nil {
		t.Fatal(err)
	}
	_, data, err := conn.Read(ctx)
	if err != nil {
		t.Fatal(err)
	}
	var l api.Handle
	if err := json.Unmarshal(data, &l); err != nil || l.Ticket == "" {
		t.Fatalf("%s, %v", data, err)
	}
	return api.HandlesPath + "/" + l.Ticket + "/files"
}

// TestListingsTakeTurns holds that the listing of a folder for a client that
// does not read the answer is held in memory twice at most, and that other
// requests proceed.
func TestListingsTakeTurns(t *testing.T) {
	t.Parallel()
	var c *resource.Sessions
	r := served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource {
		c = resource.NewSessions(r.Manager, stream.Options{})
		return []resource.Resource{c}
	}, Daemon: func(o *server.Options) {
		o.Mounts = append(o.Mounts, server.Mount{Pattern: api.HandlesPath + "/", Handler: c.Handles()})
	}})
	who := config.Who{Tenant: "acme", Agent: config.DefaultAgent, Session: "s1"}
	err := r.Manager.Files(t.Context(), manager.Request{Who: who}, func(s manager.Share) error {
		for i := range 3000 {
			name := "/workspace/" + strconv.Itoa(i) + strings.Repeat("\x01", 240)
			if err := s.Write(t.Context(), name, strings.NewReader(""), sandbox.WriteOptions{}); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	files := openHandle(t, r, "acme-s1", "s1")
	transport := &http.Transport{DialContext: r.Dial}
	defer transport.CloseIdleConnections()
	ask := func(ctx context.Context, what string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://daemon"+files+what+"?path=/workspace", nil)
		if err != nil {
			return nil, err
		}
		req.Header = http.Header{"Authorization": {"Bearer " + r.Secret("acme-s1")}, "Sandbox-Session": {"s1"}}
		return transport.RoundTrip(req)
	}
	var leave []func()
	for range 2 {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		res, err := ask(ctx, "/folder")
		if err != nil || res.StatusCode != http.StatusOK {
			t.Fatalf("%+v, %v", res, err)
		}
		leave = append(leave, func() { cancel(); res.Body.Close() })
	}
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if res, err := ask(ctx, "/folder"); err == nil {
		t.Errorf("a third one is answered with %s", res.Status)
		res.Body.Close()
	}
	if res, err := ask(t.Context(), "/stat"); err != nil || res.StatusCode != http.StatusOK {
		t.Errorf("no listing: %+v, %v", res, err)
	} else {
		res.Body.Close()
	}
	leave[0]()
	res, err := ask(t.Context(), "/folder")
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var all struct{ Items []any }
	if err := json.NewDecoder(res.Body).Decode(&all); err != nil || len(all.Items) != 3000 {
		t.Errorf("%s: %d entries, %v", res.Status, len(all.Items), err)
	}
	leave[1]()
}

// TestGraceIsBounded holds that a command that ignores its end goes on for a
// moment and no longer when its caller's token is revoked.
func TestGraceIsBounded(t *testing.T) {
	r := serve(t, "docker", `"provider": "docker"`)
	r.Ready("acme", "s1")
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
	asked := time.Now()
	last(ctx, t, conn)
	if took := time.Since(asked); took > time.Minute {
		t.Errorf("it goes on for %v", took)
	}
}
