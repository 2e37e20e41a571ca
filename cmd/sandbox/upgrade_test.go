//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestUpgradeScripts uses state folders that earlier versions have made.
func TestUpgradeScripts(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "root") // the files belong to the users of sandboxes
	testenv.Require(t, "local")
	fixtures, err := filepath.Abs("testdata/upgrade")
	if err != nil {
		t.Fatal(err)
	}
	p := params(t, fixtures)
	setup := p.Setup
	p.Setup = func(e *testscript.Env) error {
		e.Setenv("FIXTURES", fixtures)
		return setup(e)
	}
	testscript.Run(t, p)
}

// lastWithoutFormat is the last commit of the day on which the newest of
// testdata/upgrade was made.
const lastWithoutFormat = "b6b1c3188e433717d0f6b02995af62d5eda0554f"

// TestUpgradeOfContainer has the program of an earlier commit make a real container, with
// the guest of that commit in it, and uses it with the program of this one: while it is
// in use, and when it is idle.
func TestUpgradeOfContainer(t *testing.T) {
	testenv.Exhaustive(t, "a build of an earlier program, with the takeover that testdata/upgrade has without an engine")
	testenv.Require(t, "docker")
	testenv.Require(t, "root")
	dir := t.TempDir()
	command := func(env []string, name string, args ...string) (string, error) {
		cmd := exec.CommandContext(t.Context(), name, args...)
		cmd.Env = append(os.Environ(), env...)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := command(nil, "git", "cat-file", "-e", lastWithoutFormat+"^{commit}"); err != nil {
		testenv.Lack(t, "history", "the commit "+lastWithoutFormat+" is not there: "+out)
	}
	tree, old := filepath.Join(dir, "tree"), filepath.Join(dir, "old")
	for _, script := range []string{
		`mkdir "$0" "$1" && git -C ../.. archive ` + lastWithoutFormat + ` | tar -xC "$0"`,
		`cd "$0" && CGO_ENABLED=0 go build -buildvcs=false -o "$1/sandbox-guest" ./cmd/sandbox-guest`,
		`cd "$0" && CGO_ENABLED=0 go build -buildvcs=false -tags urfave_cli_no_docs,sandbox_engine -o "$1/sandbox" ./cmd/sandbox`,
	} {
		if out, err := command(nil, "sh", "-ec", script, tree, old); err != nil {
			t.Fatalf("%s: %v\n%s", script, err, out)
		}
	}
	state := filepath.Join(dir, "state")
	own := []string{"SANDBOX_STATE_DIR=" + state, "SANDBOX_GUEST=" + testenv.Guest(t)}
	earlier := []string{"SANDBOX_STATE_DIR=" + state, "SANDBOX_GUEST=" + filepath.Join(old, "sandbox-guest")}
	t.Cleanup(func() {
		cmd := exec.Command("sandbox", "recreate", "--all", "--force") // t.Context() is over
		cmd.Env = append(os.Environ(), own...)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
		_ = testenv.Unmount(dir)
	})
	sandboxOf := func(env []string, program string, line string) string {
		t.Helper()
		out, err := command(env, program, "--provider", "docker", "--session", "s", "run", "--", "sh", "-c", line)
		if err != nil {
			t.Fatalf("%s: %v\n%s", line, err, out)
		}
		return out
	}
	sandboxOf(earlier, filepath.Join(old, "sandbox"), "echo kept >file; echo here >/tmp/mark")
	if out := sandboxOf(own, "sandbox", "cat file /tmp/mark"); !strings.HasSuffix(out, "kept\nhere\n") || !strings.Contains(out, "it is kept because it was used within the last 5m") {
		t.Errorf("the container that is in use: %s", out)
	}
	if l, err := statedir.ReadLayout(state); err != nil || l.Format != statedir.Format {
		t.Errorf("the state folder has the layout %+v, %v", l, err)
	}
	// The earlier program goes on with what it has: format 2 changes nothing that it reads.
	if out := sandboxOf(earlier, filepath.Join(old, "sandbox"), "cat file /tmp/mark"); !strings.HasSuffix(out, "kept\nhere\n") {
		t.Errorf("the earlier program afterwards: %s", out)
	}
	records, err := filepath.Glob(filepath.Join(state, "registry/containers/*.json"))
	if err != nil || len(records) != 1 {
		t.Fatalf("records %q, %v", records, err)
	}
	data, err := os.ReadFile(records[0])
	if err != nil {
		t.Fatal(err)
	}
	idle := regexp.MustCompile(`"lastUsedAt": "[^"]*"`).ReplaceAll(data, []byte(`"lastUsedAt": "2026-11-01T00:00:00Z"`))
	if err := os.WriteFile(records[0], idle, 0o600); err != nil {
		t.Fatal(err)
	}
	if out := sandboxOf(own, "sandbox", "cat file; ls /tmp/mark 2>/dev/null || echo anew"); out != "kept\nanew\n" {
		t.Errorf("the container that is idle: %s", out)
	}
}
