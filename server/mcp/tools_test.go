package mcp_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	servermcp "github.com/bulkhead-dev/sandbox/server/mcp"
)

var sandboxTools = []string{"sandbox_create", "sandbox_list", "sandbox_recreate", "sandbox_remove"}

// onePixel is a PNG.
const onePixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="

// TestEveryTool calls each tool, and checks its answer against the schema that
// the client was given, errors included.
func TestEveryTool(t *testing.T) {
	r := newRig(t, settingsWith(""))
	c := r.connect(bound("s"), nil)
	list, err := c.ListTools(deadline(t), nil)
	must(t, err)
	schemas := map[string]*jsonschema.Schema{}
	for _, tool := range list.Tools {
		schemas[tool.Name] = compiled(t, tool)
		if tool.Annotations == nil || tool.Annotations.DestructiveHint == nil || tool.Annotations.OpenWorldHint == nil || tool.Title == "" || tool.Description == "" {
			t.Errorf("%s: %+v", tool.Name, tool)
		}
	}
	must(t, r.manager.Files(deadline(t), manager.Request{Who: who("s")}, func(s manager.Share) error {
		data, err := base64.StdEncoding.DecodeString(onePixel)
		must(t, err)
		return s.Write(deadline(t), "/workspace/p.png", bytes.NewReader(data), sandbox.WriteOptions{})
	}))
	called := map[string]bool{}
	tests := []struct {
		tool, input string
		want        string // part of the text
		failed      bool
		code        string
	}{
		{"sandbox_create", `{}`, "is there", false, ""},
		{"sandbox_list", `{}`, "running", false, ""},
		{"exec", `{"command":"x=1; echo out; echo err >&2"}`, "out", false, ""},
		{"exec", `{"command":"echo $x; exit 3"}`, "1", true, ""},
		{"exec", `{}`, "is missing", true, "SCHEMA.VALIDATION_FAILED"},
		{"exec", `{"command":"true","nonsense":1}`, "unknown field", true, "SCHEMA.VALIDATION_FAILED"},
		{"process", `{"action":"list"}`, "", false, ""},
		{"process", `{"action":"kill","id":"none"}`, "no such command", true, "SANDBOX.NOT_FOUND"},
		{"run_code", `{"code":"1 + 1"}`, "has no kernel host", true, "SANDBOX.UNSUPPORTED"},
		{"run_code", `{"timeout":1}`, "is missing", true, "SCHEMA.VALIDATION_FAILED"},
		{"run_code", `{"code":"1","language":"java"}`, "python", true, "SCHEMA.VALIDATION_FAILED"},
		{"write", `{"path":"a.txt","content":"one\ntwo\n"}`, "a.txt", false, ""},
		{"read", `{"path":"a.txt"}`, "two", false, ""},
		{"read", `{"path":"none"}`, "", true, "SANDBOX.NOT_FOUND"},
		{"edit", `{"path":"a.txt","old":"two","new":"2"}`, "", false, ""},
		{"edit", `{"path":"a.txt","old":"three","new":"3"}`, "", true, "SCHEMA.VALIDATION_FAILED"},
		{"apply_patch", `{"patch":"*** Begin Patch\n*** Add File: b.txt\n+new\n*** End Patch\n"}`, "b.txt", false, ""},
		{"ls", `{}`, "b.txt", false, ""},
		{"glob", `{"pattern":"*.txt"}`, "a.txt", false, ""},
		{"grep", `{"pattern":"^2$"}`, "a.txt", false, ""},
		{"image", `{"path":"p.png"}`, "", false, ""},
		{"checkpoint", `{"action":"rollback"}`, "is missing", true, "SCHEMA.VALIDATION_FAILED"},
		{"browser", `{"action":"close"}`, "browser", true, "POLICY.DENY_TOOL"},
		{"sandbox_recreate", `{}`, "anew", false, ""},
		{"sandbox_remove", `{"name":"not-there"}`, "no such sandbox", true, "SANDBOX.NOT_FOUND"},
		{"sandbox_remove", `{}`, "taken away", false, ""},
	}
	for _, tt := range tests {
		res := call(t, c, tt.tool, tt.input)
		if res.IsError != tt.failed || !strings.Contains(text(res), tt.want) {
			t.Errorf("%s %s: error %v, %q", tt.tool, tt.input, res.IsError, text(res))
		}
		if got := codeOf(t, res); tt.code != "" && got != tt.code || tt.code == "" && got != "" {
			t.Errorf("%s %s: %q, want %q", tt.tool, tt.input, got, tt.code)
		}
		if s := schemas[tt.tool]; s != nil {
			if err := s.Validate(res.StructuredContent); err != nil {
				t.Errorf("%s %s: %v", tt.tool, tt.input, err)
			}
		}
		called[tt.tool] = true
	}
	for name := range schemas {
		if !called[name] {
			t.Errorf("%s was not called", name)
		}
	}
	res := call(t, c, "image", `{"path":"p.png"}`)
	if i, ok := res.Content[len(res.Content)-1].(*mcp.ImageContent); !ok || i.MIMEType != "image/png" || len(i.Data) == 0 {
		t.Errorf("%+v", res.Content)
	}
}

func compiled(t *testing.T, tool *mcp.Tool) *jsonschema.Schema {
	t.Helper()
	data, err := json.Marshal(tool.OutputSchema)
	must(t, err)
	doc, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	must(t, err)
	compiler := jsonschema.NewCompiler()
	must(t, compiler.AddResource("urn:"+tool.Name, doc))
	s, err := compiler.Compile("urn:" + tool.Name)
	must(t, err)
	return s
}

// TestWhichToolsThereAre holds that a tool that the session may not use is not
// listed, and that the error of a call to it says why.
func TestWhichToolsThereAre(t *testing.T) {
	changing := []string{"write", "edit", "apply_patch"}
	for _, tt := range []struct {
		name, settings string
		without        []string
		call, code     string
	}{
		{"usual", settingsWith(""), []string{"browser"}, "browser", "POLICY.DENY_TOOL"},
		{"ro", settingsWith(`"workspaceAccess": "ro"`), changing, "write", "POLICY.DENY_TOOL"},
		{"denied", settingsWith(`"tools": {"deny": ["exec", "sandbox_remove"]}`), []string{"exec", "sandbox_remove"}, "sandbox_remove", "POLICY.DENY_TOOL"},
		{"allowed alone", settingsWith(`"tools": {"allow": ["read"]}`), append([]string{"exec"}, sandboxTools...), "sandbox_list", "POLICY.DENY_TOOL"},
		{"not sandboxed", settingsWith(`"mode": "off"`), append([]string{"exec", "process", "read", "write", "ls"}, sandboxTools...), "exec", "SANDBOX.CAPABILITY_BLOCKED"},
		{"not sandboxed at all", settingsWith(`"mode": "off"`), nil, "sandbox_create", "SANDBOX.CAPABILITY_BLOCKED"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, tt.settings)
			c := r.connect(bound("s"), nil)
			listed := names(t, c)
			for _, name := range tt.without {
				if slices.Contains(listed, name) {
					t.Errorf("%s is listed", name)
				}
			}
			input := map[string]string{"exec": `{"command":"true"}`, "write": `{"path":"x","content":""}`, "browser": `{"action":"close"}`}[tt.call]
			if input == "" {
				input = "{}"
			}
			if res := call(t, c, tt.call, input); !res.IsError || codeOf(t, res) != tt.code {
				t.Errorf("%s: %q", tt.call, text(res))
			}
			_, err := c.CallTool(deadline(t), &mcp.CallToolParams{Name: "nonsense"})
			if err == nil || !strings.Contains(err.Error(), "nonsense") {
				t.Errorf("a tool that there is not: %v", err)
			}
		})
	}
}

// TestListChanges holds that a client is notified when settings remove a tool.
func TestListChanges(t *testing.T) {
	r := newRig(t, settingsWith(""))
	heard := make(chan struct{}, 8)
	c := r.connect(bound("s"), &mcp.ClientOptions{ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) { heard <- struct{}{} }})
	if got := names(t, c); !slices.Contains(got, "exec") {
		t.Fatalf("%q", got)
	}
	r.set(settingsWith(`"tools": {"deny": ["exec"]}`))
	select {
	case <-heard:
	case <-time.After(30 * time.Second):
		t.Fatal("nothing was heard")
	}
	if got := names(t, c); slices.Contains(got, "exec") {
		t.Errorf("%q", got)
	}
}

// TestProgress holds that a client that asks for progress is sent how far a call
// is, in numbers that grow.
func TestProgress(t *testing.T) {
	r := newRig(t, settingsWith(""))
	notes := make(chan *mcp.ProgressNotificationParams, 1000)
	c := r.connect(bound("s"), &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) { notes <- n.Params }})
	p := &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "echo first; sleep 1; echo second"}}
	p.SetProgressToken("token")
	_, err := c.CallTool(deadline(t), p)
	must(t, err)
	last, said := -1.0, ""
	for len(notes) > 0 {
		n := <-notes
		if n.ProgressToken != "token" || n.Progress <= last {
			t.Errorf("%+v after %v", n, last)
		}
		last, said = n.Progress, said+n.Message+"\n"
	}
	if !strings.Contains(said, "first") {
		t.Errorf("%q", said)
	}
	call(t, c, "exec", `{"command":"echo third; sleep 0.2"}`)
	for len(notes) > 0 {
		if n := <-notes; n.ProgressToken != "token" { // late ones of the first call may have come
			t.Errorf("who did not ask has heard of progress: %+v", n)
		}
	}
}

// TestCancelKills holds that a cancelled call leaves no process inside.
func TestCancelKills(t *testing.T) {
	r := newRig(t, settingsWith(""))
	began := make(chan struct{}, 100)
	c := r.connect(bound("s"), &mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
		if strings.Contains(n.Params.Message, "begun") {
			began <- struct{}{}
		}
	}})
	ctx, cancel := context.WithCancel(deadline(t))
	ended := make(chan error, 1)
	go func() {
		p := &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "echo begun; sleep 1000"}}
		p.SetProgressToken(1)
		_, err := c.CallTool(ctx, p)
		ended <- err
	}()
	<-began
	cancel()
	if err := <-ended; err == nil {
		t.Error("a call that was cancelled has an answer")
	}
	testenv.Until(t, "the command ends", func() bool { return r.inside("sleep 1000") == 0 })
	if res := call(t, c, "exec", `{"command":"echo again"}`); !strings.Contains(text(res), "again") {
		t.Errorf("%q", text(res))
	}
}

// inside returns the number of sandboxes in which a process has text among its
// arguments.
func (r *rig) inside(text string) (n int) {
	for _, name := range r.engine.Names() {
		if slices.ContainsFunc(r.engine.Processes(name), func(p fake.ProcessInfo) bool { return strings.Contains(strings.Join(p.Args, " "), text) }) {
			n++
		}
	}
	return n
}

func TestCallsAreBounded(t *testing.T) {
	r := newRig(t, settingsWith(""), func(o *servermcp.Options) { o.Calls = 1 })
	began := make(chan struct{}, 100)
	c := r.connect(bound("s"), &mcp.ClientOptions{ProgressNotificationHandler: func(context.Context, *mcp.ProgressNotificationClientRequest) {
		select {
		case began <- struct{}{}:
		default:
		}
	}})
	ctx, cancel := context.WithCancel(deadline(t))
	ended := make(chan error, 1)
	go func() {
		p := &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "sleep 1000"}}
		p.SetProgressToken(1)
		_, err := c.CallTool(ctx, p)
		ended <- err
	}()
	<-began
	if res := call(t, c, "ls", `{}`); codeOf(t, res) != "QUOTA.BUDGET_EXCEEDED" {
		t.Errorf("%q", text(res))
	}
	cancel()
	<-ended
}
