//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/creack/pty"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

const realKey = "sk-real-0123456789abcdef0123" // which the API sees and no program inside

// A workshop is a home with settings, a project, and the profiles of agents.
type workshop struct {
	t                     *testing.T
	home, project, config string
	env                   []string
}

// newWorkshop returns one for a provider. more are further sandbox settings.
func newWorkshop(t *testing.T, provider, more string) *workshop {
	t.Helper()
	testenv.Require(t, provider)
	dir := t.TempDir()
	w := &workshop{t: t, home: filepath.Join(dir, "home"), project: filepath.Join(dir, "project"), config: filepath.Join(dir, "config")}
	w.write(w.home, ".claude/settings.json", `{"model": "sonnet"}`)
	w.write(w.home, ".claude/.credentials.json", "CREDENTIAL of a file")
	w.write(w.home, ".claude/agents/helper.md", "---\nname: helper\ndescription: helps\n---\n")
	w.write(w.home, ".claude/agents/leaky.md", "the key is "+realKey)
	w.write(w.home, ".codex/config.toml", "approval_policy = \"never\"\n")
	w.write(w.home, ".codex/auth.json", `{"OPENAI_API_KEY": "CREDENTIAL of a file"}`)
	for link, to := range map[string]string{".claude/CLAUDE.md": ".credentials.json", ".codex/AGENTS.md": "auth.json", ".claude/commands": ".", ".codex/prompts": "/etc"} {
		if err := os.Symlink(to, filepath.Join(w.home, link)); err != nil {
			t.Fatal(err)
		}
	}
	w.write(w.project, "a.txt", "from the project\n")
	w.write(w.config, "sandbox.json", `{"agents": {"defaults": {"sandbox": {"provider": "`+provider+`"`+more+`}}}}`)
	w.env = append(os.Environ(), "HOME="+w.home, "SANDBOX_CONFIG="+w.config+"/sandbox.json", "SANDBOX_STATE_DIR="+dir+"/state", "SANDBOX_GUEST="+testenv.Guest(t),
		"ANTHROPIC_API_KEY="+realKey, "OPENAI_API_KEY="+realKey, "CLAUDE_CODE_OAUTH_TOKEN=", "ANTHROPIC_AUTH_TOKEN=")
	t.Cleanup(func() {
		for _, args := range [][]string{{"recreate", "--all", "--force"}, {"prune", "--workspaces"}} { // views are mounts
			if out, err := w.command(args...).CombinedOutput(); err != nil {
				t.Errorf("clean up: %v\n%s", err, out)
			}
		}
	})
	return w
}

func (w *workshop) write(dir, name, text string) {
	w.t.Helper()
	p := filepath.Join(dir, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o755); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(text), 0o644); err != nil {
		w.t.Fatal(err)
	}
}

// profile writes a profile that extends a built-in one.
func (w *workshop) profile(name string, fields map[string]any) {
	w.t.Helper()
	data, err := json.Marshal(fields)
	if err != nil {
		w.t.Fatal(err)
	}
	w.write(w.config, "agents/"+name+".json", string(data))
}

func (w *workshop) command(args ...string) *exec.Cmd {
	cmd := exec.Command("sandbox", args...)
	cmd.Env, cmd.Dir = w.env, w.project
	return cmd
}

// run returns the output streams and the exit status of a call.
func (w *workshop) run(args ...string) (stdout, stderr string, status int) {
	w.t.Helper()
	cmd := w.command(args...)
	var out, complaints bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &complaints
	err := cmd.Run()
	if cmd.ProcessState == nil {
		w.t.Fatal(err)
	}
	return out.String(), complaints.String(), cmd.ProcessState.ExitCode()
}

// session is the session that the line at the end of an agent's call names.
func session(t *testing.T, stderr string) string {
	t.Helper()
	_, rest, ok := strings.Cut(stderr, "--session ")
	name, _, _ := strings.Cut(rest, " ")
	if !ok {
		t.Fatalf("no session is named: %s", stderr)
	}
	return name
}

// TestCodingAgents runs Claude Code and Codex in sandboxes against an API of the
// test's: the API sees the key, and what is inside does not; another host is refused
// and on record; credentials are not shown; and the project changes in its copy.
func TestCodingAgents(t *testing.T) {
	claude, codex, folder := testenv.CodingAgents(t)
	const look = `echo "key: $KEY"; cat a.txt ~/SETTINGS; cat ~/.claude/*.* ~/.claude/.cred* ~/.claude/*/*.md ~/.codex/*.json ~/.codex/*.md ~/.codex/prompts/pass*; echo x > ~/SETTINGS; curl -sS http://second.test/; ` +
		`env | grep KEY; cat /proc/*/environ | tr '\0' '\n' | grep KEY; cat HOST/.claude/.credentials.json HOST/.codex/auth.json; true`
	for name, c := range map[string]struct {
		program, variable, settings string
		args                        []string
		script                      func(line string) []call
		profile                     func(m *modelAPI) map[string]any
	}{
		"claude": {claude, "ANTHROPIC_API_KEY", ".claude/settings.json", []string{"-p", "go", "--dangerously-skip-permissions"},
			func(line string) []call {
				return []call{{"Bash", map[string]any{"command": line}}, {"Write", map[string]any{"file_path": "/workspace/new.txt", "content": "by the agent\n"}}}
			},
			func(m *modelAPI) map[string]any {
				return map[string]any{"env": map[string]any{"ANTHROPIC_BASE_URL": m.URL}}
			}},
		"codex": {codex, "OPENAI_API_KEY", ".codex/config.toml", []string{"exec", "--skip-git-repo-check", "go"},
			func(line string) []call {
				js, _ := json.Marshal(line)
				return []call{
					{"exec", `const r = await tools.exec_command({cmd: ` + string(js) + `}); text(r.output)`},
					{"exec", `await tools.exec_command({cmd: "echo by the agent > new.txt"}); text("written")`},
				}
			},
			func(m *modelAPI) map[string]any {
				return map[string]any{"command": []string{codex, "-c", `sandbox_mode="danger-full-access"`, "-c", `model_provider="openai-key"`,
					"-c", `model_providers.openai-key={name="OpenAI",base_url="` + m.URL + `/v1",env_key="OPENAI_API_KEY",wire_api="responses"}`}}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, "local", `, "filesystem": {"allowRead": ["`+folder+`"]}`)
			line := strings.NewReplacer("$KEY", "$"+c.variable, "SETTINGS", c.settings, "HOST", w.home).Replace(look)
			m, ca := newTLSModelAPI(t, c.script(line)...)
			w.env = append(w.env, "SANDBOX_CA_FILE="+ca)
			fields := map[string]any{"extends": name, "command": []string{c.program}, "hosts": []string{"https://127.0.0.1:" + m.port()},
				"keys": []any{map[string]any{"variable": c.variable, "hosts": []string{"127.0.0.1:" + m.port()}}}}
			for field, value := range c.profile(m) {
				fields[field] = value
			}
			w.profile(name, fields)
			stdout, stderr, status := w.run(append([]string{"agent", name, "--"}, c.args...)...)
			keys, results, bodies := m.seen()
			if status != 0 || !strings.Contains(stdout, "all done") || len(results) != 2 {
				t.Fatalf("status %d, %d results\n%s%s\n%s", status, len(results), stdout, stderr, strings.Join(results, "\n"))
			}
			for _, key := range keys {
				if key != realKey {
					t.Errorf("a request had the key %q", key)
				}
			}
			for _, secret := range []string{realKey, "CREDENTIAL"} {
				if strings.Contains(bodies, secret) {
					t.Errorf("%q was seen inside", secret)
				}
			}
			for _, want := range []string{"key: sandbox_secret_", "from the project", "Read-only file system"} {
				if !strings.Contains(results[0], want) {
					t.Errorf("the first call does not print %q:\n%s", want, results[0])
				}
			}
			if strings.Count(stderr, "it is a link, which is not followed") != 2 || name == "claude" && !strings.Contains(stderr, "leaky.md: it looks as if it held a credential") {
				t.Errorf("what is left out is not named: %s", stderr)
			}
			if out, _, _ := w.run("violations", "list"); !strings.Contains(out, "second.test") {
				t.Errorf("the second host is not on record:\n%s", out)
			}
			if got, err := os.ReadDir(w.project); err != nil || len(got) != 1 {
				t.Errorf("the project has %v, %v", got, err)
			}
			copied := t.TempDir()
			if _, complaint, status := w.run("--session", session(t, stderr), "cp", "sandbox:/workspace/.", copied); status != 0 {
				t.Fatal(complaint)
			}
			if got, _ := os.ReadFile(filepath.Join(copied, "new.txt")); string(got) != "by the agent\n" {
				t.Errorf("the copy has %q", got)
			}
		})
	}
}

// TestCodingAgentImage has the image of Claude Code made and works in the project
// itself.
func TestCodingAgentImage(t *testing.T) {
	testenv.Require(t, "codingagents")
	testenv.Require(t, "root") // gives the project to an ordinary user
	w := newWorkshop(t, "docker", "")
	if err := os.Chown(w.project, 1000, 1000); err != nil {
		t.Fatal(err)
	}
	m := newModelAPI(t, call{"Bash", map[string]any{"command": `printenv ANTHROPIC_API_KEY; head -c1 "$(command -v claude)" >/dev/null && echo "in the image"`}},
		call{"Write", map[string]any{"file_path": "/workspace/new.txt", "content": "by the agent\n"}})
	w.profile("claude", map[string]any{"extends": "claude", "packages": []string{"npm:@anthropic-ai/claude-code@2.1.197"}, "hosts": []string{"http://127.0.0.1:" + m.port()},
		"keys": []any{map[string]any{"variable": "ANTHROPIC_API_KEY", "hosts": []string{"127.0.0.1:" + m.port()}}}, "env": map[string]any{"ANTHROPIC_BASE_URL": m.URL}})
	if file := os.Getenv("NODE_EXTRA_CA_CERTS"); os.Getenv("SANDBOX_CA_FILE") == "" && file != "" {
		w.env = append(w.env, "SANDBOX_CA_FILE="+file) // npm of this machine needs it as well
	}
	stdout, stderr, status := w.run("agent", "claude", "--workspace-access", "rw", "--", "-p", "go", "--dangerously-skip-permissions")
	keys, results, bodies := m.seen()
	if status != 0 || len(results) != 2 || len(keys) == 0 || keys[0] != realKey || strings.Contains(bodies, realKey) {
		t.Fatalf("status %d, keys %q, results %q\n%s%s", status, keys, results, stdout, stderr)
	}
	if !strings.HasPrefix(results[0], "sandbox_secret_") || !strings.Contains(results[0], "in the image") {
		t.Errorf("inside: %s", results[0])
	}
	if got, _ := os.ReadFile(filepath.Join(w.project, "new.txt")); string(got) != "by the agent\n" {
		t.Errorf("the project has %q\n%s", got, stderr)
	}
}

// printing is a profile of a program of the host that shows what an agent has.
func (w *workshop) printing(name string, hosts ...string) {
	w.profile(name, map[string]any{"command": []string{"/usr/bin/env"}, "hosts": hosts, "env": map[string]any{"COLOUR": "red"}, "settings": []string{".claude/settings.json"},
		"keys": []any{map[string]any{"variable": "ANTHROPIC_API_KEY", "hosts": []string{"127.0.0.1:1"}}}})
}

// TestCodingAgentCalls holds what a call of sandbox agent does around the program.
func TestCodingAgentCalls(t *testing.T) {
	w := newWorkshop(t, "local", `, "network": {"allowedDomains": ["https://wide.test"], "allowPublic": true, "secrets": {"OTHER": {"hosts": ["wide.test"], "from": {"env": "HOME"}}}}`)
	w.printing("demo", "http://127.0.0.1:1")
	t.Run("status", func(t *testing.T) {
		if _, stderr, status := w.run("agent", "demo", "--", "sh", "-c", "exit 7"); status != 7 {
			t.Errorf("status %d: %s", status, stderr)
		}
	})
	t.Run("environment", func(t *testing.T) {
		stdout, stderr, status := w.run("agent", "demo", "-e", "SHAPE=round", "--", "sh", "-c", `echo "$COLOUR $SHAPE [$OTHER] $ANTHROPIC_API_KEY"; ls -l ~/.claude/settings.json; cat ~/.claude/settings.json`)
		if status != 0 || !strings.HasPrefix(stdout, "red round [] sandbox_secret_") || !strings.Contains(stdout, `{"model": "sonnet"}`) {
			t.Errorf("status %d: %s%s", status, stdout, stderr)
		}
	})
	t.Run("hosts", func(t *testing.T) {
		const line = `curl -sS --max-time 5 https://wide.test/ 2>&1; curl -sS --max-time 5 http://public.test/ 2>&1; true`
		stdout, stderr, _ := w.run("agent", "demo", "--", "sh", "-c", line)
		if n := strings.Count(stdout+stderr, "no rule allows"); n < 1 || strings.Contains(stdout, "could not be resolved") {
			t.Errorf("a host of the settings is reached: %s%s", stdout, stderr)
		}
		// The settings allow it, and so may the call.
		stdout, stderr, _ = w.run("agent", "demo", "--allow-domain", "http://wide.test", "--", "sh", "-c", `curl -sS --max-time 5 http://wide.test/`)
		if strings.Contains(stdout+stderr, "no rule allows") {
			t.Errorf("--allow-domain is not heeded: %s%s", stdout, stderr)
		}
	})
	t.Run("input", func(t *testing.T) {
		cmd := w.command("agent", "demo", "--", "sh", "-c", "cat; test -t 0 || echo no terminal")
		cmd.Stdin = strings.NewReader("typed\n")
		if out, err := cmd.Output(); err != nil || string(out) != "typed\nno terminal\n" {
			t.Errorf("%q, %v", out, err)
		}
	})
	t.Run("terminal", func(t *testing.T) {
		cmd := w.command("agent", "demo", "--", "sh", "-c", "test -t 0 && test -t 1 && stty size && echo $TERM")
		terminal, err := pty.StartWithSize(cmd, &pty.Winsize{Rows: 33, Cols: 99})
		if err != nil {
			t.Fatal(err)
		}
		defer terminal.Close()
		shown := watched(terminal)
		if err := cmd.Wait(); err != nil {
			t.Errorf("%v: %s", err, shown)
		}
		testenv.Until(t, "the terminal shows its size and kind", func() bool { return strings.Contains(shown.String(), "33 99\nxterm") })
	})
	t.Run("signal", func(t *testing.T) {
		cmd := w.command("agent", "demo", "--", "sh", "-c", "trap 'echo heard; exit 9' INT; echo ready; while :; do sleep 0.1; done")
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		text := watched(out)
		testenv.Until(t, "it begins", func() bool { return strings.Contains(text.String(), "ready") })
		if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
			t.Fatal(err)
		}
		err = cmd.Wait()
		if cmd.ProcessState.ExitCode() != 9 {
			t.Errorf("%v: %s", err, text)
		}
	})
	t.Run("later calls", func(t *testing.T) { // the copy stays, and is not made again
		if _, stderr, status := w.run("agent", "demo", "--session", "kept", "--", "sh", "-c", "echo changed > a.txt"); status != 0 {
			t.Fatal(stderr)
		}
		w.write(w.project, "late.txt", "late")
		defer os.Remove(filepath.Join(w.project, "late.txt"))
		if stdout, stderr, _ := w.run("agent", "demo", "--session", "kept", "--", "sh", "-c", "cat *"); stdout != "changed\n" {
			t.Errorf("%q: %s", stdout, stderr)
		}
	})
	t.Run("copy that was broken off", func(t *testing.T) {
		if _, stderr, status := w.run("agent", "demo", "--session", "broken", "--", "sh", "-c", "rm a.txt; mkdir x; touch .sandbox-agent-copy"); status != 0 {
			t.Fatal(stderr)
		}
		if stdout, stderr, _ := w.run("agent", "demo", "--session", "broken", "--", "ls", "-A"); stdout != "a.txt\nx\n" {
			t.Errorf("%q: %s", stdout, stderr)
		}
	})
	t.Run("private view", func(t *testing.T) {
		if os.Geteuid() != 0 {
			return // the view is mounted, and only root mounts one
		}
		if stdout, stderr, _ := w.run("agent", "demo", "--workspace-access", "private", "--", "sh", "-c", "echo changed > a.txt; echo new > new.txt; cat a.txt; pwd"); stdout != "changed\n/workspace\n" {
			t.Errorf("%q: %s", stdout, stderr)
		}
		if stdout, stderr, _ := w.run("agent", "demo", "--workspace-access", "private", "--", "cat", "a.txt", "new.txt"); stdout != "changed\nnew\n" {
			t.Errorf("%q: %s", stdout, stderr)
		}
		if b, err := os.ReadFile(w.project + "/a.txt"); err != nil || strings.Contains(string(b), "changed") {
			t.Errorf("the project has %q, %v", b, err)
		}
		if _, err := os.Lstat(w.project + "/new.txt"); err == nil {
			t.Error("the project has new.txt")
		}
	})
	t.Run("read-only", func(t *testing.T) {
		stdout, stderr, _ := w.run("agent", "demo", "--workspace-access", "ro", "--", "sh", "-c", "pwd; ls a.txt; echo x > a.txt; echo own > /workspace/own && cat /workspace/own")
		if stdout != "/agent\na.txt\nown\n" || !strings.Contains(stderr, "Read-only") {
			t.Errorf("%q: %s", stdout, stderr)
		}
	})
	t.Run("what is left out", func(t *testing.T) {
		w.write(w.project, ".git/hooks/pre-commit", "#!/bin/sh\n")
		w.write(w.project, ".env", "CREDENTIAL")
		defer os.RemoveAll(filepath.Join(w.project, ".git"))
		defer os.Remove(filepath.Join(w.project, ".env"))
		stdout, stderr, _ := w.run("agent", "demo", "--session", "left", "--", "find", ".", "-name", ".env", "-o", "-name", "pre-commit")
		if stdout != "" || strings.Count(stderr, "left out") != 2 || !strings.Contains(stderr, "/.env: ") || !strings.Contains(stderr, "/.git/hooks: ") {
			t.Errorf("%q: %s", stdout, stderr)
		}
	})
	t.Run("never outside", func(t *testing.T) {
		file := w.config + "/off.json"
		w.write(w.config, "off.json", `{"agents": {"defaults": {"sandbox": {"provider": "local", "mode": "off", "enabled": false, "failIfUnavailable": false, "commands": {"allowUnsandboxed": true, "excluded": ["*", "cat"]}}}}}`)
		if os.Geteuid() == 0 { // or the folder is refused for its owner
			if err := os.Chown(w.project, 1000, 1000); err != nil {
				t.Fatal(err)
			}
		}
		w.profile("bare", map[string]any{"command": []string{"cat"}})
		for _, access := range []string{"none", "rw"} {
			stdout, stderr, status := w.run("--config", file, "agent", "bare", "--workspace-access", access, "--", w.config+"/off.json")
			if status == 0 || strings.Contains(stdout, "allowUnsandboxed") {
				t.Errorf("access %s: status %d: %s%s", access, status, stdout, stderr)
			}
		}
	})
	t.Run("daemon", func(t *testing.T) {
		for _, args := range [][]string{{"agent", "demo", "--", "true"}, {"shell-prefix", "true"}} {
			if _, stderr, status := w.run(append([]string{"--server", "unix:/nowhere"}, args...)...); status != 125 || !strings.Contains(stderr, "not possible through a daemon") {
				t.Errorf("%v: status %d: %s", args, status, stderr)
			}
		}
	})
	t.Run("settings that went", func(t *testing.T) {
		w.write(w.home, ".claude/settings.json", `{"model": "opus"}`)
		if stdout, stderr, _ := w.run("agent", "demo", "--", "sh", "-c", "cat ~/.claude/settings.json"); stdout != `{"model": "opus"}` {
			t.Errorf("%q: %s", stdout, stderr)
		}
		if err := os.Remove(filepath.Join(w.home, ".claude/settings.json")); err != nil {
			t.Fatal(err)
		}
		if stdout, _, _ := w.run("agent", "demo", "--", "sh", "-c", "find -L /.sandbox ~ -name settings.json"); stdout != "" {
			t.Errorf("it is there: %q", stdout)
		}
	})
}

// TestCodingAgentRefuses holds what keeps an agent from being started, and that
// nothing was run then.
func TestCodingAgentRefuses(t *testing.T) {
	w := newWorkshop(t, "local", "")
	w.printing("demo", "http://127.0.0.1:1")
	for name, c := range map[string]struct {
		change func(w *workshop) // of a copy
		args   []string
		status int
		want   string
	}{
		"no key":          {func(w *workshop) { w.env = append(w.env, "ANTHROPIC_API_KEY=") }, []string{"demo"}, 125, "set ANTHROPIC_API_KEY"},
		"unknown":         {nil, []string{"other"}, 125, "built in are aider, claude, codex, gemini"},
		"bad name":        {nil, []string{"../demo"}, 2, "is no name of a profile"},
		"key as variable": {nil, []string{"demo", "-e", "ANTHROPIC_API_KEY"}, 2, "placeholder"},
		"bad access":      {nil, []string{"demo", "--workspace-access", "all"}, 2, "--workspace-access"},
		"home":            {nil, []string{"demo", "--workspace", w.home}, 125, "whole home"},
		"root":            {nil, []string{"demo", "--workspace", "/"}, 125, "whole home"},
		"no folder":       {nil, []string{"demo", "--workspace", w.project + "/a.txt"}, 125, "no folder"},
		"settings file in the project": {func(w *workshop) {
			w.write(w.project, "set/sandbox.json", "{}")
			w.write(w.project, "set/agents/demo.json", `{"command": ["sh"], "hosts": ["https://evil.test"]}`)
			w.env = append(w.env, "SANDBOX_CONFIG="+w.project+"/set/sandbox.json")
		}, []string{"demo"}, 125, "the profile lies in the project"},
		"profile by a link into the project": {func(w *workshop) {
			w.write(w.project, "evil.json", `{"command": ["sh"], "hosts": ["https://evil.test"]}`)
			if err := os.Symlink(w.project+"/evil.json", w.config+"/agents/linked.json"); err != nil {
				t.Fatal(err)
			}
		}, []string{"linked"}, 125, "the profile lies in the project"},
		"profile that others can write": {func(w *workshop) {
			w.write(w.config, "agents/open.json", `{"command": ["sh"]}`)
			if err := os.Chmod(w.config+"/agents/open.json", 0o666); err != nil {
				t.Fatal(err)
			}
		}, []string{"open"}, 125, "SANDBOX.PERMISSION_DENY"},
		"wrong field": {func(w *workshop) {
			w.profile("wrong", map[string]any{"command": []string{"sh"}, "hosts": []string{"https://a b"}})
		}, []string{"wrong"}, 125, "hosts[0]"},
	} {
		t.Run(name, func(t *testing.T) {
			w := *w
			if c.change != nil {
				c.change(&w)
			}
			stdout, stderr, status := w.run(append(append([]string{"agent"}, c.args...), "--", "sh", "-c", "echo it ran")...)
			if status != c.status || !strings.Contains(stderr, c.want) || strings.Contains(stdout, "it ran") {
				t.Errorf("status %d: %s%s", status, stdout, stderr)
			}
		})
	}
	t.Run("list", func(t *testing.T) {
		stdout, stderr, status := w.run("agent", "list", "-o", "json")
		var got struct {
			Agents []struct{ Name, Source, Problem string }
		}
		if err := json.Unmarshal([]byte(stdout), &got); err != nil {
			t.Fatalf("%v\n%s%s", err, stdout, stderr)
		}
		have := map[string]string{}
		for _, a := range got.Agents {
			have[a.Name] = a.Source + a.Problem
		}
		if status != 1 || have["claude"] != "built in" || have["demo"] != w.config+"/agents/demo.json" || !strings.Contains(have["wrong"], "hosts[0]") {
			t.Errorf("status %d: %s", status, fmt.Sprint(have))
		}
	})
}
