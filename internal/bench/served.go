//go:build linux

package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"net/http"
	"net/url"
	"strings"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// speaker is whose sandbox is measured: the one that clients which say nothing
// speak for.
func speaker() config.Who {
	return config.Who{Agent: config.DefaultAgent, Session: config.DefaultSession}
}

// servedBox starts the daemon if it does not run, and brings its sandbox up.
func (s *Session) servedBox(ctx context.Context) (*rigDaemon, string, error) {
	d, err := s.Rig.OpenDaemon(ctx, s.Program, s.Guest)
	if err != nil {
		return nil, "", err
	}
	box, err := d.Unix.CreateSandbox(ctx, api.CreateSandbox{})
	return d, box.Name, err
}

// served runs /bin/true by a manager in this program, and by one in a daemon.
// Both judge it and put it on record. What the daemon adds is the difference.
// The guest alone does neither.
func (s *Session) served(ctx context.Context) (operation, error) {
	d, name, err := s.servedBox(ctx)
	if err != nil {
		return operation{}, err
	}
	m, err := s.Rig.OpenManager()
	if err != nil {
		return operation{}, err
	}
	return operation{rounds: 80, ways: []way{
		{name: WayEngine, turn: 2, take: timed(s.plainExec(truePath), nil)},
		{name: WaySocket, turn: 15, take: timed(start(s.Rig.Socket, truePath), nil)},
		{name: WayManager, turn: 15, take: timed(managed(m, truePath), nil)},
		{name: WayHTTP, turn: 15, take: timed(asked(d.Unix, name, truePath), nil)},
		{name: WaySSE, turn: 15, take: timed(streamed(d.Unix, name, truePath), nil)},
		{name: WayTCP, turn: 15, take: timed(asked(d.TCP, name, truePath), nil)},
	}}, nil
}

// managed runs args by m. They must succeed and say nothing.
func managed(m *manager.Manager, args ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		var out, errOut bytes.Buffer
		o, err := m.Run(ctx, manager.Request{Who: speaker(), Command: sandbox.Command{Args: args, Stdout: &out, Stderr: &errOut}})
		return silent(o.Exit.Code, &out, &errOut, err)
	}
}

// asked runs args by a daemon.
func asked(c *sdk.API, name string, args ...string) func(ctx context.Context) error {
	return func(ctx context.Context) error {
		r, err := c.Exec(ctx, name, api.Exec{Args: args})
		if err == nil && (r.ExitCode != 0 || r.StdoutBytes+r.StderrBytes > 0) {
			err = wrong("exit status %d, output %q, errors %q", r.ExitCode, r.Stdout, r.Stderr)
		}
		return err
	}
}

// streamed runs args by a daemon that answers with events, to the last one.
func streamed(c *sdk.API, name string, args ...string) func(ctx context.Context) error {
	q := sdk.Request{
		Op: "exec", Method: http.MethodPost, Path: api.Prefix + "/sandboxes/" + url.PathEscape(name) + "/exec",
		Header: http.Header{"Accept": {api.ContentEvents}}, JSON: api.Exec{Args: args},
	}
	return func(ctx context.Context) error {
		a, err := c.Do(ctx, q)
		if err != nil {
			return err
		}
		defer a.Body.Close()
		events := []string{}
		for lines := bufio.NewScanner(a.Body); ; {
			if !lines.Scan() {
				err = lines.Err()
				break
			}
			if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				events = append(events, event)
			}
			if strings.HasPrefix(lines.Text(), "data: ") && !strings.Contains(lines.Text(), `"exitCode":0,`) {
				err = errors.Join(err, wrong("the stream says %q", lines.Text()))
			}
		}
		if err == nil && (len(events) != 1 || events[0] != api.EventExit) {
			err = wrong("the events are %q", events)
		}
		return err
	}
}

// word is what the lines of tools say.
const word = "bulkhead"

// tool runs a line in the shell of an agent's session, by the tool of the
// daemon that agents have for it.
func (s *Session) tool(ctx context.Context) (operation, error) {
	d, name, err := s.servedBox(ctx)
	if err != nil {
		return operation{}, err
	}
	c, err := mcp.NewClient(&mcp.Implementation{Name: "bench", Version: "1"}, nil).Connect(ctx,
		&mcp.StreamableClientTransport{Endpoint: "http://localhost/mcp", HTTPClient: d.HTTP}, nil)
	if err != nil {
		return operation{}, err
	}
	input := map[string]string{"command": "echo " + word}
	overHTTP := func(ctx context.Context) error {
		a, err := d.Unix.CallTool(ctx, name, "exec", input)
		return worded(a.Text, a.Failed, err)
	}
	overMCP := func(ctx context.Context) error {
		a, err := c.CallTool(ctx, &mcp.CallToolParams{Name: "exec", Arguments: input})
		if err != nil {
			return err
		}
		text := ""
		for _, part := range a.Content {
			if t, ok := part.(*mcp.TextContent); ok {
				text += t.Text
			}
		}
		return worded(text, a.IsError, nil)
	}
	plainly := func(ctx context.Context) error {
		var out bytes.Buffer
		err := s.plainOutput(ctx, &out, "sh", "-c", input["command"])
		return worded(out.String(), false, err)
	}
	return operation{rounds: 60, done: c.Close, ways: []way{
		{name: WayEngine, turn: 2, take: timed(plainly, nil)},
		{name: WayHTTP, turn: 10, take: timed(overHTTP, nil)},
		{name: WayMCP, turn: 10, take: timed(overMCP, nil)},
	}}, nil
}

// worded holds that a line has said its word first.
func worded(text string, failed bool, err error) error {
	if err == nil && (failed || !strings.HasPrefix(text, word+"\n")) {
		err = wrong("it says %q", text)
	}
	return err
}

// servedRead reads a file through the daemon.
func (s *Session) servedRead(ctx context.Context) (operation, error) {
	const size, file = 1 << 20, "bench-served"
	d, name, err := s.servedBox(ctx)
	if err != nil {
		return operation{}, err
	}
	content := bytes.Repeat([]byte("0123456789abcdef"), size/16)
	if _, err := d.Unix.WriteFile(ctx, name, file, bytes.NewReader(content), false); err != nil {
		return operation{}, err
	}
	if err := s.Rig.Workspace.WriteFile(file, content, 0o644); err != nil {
		return operation{}, err
	}
	got := make([]byte, size+1)
	n := 0
	same := func(context.Context) error {
		if !bytes.Equal(got[:n], content) {
			return wrong("%d bytes came that are not the file", n)
		}
		return nil
	}
	overHTTP := func(ctx context.Context) error {
		body, err := d.Unix.ReadFile(ctx, name, file)
		if err != nil {
			return err
		}
		defer body.Close()
		n, err = readAll(body, got)
		return err
	}
	plainly := func(ctx context.Context) error {
		into := &sink{buf: got}
		err := s.plainOutput(ctx, into, "cat", inside(file))
		n = into.n
		return err
	}
	return operation{bytes: size, rounds: 60, ways: []way{
		{name: WayEngine, turn: 2, take: timed(plainly, same)},
		{name: WayHTTP, turn: 6, take: timed(overHTTP, same)},
	}}, nil
}
