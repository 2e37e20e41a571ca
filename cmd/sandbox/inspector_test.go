package main

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// inspected calls the program through the official inspector, and returns what
// it prints and what it complains about.
func (s *site) inspected(args ...string) (out, complaints string, err error) {
	s.t.Helper()
	ctx, done := context.WithTimeout(s.t.Context(), 3*time.Minute)
	defer done()
	var own []string
	for _, kv := range s.env {
		for _, name := range []string{"PATH=", "GORACE=", "SANDBOX_GUEST=", "SANDBOX_STATE_DIR="} {
			if strings.HasPrefix(kv, name) {
				own = append(own, "-e", kv)
			}
		}
	}
	at := slices.Index(args, "--")
	cmd := testenv.Inspector(ctx, s.t, slices.Concat(own, args[:at], []string{"--", s.command().Path}, args[at+1:])...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err = cmd.Run()
	return stdout.String(), stderr.String(), err
}

// TestClientsInspector lists the tools with the official inspector and calls three of
// them, and every one with "make test-all": each call takes the inspector
// seconds, and [TestAgentUsesTools] calls them all with another client. The
// state of a shell ends with each call, which starts a program of its own; the
// files of the sandbox stay.
func TestClientsInspector(t *testing.T) {
	t.Parallel()
	providers(t, func(t *testing.T, wall string, s *site) {
		program := []string{"--", "mcp", "--provider", wall}
		out, complaints, err := s.inspected(append([]string{"--strict", "--method", "tools/list"}, program...)...)
		if err != nil || strings.Contains(complaints, "schema") {
			t.Fatalf("%v\n%s\n%s", err, out, complaints)
		}
		var list struct{ Tools []struct{ Name string } }
		if err := json.Unmarshal([]byte(out), &list); err != nil {
			t.Fatal(err)
		}
		if wall == "local" {
			return
		}
		var listed, called []string
		for _, tool := range list.Tools {
			listed = append(listed, tool.Name)
		}
		for _, in := range toolInputs() {
			called = append(called, in[0])
			if !testenv.All() && !slices.Contains([]string{"exec", "read", "image"}, in[0]) {
				continue
			}
			out, complaints, err := s.inspected(append([]string{"--method", "tools/call", "--tool-name", in[0], "--tool-args-json", in[1]}, program...)...)
			var res struct {
				Content []struct{ Type, Text string }
				IsError bool
			}
			if jsonErr := json.Unmarshal([]byte(out), &res); jsonErr != nil {
				t.Errorf("%s: %v, %v\n%s\n%s", in[0], jsonErr, err, out, complaints)
				continue
			}
			if res.IsError != (in[0] == "image" || in[0] == "run_code") || len(res.Content) == 0 {
				t.Errorf("%s: %s\n%s", in[0], out, complaints)
			}
		}
		slices.Sort(listed)
		slices.Sort(called)
		if !slices.Equal(listed, called) {
			t.Errorf("listed %q, called %q", listed, called)
		}
		s.agent(nil, "--provider", wall).call("write", `{"path":"r.txt","content":"resource"}`)
		out, complaints, err = s.inspected(append([]string{"--method", "resources/read", "--uri", "sandbox:///workspace/r.txt"}, program...)...)
		if err != nil || !strings.Contains(out, `"resource"`) {
			t.Errorf("%v\n%s\n%s", err, out, complaints)
		}
	})
}
