//go:build !sandbox_front

package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A frontRig is a part of the program, built into a folder of its own.
type frontRig struct{ dir string }

func newFront(t *testing.T) *frontRig { return newPart(t, "sandbox_front") }

func newPart(t *testing.T, tag string) *frontRig {
	t.Helper()
	r := &frontRig{dir: t.TempDir()}
	buildProgram(t, filepath.Join(r.dir, "sandbox"), tag)
	if err := os.Mkdir(filepath.Join(r.dir, "state"), 0o700); err != nil {
		t.Fatal(err)
	}
	return r
}

// swept notes a sweep at the time at.
func (r *frontRig) swept(t *testing.T, at time.Time) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, "state", "pruned-at"), []byte(at.UTC().Format(time.RFC3339Nano)), 0o600); err != nil {
		t.Fatal(err)
	}
}

// run returns what the front says and its exit status.
func (r *frontRig) run(t *testing.T, env []string, args ...string) (string, int) {
	t.Helper()
	c := exec.Command(filepath.Join(r.dir, "sandbox"), append([]string{"--state-dir", filepath.Join(r.dir, "state")}, args...)...)
	c.Env = append(os.Environ(), "HOME="+r.dir, "DOCKER_HOST=", "SANDBOX_GUEST="+testenv.Guest(t))
	c.Env = append(c.Env, env...)
	out, err := c.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

// TestFrontIsLean checks that nothing brings an engine's client, Prometheus,
// OpenTelemetry, whose interfaces alone would cost each command 60 µs, or the regular
// expressions of image digests into the front.
func TestFrontIsLean(t *testing.T) {
	t.Parallel()
	for _, pkg := range links(t, "sandbox_front", "/provider/local") {
		if strings.HasPrefix(pkg, "github.com/docker/docker/") || strings.HasPrefix(pkg, "github.com/prometheus/") || strings.HasPrefix(pkg, "github.com/opencontainers/") || strings.HasPrefix(pkg, "go.opentelemetry.io/") || ofTerminals(pkg) {
			t.Errorf("the front links %s", pkg)
		}
	}
}

// TestWholeDrawsOnTerminals holds that ofTerminals knows what the whole program links.
func TestWholeDrawsOnTerminals(t *testing.T) {
	t.Parallel()
	if !slices.ContainsFunc(links(t, "", "/sdk"), ofTerminals) {
		t.Error("the whole program links nothing that draws on terminals")
	}
}

// TestEngineIsLean holds that nothing brings what serves into the program
// that runs commands in containers.
func TestEngineIsLean(t *testing.T) {
	t.Parallel()
	for _, pkg := range links(t, "sandbox_engine", "/provider/docker") {
		_, ours, _ := strings.Cut(pkg, "/bulkhead-dev/sandbox/")
		for _, exports := range []string{"go.opentelemetry.io/otel/sdk", "go.opentelemetry.io/otel/exporters/", "go.opentelemetry.io/proto/", "google.golang.org/grpc"} {
			if strings.HasPrefix(pkg, exports) {
				t.Errorf("the engine's part links %s", pkg)
			}
		}
		switch { // what serves, and the clients of daemons, lie in another part
		case ours == "sdk", ours == "server", ours == "server/resource", ours == "server/mcp", ours == "tools", strings.HasPrefix(pkg, "github.com/modelcontextprotocol/"), ofTerminals(pkg):
			t.Errorf("the engine's part links %s", pkg)
		}
	}
}

// ofTerminals reports whether the package is one of those that draw on terminals,
// which only the whole program needs.
func ofTerminals(pkg string) bool {
	return strings.HasPrefix(pkg, "charm.land/") || strings.HasPrefix(pkg, "github.com/charmbracelet/")
}

// links are the packages of the part with a tag, which has the one called has.
func links(t *testing.T, tag, has string) []string {
	t.Helper()
	out, err := exec.Command("go", "list", "-tags", tag, "-deps", ".").Output()
	if err != nil || !strings.Contains(string(out), has+"\n") {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	return strings.Fields(string(out))
}

// TestServingIsHandedOver holds that the front and the engine's part leave
// what serves to the program that has it, with the words as they were, and
// that the engine's part leaves it nothing else.
func TestServingIsHandedOver(t *testing.T) {
	t.Parallel()
	const daemon = "sandbox-daemon"
	serving := map[string][]string{"serve": {"serve", "--listen", "127.0.0.1:0"}, "mcp": {"mcp", "--session", "a b"}, "top": {"top", "--once"}}
	for _, tag := range []string{"sandbox_front", "sandbox_engine"} {
		r := newPart(t, tag)
		for name, args := range serving {
			if out, status := r.run(t, nil, args...); status == 0 || !strings.Contains(out, "PROVIDER.UNAVAILABLE") || !strings.Contains(out, daemon) {
				t.Errorf("%s, %s, with nobody to hand it over to: status %d\n%s", tag, name, status, out)
			}
		}
		script := "#!/bin/sh\nprintf '%s|' daemon \"$@\"\nexit 7\n"
		if err := os.WriteFile(filepath.Join(r.dir, daemon), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
		for name, args := range serving {
			want := strings.Join(append([]string{"daemon", "--state-dir", filepath.Join(r.dir, "state")}, args...), "|") + "|"
			if out, status := r.run(t, nil, args...); out != want || status != 7 {
				t.Errorf("%s, %s: status %d, %q, want %q", tag, name, status, out, want)
			}
		}
		if tag == "sandbox_engine" {
			if out, status := r.run(t, nil, "token", "list"); status != 0 {
				t.Errorf("what the engine's part does itself: status %d\n%s", status, out)
			}
		}
		if err := os.Rename(filepath.Join(r.dir, "sandbox"), filepath.Join(r.dir, daemon)); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(daemon, filepath.Join(r.dir, "sandbox")); err != nil {
			t.Fatal(err)
		}
		if out, status := r.run(t, nil, "serve"); status == 0 || !strings.Contains(out, "under that name") {
			t.Errorf("%s under the name of what serves: status %d\n%s", tag, status, out)
		}
	}
}

// TestFrontHandsOn holds that the front does nothing by halves: what may come
// to an engine is all the whole program's, with the words as they were.
func TestFrontHandsOn(t *testing.T) {
	t.Parallel()
	r := newFront(t)
	local := []string{"--provider", "local", "run", "--", "echo", "behind a sandbox"}
	r.swept(t, time.Now())
	for name, args := range map[string][]string{"list": {"list"}, "images": {"images", "list"}, "docker": {"--provider", "docker", "run", "--", "true"}} {
		if out, status := r.run(t, nil, args...); status == 0 || !strings.Contains(out, "PROVIDER.UNAVAILABLE") || !strings.Contains(out, wholeForTests) {
			t.Errorf("%s, with nobody to hand it on to: status %d\n%s", name, status, out)
		}
	}
	script := "#!/bin/sh\nprintf '%s|' whole \"$@\"\nexit 7\n"
	if err := os.WriteFile(filepath.Join(r.dir, wholeForTests), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name  string
		args  []string
		env   []string
		swept time.Time
	}{
		{name: "the default provider", args: []string{"run", "--", "printf", "a b", ""}},
		{name: "auto", args: []string{"--provider", "auto", "run", "--", "true"}},
		{name: "an engine elsewhere", args: local, env: []string{"DOCKER_HOST=tcp://192.0.2.1:2375"}},
		{name: "a sweep that is due", args: local, swept: time.Now().Add(-time.Hour)},
		{name: "a sweep that is due soon", args: local, swept: time.Now().Add(-5*time.Minute + 5*time.Second)},
		{name: "an allowed host", args: []string{"--provider", "local", "run", "--allow-domain", "example.com", "--", "true"}},
		{name: "a question", args: []string{"--provider", "local", "run", "--ask", "--", "true"}},
		{name: "list", args: []string{"--provider", "local", "list"}},
		{name: "prune", args: []string{"--provider", "local", "prune", "--dry-run"}},
		{name: "recreate", args: []string{"--provider", "local", "recreate", "--all", "--force"}},
		{name: "explain", args: []string{"--provider", "local", "explain"}},
		{name: "stats", args: []string{"--provider", "local", "stats"}},
		{name: "pool", args: []string{"--provider", "local", "pool"}},
		{name: "images", args: []string{"images", "list"}},
		{name: "browser start", args: []string{"--provider", "local", "browser", "start"}},
		{name: "browser list", args: []string{"browser", "list"}},
		{name: "browser screenshot", args: []string{"browser", "screenshot", "index.html", "-o", "x.png"}},
		{name: "browser open", args: []string{"browser", "open", "--control"}},
		{name: "browser stop", args: []string{"browser", "stop"}},
		{name: "doctor", args: []string{"--provider", "local", "doctor"}},
	} {
		if c.swept.IsZero() {
			c.swept = time.Now()
		}
		r.swept(t, c.swept)
		want := strings.Join(append([]string{"whole", "--state-dir", filepath.Join(r.dir, "state")}, c.args...), "|") + "|"
		if out, status := r.run(t, c.env, c.args...); out != want || status != 7 {
			t.Errorf("%s: status %d, %q, want %q", c.name, status, out, want)
		}
	}
}

// wholeForTests is the name of the whole program, which only the front has.
const wholeForTests = "sandbox-engine"

// TestFrontRunsLocally checks that what happens in a local sandbox needs no
// other program, and that a wrong copy does not execute itself for ever.
func TestFrontRunsLocally(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	r := newFront(t)
	r.swept(t, time.Now())
	if out, status := r.run(t, nil, "--provider", "local", "run", "--", "echo", "behind a sandbox"); out != "behind a sandbox\n" || status != 0 {
		t.Errorf("run: status %d\n%s", status, out)
	}
	settings := filepath.Join(r.dir, "settings.json")
	if err := os.WriteFile(settings, []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, status := r.run(t, nil, "--config", settings, "run", "--", "false"); out != "" || status != 1 {
		t.Errorf("run, with the provider from the settings: status %d\n%s", status, out)
	}
	if err := os.Rename(filepath.Join(r.dir, "sandbox"), filepath.Join(r.dir, wholeForTests)); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(wholeForTests, filepath.Join(r.dir, "sandbox")); err != nil {
		t.Fatal(err)
	}
	if out, status := r.run(t, nil, "list"); status == 0 || !strings.Contains(out, "under that name") {
		t.Errorf("a front under the name of the engine's part: status %d\n%s", status, out)
	}
}
