package resource_test

import (
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// newSettingsRig is a daemon with local sandboxes and the resources that take
// settings of a call.
func newSettingsRig(t *testing.T) *served.Rig {
	return served.New(t, served.Options{Wall: "local", Resources: func(r *served.Rig) []resource.Resource {
		supervisor := running.New(running.Options{Manager: running.Managed(r.Manager), Log: r.Log})
		t.Cleanup(func() { _ = supervisor.Close(context.Background()) })
		boxes := resource.NewSandboxes(resource.Options{Manager: r.Manager, Log: r.Log})
		t.Cleanup(boxes.Close)
		return []resource.Resource{
			boxes, resource.NewCommands(r.Manager), resource.NewShells(r.Manager, supervisor, stream.Options{}), resource.NewPorts(r.Manager, resource.PortOptions{}),
			resource.NewFilesResource(r.Manager, resource.Limits{}), resource.NewToolCalls(r.Manager, tools.New(tools.Options{Manager: r.Manager, Running: supervisor})),
		}
	}})
}

// TestSettingsOfCall holds that settings of a call apply to what is made, run
// and written with them, and to nothing else.
func TestSettingsOfCall(t *testing.T) {
	t.Parallel()
	r := newSettingsRig(t)
	with := []string{"Sandbox-Settings", `{"settings":{"docker":{"env":{"COLOR":"bl\u00fce"}},"limits":{"timeout":"1m"}}}`, "Sandbox-Session", "s1"}
	made := r.Want(201, "root", "POST", "/v1/sandboxes", `{}`, with...)
	base := "/v1/sandboxes/" + served.JSON[api.Sandbox](t, made).Name
	for what, body := range map[string]string{"/exec": `{"args":["printenv","COLOR"]}`, "/shells/main/run": `{"line":"printenv COLOR"}`, "/tools/exec": `{"command":"printenv COLOR"}`} {
		if got := r.Want(200, "root", "POST", base+what, body, with...); !strings.Contains(got.Body, "blüe") {
			t.Errorf("%s: %s", what, got.Body)
		}
	}
	r.Want(201, "root", "PUT", base+"/files/workspace/a.txt", "a", append(with, "Content-Type", "application/octet-stream")...)
	plain := r.Want(201, "root", "POST", "/v1/sandboxes", `{"session":"s2"}`)
	other := "/v1/sandboxes/" + served.JSON[api.Sandbox](t, plain).Name
	if got := r.Want(200, "root", "POST", other+"/exec", `{"args":["printenv","COLOR"]}`, "Sandbox-Session", "s2"); strings.Contains(got.Body, "blüe") {
		t.Errorf("settings of one call hold for another: %s", got.Body)
	}
}

// TestSettingsOfCallRefused holds that settings of a call are refused where they
// are not an admin's, not valid, or have no effect.
func TestSettingsOfCallRefused(t *testing.T) {
	t.Parallel()
	r := newSettingsRig(t)
	const good = `{"settings":{}}`
	for _, tt := range []struct {
		name, as, method, path, value string
		status                        int
	}{
		{"a tenant", "acme", "POST", "/v1/sandboxes", good, 403},
		{"a session", "acme-s1", "POST", "/v1/sandboxes", good, 403},
		{"no JSON", "root", "POST", "/v1/sandboxes", "x", 422},
		{"an unknown key", "root", "POST", "/v1/sandboxes", `{"setings":{}}`, 422},
		{"an unknown setting", "root", "POST", "/v1/sandboxes", `{"settings":{"colour":1}}`, 422},
		{"a setting that is refused always", "root", "POST", "/v1/sandboxes", `{"settings":{"docker":{"network":"host"}}}`, 403},
		{"a route without effect", "root", "GET", "/v1/sandboxes", good, 422},
	} {
		if got := r.Ask(tt.as, tt.method, tt.path, `{}`, "Sandbox-Settings", tt.value); got.Status != tt.status {
			t.Errorf("%s: %d %s, want %d", tt.name, got.Status, got.Body, tt.status)
		}
	}
}

// TestPorts holds that a port of the loopback interface inside is reached with
// the end of either direction, and that no other port and no other caller's is.
func TestPorts(t *testing.T) {
	t.Parallel()
	r := newSettingsRig(t)
	base := "/v1/sandboxes/" + r.Ready("acme", "s1") + "/ports/"
	dial := func(as, path string) (*websocket.Conn, int) {
		t.Helper()
		ctx, done := context.WithTimeout(t.Context(), time.Minute)
		defer done()
		conn, res, err := websocket.Dial(ctx, "http://daemon"+path, &websocket.DialOptions{HTTPClient: r.Client(), HTTPHeader: http.Header{"Authorization": {"Bearer " + r.Secret(as)}}})
		if res == nil {
			t.Fatal(err)
		}
		return conn, res.StatusCode
	}
	who := config.Who{Tenant: "acme", Agent: config.DefaultAgent, Session: "s1"}
	err := r.Manager.WithSandbox(t.Context(), manager.Request{Who: who}, func(sb sandbox.Sandbox, _ sandbox.Spec) error {
		l, err := sb.(sandbox.Listener).Listen(t.Context(), "tcp", "127.0.0.1:0")
		if err != nil {
			return err
		}
		defer l.Close()
		go func() {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			data, _ := io.ReadAll(c) // to the end of the client's direction
			_, _ = c.Write(bytes.ToUpper(data))
		}()
		_, port, _ := net.SplitHostPort(l.Addr().String())
		ws, status := dial("acme-s1", base+port)
		if ws == nil {
			t.Fatalf("a port inside: %d", status)
		}
		c := stream.NewConn(ws, l.Addr())
		defer c.Close()
		if _, err = c.Write([]byte("hello")); err == nil {
			err = c.CloseWrite()
		}
		if data, fail := io.ReadAll(c); string(data) != "HELLO" || err != nil || fail != nil {
			t.Errorf("%q, %v, %v", data, err, fail)
		}
		for _, as := range []string{"evil", "acme-s2"} {
			if _, status := dial(as, base+port); status != http.StatusNotFound {
				t.Errorf("%s: %d", as, status)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	outside, err := net.Listen("tcp", "127.0.0.1:0") // of the host, whose loopback is another
	if err != nil {
		t.Fatal(err)
	}
	defer outside.Close()
	_, port, _ := net.SplitHostPort(outside.Addr().String())
	for path, want := range map[string]int{"0": 422, "65536": 422, "x": 422, "08": 422, "+8": 404, port: 503} {
		if _, status := dial("acme-s1", base+path); status != want {
			t.Errorf("port %s: %d, want %d", path, status, want)
		}
	}
}
