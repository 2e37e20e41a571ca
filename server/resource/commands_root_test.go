package resource_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// TestNoCommandRunsAsRoot holds that every way of HTTP to run a command refuses
// root, however it is spelled, names the field and says what to do, and that nothing
// has run then.
func TestNoCommandRunsAsRoot(t *testing.T) {
	t.Parallel()
	for _, provider := range []string{"docker", "local"} {
		t.Run(provider, func(t *testing.T) {
			r := served.New(t, served.Options{Wall: provider, Resources: func(r *served.Rig) []resource.Resource {
				kept := running.New(running.Options{Manager: running.Managed(r.Manager), Log: r.Log})
				t.Cleanup(func() {
					ctx, done := context.WithTimeout(context.Background(), time.Minute)
					defer done()
					if err := kept.Close(ctx); err != nil {
						t.Error(err)
					}
				})
				return []resource.Resource{resource.NewShells(r.Manager, kept, stream.Options{}), resource.NewCommands(r.Manager), resource.NewSessions(r.Manager, stream.Options{})}
			}})
			base := "/v1/sandboxes/" + r.Ready("acme", "s1")
			for _, user := range []string{"root", "0", "00", "0:0", "root:root", "root:", "0:1000", "1000:0"} {
				body := `{"line":": >ran","user":"` + user + `"}`
				for _, path := range []string{"/exec", "/exec/stream", "/processes"} {
					for _, accept := range []string{"application/json", "text/event-stream"} {
						a := r.Ask("acme", "POST", base+path, body, "Accept", accept)
						if a.Status != http.StatusForbidden {
							t.Errorf("%s as %s: %d %s", path, user, a.Status, a.Body)
							continue
						}
						if p := a.Problem(t); p.Code != sandbox.CodeCapabilityBlocked || p.Field != "user" || p.Hint == "" || !strings.Contains(p.Detail, "root") {
							t.Errorf("%s as %s: %+v", path, user, p)
						}
					}
				}
				for _, path := range []string{base + "/attach", base + "/pty", "/v1/attach"} {
					if kind, text := overSocket(t, r, path, `{"line":": >ran","extra":{"user":"`+user+`"}}`); kind != "error" || !strings.Contains(text, `SANDBOX.CAPABILITY_BLOCKED`) || !strings.Contains(text, `"field":"user"`) {
						t.Errorf("%s as %s: %s", path, user, text)
					}
				}
			}
			for _, user := range []string{"nobody", "daemon", "Root", " root", "root\u0000", "-1", "4294967296", "\u0660"} {
				a := r.Ask("acme", "POST", base+"/exec", `{"line":": >ran","user":"`+strings.ReplaceAll(user, "\x00", `\u0000`)+`"}`)
				if a.Status != http.StatusUnprocessableEntity || a.Problem(t).Field != "user" {
					t.Errorf("as %q: %d %s", user, a.Status, a.Body)
				}
			}
			if out := r.Run("acme", "s1", "ls"); out != "" {
				t.Errorf("something ran: %s", out)
			}
			for _, user := range []string{"", "sandbox", "user"} {
				if a := r.Want(200, "acme", "POST", base+"/exec", `{"line":"id -un","user":"`+user+`"}`); !strings.Contains(a.Body, `"stdout":"sandbox\n"`) {
					t.Errorf("as %q: %s", user, a.Body)
				}
			}
		})
	}
}

// overSocket sends the first message of a command and returns how the socket ends.
func overSocket(t *testing.T, r *served.Rig, path, first string) (kind, text string) {
	t.Helper()
	ctx, done := context.WithTimeout(t.Context(), time.Minute) // only what fails lasts so long
	defer done()
	conn, _, err := websocket.Dial(ctx, "ws://daemon"+path, &websocket.DialOptions{
		HTTPClient: &http.Client{Transport: &http.Transport{DialContext: r.Dial}}, HTTPHeader: http.Header{"Authorization": {"Bearer " + r.Secret("acme")}, "Sandbox-Session": {"s1"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if err := conn.Write(ctx, websocket.MessageText, []byte(first)); err != nil {
		t.Fatal(err)
	}
	return last(ctx, t, conn)
}
