//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// An execClient speaks the protocol of Codex's exec-server.
type execClient struct {
	t    *testing.T
	conn *websocket.Conn
	id   int
	seen []string // notifications
}

func (c *execClient) ask(method string, params any) (map[string]any, string) {
	c.t.Helper()
	c.id++
	c.send(map[string]any{"id": c.id, "method": method, "params": params})
	for {
		m := c.next()
		if id, ok := m["id"].(float64); ok && int(id) == c.id {
			if e, ok := m["error"].(map[string]any); ok {
				return nil, fmt.Sprintf("%v %v", e["code"], e["message"])
			}
			out, _ := m["result"].(map[string]any)
			return out, ""
		}
	}
}

func (c *execClient) send(v any) {
	c.t.Helper()
	b, err := json.Marshal(v)
	if err == nil {
		err = c.conn.Write(c.t.Context(), websocket.MessageText, b)
	}
	if err != nil {
		c.t.Fatal(err)
	}
}

// next reads a message, and notes it where it is a notification.
func (c *execClient) next() map[string]any {
	c.t.Helper()
	ctx, done := context.WithTimeout(c.t.Context(), testenv.Patience)
	defer done()
	_, b, err := c.conn.Read(ctx)
	if err != nil {
		c.t.Fatal(err)
	}
	var m map[string]any
	if err := json.Unmarshal(b, &m); err != nil {
		c.t.Fatal(err)
	}
	if method, ok := m["method"].(string); ok {
		p := m["params"].(map[string]any)
		text := method
		if chunk, ok := p["chunk"].(string); ok {
			b, _ := base64.StdEncoding.DecodeString(chunk)
			text += " " + p["stream"].(string) + " " + string(b)
		}
		if code, ok := p["exitCode"]; ok {
			text += fmt.Sprint(" ", code)
		}
		c.seen = append(c.seen, text)
	}
	return m
}

// until reads until a notification has come.
func (c *execClient) until(text string) {
	c.t.Helper()
	for !strings.Contains(strings.Join(c.seen, "\n"), text) {
		c.next()
	}
}

// TestCodexProtocol drives a daemon with a client of the protocol.
func TestCodexProtocol(t *testing.T) {
	s := newSite(t)
	file := s.settings("", "")
	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	base := d.guest("").base
	open := func(path, secret string) (*execClient, int) {
		t.Helper()
		conn, r, err := websocket.Dial(t.Context(), base+path, &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + secret}}})
		if err != nil {
			if r == nil {
				t.Fatal(err)
			}
			return nil, r.StatusCode
		}
		conn.SetReadLimit(64 << 20)
		t.Cleanup(func() { conn.CloseNow() })
		return &execClient{t: t, conn: conn}, 101
	}
	if _, status := open("/codex/s", "sbx_wrong"); status != 401 {
		t.Errorf("with a wrong token: %d", status)
	}
	secret := s.token("acme")
	c, _ := open("/codex/s", secret)
	if out, fail := c.ask("initialize", map[string]any{"clientName": "test"}); fail != "" || out["sessionId"] == "" {
		t.Fatalf("%v %s", out, fail)
	}
	c.send(map[string]any{"method": "initialized"})

	start := func(name string, more map[string]any, argv ...string) string {
		t.Helper()
		p := map[string]any{"processId": name, "argv": argv, "cwd": "file:///workspace", "env": map[string]string{"A": "b"}}
		for k, v := range more {
			p[k] = v
		}
		_, fail := c.ask("process/start", p)
		return fail
	}
	if fail := start("p1", nil, "sh", "-c", `echo "$A"; pwd; exit 3`); fail != "" {
		t.Error(fail)
	}
	c.until("process/closed")
	if all := strings.Join(c.seen, "\n"); !strings.Contains(all, "stdout b\n/workspace\n") && !strings.Contains(all, "stdout b\n") || !strings.Contains(all, "process/exited 3\nprocess/closed") {
		t.Errorf("the notifications are %q", c.seen)
	}
	if fail := start("p1", nil, "true"); !strings.Contains(fail, "exists") {
		t.Errorf("a name twice: %q", fail)
	}
	out, fail := c.ask("process/read", map[string]any{"processId": "p1"})
	if fail != "" || out["exited"] != true || out["closed"] != true || out["exitCode"] != float64(3) || len(out["chunks"].([]any)) == 0 {
		t.Errorf("read: %v %s", out, fail)
	}
	if out, _ := c.ask("process/read", map[string]any{"processId": "p1", "afterSeq": out["nextSeq"]}); len(out["chunks"].([]any)) != 0 {
		t.Errorf("behind the end: %v", out)
	}

	// Input, and a read that waits.
	c.seen = nil
	if fail := start("p2", map[string]any{"pipeStdin": true}, "sh", "-c", "read x; echo got $x; echo bad >&2"); fail != "" {
		t.Error(fail)
	}
	if out, fail := c.ask("process/write", map[string]any{"processId": "p2", "chunk": "aW4K"}); out["status"] != "accepted" {
		t.Errorf("write: %v %s", out, fail)
	}
	if out, fail := c.ask("process/read", map[string]any{"processId": "p2", "afterSeq": 0, "waitMs": 30000}); fail != "" || len(out["chunks"].([]any)) == 0 {
		t.Errorf("a read that waits: %v %s", out, fail)
	}
	c.until("process/closed")
	if all := strings.Join(c.seen, "\n"); !strings.Contains(all, "stdout got in") || !strings.Contains(all, "stderr bad") {
		t.Errorf("the notifications are %q", c.seen)
	}
	if out, _ := c.ask("process/write", map[string]any{"processId": "p2", "chunk": "aW4K"}); out["status"] != "stdinClosed" {
		t.Errorf("write to one that has ended: %v", out)
	}

	// A terminal, a signal, an end, and a rule.
	c.seen = nil
	// With exec: a child that sh is just making can miss the signal by which sh ends.
	start("p3", map[string]any{"tty": true}, "sh", "-c", "tty >/dev/null && echo yes; exec sleep 100")
	c.until("pty yes")
	if _, fail := c.ask("process/signal", map[string]any{"processId": "p3", "signal": "interrupt"}); fail != "" {
		t.Error(fail)
	}
	c.until("process/exited")
	start("p4", nil, "sleep", "100")
	if out, fail := c.ask("process/terminate", map[string]any{"processId": "p4"}); out["running"] != true {
		t.Errorf("terminate: %v %s", out, fail)
	}
	// Requests about a process are carried out while its start still is.
	c.send(map[string]any{"id": 1001, "method": "process/start", "params": map[string]any{"processId": "p6", "argv": []string{"sleep", "100"}}})
	c.send(map[string]any{"id": 1002, "method": "process/signal", "params": map[string]any{"processId": "p6", "signal": "TERM"}})
	c.ask("process/terminate", map[string]any{"processId": "p6"})
	c.seen = nil
	start("p5", nil, "sh", "-c", "rm -rf /")
	c.until("process/exited 126")
	if all := strings.Join(c.seen, "\n"); !strings.Contains(all, "POLICY.DENY_TOOL") {
		t.Errorf("a command that rules stop: %q", c.seen)
	}

	// Files.
	ok := func(method string, params map[string]any) map[string]any {
		t.Helper()
		out, fail := c.ask(method, params)
		if fail != "" {
			t.Errorf("%s %v: %s", method, params, fail)
		}
		return out
	}
	ok("fs/createDirectory", map[string]any{"path": "/workspace/a/b", "recursive": true})
	ok("fs/writeFile", map[string]any{"path": "file:///workspace/a/b/%C3%BC%20x", "dataBase64": "AP8="})
	if out := ok("fs/readFile", map[string]any{"path": "/workspace/a/b/ü x"}); out["dataBase64"] != "AP8=" {
		t.Errorf("read: %v", out)
	}
	ok("fs/copy", map[string]any{"sourcePath": "/workspace/a", "destinationPath": "/workspace/copy", "recursive": true})
	if out := ok("fs/getMetadata", map[string]any{"path": "/workspace/copy/b/ü x"}); out["isFile"] != true || out["size"] != float64(2) {
		t.Errorf("metadata: %v", out)
	}
	if out := ok("fs/readDirectory", map[string]any{"path": "/workspace/a"}); fmt.Sprint(out["entries"]) != "[map[fileName:b isDirectory:true isFile:false isSymlink:false]]" {
		t.Errorf("folder: %v", out)
	}
	if out := ok("fs/canonicalize", map[string]any{"path": "/workspace/a/../copy"}); out["path"] != "file:///workspace/copy" {
		t.Errorf("canonicalize: %v", out)
	}
	ok("fs/remove", map[string]any{"path": "/workspace/copy", "recursive": true, "force": true})
	ok("fs/remove", map[string]any{"path": "/workspace/copy", "recursive": true, "force": true})
	for _, path := range []string{"/workspace/none", "/.git"} {
		if _, fail := c.ask("fs/getMetadata", map[string]any{"path": path}); !strings.HasPrefix(fail, "-32004") {
			t.Errorf("metadata of %s: %q", path, fail)
		}
	}
	if _, fail := c.ask("fs/readFile", map[string]any{"path": "/etc/shadow"}); !strings.Contains(fail, "CAPABILITY_BLOCKED") {
		t.Errorf("outside: %q", fail)
	}

	// Processes end with their connection; another tenant has another sandbox.
	start("p6", nil, "sleep", "4321")
	c.conn.CloseNow()
	other, _ := open("/codex/s", s.token("globex"))
	other.ask("initialize", map[string]any{"clientName": "other"})
	other.send(map[string]any{"method": "initialized"})
	if _, fail := other.ask("fs/readFile", map[string]any{"path": "/workspace/a/b/ü x"}); !strings.HasPrefix(fail, "-32004") {
		t.Errorf("another tenant reads: %q", fail)
	}
	again, _ := open("/codex/s", secret)
	again.ask("initialize", map[string]any{"clientName": "again"})
	again.send(map[string]any{"method": "initialized"})
	testenv.Until(t, "the process has ended with its connection", func() bool {
		again.seen = nil
		again.id++
		again.send(map[string]any{"id": again.id, "method": "process/start", "params": map[string]any{"processId": fmt.Sprint("look", again.id), "cwd": "/tmp",
			"argv": []string{"sh", "-c", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c '[s]leep 4321'"}}})
		again.until("process/closed")
		return strings.Contains(strings.Join(again.seen, "\n"), "stdout 0")
	})
	writeSettings(t, file, "", `, "daemon": {"compat": {"codex": false}}`)
	testenv.Until(t, "the protocol is turned off", func() bool {
		_, status := open("/codex/s", secret)
		return status == 404
	})
	d.quiet()
}

// A scriptedModel answers as a model that calls tools, one after another.
type scriptedModel struct {
	mu    sync.Mutex
	steps []map[string]any
	said  []string // requests
}

func (m *scriptedModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	if r.Method != http.MethodPost {
		_, _ = io.WriteString(w, `{"object":"list","data":[],"models":[]}`)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said = append(m.said, string(body))
	item := map[string]any{"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": []any{map[string]any{"type": "output_text", "text": "DONE", "annotations": []any{}}}}
	if n := len(m.said) - 1; n < len(m.steps) {
		item = m.steps[n]
	}
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range []map[string]any{
		{"type": "response.created", "response": map[string]any{"id": "r"}},
		{"type": "response.output_item.done", "output_index": 0, "item": item},
		{"type": "response.completed", "response": map[string]any{"id": "r", "output": []any{item}, "usage": map[string]any{
			"input_tokens": 1, "output_tokens": 1, "total_tokens": 2, "input_tokens_details": map[string]int{"cached_tokens": 0}, "output_tokens_details": map[string]int{"reasoning_tokens": 0}}}},
	} {
		b, _ := json.Marshal(e)
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], b)
	}
}

// TestCodexCLI runs Codex itself, with this daemon as the only place where it runs
// commands and a model that is a script.
func TestCodexCLI(t *testing.T) {
	_, codex, _ := testenv.CodingAgents(t)
	s := newSite(t)
	s.settings("", "")
	d := s.server(filepath.Join(t.TempDir(), "d.sock"), tcp)
	call := func(n int, args map[string]any) map[string]any {
		b, _ := json.Marshal(args)
		return map[string]any{"type": "function_call", "id": fmt.Sprint("i", n), "call_id": fmt.Sprint("c", n), "status": "completed", "name": "exec_command", "arguments": string(b)}
	}
	m := &scriptedModel{steps: []map[string]any{
		call(0, map[string]any{"cmd": "echo made >f.txt; pwd; id -u; exit 3"}),
		call(1, map[string]any{"cmd": "cat f.txt; tty", "tty": true}),
	}}
	model := httptest.NewServer(m)
	defer model.Close()
	home, secret := t.TempDir(), s.token("acme")
	for name, text := range map[string]string{
		"config.toml": `model = "gpt-5"
model_provider = "script"
approval_policy = "never"
sandbox_mode = "danger-full-access"
[model_providers.script]
name = "script"
base_url = "` + model.URL + `/v1"
wire_api = "responses"
env_key = "SCRIPT_KEY"
`,
		"environments.toml": `default = "box"
include_local = false
[[environments]]
id = "box"
url = "` + strings.Replace(d.guest("").base, "http:", "ws:", 1) + `/codex/chat-42"
auth_bearer_token = "` + secret + `"
`,
	} {
		if err := os.WriteFile(filepath.Join(home, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	ctx, done := context.WithTimeout(t.Context(), 2*time.Minute)
	defer done()
	cmd := exec.CommandContext(ctx, codex, "exec", "--skip-git-repo-check", "-C", "/workspace", "do it")
	cmd.Env = append(os.Environ(), "HOME="+home, "CODEX_HOME="+home, "SCRIPT_KEY=x")
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil || !strings.Contains(out.String(), "DONE") {
		t.Fatalf("%v\n%s", err, out.String())
	}
	if _, err := os.Stat("/workspace/f.txt"); err == nil {
		t.Error("the command ran on this machine")
	}
	all := strings.Join(m.said, "\n")
	for _, want := range []string{`Output:\n/workspace\n`, "exited with code 3", "made", "/dev/pts/"} {
		if !strings.Contains(all, want) {
			t.Errorf("the model has not got %q:\n%s", want, out.String())
		}
	}
	d.quiet()
}
