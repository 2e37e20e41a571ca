//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// A crowded is a daemon with commands that run: each has begun and goes on
// until its file comes, for minutes.
type crowded struct {
	*site
	t    *testing.T
	file string // of settings
	d    *server
	in   *party
	out  *party
	box  api.Sandbox
	runs []*bufio.Reader
}

func newBusy(t *testing.T, grace string, commands int) *crowded {
	s := newSite(t)
	c := &crowded{site: s, t: t}
	c.file = s.settings(`, "evidence": {"commands": true}`, `, "daemon": {"drainTimeout": "`+grace+`"}`)
	secret := s.token("acme")
	c.d = s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	c.in, c.out = c.d.own("acme"), c.d.guest(secret)
	c.box = must[api.Sandbox](t, c.in, "POST", "/v1/sandboxes", api.CreateSandbox{Session: "a"})
	for i := range commands {
		c.runs = append(c.runs, c.begin(i))
	}
	return c
}

// begin runs a command that waits for the file go.
func (c *crowded) begin(i int) *bufio.Reader {
	c.t.Helper()
	line := fmt.Sprintf("echo begun; while [ ! -e go ]; do sleep 0.05; done; echo %d >> marks", i)
	res, err := c.in.ask("POST", c.path()+"/exec", strings.NewReader(fmt.Sprintf(`{"line": %q}`, line)), "Accept", api.ContentEvents)
	if err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() { res.Body.Close() })
	in := bufio.NewReader(res.Body)
	if !until(in, "begun") {
		c.t.Fatal("a command does not begin")
	}
	return in
}

func (c *crowded) path() string { return "/v1/sandboxes/" + c.box.Name }

// letGo makes the file that the commands wait for, without the daemon.
func (c *crowded) letGo() {
	c.t.Helper()
	if out, err := c.command("--tenant", "acme", "--session", "a", "exec", "--", "touch", "go").CombinedOutput(); err != nil {
		c.t.Fatalf("%v\n%s", err, out)
	}
}

// A daemon that is asked to end lets what runs come to its end, takes nothing
// new, says so, and loses nothing.
func TestServeDrainsUnderLoad(t *testing.T) {
	t.Parallel()
	c := newBusy(t, "2m", 6)
	var wg sync.WaitGroup
	wrong := make(chan error, 64)
	reported := make([]int, 8)
	for i := range reported {
		p := c.in
		if i%2 == 0 {
			p = c.out
		}
		wg.Go(func() {
			for {
				err := p.run(c.box.Name, "", fmt.Sprintf("echo load-%d >> marks", i), i >= 4)
				var refused *refusal
				switch {
				case err == nil:
					reported[i]++
					continue
				case errors.As(err, &refused) && refused.status == http.StatusServiceUnavailable && refused.retry != "":
				default:
					wrong <- err
				}
				return
			}
		})
	}
	if err := c.d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.d.says("going down")
	wg.Wait()
	close(wrong)
	for err := range wrong {
		t.Errorf("a client heard %v", err)
	}
	c.letGo()
	for i, in := range c.runs {
		if !until(in, "event: exit") || !until(in, `"exitCode":0`) {
			t.Errorf("command %d was cut off", i)
		}
	}
	if err := c.d.ended(); err != nil {
		t.Errorf("the daemon has ended with %v", err)
	}
	c.d.quiet()
	c.allThere(reported)
}

// allThere compares the answers that clients received with what was done.
func (c *crowded) allThere(reported []int) {
	c.t.Helper()
	out, err := c.command("--tenant", "acme", "--session", "a", "exec", "--", "cat", "marks").Output()
	if err != nil {
		c.t.Fatal(err)
	}
	for i := range c.runs {
		if !strings.Contains("\n"+string(out), fmt.Sprintf("\n%d\n", i)) {
			c.t.Errorf("what command %d has written is not there", i)
		}
	}
	for i, n := range reported {
		if got := strings.Count(string(out), fmt.Sprintf("load-%d\n", i)); got != n {
			c.t.Errorf("client %d was told of %d successes, and %d are there", i, n, got)
		}
	}
	if out, err := c.command("evidence", "verify").CombinedOutput(); err != nil {
		c.t.Errorf("the evidence: %v\n%s", err, out)
	}
	out, err = c.command("evidence", "list", "--tenant", "acme", "-o", "json").Output()
	if n, ends := strings.Count(string(out), `"begin"`), strings.Count(string(out), `"end"`); err != nil || n == 0 || n != ends {
		c.t.Errorf("the evidence has %d begins and %d ends, %v", n, ends, err)
	}
}

// A daemon that shuts down says so to every caller, lets uploads finish too,
// and cuts off what is left when the time for that is over.
func TestServeDrainingAnswers(t *testing.T) {
	t.Parallel()
	c := newBusy(t, "15s", 1) // in which all is asked, also on a busy machine
	pr, pw := io.Pipe()
	late := make(chan error, 1)
	go func() {
		res, err := c.in.ask("PUT", c.path()+"/files/workspace/late", pr)
		if err == nil {
			err = res.Body.Close()
		}
		late <- err
	}()
	// More than the buffers between client and daemon hold, so that the daemon
	// has begun to read.
	if _, err := pw.Write([]byte("begun" + strings.Repeat(".", 16<<20))); err != nil {
		t.Fatal(err)
	}
	if got := must[api.Readiness](t, c.out, "GET", "/readyz", nil); !got.Ready {
		t.Errorf("readiness %+v", got)
	}
	if err := c.d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.d.says("going down")
	eventually(t, "it says that it goes down, and does not", func() bool { // it says so just before
		res, err := c.in.ask("GET", "/readyz", nil)
		if err == nil {
			res.Body.Close()
		}
		return err != nil
	})
	for _, p := range []*party{c.in, c.out} {
		refused := refusals(t, p, "GET", "/readyz", "POST", "/v1/sandboxes", "GET", c.path(), "POST", c.path()+"/exec", "POST", "/mcp")
		for path, r := range refused {
			if r.status != http.StatusServiceUnavailable || r.retry == "" || !strings.Contains(r.text, "going down") && !strings.Contains(r.text, "draining") {
				t.Errorf("%s is answered with %v", path, r)
			}
		}
		must[api.Health](t, p, "GET", "/healthz", nil)
	}
	pw.Write([]byte(" and done"))
	pw.Close()
	if err := <-late; err != nil {
		t.Errorf("an upload that was under way: %v", err)
	}
	if out, err := readEvents(c.runs[0]); err == nil {
		t.Errorf("a command that never ends has ended: %q", out)
	}
	if err := c.d.ended(); err != nil {
		t.Errorf("the daemon has ended with %v", err)
	}
	c.d.quiet()
	if out, err := c.command("--tenant", "acme", "--session", "a", "exec", "--", "sh", "-c", "tr -d . <late; pgrep -x sleep; ls marks 2>&1; true").Output(); err != nil || !strings.HasPrefix(string(out), "begun and done") || strings.Contains(string(out), "\n") && !strings.Contains(string(out), "No such file") {
		t.Errorf("inside there is %q, %v", out, err)
	}
}

// refusals asks each and returns what it is refused with.
func refusals(t *testing.T, p *party, requests ...string) map[string]*refusal {
	t.Helper()
	out := map[string]*refusal{}
	for i := 0; i < len(requests); i += 2 {
		var r *refusal
		var body io.Reader
		if requests[i] == "POST" {
			body = strings.NewReader("{}")
		}
		if _, err := p.ask(requests[i], requests[i+1], body); !errors.As(err, &r) {
			t.Errorf("%s is answered with %v", requests[i+1], err)
			continue
		}
		out[requests[i+1]] = r
	}
	return out
}

// A second signal ends a daemon at once that waits for what runs. What it had
// begun is on record as aborted by the next one.
func TestServeEndedTwice(t *testing.T) {
	t.Parallel()
	c := newBusy(t, "5m", 2)
	for range 2 {
		if err := c.d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if c.d.cmd.ProcessState == nil && !strings.Contains(c.d.log.all(), "going down") {
			c.d.says("going down")
		}
	}
	var exit *exec.ExitError
	if err := c.d.ended(); !errors.As(err, &exit) || exit.ExitCode() != 128+int(syscall.SIGTERM) {
		t.Errorf("the daemon has ended with %v", err)
	}
	for i, in := range c.runs {
		if _, err := readEvents(in); !errors.Is(err, errCut) {
			t.Errorf("of command %d its caller heard %v", i, err)
		}
	}
	next := c.server(c.d.socket)
	if got := must[api.Sandbox](t, next.own("acme"), "GET", c.path(), nil); got.ID != c.box.ID {
		t.Errorf("the sandbox is another one: %+v", got)
	}
	tries := 0
	eventually(t, "what ran when the daemon ended runs on", func() bool {
		tries++
		var r *refusal
		err := next.own("acme").run(c.box.Name, fmt.Sprintf("again-%d", tries), "! pgrep -x sleep", false)
		if err != nil && (!errors.As(err, &r) || r.status != 200) {
			t.Fatal(err)
		}
		return err == nil
	})
	list := must[api.OperationList](t, next.own("acme"), "GET", "/v1/evidence/operations?status=aborted", nil)
	if len(list.Operations) != 2 {
		t.Errorf("aborted are %d operations", len(list.Operations))
	}
}

// Settings that change hold for the next request. Those that cannot be taken in
// leave the last good ones in force, and the daemon says so.
func TestServeReloads(t *testing.T) {
	t.Parallel()
	c := newBusy(t, "1m", 0)
	run := func(line string) *refusal {
		t.Helper()
		var r *refusal
		if err := c.out.run(c.box.Name, "", line, false); err != nil && !errors.As(err, &r) {
			t.Fatal(err)
		}
		return r
	}
	hangUp := func(text string) {
		t.Helper()
		if err := c.d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		c.d.says(text)
	}
	if r := run("uname"); r != nil {
		t.Fatalf("before: %v", r)
	}
	writeSettings(t, c.file, `, "commands": {"block": ["uname"]}`, "")
	hangUp("the settings are in force")
	if r := run("uname"); r == nil || r.status != http.StatusForbidden || !strings.Contains(r.text, "uname") {
		t.Errorf("a command that is blocked now: %v", r)
	}
	if err := os.WriteFile(c.file, []byte(`{"agents": {"defaults": {"sandbox": {"commands": {"block": 7}}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	hangUp("the settings cannot be taken in")
	if r := run("uname"); r == nil || r.status != http.StatusForbidden {
		t.Errorf("a command that is blocked by the last good settings: %v", r)
	}
	if r := run("true"); r != nil {
		t.Errorf("a command that is not: %v", r)
	}
	if got := must[api.Readiness](t, c.in, "GET", "/readyz", nil); !got.Ready || !slices.ContainsFunc(got.Checks, func(r api.ReadinessCheck) bool {
		return r.Name == "settings" && !r.OK && strings.Contains(r.Detail, "commands.block")
	}) {
		t.Errorf("readyz says %+v", got)
	}
	writeSettings(t, c.file, "", "")
	hangUp("the settings are in force")
	if r := run("uname"); r != nil {
		t.Errorf("afterwards: %v", r)
	}
	if got := must[api.Readiness](t, c.in, "GET", "/readyz", nil); slices.ContainsFunc(got.Checks, func(r api.ReadinessCheck) bool { return !r.OK }) {
		t.Errorf("readyz says afterwards %+v", got)
	}
	c.d.quiet()
}
