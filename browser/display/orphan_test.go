package display_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// orphanState names the state folder for a test binary that opens a session and
// never closes it.
const orphanState = "SANDBOX_DISPLAY_TEST_ORPHAN"

// TestOrphanedSession kills a program in the middle of a session: its profile
// and page end, no new listener remains in the container, no file of it is
// left there, and the browser keeps running.
func TestOrphanedSession(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	r.workspacePage(of("a"), "page.html", "<title>Here</title><script>document.cookie = 'a=b'; localStorage.x = 1</script>")
	served, err := r.Serve(ctx, of("a"))
	must(t, err)
	defer served.Close()
	c, _, err := websocket.Dial(ctx, served.WebSocketDebuggerURL, nil)
	must(t, err)
	defer c.CloseNow()
	looks := func() string {
		contexts := ask(ctx, t, c, "Target.getBrowserContexts")
		listeners, err := exec.Command("docker", "exec", served.Name, "sh", "-c",
			"cat /proc/net/tcp /proc/net/tcp6 | awk '$4 == \"0A\" { print $2 }' | sort; find /tmp /home/sandbox -maxdepth 1 | sort").Output()
		must(t, err)
		return contexts + string(listeners)
	}
	before := looks()

	cmd := exec.CommandContext(ctx, os.Args[0], "-test.run", "^TestOrphanedSessionMember$")
	cmd.Env = append(os.Environ(), orphanState+"="+r.state)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	said := ""
	for lines := bufio.NewScanner(out); said != "opened Here" && lines.Scan(); {
		said = lines.Text()
	}
	during := looks()
	must(t, cmd.Process.Kill())
	_ = cmd.Wait()
	if said != "opened Here" || during == before {
		t.Fatalf("the other program says %q, and the browser is as it was: %s", said, during)
	}
	until(t, "all of the session is gone", func() bool { return looks() == before })
	if after := ask(ctx, t, c, "Browser.getVersion"); !strings.Contains(after, "Chrome/") {
		t.Errorf("it says %s", after)
	}
}

// TestOrphanedSessionMember is the helper process of TestOrphanedSession,
// which starts it and checks its output; on its own it does nothing.
func TestOrphanedSessionMember(t *testing.T) {
	t.Parallel()
	state := os.Getenv(orphanState)
	if state == "" {
		return
	}
	d := newDisplays(t, newManager(t, dockertest.At(t, state), testenv.NewInternet(t), settings("", "")))
	ctx := patient(t)
	s, err := d.Session(ctx, of("a"), browser.Rights{})
	must(t, err)
	defer s.Close()
	p, err := s.Navigate(ctx, "page.html")
	must(t, err)
	fmt.Printf("opened %s\n", p.Title)
	<-ctx.Done()
}

// ask sends a command without arguments to a browser, and returns its answer.
func ask(ctx context.Context, t testing.TB, c *websocket.Conn, method string) string {
	t.Helper()
	must(t, c.Write(ctx, websocket.MessageText, fmt.Appendf(nil, `{"id":1,"method":%q}`, method)))
	for {
		_, text, err := c.Read(ctx)
		must(t, err)
		var m struct {
			ID     int             `json:"id"`
			Result json.RawMessage `json:"result"`
		}
		must(t, json.Unmarshal(text, &m))
		if m.ID == 1 {
			return string(m.Result)
		}
	}
}
