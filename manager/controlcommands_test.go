//go:build linux

package manager_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A reportedPair is begin and end of one operation on record.
type reportedPair struct {
	begin *evidence.Begin
	end   *evidence.End
	ends  int
}

// commandsReported returns what is on record of commands without a grant, in the
// order in which they began.
func (c *controlled) commandsReported() (out []*reportedPair) {
	c.t.Helper()
	must(c.t, c.ctl.Recorder.Flush(context.Background())) // a record that is not required is written with a delay
	of := map[string]*reportedPair{}
	for r, err := range c.evidence.Query(context.Background(), evidence.Filter{AllTenants: true}) {
		must(c.t, err)
		p := of[r.Command]
		if p == nil {
			p = &reportedPair{}
			of[r.Command] = p
		}
		switch r.Type {
		case evidence.TypeBegin:
			p.begin = &evidence.Begin{}
			must(c.t, json.Unmarshal(r.Data, p.begin))
			if p.begin.Grant == "" && p.begin.Kind != evidence.Browser {
				out = append(out, p)
			}
		case evidence.TypeEnd:
			p.end, p.ends = &evidence.End{}, p.ends+1
			must(c.t, json.Unmarshal(r.Data, p.end))
		}
	}
	slices.Reverse(out) // the newest come first
	return out
}

// kept returns the files of the state folder that hold the text, those of
// workspaces left out.
func (c *controlled) kept(text string) []string {
	return slices.DeleteFunc(c.grep(text), func(name string) bool { return strings.HasPrefix(name, c.state.Workspaces()+"/") })
}

// TestCommandsAreOnRecord runs commands without a grant in every way that there
// is, and finds begin and end of each, with digests and without contents.
func TestCommandsAreOnRecord(t *testing.T) {
	t.Parallel()
	for name, extra := range map[string]string{
		"required": `, "requireEvidence": true, "commands": {"block": ["touch:*"]}`, "wanted": `, "evidence": {"commands": true}, "commands": {"block": ["touch:*"]}`,
	} {
		t.Run(name, func(t *testing.T) {
			onControlled(t, extra, func(c *controlled) {
				if (name == "required") != (c.wall == "docker") {
					testenv.Exhaustive(c.t, "the other setting with each kind of sandbox")
				}
				const secret = "c0mmand-c4n4ry"
				ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
				defer done()
				cause := manager.Cause{RequestID: "request-1", TraceParent: "00-1-2-00"}
				ctx = manager.WithCause(ctx, cause)
				want := "out " + secret + "\n"
				command := func(args ...string) sandbox.Command {
					return sandbox.Command{Args: args, Env: map[string]string{"VALUE": secret}, Stdin: strings.NewReader(secret), Stdout: &bytes.Buffer{}, Stderr: &bytes.Buffer{}}
				}
				line := "cat > /dev/null; echo out " + secret + "; echo " + secret + " >&2; echo " + secret + " > file; exit 3"
				must(c.t, second(c.Run(ctx, manager.Request{Who: c.who, Command: command("sh", "-c", line, secret)})))
				must(c.t, second(c.Shell(ctx, manager.Request{Who: c.who, Command: command("-c", line)})))
				captured := command("sh", "-c", line)
				captured.Stdout, captured.Stderr = nil, nil
				must(c.t, second(c.Capture(ctx, manager.Request{Who: c.who, Command: captured})))
				must(c.t, c.Files(ctx, manager.Request{Who: c.who}, func(s manager.Share) error {
					return s.Write(ctx, "/workspace/other", strings.NewReader(secret), sandbox.WriteOptions{})
				}))
				pairs := c.commandsReported()
				if len(pairs) != 4 {
					c.t.Fatalf("%d commands are on record, want 4", len(pairs))
				}
				for i, p := range pairs {
					if p.ends != 1 || p.end.Status != evidence.OK || p.begin.Inputs.Size == 0 || p.begin.Tenant != tenant || p.begin.Session != "s" {
						c.t.Errorf("%d: %+v, %+v", i, p.begin, p.end)
						continue
					}
					if i < 3 && (p.end.Outputs != evidence.DigestOf([]byte(want)) || len(p.end.Effects) != 1 || p.end.Effects[0].ExitCode == nil || *p.end.Effects[0].ExitCode != 3) {
						c.t.Errorf("%d: the end is %+v", i, p.end)
					}
				}
				if found := c.kept(secret); len(found) > 0 {
					c.t.Errorf("contents are in %q", found)
				}

				const refused = "r3fused-c4n4ry"
				_, err := c.Run(ctx, manager.Request{Who: c.who, Command: command("touch", refused)})
				_, err2 := c.Shell(ctx, manager.Request{Who: c.who, Command: command("-c", "touch "+refused)})
				_, err3 := c.Capture(ctx, manager.Request{Who: c.who, Command: sandbox.Command{Args: []string{"touch", refused}}})
				err4 := c.Files(ctx, manager.Request{Who: c.who, Tool: "forbidden"}, func(manager.Share) error { return nil })
				for i, err := range []error{err, err2, err3, err4} {
					if sandbox.CodeOf(err) != sandbox.CodeDenyTool {
						c.t.Errorf("%d: what is not allowed: %v", i, err)
					}
				}
				pairs = c.commandsReported()
				if len(pairs) != 8 {
					c.t.Fatalf("%d commands are on record, want 8", len(pairs))
				}
				for i, p := range pairs {
					if got := (manager.Cause{RequestID: p.begin.RequestID, TraceParent: p.begin.TraceParent}); got != cause {
						c.t.Errorf("%d: it is on record for %+v", i, got)
					}
				}
				for i, p := range pairs[4:] {
					if p.ends != 1 || p.end.Status != evidence.Denied || p.end.Code != sandbox.CodeDenyTool || p.end.Rule == "" || len(p.end.Effects) > 0 {
						c.t.Errorf("%d: refused, and on record %+v", i, p.end)
					}
				}
				for _, name := range c.kept(refused) {
					if strings.HasPrefix(name, c.state.Evidence()+"/") {
						c.t.Errorf("what was refused is in %s", name)
					}
				}
				must(c.t, c.ctl.Recorder.Close())
				c.verified()
			})
		})
	}
}

// TestContentsAreNotOnRecord seeds every place that has contents, in operations
// that pass and that are refused, and looks for them in the state folder.
func TestContentsAreNotOnRecord(t *testing.T) {
	t.Parallel()
	onControlled(t, "", func(c *controlled) {
		const secret = "0perate-c4n4ry"
		get := c.net.URL("http", testenv.Files, "/greeting.txt")
		for _, do := range []grant.Operation{
			{Kind: grant.OpFsWrite, Path: "/workspace/a", Data: []byte(secret)},
			{Kind: grant.OpFsRead, Path: "/workspace/a"},
			{Kind: grant.OpFsWrite, Path: "/elsewhere/a", Data: []byte(secret)},
			{Kind: grant.OpProcExec, Tool: "sh", Args: []string{"-c", "echo " + secret + "; echo " + secret + " >&2; exit 1"}},
			{Kind: grant.OpProcExec, Tool: "sh", Args: []string{"-c", "/" + secret}},
			{Kind: grant.OpProcExec, Tool: "touch", Args: []string{secret}},
			{Kind: grant.OpProcExec, Tool: "sh", Args: []string{secret + "\x00"}},
			{Kind: grant.OpNetHTTP, Method: "GET", URL: get + "?q=" + secret, Header: map[string]string{"X-Test": secret}},
			{Kind: grant.OpNetHTTP, Method: "POST", URL: get + "?q=" + secret, Data: []byte(secret)},
			{Kind: grant.OpNetHTTP, Method: "GET", URL: "http://u:" + secret + "@" + testenv.Files + "/"},
			{Kind: grant.OpNetHTTP, Method: "GET", URL: get + "/%zz" + secret},
			{Kind: grant.OpBrowserNav, URL: get + "?q=" + secret},
			{Kind: grant.OpBrowserType, Selector: "input", Text: secret},
		} {
			op := c.shell("true")
			op.Do = do
			_, _ = c.operate(op)
		}
		if c.wall == "docker" {
			c.typed(secret)
		}
		must(c.t, c.recorder.Flush(context.Background()))
		must(c.t, c.ctl.Recorder.Close())
		if found := c.kept(secret); len(found) > 0 {
			c.t.Errorf("contents are in %q", found)
		}
		if strings.Contains(c.log.String(), secret) {
			c.t.Error("contents are in the log")
		}
		c.verified()
	})
}

// typed types a text into a page, and reads it from there.
func (c *controlled) typed(text string) {
	c.t.Helper()
	c.net.Handle(testenv.Files, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, `<input><p></p><script>document.querySelector("input").oninput = e => document.querySelector("p").textContent = "typed " + e.target.value</script>`)
	}))
	op := c.shell("true")
	page := grant.Capability{Kind: grant.Browser, Actions: []string{"open", "type", "extract"}}
	op.Grant.Capabilities = append(op.Grant.Capabilities, page)
	op.Manifest.Capabilities = append(op.Manifest.Capabilities, page)
	var done manager.Performed
	for _, do := range []grant.Operation{
		{Kind: grant.OpBrowserNav, URL: c.net.URL("http", testenv.Files, "/form?q="+text)}, {Kind: grant.OpBrowserType, Selector: "input", Text: text}, {Kind: grant.OpBrowserExtract},
	} {
		op.Do = do
		var err error
		done, err = c.operate(op)
		must(c.t, err)
	}
	if got := string(done.Output.Data); !strings.Contains(got, "typed "+text) {
		c.t.Errorf("the page says %q", got)
	}
	must(c.t, c.EndCall(tenant, op.Grant.ID))
}
