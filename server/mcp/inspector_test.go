package mcp_test

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

// TestClientsInspectorOverHTTP lists the tools with the official inspector, and calls
// those whose answers differ in kind, or all with SANDBOX_TEST_ALL.
// The provider is in memory: cmd/sandbox tests real sandboxes over stdio.
func TestClientsInspectorOverHTTP(t *testing.T) {
	testenv.Require(t, "inspector")
	r := newRig(t, settingsWith(""))
	s, _ := r.serve()
	inspect := func(args ...string) (string, string, error) {
		ctx, done := context.WithTimeout(t.Context(), 3*time.Minute)
		defer done()
		cmd := testenv.Inspector(ctx, t, append(args, "--transport", "http", "--server-url", s.URL, "--header", "Caller: alice")...)
		var stdout, stderr bytes.Buffer
		cmd.Stdout, cmd.Stderr = &stdout, &stderr
		err := cmd.Run()
		return stdout.String(), stderr.String(), err
	}
	out, complaints, err := inspect("--strict", "--method", "tools/list")
	if err != nil || strings.Contains(complaints, "schema") {
		t.Fatalf("%v\n%s\n%s", err, out, complaints)
	}
	var list struct{ Tools []struct{ Name string } }
	must(t, json.Unmarshal([]byte(out), &list))
	inputs := map[string]string{
		"exec": `{"command":"echo one"}`, "process": `{"action":"list"}`, "read": `{"path":"a.txt"}`, "write": `{"path":"b.txt","content":"x"}`,
		"edit": `{"path":"a.txt","old":"two","new":"2"}`, "apply_patch": `{"patch":"*** Begin Patch\n*** Add File: c.txt\n+new\n*** End Patch\n"}`,
		"glob": `{"pattern":"*"}`, "grep": `{"pattern":"one"}`, "image": `{"path":"a.txt"}`,
		"checkpoint": `{"action":"list"}`,
		"run_code":   `{"code":"1"}`, // the local provider has no kernel host
	}
	r.put("default", "/workspace/a.txt", "one\ntwo\n")
	for _, tool := range list.Tools {
		if !testenv.All() && !slices.Contains([]string{"exec", "read", "image", "checkpoint"}, tool.Name) {
			continue
		}
		input := inputs[tool.Name]
		if input == "" {
			input = "{}"
		}
		out, complaints, err := inspect("--method", "tools/call", "--tool-name", tool.Name, "--tool-args-json", input)
		var res struct {
			Content []struct{ Text string }
			IsError bool
		}
		if jsonErr := json.Unmarshal([]byte(out), &res); jsonErr != nil || res.IsError != (tool.Name == "image" || tool.Name == "run_code") || len(res.Content) == 0 {
			t.Errorf("%s: %v, %v\n%s\n%s", tool.Name, jsonErr, err, out, complaints)
		}
	}
	if len(list.Tools) != len(inputs)+5 {
		t.Errorf("%d tools are listed", len(list.Tools))
	}
}
