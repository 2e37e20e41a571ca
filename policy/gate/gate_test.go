package gate_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

func gateOf(t *testing.T, settings string) *gate.Gate {
	t.Helper()
	s, err := config.Parse("t", []byte(`{"agents": {"defaults": {"sandbox": {`+settings+`}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	res, err := config.Resolve(s, config.Who{Agent: "main", Session: "s"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	g, err := gate.New(res, config.Inside{})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestChain checks what the links decide about a call together, and the effect
// inside and outside of a sandbox.
func TestChain(t *testing.T) {
	const asks = `"commands": {"autoAllowIfSandboxed": false}`
	tests := []struct {
		name, settings  string
		call            gate.Call
		verdict         policy.Verdict
		inside, outside policy.Verdict
		check           string
	}{
		{"nothing is run", ``, gate.Call{}, policy.Allow, policy.Allow, policy.Allow, ""},
		{"a harmless line", ``, gate.Call{Line: "ls -l"}, policy.Allow, policy.Allow, policy.Allow, ""},
		{"a harmless program", ``, gate.Call{Args: []string{"echo", "rm -rf /"}}, policy.Allow, policy.Allow, policy.Allow, ""},
		{"a shell as a program", ``, gate.Call{Args: []string{"bash", "-c", "rm -rf /"}}, policy.Deny, policy.Deny, policy.Deny, "removal"},
		{"a dangerous line", ``, gate.Call{Line: "rm -rf /"}, policy.Deny, policy.Deny, policy.Deny, "removal"},
		{"a person types", ``, gate.Call{Interactive: true}, policy.Allow, policy.Allow, policy.Allow, ""},
		{"an agent types", ``, gate.Call{Tool: "exec", Interactive: true}, policy.Ask, policy.Allow, policy.Ask, "interactive"},
		{"a sub-agent types", ``, gate.Call{Interactive: true, Subagent: true}, policy.Ask, policy.Allow, policy.Ask, "interactive"},
		{"an agent types and is asked", asks, gate.Call{Tool: "exec", Interactive: true}, policy.Ask, policy.Ask, policy.Ask, "interactive"},
		{"a question", ``, gate.Call{Line: "python3 -c 'print(1)'"}, policy.Ask, policy.Allow, policy.Ask, "interpreter"},
		{"a question that is put", asks, gate.Call{Line: "python3 -c 'print(1)'"}, policy.Ask, policy.Ask, policy.Ask, "interpreter"},
		{"variables of the call", ``, gate.Call{Args: []string{"ls"}, Env: []string{"LD_PRELOAD"}}, policy.Ask, policy.Allow, policy.Ask, "variable"},
		{"a path for programs", `"commands": {"strictness": "permissive"}`, gate.Call{Line: "ls", Env: []string{"PATH"}}, policy.Ask, policy.Allow, policy.Ask, "variable"},
		{"harmless variables", `"commands": {"allow": ["reach"]}`, gate.Call{Args: []string{"reach"}, Env: []string{"LC_ALL", "TERM"}}, policy.Allow, policy.Allow, policy.Allow, ""},
		{"variables and an allow rule", `"commands": {"strictness": "strict", "allow": ["reach"]}`, gate.Call{Args: []string{"reach"}, Env: []string{"X"}}, policy.Ask, policy.Allow, policy.Ask, "rule"},
		{"a name that is not text", ``, gate.Call{Args: []string{"cat", "a\nb", "\xff\r\u00a0"}}, policy.Allow, policy.Allow, policy.Allow, ""},
		{"no name for a rule", `"commands": {"block": ["cat /x:*"]}`, gate.Call{Args: []string{"cat", "/x", "\xff"}}, policy.Deny, policy.Deny, policy.Deny, "rule"},
		{"a line behind bytes", ``, gate.Call{Args: []string{"sh", "-c", "echo \r; rm -rf /"}}, policy.Deny, policy.Deny, policy.Deny, "syntax"},
		{"arguments without end", ``, gate.Call{Args: []string{"echo", strings.Repeat("x", 2<<20)}}, policy.Deny, policy.Deny, policy.Deny, "syntax"},
		{"a folder below that of the settings", `"filesystem": {"denyRead": ["/workspace/a"]}`, gate.Call{Line: "cat x", Dir: "a"}, policy.Deny, policy.Deny, policy.Deny, "sensitive-file"},
		{"an argument that cannot be", ``, gate.Call{Args: []string{"a\x00b"}}, policy.Deny, policy.Deny, policy.Deny, "syntax"},
		{"a tool", ``, gate.Call{Tool: "exec", Line: "ls"}, policy.Allow, policy.Allow, policy.Allow, ""},
		{"a tool that is denied", ``, gate.Call{Tool: "browser"}, policy.Deny, policy.Deny, policy.Deny, "tool"},
		{"a denied tool and a question", ``, gate.Call{Tool: "browser", Interactive: true}, policy.Deny, policy.Deny, policy.Deny, "tool"},
		{"a denied tool and a denied line", `"tools": {"deny": ["exec"]}`, gate.Call{Tool: "bash", Line: "rm -rf /"}, policy.Deny, policy.Deny, policy.Deny, "tool"},
		{"a sub-agent", `"commands": {"subagentBlock": ["git push:*"]}`, gate.Call{Line: "git push origin", Subagent: true}, policy.Deny, policy.Deny, policy.Deny, "rule"},
		{"no sub-agent", `"commands": {"subagentBlock": ["git commit:*"]}`, gate.Call{Line: "git commit -m x"}, policy.Allow, policy.Allow, policy.Allow, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := gateOf(t, tt.settings)
			j := g.Judge(tt.call)
			inside, _ := g.Effective(j, true)
			outside, note := g.Effective(j, false)
			if j.Verdict != tt.verdict || inside != tt.inside || outside != tt.outside || note != "" {
				t.Errorf("%s, inside %s, outside %s, note %q: %+v", j.Verdict, inside, outside, note, j)
			}
			r, ok := j.Decisive()
			if ok != (tt.verdict != policy.Allow) || r.Check != tt.check {
				t.Errorf("because of %+v", r)
			}
			var e *sandbox.Error
			switch err := j.Err("run"); {
			case err == nil && tt.verdict != policy.Allow, err != nil && tt.verdict == policy.Allow:
				t.Errorf("error %v", err)
			case err != nil && (!errors.As(err, &e) || e.Code != sandbox.CodeDenyTool || !strings.Contains(e.Message, tt.check) || e.Hint == ""):
				t.Errorf("error %+v", err)
			}
		})
	}
}

// TestRefusalNamesThePart holds that a refusal names the part of the text, of
// arguments too.
func TestRefusalNamesThePart(t *testing.T) {
	g := gateOf(t, ``)
	for _, c := range []gate.Call{{Line: "cd /tmp && rm -rf / && ls"}, {Args: []string{"sudo", "rm", "-rf", "/"}}} {
		var e *sandbox.Error
		if err := g.Judge(c).Err("run"); !errors.As(err, &e) || !strings.Contains(e.Resource, "rm -rf /") && e.Resource != "/" || len(e.Resource) > 20 {
			t.Errorf("%+v: %+v", c, err)
		}
	}
}

// TestVariablesStayInside checks that a command which may run outside the
// sandbox does so only with harmless variables of the call.
func TestVariablesStayInside(t *testing.T) {
	g := gateOf(t, `"commands": {"excluded": ["docker*"]}`)
	for name, want := range map[string]bool{"TERM": true, "LD_PRELOAD": false, "DOCKER_HOST": false, "X": false} {
		j := g.Judge(gate.Call{Args: []string{"docker", "ps"}, Env: []string{name}})
		if j.Excluded != want || !want && !strings.Contains(j.ExcludedReason, name) {
			t.Errorf("%s: %t, %s", name, j.Excluded, j.ExcludedReason)
		}
	}
}
