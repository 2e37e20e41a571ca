//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestCodingAgentsUseMCP registers our server with Claude Code and with Codex, as
// docs/agents.md shows it, and has each call a tool of it.
func TestCodingAgentsUseMCP(t *testing.T) {
	claude, codex, _ := testenv.CodingAgents(t)
	const line = `echo from the sandbox > made.txt; cat made.txt; ls /workspace`
	for name, c := range map[string]struct {
		call     call
		add, run func(m *modelAPI) []string
	}{
		"claude": {call{"mcp__sandbox__exec", map[string]any{"command": line}},
			func(*modelAPI) []string { return []string{claude} },
			func(*modelAPI) []string { return []string{claude, "-p", "go", "--dangerously-skip-permissions"} }},
		"codex": {call{"exec", `const r = await tools.mcp__sandbox__exec({command: "` + line + `"}); text(r)`},
			func(*modelAPI) []string { return []string{codex} },
			func(m *modelAPI) []string {
				return []string{codex, "-c", `sandbox_mode="danger-full-access"`, "-c", `model_provider="test"`,
					"-c", `model_providers.test={name="test",base_url="` + m.URL + `/v1",env_key="OPENAI_API_KEY",wire_api="responses"}`, "exec", "--skip-git-repo-check", "go"}
			}},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorkshop(t, "local", "")
			m := newModelAPI(t, c.call)
			env := append(w.env, "ANTHROPIC_BASE_URL="+m.URL, "IS_SANDBOX=1", "DISABLE_AUTOUPDATER=1", "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1")
			run := func(args ...string) string {
				t.Helper()
				cmd := exec.Command(args[0], args[1:]...)
				cmd.Dir, cmd.Env = w.project, env
				out, err := cmd.CombinedOutput()
				if err != nil {
					t.Fatalf("%v: %v\n%s", args, err, out)
				}
				return string(out)
			}
			added := run(append(c.add(m), "mcp", "add", "sandbox", "--env", "SANDBOX_CONFIG="+w.config+"/sandbox.json", "--env", "SANDBOX_STATE_DIR="+lastEnv(w.env, "SANDBOX_STATE_DIR"), "--env", "SANDBOX_GUEST="+testenv.Guest(t), "--", "sandbox", "mcp", "--session", "demo")...)
			out := run(c.run(m)...)
			_, results, _ := m.seen()
			if len(results) != 1 || !strings.Contains(results[0], "from the sandbox") || !strings.Contains(results[0], "made.txt") {
				t.Errorf("%s%s\nresults %q", added, out, results)
			}
			if text, _, status := w.run("--session", "demo", "fs", "read", "made.txt"); status != 0 || text != "from the sandbox\n" {
				t.Errorf("the sandbox has %q", text)
			}
		})
	}
}

// lastEnv is the value of a variable in an environment.
func lastEnv(env []string, name string) (value string) {
	for _, e := range env {
		if v, ok := strings.CutPrefix(e, name+"="); ok {
			value = v
		}
	}
	return value
}
