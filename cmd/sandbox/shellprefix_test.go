//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// newPrefixed returns a workshop whose project belongs to an ordinary user, as it
// must where commands change it, and whose folder shell-prefix takes.
func newPrefixed(t *testing.T, more string) *workshop {
	t.Helper()
	w := newWorkshop(t, "local", more)
	if os.Geteuid() == 0 {
		if err := filepath.WalkDir(w.project, func(p string, _ os.DirEntry, err error) error {
			if err != nil {
				return err
			}
			return os.Chown(p, 1000, 1000)
		}); err != nil {
			t.Fatal(err)
		}
		for p := filepath.Dir(w.project); strings.Count(p, "/") > 1; p = filepath.Dir(p) {
			if err := os.Chmod(p, 0o755); err != nil { // so that the user comes there
				t.Fatal(err)
			}
		}
	}
	w.env = append(w.env, "SANDBOX_PROJECT="+w.project)
	return w
}

// TestShellPrefix has Claude Code run commands of its Bash tool, and a hook, by
// sandbox shell-prefix.
func TestShellPrefix(t *testing.T) {
	claude, _, _ := testenv.CodingAgents(t)
	w := newPrefixed(t, "")
	bash := func(line string, more ...any) call {
		input := map[string]any{"command": line}
		for i := 0; i < len(more); i += 2 {
			input[more[i].(string)] = more[i+1]
		}
		return call{"Bash", input}
	}
	calls := []struct {
		call
		want []string // parts of the result
		not  string
	}{
		{bash(`mkdir -p sub && cd sub && echo made`), []string{"made"}, ""},
		{bash(`pwd; greet; echo "[$ANTHROPIC_API_KEY]"; cat ` + w.home + `/.claude/.credentials.json; exit 3`), []string{"Exit code 3", w.project + "/sub", "hello from the profile", "[]"}, "CREDENTIAL"},
		{bash(`for i in 1 2 3; do echo out$i; echo err$i >&2; done`), []string{"out1\nerr1\nout2\nerr2\nout3\nerr3"}, ""},
		{bash(`seq 1 20000`), []string{"Output too large (106.3KB)"}, ""},
		{bash(`sleep 1; echo background > ../bg.txt`, "run_in_background", true), []string{"running in background"}, ""},
		{bash(`sleep 60`, "timeout", 2000), []string{"Exit code 143", "timed out"}, ""},
		{bash(`cd /etc && echo there`), []string{"there", "Claude Code stays where it is: /etc"}, ""},
		{bash(`pwd; ls /workspace; cat bg.txt ../bg.txt; touch ` + filepath.Dir(w.project) + `/outside`), []string{w.project + "/sub", "a.txt", "background", "No such file"}, ""},
	}
	var script []call
	for _, c := range calls {
		script = append(script, c.call)
	}
	m := newModelAPI(t, script...)
	w.write(w.home, ".bashrc", "greet() { echo hello from the profile; }\n")
	w.write(w.home, "hooks.json", `{"hooks": {"PreToolUse": [{"matcher": "Bash", "hooks": [{"type": "command", "command": "cat >> \"$CLAUDE_PROJECT_DIR/hook.txt\"; touch `+w.home+`/outside; true"}]}]}}`)
	cmd := exec.Command(claude, "-p", "go", "--dangerously-skip-permissions", "--settings", w.home+"/hooks.json")
	cmd.Dir = w.project
	cmd.Env = append(w.env, "ANTHROPIC_BASE_URL="+m.URL, "IS_SANDBOX=1", "SHELL=/bin/bash", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1",
		"CLAUDE_CODE_SHELL_PREFIX=sandbox --session=prefix shell-prefix")
	out, err := cmd.CombinedOutput()
	_, results, _ := m.seen()
	if err != nil || len(results) != len(calls) {
		t.Fatalf("%v: %d results\n%s\n%s", err, len(results), out, strings.Join(results, "\n---\n"))
	}
	for i, c := range calls {
		for _, want := range c.want {
			if !strings.Contains(results[i], want) {
				t.Errorf("call %d has no %q: %s", i, want, results[i])
			}
		}
		if c.not != "" && strings.Contains(results[i], c.not) {
			t.Errorf("call %d has %q: %s", i, c.not, results[i])
		}
	}
	if text, err := os.ReadFile(w.project + "/hook.txt"); err != nil || strings.Count(string(text), "PreToolUse") < len(calls)-2 {
		t.Errorf("the hook did not get its input: %v %s", err, text)
	}
	for _, file := range []string{filepath.Dir(w.project) + "/outside", w.home + "/outside"} {
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("%s was made outside of the sandbox", file)
		}
	}
}

// TestShellPrefixLines calls it as Claude Code does.
func TestShellPrefixLines(t *testing.T) {
	w := newPrefixed(t, `, "mode": "off", "commands": {"allowUnsandboxed": true, "excluded": ["touch"]}`)
	file := filepath.Join(os.TempDir(), fmt.Sprintf("claude-%x-cwd", time.Now().UnixNano()))
	t.Cleanup(func() { os.Remove(file) })
	snapshots := filepath.Join(w.home, ".claude", "shell-snapshots")
	w.write(snapshots, "snapshot-bash-1-a.sh", "greet() { echo greetings; }\nexport PATH=/nowhere\n")
	w.write(snapshots, "snapshot-bash-2-b.sh", "token() { echo ghp_abcdefghijklmnopqrstuvwxyz; }\n")
	bash := func(line string) string { return line + " && pwd -P >| " + file }
	snapshot := func(name, line string) string {
		return "source " + snapshots + "/" + name + " 2>/dev/null || true && " + bash(line)
	}
	if err := os.Symlink("/etc", w.project+"/link"); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		flags, env       []string
		dir, line, stdin string
		status           int
		stdout, stderr   string
		cwd              string // what the file has; "" for no file
	}{
		"folder":              {line: bash("mkdir -p x/y && cd x/y"), cwd: w.project + "/x/y\n"},
		"by another name":     {line: bash("mkdir -p /workspace/x && cd /workspace/x"), cwd: w.project + "/x\n"},
		"failed":              {line: bash("mkdir -p x; cd x; false"), status: 1},
		"outside":             {line: bash("cd /usr"), stderr: "stays where it is"},
		"output that went":    {line: bash("mkdir -p x && cd x && exec >/dev/null"), cwd: w.project + "/x\n"},
		"another sandbox":     {line: bash("echo {} > .mcp.json && mkdir -p x && cd x"), cwd: w.project + "/x\n"},
		"no line at the end":  {line: bash("printf abc"), stdout: "abc", cwd: w.project + "\n"},
		"forged":              {line: bash("eval 'pwd() { echo " + w.project + "/link; }'"), stderr: "stays where it is"},
		"forged lines":        {line: bash("eval 'pwd() { echo /a; echo /b; }'"), stderr: "not known"},
		"hook":                {line: "cat", stdin: "input", stdout: "input"},
		"hook refused":        {flags: []string{"--bash-only"}, line: "echo it ran", status: 126, stderr: "--bash-only"},
		"bash only":           {flags: []string{"--bash-only"}, line: bash("echo it ran"), stdout: "it ran\n", cwd: w.project + "\n"},
		"signal of its own":   {line: bash("kill -TERM $$"), status: 143},
		"no key":              {line: bash(`echo "[$ANTHROPIC_API_KEY]$CLAUDECODE"`), env: []string{"CLAUDECODE=1"}, stdout: "[]1\n", cwd: w.project + "\n"},
		"snapshot":            {line: snapshot("snapshot-bash-1-a.sh", "greet && env | grep -c SNAPSHOT; ls >/dev/null"), stdout: "greetings\n0\n", cwd: w.project + "\n"},
		"snapshot with a key": {line: snapshot("snapshot-bash-2-b.sh", "type token"), status: 1, stderr: "held a credential"},
		"snapshot left out":   {flags: []string{"--no-snapshot"}, line: snapshot("snapshot-bash-1-a.sh", "type greet"), status: 1, stderr: "not found"},
		"snapshot that went":  {line: snapshot("snapshot-bash-3-c.sh", "true"), cwd: w.project + "\n"},
		"excluded":            {line: bash("touch " + w.home + "/outside"), status: 1},
		"folder elsewhere":    {dir: w.home, line: bash("echo it ran"), status: 125, stderr: "outside of the project"},
		"folder through link": {dir: w.project + "/link", line: bash("echo it ran"), status: 125, stderr: "outside of the project"},
		"no project":          {env: []string{"SANDBOX_PROJECT="}, line: bash("echo it ran"), status: 2, stderr: "SANDBOX_PROJECT"},
		"home":                {env: []string{"SANDBOX_PROJECT=" + w.home}, line: bash("echo it ran"), status: 125, stderr: "whole home"},
		"no provider":         {env: []string{"PATH=/nowhere", "SANDBOX_GUEST=/nowhere"}, line: bash("echo it ran"), status: 125, stderr: "sandbox:"},
		"no line":             {line: "", status: 2, stderr: "one command line"},
	} {
		t.Run(name, func(t *testing.T) {
			os.Remove(file)
			cmd := w.command(append(append([]string{"--session=lines", "shell-prefix"}, c.flags...), c.line)...)
			cmd.Env = append(cmd.Env, c.env...)
			if c.dir != "" {
				cmd.Dir = c.dir
			}
			var stdout, stderr strings.Builder
			cmd.Stdin, cmd.Stdout, cmd.Stderr = strings.NewReader(c.stdin), &stdout, &stderr
			_ = cmd.Run() // the status is looked at
			cwd, _ := os.ReadFile(file)
			if cmd.ProcessState.ExitCode() != c.status || c.stdout != "" && stdout.String() != c.stdout || !strings.Contains(stdout.String()+stderr.String(), c.stderr) || strings.Contains(stdout.String(), "it ran") != strings.Contains(c.stdout, "it ran") || string(cwd) != c.cwd {
				t.Errorf("status %d, folder %q\n%s%s", cmd.ProcessState.ExitCode(), cwd, stdout.String(), stderr.String())
			}
			if _, err := os.Lstat(w.home + "/outside"); err == nil {
				t.Error("the command ran outside of the sandbox")
			}
		})
	}
	t.Run("file that is a link", func(t *testing.T) {
		os.Remove(file)
		target := filepath.Join(t.TempDir(), "target")
		if err := os.Symlink(target, file); err != nil {
			t.Fatal(err)
		}
		cmd := w.command("--session=lines", "shell-prefix", bash("true"))
		if out, err := cmd.CombinedOutput(); err != nil || !strings.Contains(string(out), "cannot be reported") {
			t.Errorf("%v %s", err, out)
		}
		if _, err := os.Lstat(target); err == nil {
			t.Error("a link was written through")
		}
	})
}

// lookServer is a server of the Model Context Protocol with one tool, which says what
// its machine has of a file.
const lookServer = `import json, os, sys
for line in sys.stdin:
    q = json.loads(line)
    if "id" not in q:
        continue
    if q["method"] == "initialize":
        r = {"protocolVersion": q["params"]["protocolVersion"], "capabilities": {"tools": {}}, "serverInfo": {"name": "t", "version": "1"}}
    elif q["method"] == "tools/list":
        r = {"tools": [{"name": "look", "inputSchema": {"type": "object", "properties": {}}}]}
    elif q["method"] == "tools/call":
        r = {"content": [{"type": "text", "text": "in %s, file %s, key %s" % (os.getcwd(), os.path.exists(sys.argv[1]), os.environ.get("ANTHROPIC_API_KEY"))}]}
    else:
        r = {}
    print(json.dumps({"jsonrpc": "2.0", "id": q["id"], "result": r}), flush=True)
`

// TestShellPrefixServer has Claude Code start a server of the Model Context Protocol
// by a script, as docs/agents.md says, and without one: then it does not start.
func TestShellPrefixServer(t *testing.T) {
	claude, _, _ := testenv.CodingAgents(t)
	for name, c := range map[string]struct{ prefix, want string }{
		"script":  {"", "in PROJECT, file False, key None"},
		"flag":    {"sandbox --session=server shell-prefix", "No such tool"},
		"refused": {"--bash-only", "No such tool"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPrefixed(t, "")
			m := newModelAPI(t, call{"mcp__files__look", map[string]any{}})
			w.write(w.project, "server.py", lookServer)
			env := append(w.env, "ANTHROPIC_BASE_URL="+m.URL, "IS_SANDBOX=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
			run := func(more string, args ...string) {
				t.Helper()
				cmd := exec.Command(claude, args...)
				cmd.Dir, cmd.Env = w.project, append(env, more)
				if out, err := cmd.CombinedOutput(); err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
			}
			prefix := c.prefix
			if name != "flag" {
				prefix = filepath.Join(w.home, "prefix")
				w.write(w.home, "prefix", "#!/bin/sh\nexec sandbox --session server shell-prefix "+c.prefix+" -- \"$1\"\n")
				if err := os.Chmod(prefix, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			run("X=", "mcp", "add", "files", "--", "python3", "server.py", w.home+"/.claude/settings.json")
			run("CLAUDE_CODE_SHELL_PREFIX="+prefix, "-p", "go", "--dangerously-skip-permissions")
			_, results, _ := m.seen()
			if want := strings.ReplaceAll(c.want, "PROJECT", w.project); len(results) != 1 || !strings.Contains(results[0], want) {
				t.Errorf("results %q, want %q", results, want)
			}
		})
	}
}
