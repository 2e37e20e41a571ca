//go:build !sandbox_front && !sandbox_engine

package main

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

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
