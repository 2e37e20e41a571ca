package sdk_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A transcript is clients/transcript/session.json, whose README.md has the format.
type transcript struct {
	Start map[string]string `json:"start"`
	Calls []transcriptCall  `json:"calls"`
	Tree  map[string]string `json:"tree"`
}

type transcriptCall struct {
	Tool string `json:"tool"`
	Args struct {
		Path    string `json:"path,omitempty"`
		Offset  int    `json:"offset,omitempty"`
		Limit   int    `json:"limit,omitempty"`
		Content string `json:"content,omitempty"`
		Old     string `json:"old,omitempty"`
		New     string `json:"new,omitempty"`
		All     bool   `json:"all,omitempty"`
		Pattern string `json:"pattern,omitempty"`
		Glob    string `json:"glob,omitempty"`
		Command string `json:"command,omitempty"`
	} `json:"args"`
	Expect transcriptAnswer `json:"expect"`
}

type transcriptAnswer struct {
	Failed   bool              `json:"failed"`
	Lines    []string          `json:"lines"`
	Matches  []transcriptMatch `json:"matches"`
	Paths    []string          `json:"paths"`
	Entries  []transcriptEntry `json:"entries"`
	ExitCode int               `json:"exit_code"`
	Stdout   string            `json:"stdout"`
	Contains []string          `json:"contains"`

	text string // what the program wrote in all
}

type transcriptMatch struct {
	Path string `json:"path"`
	Line int    `json:"line"`
	Text string `json:"text"`
}

type transcriptEntry struct {
	Name string `json:"name"`
	Type string `json:"type"`
}

// A replayer carries out calls.
type replayer interface {
	call(ctx context.Context, c transcriptCall) (transcriptAnswer, error)
}

// TestTranscript holds that a coding session has the same results through MCP, the
// tools of this package, and its commands and files.
func TestTranscript(t *testing.T) {
	b, err := os.ReadFile("../clients/transcript/session.json")
	if err != nil {
		t.Fatal(err)
	}
	var s transcript
	d := json.NewDecoder(bytes.NewReader(b))
	d.DisallowUnknownFields()
	if err := d.Decode(&struct {
		About *string `json:"about"`
		*transcript
	}{new(string), &s}); err != nil {
		t.Fatal(err)
	}
	if len(s.Calls) < 200 {
		t.Errorf("there are %d calls, want 200", len(s.Calls))
	}
	for _, provider := range []string{"local", "docker"} {
		t.Run(provider, func(t *testing.T) {
			testenv.Require(t, provider)
			c := vectorClient(t, provider)
			for name, make := range map[string]func(*testing.T, *sdk.Sandbox) replayer{
				"MCP":   func(t *testing.T, _ *sdk.Sandbox) replayer { return mcpReplayer(t, provider) },
				"tools": func(_ *testing.T, sb *sdk.Sandbox) replayer { return toolReplayer{sb.CallTool} },
				"files": func(_ *testing.T, sb *sdk.Sandbox) replayer { return fileReplayer{sb} },
			} {
				if !testenv.All() && (name == "MCP") != (provider == "local") {
					continue // each way once, and each provider
				}
				t.Run(name, func(t *testing.T) {
					sb, err := c.Sandbox(t.Context(), "transcript-"+name)
					if err != nil {
						t.Fatal(err)
					}
					t.Cleanup(func() {
						if err := sb.Remove(context.Background()); err != nil {
							t.Error(err)
						}
					})
					replay(t, make(t, sb), s)
				})
			}
		})
	}
}

func replay(t *testing.T, r replayer, s transcript) {
	t.Helper()
	ctx := t.Context()
	for _, name := range slices.Sorted(maps.Keys(s.Start)) {
		c := transcriptCall{Tool: "write"}
		c.Args.Path, c.Args.Content = name, s.Start[name]
		if _, err := r.call(ctx, c); err != nil {
			t.Fatal(err)
		}
	}
	for n, c := range s.Calls {
		got, err := r.call(ctx, c)
		var problem *sandbox.Error
		if errors.As(err, &problem) && c.Tool != "shell" && c.Tool != "test" {
			got, err = transcriptAnswer{Failed: true}, nil
		}
		if err != nil {
			t.Fatalf("call %d, %s: %v", n+1, c.Tool, err)
		}
		if why := unlike(got, c); why != "" {
			t.Fatalf("call %d, %s %+v: %s", n+1, c.Tool, c.Args, why)
		}
	}
	find := transcriptCall{Tool: "shell"}
	find.Args.Command = "find . -type f -exec sha256sum {} +"
	got, err := r.call(ctx, find)
	if err != nil {
		t.Fatal(err)
	}
	tree := map[string]string{}
	for line := range strings.Lines(got.Stdout) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		tree[strings.TrimPrefix(name, "./")] = sum
	}
	if !reflect.DeepEqual(tree, s.Tree) {
		t.Errorf("the files are %v, want %v", tree, s.Tree)
	}
}

// unlike says how an answer differs from what is expected.
func unlike(got transcriptAnswer, c transcriptCall) string {
	want := c.Expect
	differ := func(a, b any) string {
		if reflect.DeepEqual(a, b) {
			return ""
		}
		return fmt.Sprintf("%v, want %v", a, b)
	}
	if got.Failed != want.Failed || want.Failed {
		return differ(got.Failed, want.Failed)
	}
	switch c.Tool {
	case "read":
		return differ(got.Lines, want.Lines)
	case "grep":
		return differ(got.Matches, want.Matches)
	case "glob":
		return differ(got.Paths, want.Paths)
	case "list":
		return differ(got.Entries, want.Entries)
	case "shell":
		return differ([]any{got.ExitCode, got.Stdout}, []any{want.ExitCode, want.Stdout})
	case "test":
		for _, text := range want.Contains {
			if !strings.Contains(got.text, text) {
				return fmt.Sprintf("%q has no %q", got.text, text)
			}
		}
		return differ(got.ExitCode, want.ExitCode)
	}
	return ""
}

// A toolReplayer calls the tools of an agent.
type toolReplayer struct {
	use func(ctx context.Context, tool string, input any) (sdk.ToolAnswer, error)
}

func (r toolReplayer) call(ctx context.Context, c transcriptCall) (out transcriptAnswer, err error) {
	tool, input := c.Tool, map[string]any{}
	for name, value := range map[string]string{"path": c.Args.Path, "glob": c.Args.Glob, "pattern": c.Args.Pattern, "command": c.Args.Command} {
		if value != "" {
			input[name] = value
		}
	}
	switch tool {
	case "read":
		if c.Args.Offset > 0 {
			input["offset"], input["limit"] = c.Args.Offset, c.Args.Limit
		}
	case "write":
		input["content"] = c.Args.Content
	case "edit":
		input["old"], input["new"] = c.Args.Old, c.Args.New
		if c.Args.All {
			input["all"] = true
		}
	case "grep":
		input["literal"] = true
	case "list":
		tool = "ls"
	case "shell", "test":
		tool = "exec"
	}
	answer, err := r.use(ctx, tool, input)
	if err != nil {
		return out, err
	}
	var data struct {
		Lines    json.RawMessage // a number of read, a list of grep
		Paths    []string
		Entries  []struct{ Name, Kind string }
		ExitCode int
		Stdout   struct{ Text string }
		Stderr   struct{ Text string }
	}
	if len(answer.Data) > 0 {
		if err := json.Unmarshal(answer.Data, &data); err != nil {
			return out, err
		}
	}
	out.Failed = answer.Failed && tool != "exec"
	out.ExitCode, out.Stdout, out.text = data.ExitCode, data.Stdout.Text, data.Stdout.Text+data.Stderr.Text
	switch c.Tool {
	case "read":
		out.Lines = []string{}
		for line := range strings.Lines(answer.Text) {
			number, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), "\t")
			if _, err := strconv.Atoi(strings.TrimSpace(number)); ok && err == nil {
				out.Lines = append(out.Lines, text)
			}
		}
	case "grep":
		out.Matches = []transcriptMatch{}
		var lines []transcriptMatch
		if data.Lines != nil {
			if err := json.Unmarshal(data.Lines, &lines); err != nil {
				return out, err
			}
		}
		out.Matches = append(out.Matches, lines...)
		sortMatches(out.Matches)
	case "glob":
		out.Paths = append([]string{}, data.Paths...)
		slices.Sort(out.Paths)
	case "list":
		out.Entries = []transcriptEntry{}
		for _, e := range data.Entries {
			kind := e.Kind
			if kind == "folder" {
				kind = "dir"
			}
			out.Entries = append(out.Entries, transcriptEntry{e.Name, kind})
		}
	}
	return out, nil
}

func sortMatches(list []transcriptMatch) {
	slices.SortFunc(list, func(a, b transcriptMatch) int {
		if c := strings.Compare(a.Path, b.Path); c != 0 {
			return c
		}
		return a.Line - b.Line
	})
}

// mcpReplayer calls the tools of a server that is a process of its own, over its
// standard input and output.
func mcpReplayer(t *testing.T, provider string) replayer {
	t.Helper()
	dir, err := built()
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	flags := []string{"--provider", provider, "--state-dir", state, "--session", "transcript-mcp"}
	cmd := exec.Command(filepath.Join(dir, "sandbox"), append(flags, "mcp")...)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd.Stderr = &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewReaderSize(out, 1<<20)
	id := 0
	ask := func(method string, params, answer any) error {
		id++
		b, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": id, "method": method, "params": params})
		if err != nil {
			return err
		}
		if _, err := in.Write(append(b, '\n')); err != nil {
			return err
		}
		for {
			line, err := lines.ReadBytes('\n')
			if err != nil {
				return fmt.Errorf("%w\n%s", err, said.String())
			}
			var m struct {
				ID     int
				Result json.RawMessage
				Error  json.RawMessage
			}
			if err := json.Unmarshal(line, &m); err != nil {
				return err
			}
			if m.ID != id { // a notification
				continue
			}
			if m.Error != nil {
				return errors.New(string(m.Error))
			}
			return json.Unmarshal(m.Result, answer)
		}
	}
	t.Cleanup(func() {
		var removed map[string]any
		if err := ask("tools/call", map[string]any{"name": "sandbox_remove", "arguments": map[string]any{}}, &removed); err != nil || removed["isError"] == true {
			t.Errorf("remove: %v, %v", removed, err)
		}
		in.Close()
		if err := cmd.Wait(); err != nil {
			t.Errorf("the server: %v\n%s", err, said.String())
		}
	})
	var hello map[string]any
	if err := ask("initialize", map[string]any{"protocolVersion": "2025-06-18", "capabilities": map[string]any{}, "clientInfo": map[string]any{"name": "transcript", "version": "1"}}, &hello); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n"); err != nil {
		t.Fatal(err)
	}
	return toolReplayer{func(_ context.Context, tool string, input any) (sdk.ToolAnswer, error) {
		var answer struct {
			Content           []struct{ Text string }
			StructuredContent json.RawMessage
			IsError           bool
		}
		if err := ask("tools/call", map[string]any{"name": tool, "arguments": input}, &answer); err != nil {
			return sdk.ToolAnswer{}, err
		}
		out := sdk.ToolAnswer{Data: answer.StructuredContent, Failed: answer.IsError}
		for _, c := range answer.Content {
			out.Text += c.Text
		}
		return out, nil
	}}
}

// A fileReplayer has commands and files alone.
type fileReplayer struct{ sb *sdk.Sandbox }

func (r fileReplayer) call(ctx context.Context, c transcriptCall) (out transcriptAnswer, err error) {
	a, name := r.sb.API(), r.sb.Name()
	switch c.Tool {
	case "read":
		b, err := r.sb.ReadFile(ctx, c.Args.Path)
		if err != nil {
			return out, err
		}
		out.Lines = strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
		if c.Args.Offset > 0 {
			out.Lines = out.Lines[c.Args.Offset-1:]
			out.Lines = out.Lines[:min(len(out.Lines), c.Args.Limit)]
		}
	case "write":
		return out, r.sb.WriteFile(ctx, c.Args.Path, []byte(c.Args.Content))
	case "edit":
		b, err := r.sb.ReadFile(ctx, c.Args.Path)
		if err != nil {
			return out, err
		}
		if n := strings.Count(string(b), c.Args.Old); n == 0 || n > 1 && !c.Args.All {
			return transcriptAnswer{Failed: true}, nil
		}
		return out, r.sb.WriteFile(ctx, c.Args.Path, []byte(strings.ReplaceAll(string(b), c.Args.Old, c.Args.New)))
	case "grep":
		out.Matches = []transcriptMatch{}
		args := []string{"grep", "-rnIFH", "--null"}
		if c.Args.Glob != "" {
			args = append(args, "--include="+c.Args.Glob)
		}
		where := c.Args.Path
		if where == "" {
			where = "."
		}
		res, err := r.sb.Run(ctx, append(args, "--", c.Args.Pattern, where)...)
		if err != nil || res.ExitCode > 1 {
			return out, fmt.Errorf("grep: exit code %d, %s, %w", res.ExitCode, res.Stderr, err)
		}
		for line := range strings.Lines(string(res.Stdout)) {
			file, rest, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
			number, text, _ := strings.Cut(rest, ":")
			n, err := strconv.Atoi(number)
			if err != nil {
				return out, err
			}
			out.Matches = append(out.Matches, transcriptMatch{path.Clean(file), n, text})
		}
		sortMatches(out.Matches)
	case "glob":
		g, err := a.Glob(ctx, name, api.Glob{Pattern: c.Args.Pattern, Path: c.Args.Path})
		if err != nil {
			return out, err
		}
		out.Paths = []string{}
		for _, p := range g.Paths {
			out.Paths = append(out.Paths, strings.TrimPrefix(p, sandbox.WorkspaceDir+"/"))
		}
		slices.Sort(out.Paths)
	case "list":
		page, err := a.ListFiles(ctx, name, c.Args.Path, "")
		if err != nil {
			return out, err
		}
		out.Entries = []transcriptEntry{}
		for _, f := range page.Items {
			out.Entries = append(out.Entries, transcriptEntry{f.Name, f.Type})
		}
	default:
		res, err := r.sb.RunLine(ctx, c.Args.Command)
		if err != nil {
			return out, err
		}
		out.ExitCode, out.Stdout, out.text = res.ExitCode, string(res.Stdout), string(res.Stdout)+string(res.Stderr)
	}
	return out, nil
}

// TestTranscriptStart holds that the digests of the transcript are those of its own
// text where no call changes a file.
func TestTranscriptStart(t *testing.T) {
	b, err := os.ReadFile("../clients/transcript/session.json")
	if err != nil {
		t.Fatal(err)
	}
	var s transcript
	if err := json.Unmarshal(b, &s); err != nil {
		t.Fatal(err)
	}
	last := maps.Clone(s.Start)
	for _, c := range s.Calls {
		if c.Tool == "write" {
			last[c.Args.Path] = c.Args.Content
		}
		if c.Tool == "edit" && !c.Expect.Failed {
			last[c.Args.Path] = strings.ReplaceAll(last[c.Args.Path], c.Args.Old, c.Args.New)
		}
	}
	for name, sum := range s.Tree {
		if text, ok := last[name]; ok && name != "examples/plan.txt" { // which a command changes
			if got := sha256.Sum256([]byte(text)); hex.EncodeToString(got[:]) != sum {
				t.Errorf("%s comes to %x, want %s", name, got, sum)
			}
		}
	}
}
