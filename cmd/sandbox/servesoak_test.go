//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// soakClients is how many clients there are, and soakRounds how often each of them
// makes every kind of request.
const (
	soakClients = 16
	soakRounds  = 3
)

// A soak is a daemon that is asked everything that there is.
type soak struct {
	*site
	d     *server
	admin *party
	out   *party
	boxes [3]api.Sandbox
}

// Requests of all kinds, good and bad, of many clients leave nothing behind in
// the daemon, and none of them is a riddle to it.
func TestServeSoak(t *testing.T) {
	testenv.Exhaustive(t, "a soak")
	t.Parallel()
	s := newSite(t)
	s.settings(`, "evidence": {"commands": true}`, "")
	secret := s.token("acme")
	k := &soak{site: s, d: s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)}
	k.admin, k.out = k.d.own("acme"), k.d.guest(secret)
	for i := range k.boxes {
		k.boxes[i] = must[api.Sandbox](t, k.out, "POST", "/v1/sandboxes", api.CreateSandbox{Session: fmt.Sprint("s", i)})
		must[api.File](t, k.out, "POST", k.path(i)+"/files:mkdir", api.MakeFolder{Path: "/workspace/x"})
	}
	k.round(t) // what stays, such as shells and connections inside, is there now
	before := k.settled(t, figures{})
	asked := 0
	for range soakRounds {
		asked += k.round(t)
	}
	after := k.settled(t, before)
	t.Logf("%d requests; %+v, and then %+v", asked, before, after)
	if asked < 400*soakRounds {
		t.Errorf("only %d requests", asked)
	}
	if after.over(before) {
		t.Errorf("%+v was the daemon before, and is %+v", before, after)
	}
	k.d.quiet()
	if r := k.admin.text(t, "/metrics"); strings.Contains(r, `code="500"`) || strings.Contains(r, `status="500"`) || strings.Contains(r, "INTERNAL") {
		t.Errorf("the figures tell of a riddle:\n%s", r)
	}
}

// round has every client ask everything once, each beginning somewhere else.
func (k *soak) round(t *testing.T) int {
	var wg sync.WaitGroup
	asks := k.asks()
	for i := range soakClients {
		wg.Go(func() {
			for j := range asks {
				a := asks[(i*7+j)%len(asks)]
				if err := a.do(i); err != nil {
					t.Errorf("client %d, %s: %v", i, a.name, err)
				}
			}
		})
	}
	wg.Wait()
	return soakClients * len(asks)
}

// An ask is one kind of request; n is of the client.
type ask struct {
	name string
	do   func(n int) error
}

func (k *soak) path(n int) string { return "/v1/sandboxes/" + k.boxes[n%len(k.boxes)].Name }

func (k *soak) asks() []ask {
	get := func(path string) func(int) error {
		return func(n int) error { return k.take(k.out, "GET", path, "") }
	}
	below := func(method, path, body string) func(int) error {
		return func(n int) error { return k.take(k.out, method, k.path(n)+path, body) }
	}
	return []ask{
		{"run", func(n int) error { return k.out.run(k.boxes[n%3].Name, "", "true", false) }},
		{"stream", func(n int) error { return k.out.run(k.boxes[n%3].Name, "", "seq 2000", true) }},
		{"stream that is left", k.left},
		{"shell", k.shell},
		{"main shell", below("POST", "/shells/main/run", `{"line": "true"}`)},
		{"file", k.file},
		{"list", below("GET", "/files/workspace?list=true", "")},
		{"archive", below("GET", "/archive?path=/workspace/x", "")},
		{"watch that is left", k.watch},
		{"tools", below("GET", "/tools", "")},
		{"tool", below("POST", "/tools/ls", `{"path": "/workspace"}`)},
		{"background", k.background},
		{"command with stdin", k.attached},
		{"agent", k.agentOnce},
		{"come and go", k.comeAndGo},
		{"sandbox", below("GET", "", "")},
		{"usage", get("/v1/usage")},
		{"sandboxes", get("/v1/sandboxes")},
		{"violations", get("/v1/violations")},
		{"evidence", get("/v1/evidence?limit=5")},
		{"approvals", get("/v1/approvals")},
		{"document", get("/openapi.json")},
		{"not there", refusedWith(404, below("GET", "/files/workspace/none", ""))},
		{"nobody's", refusedWith(404, get("/v1/sandboxes/sbx-none-0123456789abcdef"))},
		{"broken", refusedWith(422, below("POST", "/exec", `{"line": `))},
		{"not allowed", refusedWith(403, get("/metrics"))},
	}
}

func refusedWith(status int, do func(int) error) func(int) error {
	return func(n int) error {
		err := do(n)
		var r *refusal
		if errors.As(err, &r) && r.status == status {
			return nil
		}
		return fmt.Errorf("it is %v, and not %d", err, status)
	}
}

// take asks and reads the whole answer.
func (k *soak) take(p *party, method, path, body string, header ...string) error {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	res, err := p.ask(method, path, in, header...)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	_, err = io.Copy(io.Discard, res.Body)
	return err
}

// leave begins a stream and goes when it has that text.
func (k *soak) leave(method, path, body, text string) error {
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	res, err := k.out.ask(method, path, in, "Accept", api.ContentEvents)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	if !until(bufio.NewReader(res.Body), text) {
		return errors.New("it never says " + text)
	}
	return nil
}

func (k *soak) left(n int) error {
	return k.leave("POST", k.path(n)+"/exec", `{"line": "echo begun; sleep 60"}`, "begun")
}

func (k *soak) watch(n int) error {
	return k.leave("GET", k.path(n)+"/watch?path=/workspace/x", "", "event: ready")
}

func (k *soak) shell(n int) error {
	sh, _, err := asked[api.Shell](k.out, "POST", k.path(n)+"/shells", api.OpenShell{})
	var r *refusal
	if errors.As(err, &r) && r.status == http.StatusTooManyRequests {
		return nil // there are no more for a session at one time
	}
	if err != nil {
		return err
	}
	err = k.take(k.out, "POST", k.path(n)+"/shells/"+sh.ID+"/run", `{"line": "cd /tmp; pwd"}`)
	return errors.Join(err, k.take(k.out, "DELETE", k.path(n)+"/shells/"+sh.ID, ""))
}

func (k *soak) file(n int) error {
	at := fmt.Sprintf("%s/files/workspace/x/%d", k.path(n), n)
	return errors.Join(k.take(k.out, "PUT", at, strings.Repeat("0123456789", 10_000)), k.take(k.out, "GET", at, "", "Range", "bytes=5-90000"))
}

func (k *soak) background(n int) error {
	begun, _, err := asked[struct{ Data struct{ ID string } }](k.out, "POST", k.path(n)+"/tools/exec", map[string]any{"command": "sleep 60", "background": true})
	var r *refusal
	if errors.As(err, &r) && r.status == http.StatusTooManyRequests {
		return nil // as with shells
	}
	if err != nil {
		return err
	}
	return k.take(k.out, "POST", k.path(n)+"/tools/process", fmt.Sprintf(`{"action": "kill", "id": %q}`, begun.Data.ID))
}

// comeAndGo makes a sandbox, freezes it, uses it, and removes it.
func (k *soak) comeAndGo(n int) error {
	if n%8 != 0 {
		return nil // those there are are enough
	}
	box, _, err := asked[api.Sandbox](k.out, "POST", "/v1/sandboxes", api.CreateSandbox{Session: fmt.Sprint("passing", n)})
	if err != nil {
		return err
	}
	at := "/v1/sandboxes/" + box.Name
	return errors.Join(k.take(k.out, "POST", at+"/pause", ""), k.out.run(box.Name, "", "true", false), k.take(k.out, "DELETE", at+"?workspace=true", ""))
}

// attached runs a command over a WebSocket, as the command line does.
func (k *soak) attached(n int) error {
	if n%4 != 0 {
		return nil // a program each time is much
	}
	cmd := k.command("--host", "unix:"+k.d.socket, "--tenant", "acme", "--session", fmt.Sprint("s", n%3), "exec", "-i", "--", "cat")
	cmd.Stdin = strings.NewReader("in")
	out, err := cmd.CombinedOutput()
	if err == nil && string(out) != "in" {
		err = fmt.Errorf("it says %q", out)
	}
	return err
}

// agentOnce is a session of the Model Context Protocol with one call.
func (k *soak) agentOnce(n int) error {
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	h := &http.Client{Transport: asGuest{k.out.headers, fmt.Sprint("s", n%3), k.out.http.Transport}}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "soak", Version: "1"}, nil).Connect(ctx, &mcp.StreamableClientTransport{Endpoint: k.out.base + "/mcp", HTTPClient: h}, nil)
	if err != nil {
		return err
	}
	res, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "true"}})
	if err == nil && res.IsError {
		err = fmt.Errorf("it says %+v", res.Content)
	}
	return errors.Join(err, c.Close())
}

// asGuest adds headers to requests.
type asGuest struct {
	headers map[string]string
	session string
	next    http.RoundTripper
}

func (h asGuest) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for k, v := range h.headers {
		r.Header.Set(k, v)
	}
	r.Header.Set(api.HeaderSession, h.session)
	return h.next.RoundTrip(r)
}

// text is an answer as it is.
func (p *party) text(t *testing.T, path string) string {
	t.Helper()
	res, err := p.ask("GET", path, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// figures are what a daemon holds.
type figures struct {
	Goroutines, Descriptors, Threads int
	Heap, Resident                   int // bytes
}

// over reports whether f is more than before, by more than chance.
func (f figures) over(before figures) bool {
	return f.Goroutines > before.Goroutines+8 || f.Descriptors > before.Descriptors+8 || f.Heap > before.Heap+24<<20
}

// settled reads the figures until they are no more than before, or for long.
func (k *soak) settled(t *testing.T, before figures) figures {
	t.Helper()
	least := figures{}
	for deadline := time.Now().Add(40 * time.Second); ; {
		k.out.http.CloseIdleConnections()
		k.admin.http.CloseIdleConnections()
		f := k.read(t)
		if least == (figures{}) || f.Goroutines <= least.Goroutines {
			least = f
		}
		if before != (figures{}) && !f.over(before) || time.Now().After(deadline) {
			return f
		}
		if before == (figures{}) && time.Now().After(deadline.Add(-34*time.Second)) {
			return least
		}
		<-time.After(200 * time.Millisecond) // nothing tells when what goes has gone
	}
}

func (k *soak) read(t *testing.T) figures {
	t.Helper()
	f := figures{}
	for line := range strings.Lines(k.admin.text(t, "/metrics")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.ParseFloat(value, 64)
		to := map[string]*int{"go_goroutines": &f.Goroutines, "go_threads": &f.Threads, "go_memstats_heap_inuse_bytes": &f.Heap, "process_resident_memory_bytes": &f.Resident}[name]
		if to != nil && err == nil {
			*to = int(n)
		}
	}
	fds, err := os.ReadDir(fmt.Sprintf("/proc/%d/fd", k.d.cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	f.Descriptors = len(fds)
	if f.Goroutines == 0 || f.Heap == 0 {
		t.Fatal("the figures tell nothing")
	}
	return f
}
