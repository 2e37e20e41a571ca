//go:build linux

package tools

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

func names(k *Kit) string {
	var out []string
	for _, t := range k.Tools() {
		out = append(out, t.Name)
	}
	return strings.Join(out, " ")
}

// withBrowser has one that never comes.
func withBrowser(o *Options) {
	o.Browser = func(context.Context, config.Who) (browser.Session, error) {
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "none"}
	}
}

// TestToolsOfASession holds which tools there are, and that a call of any other
// does nothing and says why.
func TestToolsOfASession(t *testing.T) {
	const all = "exec process run_code read write edit apply_patch ls glob grep image checkpoint browser"
	for _, tt := range []struct {
		name, settings string
		change         func(*Options)
		want           string
		refused        string
		code           sandbox.Code
	}{
		{"by default", "", withBrowser, strings.TrimSuffix(all, " browser"), "browser", sandbox.CodeDenyTool},
		{"with a browser", `, "browser": {"enabled": true}, "tools": {"alsoAllow": ["browser"]}`, withBrowser, all, "canvas", sandbox.CodeDenyTool},
		{"a browser that is off", `, "tools": {"alsoAllow": ["browser"]}`, withBrowser, strings.TrimSuffix(all, " browser"), "browser", sandbox.CodeCapabilityBlocked},
		{"a browser that is nowhere", `, "browser": {"enabled": true}, "tools": {"alsoAllow": ["browser"]}`, nil, strings.TrimSuffix(all, " browser"), "browser", sandbox.CodeUnsupported},
		{"nothing that runs", "", func(o *Options) { o.Running = nil }, "read write edit apply_patch ls glob grep image checkpoint", "exec", sandbox.CodeUnsupported},
		{"read-only", `, "workspaceAccess": "ro"`, nil, "exec process run_code read ls glob grep image", "write", sandbox.CodeDenyTool},
		{"read-only and a patch", `, "workspaceAccess": "ro"`, nil, "exec process run_code read ls glob grep image", "apply_patch", sandbox.CodeDenyTool},
		{"denied", `, "tools": {"deny": ["bash", "read"]}`, nil, "process write edit apply_patch image checkpoint", "grep", sandbox.CodeDenyTool},
		{"code denied", `, "tools": {"deny": ["run_code"]}`, nil, strings.Replace(strings.TrimSuffix(all, " browser"), " run_code", "", 1), "run_code", sandbox.CodeDenyTool},
		{"one alone", `, "tools": {"allow": ["ls"], "deny": ["image"]}`, nil, "ls", "read", sandbox.CodeDenyTool},
		{"another spelling is none", "", nil, strings.TrimSuffix(all, " browser"), "Exec", sandbox.CodeDenyTool},
		{"an alias is none", "", nil, strings.TrimSuffix(all, " browser"), "bash", sandbox.CodeDenyTool},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var change []func(*Options)
			if tt.change != nil {
				change = append(change, tt.change)
			}
			r := newRig(t, sandboxed("local", tt.settings), change...)
			if got := names(r.Kit); got != tt.want {
				t.Errorf("tools %s, want %s", got, tt.want)
			}
			for _, input := range []string{`{}`, `{"command":"true"}`, `{"path":"x","content":"x"}`, `{"patch":"x"}`, `garbage`} {
				a, err := r.Call(deadline(t), tt.refused, json.RawMessage(input), nil)
				var e *sandbox.Error
				if !errors.As(err, &e) || e.Code != tt.code || e.Message == "" || a.Text != "" {
					t.Errorf("%s %s: %v, %v", tt.refused, input, a, err)
				}
			}
		})
	}
}

// TestOutsideOfSandboxes checks that without a sandbox nothing is done, except for
// commands where settings let them run on the host.
func TestOutsideOfSandboxes(t *testing.T) {
	for name, settings := range map[string]string{
		"mode":             `"mode": "off"`,
		"enabled":          `"enabled": false`,
		"enabledPlatforms": `"enabledPlatforms": ["darwin"]`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", `+settings+`}}}}`)
			if got := names(r.Kit); got != "" {
				t.Errorf("there are tools: %s", got)
			}
			for _, tool := range schema.All() {
				_, err := r.Call(deadline(t), tool.Name, json.RawMessage(tool.Examples[0]), nil)
				var e *sandbox.Error
				if !errors.As(err, &e) || e.Code != sandbox.CodeCapabilityBlocked || !strings.Contains(e.Message, "not sandboxed") || !strings.Contains(e.Message, name) {
					t.Errorf("%s: %v", tool.Name, err)
				}
			}
		})
	}
}

func TestOnTheHost(t *testing.T) {
	testenv.Require(t, "root")
	o := rigOptions(t, `{"agents": {"defaults": {"sandbox": {"provider": "local", "mode": "off", "commands": {"allowUnsandboxed": true}}}}}`)
	var err error
	o.Providers, err = provider.New(answering{fake.New(fake.Options{Name: "local"})}, provider.NewHost(nil))
	must(t, err)
	o.Host = hostOf(t, o.State, nil)
	r := raised(t, o)
	if got := names(r.Kit); got != "exec process" {
		t.Errorf("tools %s", got)
	}
	if d := data[schema.ExecResult](t, r.call("exec", obj{"command": "echo here"})); d.Stdout.Text != "here\n" {
		t.Errorf("%+v", d)
	}
	for _, tool := range []string{"read", "write", "edit", "apply_patch", "ls", "glob", "grep", "image"} {
		if e := r.refused(sandbox.CodeUnsupported, tool, obj{"path": "x"}); !strings.Contains(e.Message, "without a sandbox") || e.Hint == "" {
			t.Errorf("%s: %v", tool, e)
		}
	}
}

// TestRulesOfCommandsHold holds that what the gate denies is refused whichever
// way the command takes.
func TestRulesOfCommandsHold(t *testing.T) {
	r := newRig(t, sandboxed("local", `, "commands": {"block": ["touch:*"]}`))
	for _, v := range []obj{{"command": "touch x"}, {"command": "touch x", "tty": true}, {"command": "touch x", "background": true}, {"command": "true; touch x"}, {"command": "rm -rf /"}} {
		if e := r.refused(sandbox.CodeDenyTool, "exec", v); e.Message == "" {
			t.Errorf("%v: %v", v, e)
		}
	}
	if ls := data[schema.LsResult](t, r.call("ls", obj{})); len(ls.Entries) != 0 {
		t.Errorf("%+v", ls)
	}
}

func TestForRefusesNames(t *testing.T) {
	r := newRig(t, plain)
	for _, who := range []config.Who{{Agent: "../x", Session: "a"}, {Agent: "main", Session: "a\nb"}, {Tenant: "a/b", Agent: "main", Session: "a"}} {
		if _, err := r.all.For(t.Context(), Session{Who: who}); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%+v: %v", who, err)
		}
	}
}
