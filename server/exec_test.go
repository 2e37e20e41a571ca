package server_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// A stream is the streamed answer of a command.
type stream struct {
	t    *testing.T
	res  *http.Response
	in   *bufio.Reader
	stop context.CancelFunc
}

type event struct{ name, data string }

func (h *fixture) stream(secret, path, body string) *stream {
	h.t.Helper()
	client, host := h.unix, "http://sandbox"
	if secret != "" {
		client, host = h.tcp, "http://"+h.addr
	}
	ctx, stop := context.WithCancel(h.t.Context())
	h.t.Cleanup(stop)
	r, err := http.NewRequestWithContext(ctx, "POST", host+path, strings.NewReader(body))
	must(h.t, err)
	r.Header.Set("Content-Type", "application/json")
	r.Header.Set("Accept", "text/event-stream")
	if secret != "" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	res, err := client.Do(r)
	must(h.t, err)
	h.t.Cleanup(func() { res.Body.Close() })
	return &stream{h.t, res, bufio.NewReader(res.Body), stop}
}

// begun waits for the beginning of the stream.
func (s *stream) begun() {
	s.t.Helper()
	if s.res.StatusCode != 200 || s.res.Header.Get("Content-Type") != api.ContentEvents {
		data, _ := io.ReadAll(s.in)
		s.t.Fatalf("no stream: %d %s", s.res.StatusCode, data)
	}
}

// next returns the next event; a zero one is the end.
func (s *stream) next() event {
	var e event
	for {
		line, err := s.in.ReadString('\n')
		if err != nil {
			return event{}
		}
		line = strings.TrimSuffix(line, "\n")
		switch {
		case strings.HasPrefix(line, "event: "):
			e.name = line[7:]
		case strings.HasPrefix(line, "data: "):
			e.data = line[6:]
		case line == "" && e.name != "":
			return e
		}
	}
}

// all returns the events to the end of the stream.
func (s *stream) all() []event {
	var out []event
	for e := s.next(); e.name != ""; e = s.next() {
		out = append(out, e)
	}
	return out
}

func (s *stream) last() event {
	s.t.Helper()
	all := s.all()
	if len(all) == 0 {
		s.t.Fatal("the stream has no events")
	}
	return all[len(all)-1]
}

// written returns the joined data of the events of that name.
func written(t *testing.T, events []event, name string) string {
	t.Helper()
	var b strings.Builder
	for _, e := range events {
		if e.name != name {
			continue
		}
		var o api.Output
		must(t, json.Unmarshal([]byte(e.data), &o))
		b.WriteString(o.Text)
		b.Write(o.Base64)
	}
	return b.String()
}

func TestExecPlain(t *testing.T) {
	h := open(t, plan{})
	at := "/v1/sandboxes/" + h.made("", "s").Name + "/exec"
	tests := []struct {
		name, body string
		want       func(api.ExecResult) bool
	}{
		{"output", `{"args":["echo","a","ü"]}`, func(r api.ExecResult) bool { return r.Stdout == "a ü\n" && r.StdoutBytes == 5 && r.ExitCode == 0 }},
		{"a line", `{"line":"echo out; echo err >&2; exit 3"}`, func(r api.ExecResult) bool { return r.Stdout == "out\n" && r.Stderr == "err\n" && r.ExitCode == 3 }},
		{"input", `{"args":["cat"],"stdin":"hello"}`, func(r api.ExecResult) bool { return r.Stdout == "hello" }},
		{"bytes", `{"args":["cat"],"stdinBase64":"/wD/"}`, func(r api.ExecResult) bool { return string(r.StdoutBase64) == "\xff\x00\xff" && r.Stdout == "" }},
		{"variables", `{"line":"echo $A","env":{"A":"x y"}}`, func(r api.ExecResult) bool { return r.Stdout == "x y\n" }},
		{"a time limit", `{"args":["sleep","600"],"timeoutSeconds":0.05}`, func(r api.ExecResult) bool {
			return r.TimedOut && r.Limit != nil && r.Limit.Limit == sandbox.LimitTimeout
		}},
		{"a failure", `{"args":["false"]}`, func(r api.ExecResult) bool { return r.ExitCode == 1 }},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := is[api.ExecResult](h.send("", "POST", at, tt.body), 200); !tt.want(got) {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestExecRefusals(t *testing.T) {
	h := open(t, plan{})
	at := "/v1/sandboxes/" + h.made("", "s").Name + "/exec"
	for body, field := range map[string]string{
		`{}`: "args", `{"args":[]}`: "args", `{"args":["a"],"line":"b"}`: "args", `{"args":["true"],"stdin":"a","stdinBase64":"YQ=="}`: "stdin",
		`{"args":["true"],"env":{"A=B":"c"}}`: "env", `{"args":["true"],"env":{"A\nB":"c"}}`: "env", `{"line":"true","env":{"":"c"}}`: "env",
		`{"args":["true"],"env":{"A\u0000":"c"}}`: "env", `{"args":["true"],"env":{"A":"c\u0000"}}`: "env", `{"args":"true"}`: "args", `{"args":[1]}`: "args[0]", `{"args":["true"],"extra":1}`: "extra",
		`{"args":["true"],"timeoutSeconds":-1}`: "timeoutSeconds", `{"args":["true"],"timeoutSeconds":1e9}`: "timeoutSeconds",
		`{"args":["a"],"args":["b"]}`: "args", `{"Args":["a"]}`: "Args", `{"args":["a"]} x`: "", `{"args":null}`: "args", `[`: "", `nothing`: "",
	} {
		for _, accept := range []string{"", "text/event-stream"} {
			res := h.send("", "POST", at, body, "Accept", accept)
			if p := res.fails(422, sandbox.CodeValidation); p.Field != field {
				t.Errorf("%s: field %q, want %q (%s)", body, p.Field, field, p.Detail)
			}
		}
	}
	h.send("", "POST", at, `{"args":["true"]}`, "Content-Type", "").fails(415, sandbox.CodeValidation)
	h.send("", "POST", at, `{"args":["cat"],"stdin":"`+strings.Repeat("a", 9<<20)+`"}`).fails(413, sandbox.CodeValidation)
	h.send("", "POST", at, `{"args":["cat"],"stdin":"`+strings.Repeat("a", 2<<20)+`"}`).fails(422, sandbox.CodeValidation)
	h.send("", "POST", at, `{"args":["true"],"tool":"browser"}`).fails(403, sandbox.CodeDenyTool)
}

func TestExecStream(t *testing.T) {
	h := open(t, plan{})
	at := "/v1/sandboxes/" + h.made("", "s").Name + "/exec"
	s := h.stream("", at, `{"line":"echo one; echo two >&2; exit 4"}`)
	s.begun()
	events := s.all()
	if out, errs := written(t, events, api.EventStdout), written(t, events, api.EventStderr); out != "one\n" || errs != "two\n" {
		t.Errorf("out %q, err %q", out, errs)
	}
	var exit api.Exit
	last := events[len(events)-1]
	must(t, json.Unmarshal([]byte(last.data), &exit))
	if last.name != api.EventExit || exit.ExitCode != 4 || exit.StdoutBytes != 4 {
		t.Errorf("ends with %+v", last)
	}
}

// Characters that arrive in pieces are joined, and bytes that are not valid
// UTF-8 arrive unchanged.
func TestExecStreamKeepsEveryByte(t *testing.T) {
	h := open(t, plan{})
	at := "/v1/sandboxes/" + h.made("", "s").Name + "/exec"
	for name, text := range map[string]string{"signs": strings.Repeat("a€𝄞", 30_000), "half a sign": "abc\xe2\x82", "bytes": "\xff\xfe\x00x\x80"} {
		body, err := json.Marshal(api.Exec{Args: []string{"cat"}, StdinBase64: []byte(text)})
		must(t, err)
		s := h.stream("", at, string(body))
		s.begun()
		events := s.all()
		if got := written(t, events, api.EventStdout); got != text {
			t.Errorf("%s: %d bytes have become %d", name, len(text), len(got))
		}
		for _, e := range events {
			if name == "signs" && strings.Contains(e.data, "base64") {
				t.Errorf("a sign was cut: %.80s", e.data)
			}
		}
	}
}

// A client that disconnects ends the command.
func TestExecEndsWithItsCaller(t *testing.T) {
	h := open(t, plan{})
	name := h.made("", "s").Name
	s := h.stream("", "/v1/sandboxes/"+name+"/exec", `{"line":"echo begun; sleep 600"}`)
	s.begun()
	if e := s.next(); e.name != api.EventStdout {
		t.Fatalf("got %+v", e)
	}
	s.stop()
	testenv.Until(t, "the command has ended", func() bool { return sleepers(h, name) == 0 })
}

// A client that does not read makes the program wait, and is cut off.
func TestExecCutsOffWhoDoesNotRead(t *testing.T) {
	h := open(t, plan{daemon: slow(200 * time.Millisecond)})
	name := h.made("", "s").Name
	s := h.stream("", "/v1/sandboxes/"+name+"/exec", `{"line":"while true; do echo 0123456789012345678901234567890123456789; done"}`)
	s.begun()
	testenv.Until(t, "the command has ended", func() bool { return len(h.engine.Processes(name)) == 0 })
	if last := s.last(); last.name == api.EventExit {
		t.Errorf("the stream ends with %+v", last)
	}
}

func TestRevokedTokenEndsItsCommands(t *testing.T) {
	h := open(t, plan{})
	secret, id, err := h.tokens.Create(token.Claims{Role: token.Tenant, Tenant: "a"})
	must(t, err)
	name := h.made(secret, "s").Name
	s := h.stream(secret, "/v1/sandboxes/"+name+"/exec", `{"line":"echo begun; sleep 600"}`)
	s.begun()
	_, err = h.tokens.Revoke(id)
	must(t, err)
	last := s.last()
	var p api.Problem
	must(t, json.Unmarshal([]byte(last.data), &p))
	if last.name != api.EventError || p.Code != sandbox.CodePermissionDeny {
		t.Errorf("ends with %+v", last)
	}
	if n := sleepers(h, name); n != 0 {
		t.Errorf("%d commands go on", n)
	}
}

// A sandbox that fails during a command never looks like a success.
func TestExecOfASandboxThatFalls(t *testing.T) {
	h := open(t, plan{})
	name := h.made("", "s").Name
	s := h.stream("", "/v1/sandboxes/"+name+"/exec", `{"line":"echo begun; sleep 600"}`)
	s.begun()
	s.next()
	must(t, h.engine.Destroy(name))
	if last := s.last(); last.name != api.EventError {
		t.Errorf("ends with %+v", last)
	}
}

func TestTools(t *testing.T) {
	h := open(t, plan{})
	at := "/v1/sandboxes/" + h.made("", "s").Name + "/tools"
	names := map[string]bool{}
	for _, tool := range is[api.ToolList](h.send("", "GET", at, nil), 200).Items {
		names[tool.Name] = len(tool.InputSchema) > 0
	}
	if !names["exec"] || !names["read"] || names["browser"] {
		t.Errorf("tools %v", names)
	}
	if a := is[api.ToolAnswer](h.send("", "POST", at+"/write", `{"path":"a.txt","content":"hello\n"}`), 200); a.Failed {
		t.Errorf("write: %+v", a)
	}
	if a := is[api.ToolAnswer](h.send("", "POST", at+"/read", `{"path":"a.txt"}`), 200); !strings.Contains(a.Text, "hello") {
		t.Errorf("read: %+v", a)
	}
	if a := is[api.ToolAnswer](h.send("", "POST", at+"/exec", `{"command":"cat a.txt; exit 2"}`), 200); !a.Failed || !strings.Contains(a.Text, "hello") {
		t.Errorf("exec: %+v", a)
	}
	s := h.stream("", at+"/exec", `{"command":"echo streamed"}`)
	s.begun()
	if last := s.last(); last.name != api.EventAnswer || !strings.Contains(last.data, "streamed") {
		t.Errorf("streamed exec ends with %+v", last)
	}
	h.send("", "POST", at+"/browser", `{"action":"list"}`).fails(403, sandbox.CodeDenyTool)
	if p := h.send("", "POST", at+"/read", `{"path":"a.txt","else":1}`).fails(422, sandbox.CodeValidation); p.Field != "else" {
		t.Errorf("unknown field: %+v", p)
	}
	h.send("", "POST", at+"/nothing", `{}`)
}

// sleepers counts the programs called sleep in a sandbox.
func sleepers(h *fixture, name string) int {
	n := 0
	for _, p := range h.engine.Processes(name) {
		if strings.Contains(fmt.Sprint(p), "sleep") {
			n++
		}
	}
	return n
}
