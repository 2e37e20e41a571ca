package main

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// daemon starts `sandbox serve` on the socket in the state folder, and returns
// what speaks to it.
func (s *site) daemon(args ...string) *http.Client {
	s.t.Helper()
	cmd := s.command(append([]string{"serve"}, args...)...)
	out, err := cmd.StderrPipe()
	if err != nil {
		s.t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	said := bufio.NewReader(out)
	line, err := said.ReadString('\n')
	if err != nil || !strings.Contains(line, "listening at") {
		s.t.Fatalf("%q, %v", line, err)
	}
	drained := make(chan struct{})
	go func() {
		defer close(drained)
		io.Copy(os.Stderr, said)
	}()
	path := filepath.Join(s.state, "daemon.sock")
	t := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "unix", path)
	}}
	s.t.Cleanup(func() {
		t.CloseIdleConnections()
		cmd.Process.Signal(syscall.SIGTERM)
		<-drained
		if err := cmd.Wait(); err != nil {
			s.t.Logf("the daemon ends: %v", err)
		}
	})
	return &http.Client{Transport: t}
}

// TestAgentOverDaemon holds that an agent works over HTTP as it does with a
// program of its own: questions, progress for longer than a request may last,
// and cancellation.
func TestAgentOverDaemon(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	s := newSite(t)
	outside := noteOutside(t)
	settings := filepath.Join(t.TempDir(), "settings.json")
	if err := os.WriteFile(settings, []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	h := s.daemon("--config", settings)
	asked := make(chan string, 10)
	began := make(chan struct{}, 1000)
	o := &mcp.ClientOptions{
		ElicitationHandler: func(_ context.Context, q *mcp.ElicitRequest) (*mcp.ElicitResult, error) {
			asked <- q.Params.Message
			return &mcp.ElicitResult{Action: "accept", Content: map[string]any{"permission": "allow_once"}}, nil
		},
		ProgressNotificationHandler: func(_ context.Context, n *mcp.ProgressNotificationClientRequest) {
			if strings.Contains(n.Params.Message, "begun") {
				began <- struct{}{}
			}
		},
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: "http://localhost/mcp", HTTPClient: h}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a := &agent{c, t, nil}
	if got := a.call("exec", `{"command":"echo hello"}`); !strings.HasPrefix(got, "hello\n") {
		t.Errorf("%q", got)
	}
	if got := said(a.try(t.Context(), "exec", `{"command":"cat `+outside+`/note"}`)); len(asked) == 0 || !strings.Contains(got, "secret text") {
		t.Errorf("asked %d times, %q", len(asked), got)
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		p := &mcp.CallToolParams{Name: "exec", Arguments: map[string]any{"command": "echo begun; sleep 4714"}}
		p.SetProgressToken("p")
		_, err := c.CallTool(ctx, p)
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
	<-ended
	eventually(t, "it runs on", func() bool { return onHost(t, "sleep 4714") == 0 })
}
