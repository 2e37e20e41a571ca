package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// An agent is a client of `sandbox mcp`, which it has started.
type agent struct {
	*mcp.ClientSession
	t   *testing.T
	cmd *exec.Cmd
}

// sandboxes are the providers that agents are tested with.
func providers(t *testing.T, try func(t *testing.T, wall string, s *site)) {
	for _, wall := range []string{"docker", "local"} {
		t.Run(wall, func(t *testing.T) {
			testenv.Require(t, wall)
			s := newSite(t)
			if wall == "local" {
				s.env = append(s.env, "PATH="+testenv.SystemPath+":"+os.Getenv("PATH"))
			}
			try(t, wall, s)
		})
	}
}

// agent starts a client with a server of its own.
func (s *site) agent(o *mcp.ClientOptions, args ...string) *agent {
	s.t.Helper()
	cmd := s.command(append([]string{"mcp"}, args...)...)
	cmd.Stderr = os.Stderr
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(s.t.Context(), &mcp.CommandTransport{Command: cmd, TerminateDuration: time.Minute}, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	a := &agent{c, s.t, cmd}
	s.t.Cleanup(func() { c.Close() })
	return a
}

// call calls a tool and returns the text of its answer, which is no error.
func (a *agent) call(name, input string) string {
	a.t.Helper()
	r := a.try(a.t.Context(), name, input)
	if r.IsError {
		a.t.Fatalf("%s %s: %q", name, input, said(r))
	}
	return said(r)
}

func (a *agent) try(ctx context.Context, name, input string) *mcp.CallToolResult {
	a.t.Helper()
	ctx, done := context.WithTimeout(ctx, 2*time.Minute)
	defer done()
	r, err := a.CallTool(ctx, &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(input)})
	if err != nil {
		a.t.Fatalf("%s %s: %v", name, input, err)
	}
	return r
}

func said(r *mcp.CallToolResult) string {
	var out strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			out.WriteString(t.Text)
		}
	}
	return out.String()
}

// toolInputs has a call for each tool that a session has by default, in an order
// in which each finds what it needs.
func toolInputs() [][2]string {
	return [][2]string{
		{"sandbox_create", `{}`},
		{"exec", `{"command":"echo one > a.txt; printf '\\211PNG' > broken.png; id -u"}`},
		{"process", `{"action":"list"}`},
		{"write", `{"path":"b.txt","content":"two\n"}`},
		{"read", `{"path":"a.txt"}`},
		{"edit", `{"path":"b.txt","old":"two","new":"three"}`},
		{"apply_patch", `{"patch":"*** Begin Patch\n*** Update File: b.txt\n@@\n-three\n+four\n*** End Patch\n"}`},
		{"ls", `{}`},
		{"glob", `{"pattern":"*.txt"}`},
		{"grep", `{"pattern":"four"}`},
		{"image", `{"path":"broken.png"}`}, // is an error
		{"run_code", `{"code":"1"}`},       // is an error: the image has no kernels
		{"checkpoint", `{"action":"create"}`},
		{"sandbox_list", `{}`},
		{"sandbox_recreate", `{}`},
		{"sandbox_remove", `{}`},
	}
}

// TestAgentUsesTools holds that an agent which has started the program works in
// its sandbox, and that what it leaves behind ends with it.
func TestAgentUsesTools(t *testing.T) {
	t.Parallel()
	providers(t, func(t *testing.T, wall string, s *site) {
		a := s.agent(nil, "--provider", wall)
		l, err := a.ListTools(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		var listed, called []string
		for _, tool := range l.Tools {
			listed = append(listed, tool.Name)
		}
		for _, in := range toolInputs() {
			called = append(called, in[0])
			if r := a.try(t.Context(), in[0], in[1]); r.IsError != (in[0] == "image" || in[0] == "run_code") {
				t.Errorf("%s: error %v, %q", in[0], r.IsError, said(r))
			}
		}
		slices.Sort(called)
		if !slices.Equal(listed, called) {
			t.Errorf("listed %q, called %q", listed, called)
		}
		// What stays from call to call, and is not ours.
		a.call("exec", `{"command":"cd /tmp; export X=kept; f() { echo function; }"}`)
		if got := a.call("exec", `{"command":"pwd; echo $X; f; id -u"}`); !strings.HasPrefix(got, "/tmp\nkept\nfunction\n") || strings.Contains(got, "\n0\n") {
			t.Errorf("%q", got)
		}
		r, err := a.ReadResource(t.Context(), &mcp.ReadResourceParams{URI: "sandbox:///workspace/b.txt"})
		if err != nil || r.Contents[0].Text != "four\n" {
			t.Errorf("%+v, %v", r, err)
		}
		marker := fmt.Sprintf("sleep 4711.%d", os.Getpid())
		id := backgroundID(t, a.try(t.Context(), "exec", `{"command":"`+marker+`","background":true}`))
		eventually(t, "it does not run", func() bool { return onHost(t, marker) > 0 })
		a.call("process", `{"action":"poll","id":"`+id+`"}`)
		if got := a.call("process", `{"action":"ports"}`); got != "[no program listens]" {
			t.Errorf("%q", got)
		}
		a.call("exec", `{"command":"exec perl -MIO::Socket::INET -e 'my $l = IO::Socket::INET->new(LocalAddr => q(127.0.0.1), LocalPort => 8123, Listen => 5) or die; sleep 600'","background":true}`)
		eventually(t, "the port is not listed", func() bool {
			got := a.call("process", `{"action":"ports"}`)
			return strings.HasPrefix(got, "[port 8123 at 127.0.0.1: ") && strings.Contains(got, " perl -MIO::Socket::INET")
		})
		if err := a.Close(); err != nil {
			t.Errorf("the program has not ended well: %v", err)
		}
		eventually(t, "what ran in the background runs on", func() bool { return onHost(t, marker) == 0 })
	})
}

// backgroundID is that of a command which was started.
func backgroundID(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	id, _ := r.StructuredContent.(map[string]any)["id"].(string)
	if id == "" {
		t.Fatalf("no id: %q", said(r))
	}
	return id
}

// onHost counts the processes of this machine that run a command line, those in
// sandboxes included.
func onHost(t *testing.T, line string) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, f := range files {
		args, err := os.ReadFile(f) // some are gone meanwhile
		if err == nil && strings.TrimRight(strings.ReplaceAll(string(args), "\x00", " "), " ") == line {
			n++
		}
	}
	return n
}

// TestAgentCancels holds that a call which the agent cancels leaves nothing
// running inside.
func TestAgentCancels(t *testing.T) {
	t.Parallel()
	providers(t, func(t *testing.T, wall string, s *site) {
		marker := fmt.Sprintf("sleep 4712.%d", os.Getpid())
		began := make(chan struct{}, 1)
		a := s.agent(&mcp.ClientOptions{ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
			if strings.Contains(n.Params.Message, "begun") {
				select {
				case began <- struct{}{}:
				default:
				}
			}
		}}, "--provider", wall)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			p := &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "(setsid " + marker + " &) ; echo begun; " + marker}}
			p.SetProgressToken("p")
			_, err := a.CallTool(ctx, p)
			ended <- err
		}()
		select {
		case <-began:
		case err := <-ended:
			t.Fatalf("the call has ended: %v", err)
		case <-time.After(time.Minute):
			t.Fatal("nobody has told of progress")
		}
		cancel()
		if err := <-ended; !errors.Is(err, context.Canceled) {
			t.Errorf("%v", err)
		}
		eventually(t, "it runs on", func() bool { return onHost(t, marker) == 0 })
		a.call("exec", `{"command":"`+marker+`","background":true}`)
		eventually(t, "what runs is not seen, so this test sees nothing", func() bool { return onHost(t, marker) > 0 })
	})
}

// noteOutside makes a folder that no sandbox mounts, with a file "note".
func noteOutside(t *testing.T) string {
	t.Helper()
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	outside, err := os.MkdirTemp(home, "sbx-t-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(outside) })
	if err := errors.Join(os.Chmod(outside, 0o755), os.WriteFile(filepath.Join(outside, "note"), []byte("secret text"), 0o644)); err != nil {
		t.Fatal(err)
	}
	return outside
}

// TestAgentIsAsked holds that a host path which no rule opens is opened by the
// person at the client.
func TestAgentIsAsked(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	s := newSite(t)
	outside := noteOutside(t)
	for _, answer := range []string{"allow_once", "deny"} {
		asked := 0
		a := s.agent(&mcp.ClientOptions{ElicitationHandler: func(_ context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked++
			if !strings.Contains(q.Params.Message, outside) {
				t.Errorf("the question: %q", q.Params.Message)
			}
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"permission": answer}}, nil
		}}, "--provider", "local", "--session", answer)
		r := a.try(t.Context(), "exec", `{"command":"cat `+outside+`/note"}`)
		if asked == 0 || strings.Contains(said(r), "secret text") != (answer == "allow_once") {
			t.Errorf("%s: asked %d times, %q", answer, asked, said(r))
		}
	}
}

// TestAgentIsEnded holds that the program ends at SIGTERM, in time, with what
// runs.
func TestAgentIsEnded(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	a := s.agent(nil, "--provider", "docker")
	a.call("exec", `{"command":"sleep 4713","background":true}`)
	if !strings.Contains(s.inside(), "sleep 4713") {
		t.Fatal("it does not run")
	}
	if err := a.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(); err != nil {
		t.Logf("the client hears: %v", err)
	}
	a.Close()
	eventually(t, "it runs on", func() bool { return !strings.Contains(s.inside(), "sleep 4713") })
}

// TestAgentOutside holds that a session which is not sandboxed has no tools.
func TestAgentOutside(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	file := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(file, []byte(`{"agents": {"defaults": {"sandbox": {"mode": "off"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	a := s.agent(nil, "--config", file)
	l, err := a.ListTools(t.Context(), nil)
	if err != nil || len(l.Tools) != 0 {
		t.Errorf("%+v, %v", l, err)
	}
	if r := a.try(t.Context(), "exec", `{"command":"id"}`); !r.IsError || !strings.Contains(said(r), "SANDBOX.CAPABILITY_BLOCKED") {
		t.Errorf("%q", said(r))
	}
}
