//go:build !sandbox_front

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"path/filepath"

	"github.com/bulkhead-dev/sandbox/daemon/api"
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

func newCrowded(t *testing.T, grace string, commands int) *crowded {
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

// keptOpen are connections that were made before and are used now, by which a
// daemon can be asked that takes no new ones.
func (c *crowded) keptOpen(p *party, n int) []*party {
	c.t.Helper()
	all := make([]*party, n)
	for i := range all {
		tr := p.http.Transport.(*http.Transport).Clone()
		c.t.Cleanup(tr.CloseIdleConnections)
		all[i] = &party{&http.Client{Transport: tr, Timeout: time.Minute}, p.base, p.headers}
		// A request whose answer begins and whose end waits keeps the connection.
		must[api.Health](c.t, all[i], "GET", "/healthz", nil)
	}
	return all
}

// A daemon that is asked to end lets what runs come to its end, takes nothing
// new, says so, and loses nothing.
func TestServeDrainsUnderLoad(t *testing.T) {
	c := newCrowded(t, "2m", 6)
	var wg sync.WaitGroup
	wrong := make(chan error, 64)
	told := make([]int, 8)
	for i := range told {
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
					told[i]++
					continue
				case errors.Is(err, errCut) && !strings.Contains(err.Error(), "EOF"): // nobody listens any more
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
	c.allThere(told)
}

// allThere holds what clients were told against what was done.
func (c *crowded) allThere(told []int) {
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
	for i, n := range told {
		if got := strings.Count(string(out), fmt.Sprintf("load-%d\n", i)); got != n {
			c.t.Errorf("client %d was told of %d successes, and %d are there", i, n, got)
		}
	}
	if out, err := c.command("evidence", "verify").CombinedOutput(); err != nil {
		c.t.Errorf("the evidence: %v\n%s", err, out)
	}
	if out, err := c.command("--tenant", "acme", "evidence", "operations", "--status", "open").CombinedOutput(); err != nil || strings.Contains(string(out), "sh") && strings.Contains(string(out), "open") {
		c.t.Errorf("what is open: %v\n%s", err, out)
	}
}

// Who is connected already hears from a daemon that ends that it does, and when
// to come again.
func TestServeDrainingAnswers(t *testing.T) {
	c := newCrowded(t, "2m", 1)
	pr, pw := io.Pipe()
	defer pw.Close()
	type heard struct {
		res *http.Response
		err error
	}
	late := make(chan heard, 1)
	go func() {
		res, err := c.in.ask("PUT", c.path()+"/files/workspace/late", pr)
		late <- heard{res, err}
	}()
	if _, err := pw.Write([]byte("begun")); err != nil {
		t.Fatal(err)
	}
	conn := c.halfAsked("GET /readyz HTTP/1.1\r\nHost: sandbox\r\n")
	run := c.halfAsked("GET " + c.path() + " HTTP/1.1\r\nHost: sandbox\r\n")
	if err := c.d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	c.d.says("going down")
	if res, text := finish(t, conn); res.StatusCode != http.StatusServiceUnavailable || !strings.Contains(text, "draining") {
		t.Errorf("readyz says %d %s", res.StatusCode, text)
	}
	if res, text := finish(t, run); res.StatusCode != http.StatusServiceUnavailable || res.Header.Get("Retry-After") == "" || !strings.Contains(text, "going down") {
		t.Errorf("a new request is answered with %d %v %s", res.StatusCode, res.Header, text)
	}
	pw.Write([]byte(" and done"))
	pw.Close()
	if h := <-late; h.err != nil {
		t.Errorf("an upload that was under way: %v", h.err)
	} else {
		h.res.Body.Close()
	}
	c.letGo()
	if !until(c.runs[0], `"exitCode":0`) {
		t.Error("the command was cut off")
	}
	if err := c.d.ended(); err != nil {
		t.Errorf("the daemon has ended with %v", err)
	}
	if out, err := c.command("--tenant", "acme", "--session", "a", "exec", "--", "cat", "late").Output(); err != nil || string(out) != "begun and done" {
		t.Errorf("the file has %q, %v", out, err)
	}
}
