package mcp_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/server/mcp"
)

// A wire is a connection to a server on which a test can write any bytes.
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
		w.done <- r.Serve(ctx, &mcp.Lines{In: theirIn, Out: theirOut, Max: 1 << 20}, bound("s"))
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

// TestHostileCalls holds that messages that no correct client sends are refused,
// and that the server goes on.
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

// answer returns the next line that the server writes.
func (w *wire) answer(line string) string {
	w.t.Helper()
	go io.WriteString(w.in, line+"\n")
	got, err := w.out.ReadString('\n')
	if err != nil {
		w.t.Fatalf("%.100s: %v", line, err)
	}
	return strings.TrimSpace(got)
}

// TestBrokenLines holds that an invalid message is answered with a JSON-RPC
// error that names the id where there is one, and that the server goes on.
func TestBrokenLines(t *testing.T) {
	r := newRig(t, settingsWith(""))
	w := r.wire()
	broken := func(when string) {
		for _, tt := range []struct {
			line, id string
			code     int
		}{
			{"nonsense", "null", -32700}, {"\x00\x01\xff", "null", -32700}, {`{"jsonrpc":"2.0","id":1,"method":"ping"`, "null", -32700}, {"{}{}", "null", -32700},
			{`{"jsonrpc":"2.0","id":1,"method":"ping"} {"jsonrpc":"2.0","id":2,"method":"ping"}`, "null", -32700}, {"{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"\xff\"}", "null", -32700},
			{strings.Repeat("[", 50000) + strings.Repeat("]", 50000), "null", -32700}, {"'a'", "null", -32700},
			{"[]", "null", -32600}, {"7", "null", -32600}, {`"text"`, "null", -32600}, {"null", "null", -32600}, {"true", "null", -32600}, {"{}", "null", -32600},
			{`{"jsonrpc":"2.0","id":7}`, "7", -32600}, {`{"jsonrpc":"2.0","id":"a<b"}`, `"a\u003cb"`, -32600}, {`{"jsonrpc":"2.0"}`, "null", -32600},
			{`{"jsonrpc":"2.0","id":7,"method":null}`, "7", -32600}, {`{"jsonrpc":"2.0","id":7,"method":7}`, "7", -32600}, {`{"jsonrpc":"2.0","id":7,"Method":"ping"}`, "7", -32600},
			{`{"jsonrpc":"1.0","id":7,"method":"ping"}`, "7", -32600}, {`{"id":7,"method":"ping"}`, "7", -32600}, {`{"jsonrpc":2.0,"id":7,"method":"ping"}`, "7", -32600},
			{`{"jsonrpc":"2.0","id":null,"method":"ping"}`, "null", -32600}, {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, "null", -32600}, {`{"jsonrpc":"2.0","id":1.5,"method":"ping"}`, "null", -32600},
			{`{"jsonrpc":"2.0","id":9007199254740993,"method":"ping"}`, "null", -32600}, {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, "null", -32600},
			{`{"jsonrpc":"2.0","result":{}}`, "null", -32600}, {`{"jsonrpc":"2.0","id":7,"error":"text"}`, "7", -32600},
			{`{"jsonrpc":"2.0","id":7,"method":"ping","params":` + strings.Repeat("[", 2000) + strings.Repeat("]", 2000) + `}`, "7", -32600},
			{`{"jsonrpc":"2.0","id":7,"method":"ping","params":{"_meta":{"\ud800":1}}}`, "7", -32600}, {`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, "null", -32600},
			{`{"jsonrpc":"2.0","id":1,"method":"` + strings.Repeat("a", 2<<20) + `"}`, "null", -32600},
		} {
			var got struct {
				JSONRPC string
				ID      json.RawMessage
				Error   struct {
					Code    int
					Message string
				}
			}
			line := w.answer(tt.line)
			must(t, json.Unmarshal([]byte(line), &got))
			if got.JSONRPC != "2.0" || string(got.ID) != tt.id || got.Error.Code != tt.code || got.Error.Message == "" {
				t.Errorf("%s: %.80s: %s; want the code %d for the id %s", when, tt.line, line, tt.code, tt.id)
			}
		}
	}
	broken("before the beginning")
	w.begin()
	broken("after it")
	go io.WriteString(w.in, "\n \t\r\n"+`{"jsonrpc":"2.0","id":99,"result":{}}`+"\n") // nothing, and the answer to what was not asked
	if got := w.ask(8, `{"jsonrpc":"2.0","id":8,"method":"tools/call","params":{"name":"exec","arguments":{"command":"echo on"}}}`+"\r"); !strings.Contains(got, `"exitCode":0`) {
		t.Errorf("afterwards: %s", got)
	}
	if got := w.answer(`[{"jsonrpc":"2.0","id":9,"method":"ping"}]`); !strings.Contains(got, "-32600") || !strings.Contains(got, "no batches") {
		t.Errorf("a batch in a version without: %s", got)
	}
	w.in.Close()
	if err := <-w.done; err != nil {
		t.Errorf("the end of the input is an error: %v", err)
	}
	w.done <- nil
}

// TestBatches holds that the calls of a batch are answered in one list, also
// where some of its messages are invalid.
func TestBatches(t *testing.T) {
	r := newRig(t, settingsWith(""))
	w := r.wire()
	w.ask(1, `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-03-26","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	got := w.answer(`[{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","method":"notifications/initialized"},{"jsonrpc":"2.0","id":2,"method":"ping"},7,{"jsonrpc":"2.0","id":"b"},{"jsonrpc":"2.0","id":"a","method":"tools/call","params":{"name":"exec","arguments":{"command":"echo on"}}},{"jsonrpc":"2.0","id":2,"method":"ping"}]`)
	var all []struct {
		ID     any
		Result any
		Error  *struct{ Code int }
	}
	must(t, json.Unmarshal([]byte(got), &all))
	seen := map[string]int{}
	for _, a := range all {
		if a.Error != nil {
			seen[fmt.Sprint(a.ID, " ", a.Error.Code)]++
		} else if a.Result != nil {
			seen[fmt.Sprint(a.ID)]++
		}
	}
	if want := map[string]int{"2": 1, "a": 1, "<nil> -32600": 1, "b -32600": 1, "2 -32600": 1}; len(all) != 5 || !maps.Equal(seen, want) {
		t.Errorf("%s", got)
	}
	if got := w.answer(`[1,2]`); strings.Count(got, "-32600") != 2 || got[0] != '[' {
		t.Errorf("%s", got)
	}
	if got := w.answer("[" + strings.Repeat("1,", 100) + "1]"); !strings.Contains(got, "more than 100") {
		t.Errorf("%s", got)
	}
	if got := w.ask(2, `{"jsonrpc":"2.0","id":2,"method":"ping"}`); !strings.Contains(got, `"result"`) {
		t.Errorf("%s", got)
	}
}
