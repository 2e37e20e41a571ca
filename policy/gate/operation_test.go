package gate_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/gate"
)

func noon() time.Time { return time.Date(2030, 5, 17, 12, 0, 0, 0, time.UTC) }

// guardOf is a guard that allows everything in the workspace, two programs and
// two hosts, whatever settings say.
func guardOf(t *testing.T) *grant.Guard {
	t.Helper()
	all := []grant.Capability{
		{Kind: grant.FSRead, Path: "/workspace"}, {Kind: grant.FSWrite, Path: "/workspace"}, {Kind: grant.FSList, Path: "/workspace"},
		{Kind: grant.Browser, Actions: []string{"open", "upload", "download"}},
		{Kind: grant.Process, Tool: "ls"}, {Kind: grant.Process, Tool: "mkfs"},
		{Kind: grant.NetHTTP, Host: "a.example", Methods: []string{"GET"}}, {Kind: grant.NetHTTP, Host: "b.example", Methods: []string{"GET"}},
	}
	g := grant.Grant{
		ID: "g", Tenant: "acme", Subject: "u", Tool: "reporter", Call: "c", Capabilities: all, DecisionKey: "k",
		Budget: grant.Budget{Calls: 1}, Issued: noon(), Expires: noon().Add(time.Hour), Consent: &grant.Consent{By: "u", At: noon(), Expires: noon().Add(time.Hour)},
	}
	m := grant.Manifest{Tool: "reporter", Version: "1.0.0", Capabilities: all, Safety: grant.SafetyLow,
		Commands: []grant.Template{{Tool: "mkfs", Rest: &grant.Argument{Pattern: ".*"}}}}
	p := grant.Policy{Version: "1", Capabilities: all, Safety: grant.SafetyLow, Mappings: grant.Mappings{Root: "/workspace", Tmp: "/tmp"}}
	profile, err := grant.Build(g, m, p, noon())
	if err != nil {
		t.Fatal(err)
	}
	guard, err := grant.Compile(profile)
	if err != nil {
		t.Fatal(err)
	}
	return guard
}

func upload(path string) grant.Operation {
	return grant.Operation{Kind: grant.OpBrowserUpload, Selector: "input", Path: path}
}

// TestOperations holds that an operation passes when every link lets it pass,
// that each link refuses by its own reason, and that the profile's comes first.
func TestOperations(t *testing.T) {
	const allowed = `"tools": {"alsoAllow": ["reporter"]}, "network": {"allowedDomains": ["a.example"]}`
	guard := guardOf(t)
	state := grant.State{Now: noon()}
	read := grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/./b"}
	for _, tt := range []struct {
		name, settings string
		do             grant.Operation
		args           []string
		guard          *grant.Guard
		state          grant.State
		check          string
		code           sandbox.Code
	}{
		{"a file", allowed, read, nil, guard, state, "", ""},
		{"without a profile", allowed, read, nil, nil, state, "profile", sandbox.CodePermissionDeny},
		{"revoked", allowed, read, nil, guard, grant.State{Now: noon(), Revoked: true}, "profile", sandbox.CodePermissionDeny},
		{"revoked and no tool", ``, read, nil, guard, grant.State{Now: noon(), Revoked: true}, "profile", sandbox.CodePermissionDeny},
		{"no tool", ``, read, nil, guard, state, "tool", sandbox.CodeDenyTool},
		{"a path that settings deny", allowed + `, "filesystem": {"denyRead": ["/workspace/b"]}`, read, nil, guard, state, "path", sandbox.CodeCapabilityBlocked},
		{"a path that a pattern denies", allowed, grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/x/.env"}, nil, guard, state, "path", sandbox.CodeCapabilityBlocked},
		{"a file to write", allowed, grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/b"}, nil, guard, state, "", ""},
		{"a path that may be read alone", allowed + `, "filesystem": {"denyWrite": ["/workspace/b"]}`, grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/b"}, nil, guard, state, "path", sandbox.CodeCapabilityBlocked},
		{"a path beyond the grant", allowed, grant.Operation{Kind: grant.OpFsRead, Path: "/tmp/x"}, nil, guard, state, "profile", sandbox.CodePermissionDeny},
		{"a host", allowed, grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://a.example/"}, nil, guard, state, "", ""},
		{"a host that settings do not have", allowed, grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://b.example/"}, nil, guard, state, "host", sandbox.CodeCapabilityBlocked},
		{"an upload", allowed, upload("/workspace/b"), nil, guard, state, "", ""},
		{"an upload that a pattern denies", allowed, upload("/workspace/x/.env"), nil, guard, state, "path", sandbox.CodeCapabilityBlocked},
		{"a download that settings deny", allowed + `, "filesystem": {"denyWrite": ["**/x*"]}`, grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a", Path: "/workspace/x1"}, nil, guard, state, "path", sandbox.CodeCapabilityBlocked},
		{"a page of the workspace", allowed, grant.Operation{Kind: grant.OpBrowserNav, URL: "workspace:b.html"}, nil, guard, state, "", ""},
		{"a page that a pattern denies", allowed, grant.Operation{Kind: grant.OpBrowserNav, URL: "workspace:x/.env"}, nil, guard, state, "path", sandbox.CodeCapabilityBlocked},
		{"a page of a host that settings do not have", allowed, grant.Operation{Kind: grant.OpBrowserNav, URL: "https://b.example/"}, nil, guard, state, "host", sandbox.CodeCapabilityBlocked},
		{"no page", allowed, grant.Operation{Kind: grant.OpBrowserNav, URL: "about:blank"}, nil, guard, state, "", ""},
		{"a program", allowed, grant.Operation{Kind: grant.OpProcExec, Tool: "ls"}, []string{"ls"}, guard, state, "", ""},
		{"a program that the command policy denies", allowed, grant.Operation{Kind: grant.OpProcExec, Tool: "mkfs", Args: []string{"/dev/sda"}}, []string{"mkfs", "/dev/sda"}, guard, state, "pattern", sandbox.CodeDenyTool},
	} {
		t.Run(tt.name, func(t *testing.T) {
			j := gateOf(t, tt.settings).Judge(gate.Call{Tool: "reporter", Args: tt.args, Operation: &gate.Operation{Guard: tt.guard, Do: tt.do, State: tt.state}})
			err := j.Err("operate")
			if sandbox.CodeOf(err) != tt.code {
				t.Fatalf("error %v, want %q; reasons %+v", err, tt.code, j.Reasons)
			}
			r, refused := j.Decisive()
			if refused != (tt.check != "") || tt.check != "" && r.Check != tt.check && !(tt.check == "pattern" && r.Check != "profile" && r.Check != "tool") {
				t.Errorf("decided by %q, want %q", r.Check, tt.check)
			}
			if !refused && (j.Verdict != policy.Allow || strings.Contains(j.Vetted.Path, "/.") || j.Vetted.Capability == "") {
				t.Errorf("verdict %s, vetted %+v", j.Verdict, j.Vetted)
			}
		})
	}
}

// TestRefusedArgumentsAreNotQuoted holds that who refuses an operation quotes
// none of its arguments, since the refusal is put on record; a command that a
// person runs is quoted.
func TestRefusedArgumentsAreNotQuoted(t *testing.T) {
	args := []string{"mkfs", "/dev/canary"}
	do := grant.Operation{Kind: grant.OpProcExec, Tool: args[0], Args: args[1:]}
	call := gate.Call{Tool: "reporter", Args: args, Operation: &gate.Operation{Guard: guardOf(t), Do: do, State: grant.State{Now: noon()}}}
	for _, block := range []string{"mkfs:*", "mkfs /dev/canary", "*canary*"} {
		g := gateOf(t, `"tools": {"alsoAllow": ["reporter"]}, "commands": {"block": ["`+block+`"]}`)
		reported := func(c gate.Call) string {
			j := g.Judge(c)
			if j.Verdict != policy.Deny {
				t.Fatalf("%s: %+v", block, j)
			}
			text := fmt.Sprintf("%v %s", grant.Audit(j.Err("operate")), j.Summary())
			for _, r := range j.Reasons {
				text += r.Message + r.Span.Of(j.Text)
			}
			return text
		}
		if text := reported(call); strings.Contains(text, "canary") {
			t.Errorf("%s: an operation: %s", block, text)
		}
		if text := reported(gate.Call{Args: args}); !strings.Contains(text, "canary") {
			t.Errorf("%s: a command: %s", block, text)
		}
	}
}
