//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// consoleSettings are those of the daemons that the console is tested with.
const consoleSettings = `{"agents": {"defaults": {"sandbox": {"provider": "local", "evidence": {"commands": true}}}}, "tenants": {"list": [{"id": "evil", "sandboxes": 4}]}}`

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
	testenv.Require(t, "browser")
	r := &consoleRig{site: newSite(t)}
	file := filepath.Join(t.TempDir(), "console.json")
	if err := os.WriteFile(file, []byte(consoleSettings), 0o600); err != nil {
		t.Fatal(err)
	}
	r.site.env = append(r.site.env, "SANDBOX_CONFIG="+file)
	d := r.server(filepath.Join(t.TempDir(), "s"), tcp)
	_, at, _ := strings.Cut(d.says("listening at tcp:"), "listening at tcp:")
	r.base = "http://" + strings.TrimSpace(at)
	r.devtools = startChromium(t)
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

// startChromium starts one and returns the address of its DevTools.
func startChromium(t *testing.T) string {
	t.Helper()
	name := "sbx-console-test-" + filepath.Base(filepath.Dir(t.TempDir()))
	name = regexp.MustCompile(`[^a-zA-Z0-9_.-]`).ReplaceAllString(name, "-")
	cmd := exec.Command("docker", "run", "--rm", "--init", "--name", name, "--network", "host", "--entrypoint", "/usr/bin/chromium", about.BrowserImage,
		"--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--user-data-dir=/tmp/profile", "--remote-debugging-port=0", "about:blank")
	stderr, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = exec.Command("docker", "kill", name).Run() // or it has ended
		_ = cmd.Wait()
	})
	said, found := "", make(chan string, 1)
	go func() {
		defer close(found)
		lines := bufio.NewScanner(stderr)
		for lines.Scan() {
			if _, at, ok := strings.Cut(lines.Text(), "DevTools listening on "); ok {
				found <- at
			}
			said += lines.Text() + "\n"
		}
	}()
	select {
	case at, ok := <-found:
		if !ok {
			t.Fatalf("Chromium has ended:\n%s", said)
		}
		go func() {
			for range found { // until it ends
			}
		}()
		return at
	case <-time.After(time.Minute):
		t.Fatal("Chromium does not start")
		return ""
	}
}

// TestConsoleInChromium uses every part of the console in a real Chromium, and loads
// pages full of hostile names in it, of which none runs a script.
func TestConsoleInChromium(t *testing.T) {
	t.Parallel()
	modules := testenv.Playwright(t)
	r := newConsoleRig(t)
	ctx, done := context.WithTimeout(t.Context(), 3*time.Minute)
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
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "looked through 36 views") {
		t.Errorf("%v\n%s", err, out)
	}
}
