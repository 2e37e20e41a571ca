//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// consoleSettings are those of the daemons that the console is tested with.
const consoleSettings = `{"agents": {"defaults": {"sandbox": {"provider": "local", "evidence": {"commands": true}}}, "list": [{"id": "careful", "sandbox": {"commands": {"autoAllowIfSandboxed": false}}}, {"id": "surfer", "sandbox": {"provider": "docker", "browser": {"enabled": true}}}]}, "tenants": {"list": [{"id": "evil", "sandboxes": 4}]}}`

// A consoleRig is a daemon at a port of this machine, and a Chromium.
type consoleRig struct {
	*site
	base, devtools string
	env            []string
}

// newConsoleRig starts both. Chromium runs in its image, with the network of this
// machine, where the daemon is.
func newConsoleRig(t *testing.T) *consoleRig {
	t.Helper()
	testenv.Require(t, "local")
	testenv.Require(t, "browser") // which also says that this package uses the engine
	r := &consoleRig{site: newSite(t)}
	file := filepath.Join(t.TempDir(), "console.json")
	if err := os.WriteFile(file, []byte(consoleSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	r.site.env = append(r.site.env, "SANDBOX_CONFIG="+file)
	d := r.server(filepath.Join(t.TempDir(), "s"), tcp)
	_, at, _ := strings.Cut(d.says("listening at tcp:"), "listening at tcp:")
	r.base = "http://" + strings.TrimSpace(at)
	r.devtools = testenv.Chromium(t)
	admin, _ := r.made("--role", "admin")
	evil, id := r.made("--tenant", "evil")
	r.env = append(r.site.env, "CONSOLE_BASE="+r.base, "CONSOLE_DEVTOOLS="+r.devtools, "CONSOLE_ADMIN="+admin, "CONSOLE_EVIL="+evil, "CONSOLE_EVIL_ID="+id)
	return r
}

// made makes a token.
func (r *consoleRig) made(args ...string) (secret, id string) {
	r.t.Helper()
	out, err := r.command(append([]string{"token", "create", "-o", "json"}, args...)...).Output()
	if err != nil {
		r.t.Fatal(err)
	}
	var made struct {
		Token string `json:"token"`
		ID    string `json:"id"`
	}
	if err := json.Unmarshal(out, &made); err != nil || made.Token == "" || made.ID == "" {
		r.t.Fatalf("%v %s", err, out)
	}
	return made.Token, made.ID
}

// TestConsoleInChromium uses every part of the console in a real Chromium, and loads
// pages full of hostile names in it, of which none runs a script.
func TestConsoleInChromium(t *testing.T) {
	t.Parallel()
	modules := testenv.Playwright(t)
	r := newConsoleRig(t)
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
	defer done()
	cmd := exec.CommandContext(ctx, "node", filepath.Join("testdata", "console.cjs"))
	cmd.Env = append(r.env, "NODE_PATH="+modules)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if n := strings.Count(string(out), "passed "); n < 38 {
		t.Errorf("only %d checks were made:\n%s", n, out)
	}
}

// TestClientsConsole builds the page of the console anew, which is what is committed,
// and looks through each view of it with axe-core.
func TestClientsConsole(t *testing.T) {
	t.Parallel()
	packages := testenv.ConsolePackages(t)
	built := t.TempDir()
	ctx, done := context.WithTimeout(t.Context(), 5*time.Minute)
	defer done()
	if out, err := exec.CommandContext(ctx, filepath.Join("..", "..", "scripts", "console.sh"), packages, built).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if out, err := exec.CommandContext(ctx, "diff", "-rq", built, filepath.Join("..", "..", "server", "console", "dist")).CombinedOutput(); err != nil {
		t.Errorf("the page is not what make console builds: %v\n%s", err, out)
	}
	r := newConsoleRig(t)
	cmd := exec.CommandContext(ctx, "node", filepath.Join("testdata", "axe.cjs"))
	cmd.Env = append(r.env, "NODE_PATH="+filepath.Join(packages, "node_modules"))
	want := "looked through 36 views"
	if testenv.All() {
		cmd.Env, want = append(cmd.Env, "CONSOLE_LOOKS=all"), "looked through 72 views"
	}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%v\n%s", err, out)
	}
}

// TestClientsConsoleUse uses what needs more than a local sandbox: answers that are on
// record, the changes of a private workspace, and a browser with its display.
func TestClientsConsoleUse(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	modules := testenv.Playwright(t)
	r := newConsoleRig(t)
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "there.txt"), []byte("old\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	for parts, want := range map[string]int{"approvals": 2, "changes": 6, "surf": 7} {
		ctx, done := context.WithTimeout(t.Context(), 8*time.Minute)
		defer done()
		cmd := exec.CommandContext(ctx, "node", filepath.Join("testdata", "consoleuse.cjs"))
		cmd.Env = append(r.env, "NODE_PATH="+modules, "CONSOLE_PARTS="+parts, "CONSOLE_FOLDER="+folder)
		out, err := cmd.CombinedOutput()
		if n := strings.Count(string(out), "passed "); err != nil || n != want {
			t.Errorf("%s: %v, %d of %d checks have passed:\n%s", parts, err, n, want, out)
		}
		t.Logf("%s", out)
	}
}

// TestUIOverASocket holds that sandbox ui makes the console of a daemon at a unix socket
// reachable until it is interrupted, and that reaching it gives no right by itself.
func TestUIOverASocket(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "console.json")
	if err := os.WriteFile(file, []byte(consoleSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	s.env = append(s.env, "SANDBOX_CONFIG="+file)
	d := s.server(filepath.Join(t.TempDir(), "s"))
	cmd := s.command("ui", "-o", "json") // the daemon is that of the state folder
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Process.Kill()
	var at struct{ URL string }
	if err := json.NewDecoder(out).Decode(&at); err != nil {
		t.Fatalf("%v\n%s", err, d.log.all())
	}
	base, secret, ok := strings.Cut(at.URL, "/ui/#login=")
	if !ok || !strings.HasPrefix(base, "http://127.0.0.1:") {
		t.Fatalf("the link is %q", at.URL)
	}
	send := func(method, path, body string, header ...string) (*http.Response, string) {
		t.Helper()
		q, err := http.NewRequestWithContext(t.Context(), method, base+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		for i := 0; i+1 < len(header); i += 2 {
			q.Header.Set(header[i], header[i+1])
		}
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		data, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res, string(data)
	}
	if res, body := send("GET", "/ui/", ""); res.StatusCode != 200 || !strings.Contains(body, "<title>sandbox</title>") {
		t.Errorf("the page: %d %s", res.StatusCode, body)
	}
	if res, body := send("GET", "/v1/sandboxes", ""); res.StatusCode != 401 {
		t.Errorf("without a login: %d %s", res.StatusCode, body)
	}
	res, body := send("POST", "/ui/login", `{"secret":"`+secret+`"}`, "Origin", base, "Content-Type", "application/json")
	var in struct{ Key string }
	if err := json.Unmarshal([]byte(body), &in); err != nil || res.StatusCode != 200 {
		t.Fatalf("the login: %d %s", res.StatusCode, body)
	}
	cookie, _, _ := strings.Cut(res.Header.Get("Set-Cookie"), ";")
	if res, body := send("GET", "/v1/console", "", "Cookie", cookie, "Sandbox-Console", in.Key); res.StatusCode != 200 || !strings.Contains(body, `"role":"admin"`) {
		t.Errorf("with the login: %d %s", res.StatusCode, body)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("interrupted, it ends with %v", err)
	}
}
