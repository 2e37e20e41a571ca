package mcpserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A wire is a connection to a server on which anything can be written.
type wire struct {
	t    *testing.T
	in   io.WriteCloser
	out  *bufio.Reader
	done chan error
}

func (r *rig) wire() *wire {
	r.t.Helper()
	theirIn, in := io.Pipe()
	out, theirOut := io.Pipe()
	w := &wire{r.t, in, bufio.NewReader(out), make(chan error, 1)}
	ctx, stop := context.WithCancel(context.Background())
	go func() {
		w.done <- r.Serve(ctx, &mcp.IOTransport{Reader: theirIn, Writer: theirOut, MaxLineLength: 1 << 20}, bound("s"))
		theirOut.Close()
	}()
	r.t.Cleanup(func() {
		stop()
		in.Close()
		out.Close()
		<-w.done
	})
	return w
}

// ask writes a line and returns the answer with that id.
func (w *wire) ask(id int, line string) string {
	w.t.Helper()
	go io.WriteString(w.in, line+"\n")
	for {
		got, err := w.out.ReadString('\n')
		if err != nil {
			w.t.Fatalf("%.100s: %v", line, err)
		}
		var m struct{ ID any }
		must(w.t, json.Unmarshal([]byte(got), &m))
		if fmt.Sprint(m.ID) == fmt.Sprint(id) {
			return got
		}
	}
}

func (w *wire) begin() {
	w.t.Helper()
	w.ask(1, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	io.WriteString(w.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
}

// TestHostileCalls holds that what no client would write is refused, and that
// the server goes on.
func TestHostileCalls(t *testing.T) {
	r := newRig(t, settingsWith(""))
	w := r.wire()
	if got := w.ask(7, `{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"exec","arguments":{"command":"echo early"}}}`); !strings.Contains(got, `"error"`) {
		t.Errorf("before the beginning: %s", got)
	}
	w.begin()
	for i, params := range []string{
		`{"name":"exec","arguments":[]}`, `{"name":"exec","arguments":"text"}`, `{"name":"exec","arguments":{"command":7}}`,
		`{"name":"exec","arguments":{"command":null}}`, `{"name":"exec","arguments":{"command":"true","command":"false"}}`,
		`{"name":"exec","arguments":{"timeout":1e99,"command":"true"}}`,
		`{"name":"exec","arguments":{"command":"\ud800"}}`, `{"name":"exec"}`, `{"name":"","arguments":{}}`, `{"name":7}`, `[]`, `null`, `{}`,
		`{"name":"exec\u0000","arguments":{"command":"true"}}`, `{"name":"../exec","arguments":{}}`, `{"name":"EXEC","arguments":{"command":"true"}}`,
		`{"name":"sandbox_remove","arguments":{"name":"../../etc"}}`, `{"name":"sandbox_create","arguments":{"session":"../x","agent":"/"}}`,
		`{"name":"read","arguments":{"path":"` + strings.Repeat("a", 5000) + `"}}`,
		`{"name":"exec","arguments":{"command":"true"},"_meta":{"progressToken":{"a":1}}}`,
	} {
		id := 100 + i
		got := w.ask(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":%s}`, id, params))
		if !strings.Contains(got, `"error"`) && !strings.Contains(params, "progressToken") || strings.Contains(got, "UNKNOWN.INTERNAL") {
			t.Errorf("%.80s: %s", params, got)
		}
	}
	for i, method := range []string{"nonsense", "tools/delete", "resources/subscribe", "prompts/get", "completion/complete"} {
		id := 200 + i
		if got := w.ask(id, fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":%q,"params":{}}`, id, method)); !strings.Contains(got, `"error"`) {
			t.Errorf("%s: %s", method, got)
		}
	}
	if got := w.ask(300, `{"jsonrpc":"2.0","id":300,"method":"tools/call","params":{"name":"exec","arguments":{"command":"echo on"}}}`); !strings.Contains(got, `"exitCode":0`) {
		t.Errorf("afterwards: %s", got)
	}
}

// TestBrokenLines holds that what is no message ends the conversation, and
// nothing else.
func TestBrokenLines(t *testing.T) {
	for name, line := range map[string]string{
		"no JSON": "nonsense", "binary": "\x00\x01\xff", "too deep": strings.Repeat("[", 50000) + strings.Repeat("]", 50000),
		"too long": `{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("a", 2<<20) + `"}`,
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, settingsWith(""))
			w := r.wire()
			w.begin()
			go io.WriteString(w.in, line+"\n")
			if _, err := io.Copy(io.Discard, w.out); err != nil {
				t.Errorf("%v", err)
			}
			c := r.connect(bound("s"), nil)
			if got := names(t, c); len(got) == 0 {
				t.Error("another client has no tools")
			}
		})
	}
}
