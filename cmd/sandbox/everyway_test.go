//go:build !sandbox_front && !sandbox_engine

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// A byEveryWay is one sandbox in the git repository of a person, which is reached by
// the command line, by `sandbox mcp` over standard input, and by a daemon.
type byEveryWay struct {
	*site
	dir    string // the repository, on the host
	daemon *server
	agent  *agent
	name   string // of the sandbox
}

// newByEveryWay makes one whose files go over the transport.
func newByEveryWay(t *testing.T, transport string) *byEveryWay {
	t.Helper()
	testenv.Require(t, "docker")
	testenv.Require(t, "root") // gives the repository to an ordinary user
	w := &byEveryWay{site: newSite(t), dir: filepath.Join(t.TempDir(), "repository")}
	for _, args := range [][]string{{"mkdir", "-p", w.dir + "/.vscode"}, {"git", "-C", w.dir, "init", "-q"}} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%q: %v\n%s", args, err, out)
		}
	}
	for name, text := range map[string]string{
		".env": "KEY=of-a-person\n", ".vscode/tasks.json": "{}\n", ".git/hooks/post-commit": "#!/bin/sh\n", "plain.txt": "before\n", "upload.txt": "written\n",
	} {
		if err := os.WriteFile(filepath.Join(w.dir, name), []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for dir := filepath.Dir(w.dir); dir != os.TempDir(); dir = filepath.Dir(dir) {
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := filepath.WalkDir(w.dir, func(p string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return os.Lchown(p, 1000, 1000)
	}); err != nil {
		t.Fatal(err)
	}
	settings := filepath.Join(t.TempDir(), "settings.json")
	text := `{"agents": {"defaults": {"sandbox": {"provider": "docker", "fsTransport": "` + transport + `", "workspaceAccess": "rw"}}, "list": [{"id": "main", "workspace": "` + w.dir + `"}]}}`
	if err := os.WriteFile(settings, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "SANDBOX_CONFIG="+settings)
	w.daemon = w.server(filepath.Join(w.state, "daemon.sock"))
	w.name = w.daemon.made("main").Name
	w.agent = w.site.agent(nil)
	return w
}

// An attempt is what one way has answered.
type attempt struct {
	ok   bool
	said string
}

// run runs the program.
func (w *byEveryWay) cli(stdin string, args ...string) attempt {
	cmd := w.command(args...)
	cmd.Stdin = strings.NewReader(stdin)
	out, err := cmd.CombinedOutput()
	return attempt{err == nil, string(out)}
}

// tool calls a tool of the agent's.
func (w *byEveryWay) tool(name string, input map[string]any) attempt {
	data, err := json.Marshal(input)
	if err != nil {
		w.t.Fatal(err)
	}
	r := w.agent.try(w.t.Context(), name, string(data))
	return attempt{!r.IsError, said(r)}
}

// http sends a request about a file to the daemon.
func (w *byEveryWay) http(method, path, body string) attempt {
	r, err := http.NewRequest(method, "http://sandbox/v1/sandboxes/"+w.name+"/files/workspace/"+path, strings.NewReader(body))
	if err != nil {
		w.t.Fatal(err)
	}
	res, err := w.daemon.Do(r)
	if err != nil {
		w.t.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	if err != nil {
		w.t.Fatal(err)
	}
	return attempt{res.StatusCode < 300, string(data)}
}

// namesRefusal reports whether what a way said names the code of a refusal: that of a
// policy for commands, or the one of the file tools.
func namesRefusal(way, said string) bool {
	if strings.Contains(way, "exec") && strings.Contains(said, "POLICY.DENY_TOOL") {
		return true
	}
	return strings.Contains(said, "SANDBOX.CAPABILITY_BLOCKED")
}

// opaque is a command that runs a shell line which the policy for commands does not
// read: what it tries meets the mounts.
func opaque(line string) []string {
	return []string{"python3", "-c", "import subprocess, sys; sys.exit(subprocess.call(['sh', '-c', sys.argv[1].replace('%', '.')]))", strings.ReplaceAll(line, ".", "%")}
}

// TestEveryWayIn holds that what the host runs, or keeps from a sandbox, can be
// written by no way into a sandbox in a person's folder, nor secrets be read, and that
// each way writes and reads other files. The transport "script" carries files alone:
// over it the ways of files are tried, with one path of each kind.
func TestEveryWayIn(t *testing.T) {
	t.Parallel()
	for _, transport := range []string{"auto", "script"} {
		t.Run(transport, func(t *testing.T) {
			t.Parallel()
			everyWayIn(t, transport)
		})
	}
}

func everyWayIn(t *testing.T, transport string) {
	w := newByEveryWay(t, transport)
	if got := w.cli("", "explain", "-o", "json"); !got.ok || (transport == "script") != strings.Contains(got.said, `"transport": "script"`) {
		t.Errorf("the transport: %s", got.said)
	}
	upload := filepath.Join(w.dir, "upload.txt")
	old := func(path string) string { // a line of the file, which an edit replaces
		data, err := os.ReadFile(filepath.Join(w.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		line, _, _ := strings.Cut(string(data), "\n")
		return line
	}
	type way struct {
		name string
		code bool // each refusal carries a code; that of a mount does not
		try  func(path string) attempt
	}
	writing := []way{
		{"exec", false, func(path string) attempt { return w.cli("", "run", "--", "sh", "-c", "echo written > "+path) }},
		{"exec that renames", false, func(path string) attempt {
			return w.cli("", "run", "--", "sh", "-c", "echo written > moved && mv -f moved "+path)
		}},
		{"exec that is not read", false, func(path string) attempt {
			return w.cli("", append([]string{"run", "--"}, opaque("echo written > "+path)...)...)
		}},
		{"MCP exec", false, func(path string) attempt { return w.tool("exec", map[string]any{"command": "echo written > " + path}) }},
		{"MCP write", true, func(path string) attempt {
			return w.tool("write", map[string]any{"path": path, "content": "written\n"})
		}},
		{"MCP edit", true, func(path string) attempt {
			return w.tool("edit", map[string]any{"path": path, "old": old(path), "new": "written"})
		}},
		{"MCP apply_patch", true, func(path string) attempt {
			return w.tool("apply_patch", map[string]any{"patch": "*** Begin Patch\n*** Update File: " + path + "\n@@\n-" + old(path) + "\n+written\n*** End Patch\n"})
		}},
		{"MCP apply_patch that deletes", true, func(path string) attempt {
			return w.tool("apply_patch", map[string]any{"patch": "*** Begin Patch\n*** Delete File: " + path + "\n*** End Patch\n"})
		}},
		{"fs write", true, func(path string) attempt { return w.cli("written\n", "fs", "write", path) }},
		{"fs rm", true, func(path string) attempt { return w.cli("", "fs", "rm", path) }},
		{"fs mv", true, func(path string) attempt { return w.cli("", "fs", "mv", path, "moved.txt") }},
		{"cp", true, func(path string) attempt { return w.cli("", "cp", upload, "sandbox:"+path) }},
		{"HTTP PUT", true, func(path string) attempt { return w.http("PUT", path, "written\n") }},
		{"HTTP DELETE", true, func(path string) attempt { return w.http("DELETE", path, "") }},
	}
	paths := []string{".git/hooks/post-commit", ".git/config", ".vscode/tasks.json", ".env"}
	runs := func(w way) bool { return strings.Contains(w.name, "exec") }
	if transport == "script" && !testenv.All() {
		paths = []string{".git/hooks/post-commit", ".env"}
		writing = slices.DeleteFunc(writing, runs)
	}
	for _, path := range paths {
		before, err := os.ReadFile(filepath.Join(w.dir, path))
		if err != nil {
			t.Fatal(err)
		}
		for _, way := range writing {
			if way.name == "exec that is not read" && path == ".env" {
				continue // filesystem.denyRead bounds what programs open with the local provider alone
			}
			got := way.try(path)
			after, err := os.ReadFile(filepath.Join(w.dir, path))
			if got.ok || err != nil || string(after) != string(before) {
				t.Errorf("%s of %s: done %v, %v, the file is %q: %s", way.name, path, got.ok, err, after, got.said)
			}
			if (way.code || path == ".env") && !namesRefusal(way.name, got.said) {
				t.Errorf("%s of %s says %s", way.name, path, got.said)
			}
		}
	}

	out := filepath.Join(t.TempDir(), "out")
	reading := []way{
		{"exec", true, func(path string) attempt { return w.cli("", "run", "--", "cat", path) }},
		{"MCP exec", true, func(path string) attempt { return w.tool("exec", map[string]any{"command": "cat " + path}) }},
		{"MCP read", true, func(path string) attempt { return w.tool("read", map[string]any{"path": path}) }},
		{"MCP grep", true, func(path string) attempt { return w.tool("grep", map[string]any{"path": path, "pattern": "."}) }},
		{"fs read", true, func(path string) attempt { return w.cli("", "fs", "read", path) }},
		{"fs cp", true, func(path string) attempt { return w.cli("", "fs", "cp", path, "copy.txt") }},
		{"cp", true, func(path string) attempt {
			got := w.cli("", "cp", "sandbox:"+path, out)
			data, _ := os.ReadFile(out) // what is not there was not copied
			os.Remove(out)
			return attempt{got.ok, got.said + string(data)}
		}},
		{"HTTP GET", true, func(path string) attempt { return w.http("GET", path, "") }},
	}
	if transport == "script" && !testenv.All() {
		reading = slices.DeleteFunc(reading, runs)
	}
	for _, way := range reading {
		got := way.try(".env")
		if got.ok || strings.Contains(got.said, "of-a-person") {
			t.Errorf("%s of .env: done %v: %s", way.name, got.ok, got.said)
		}
		if !namesRefusal(way.name, got.said) {
			t.Errorf("%s of .env says %s", way.name, got.said)
		}
	}

	// Each way works, so that what it was refused above was refused.
	for i, way := range writing {
		path := fmt.Sprintf("plain%d.txt", i)
		if got := w.cli("before\n", "fs", "write", path); !got.ok {
			t.Fatal(got.said)
		}
		got := way.try(path)
		after, err := os.ReadFile(filepath.Join(w.dir, path))
		removes := strings.Contains(way.name, "delete") || way.name == "HTTP DELETE" || way.name == "fs rm" || way.name == "fs mv"
		if !got.ok || removes != os.IsNotExist(err) || !removes && string(after) != "written\n" {
			t.Errorf("%s of %s: done %v, %v, the file is %q: %s", way.name, path, got.ok, err, after, got.said)
		}
	}
	for _, way := range reading {
		if got := way.try("plain.txt"); !got.ok || way.name != "fs cp" && !strings.Contains(got.said, "before") {
			t.Errorf("%s of plain.txt: done %v: %s", way.name, got.ok, got.said)
		}
	}
}
