//go:build linux && !sandbox_front && !sandbox_engine

package main

import (
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

// A call is what a model wants done: a tool of the agent with its input.
type call struct {
	Tool  string
	Input any // of Codex's tool exec a string
}

// A modelAPI stands for the APIs of Anthropic and of OpenAI, as far as their coding
// agents use them: it answers with the calls of its script, one after the other,
// and ends the turn when all have a result.
type modelAPI struct {
	*httptest.Server
	script []call

	mu      sync.Mutex
	keys    []string // that requests had
	results []string // of the calls, as the agent reported them
	bodies  strings.Builder
}

func newModelAPI(t *testing.T, script ...call) *modelAPI {
	m := &modelAPI{script: script}
	m.Server = httptest.NewServer(m)
	t.Cleanup(m.Close)
	return m
}

// newTLSModelAPI is newModelAPI over TLS, as APIs are. The file holds the
// certificate that vouches for it.
func newTLSModelAPI(t *testing.T, script ...call) (m *modelAPI, file string) {
	t.Helper()
	m = &modelAPI{script: script}
	m.Server = httptest.NewUnstartedServer(m)
	m.Config.ErrorLog = log.New(io.Discard, "", 0) // of clients that go
	m.StartTLS()
	t.Cleanup(m.Close)
	file = filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: m.Certificate().Raw}), 0o644); err != nil {
		t.Fatal(err)
	}
	return m, file
}

// port is that of the server on the host's loopback.
func (m *modelAPI) port() string { return m.URL[strings.LastIndexByte(m.URL, ':')+1:] }

// seen returns the keys of the requests, the results of the calls, and the text of
// all requests.
func (m *modelAPI) seen() (keys, results []string, bodies string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys, m.results, m.bodies.String()
}

func (m *modelAPI) ServeHTTP(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil || q.Method != http.MethodPost {
		http.Error(w, "{}", http.StatusNotFound)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.bodies.Write(body)
	switch q.URL.Path {
	case "/v1/messages":
		m.keys = append(m.keys, q.Header.Get("X-Api-Key")+strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer "))
		m.anthropic(w, body)
	case "/v1/responses":
		m.keys = append(m.keys, strings.TrimPrefix(q.Header.Get("Authorization"), "Bearer "))
		m.openAI(w, body)
	default:
		fmt.Fprint(w, `{"input_tokens": 1}`)
	}
}

// events writes a stream of events, each of which has its type.
func events(w http.ResponseWriter, list ...map[string]any) {
	w.Header().Set("Content-Type", "text/event-stream")
	for _, e := range list {
		data, _ := json.Marshal(e) // maps of plain values
		fmt.Fprintf(w, "event: %s\ndata: %s\n\n", e["type"], data)
	}
}

func (m *modelAPI) anthropic(w http.ResponseWriter, body []byte) {
	var q struct {
		Model    string
		Stream   bool
		Tools    []any
		Messages []struct{ Content json.RawMessage }
	}
	_ = json.Unmarshal(body, &q) // what is missing is no call
	results := []string{}
	for _, message := range q.Messages {
		var parts []struct {
			Type    string
			Content json.RawMessage
		}
		_ = json.Unmarshal(message.Content, &parts) // text alone has none
		for _, p := range parts {
			if p.Type == "tool_result" {
				results = append(results, plainText(p.Content))
			}
		}
	}
	block, delta, stop := map[string]any{"type": "text", "text": ""}, map[string]any{"type": "text_delta", "text": "all done"}, "end_turn"
	if len(q.Tools) > 0 {
		m.results = results
		if n := len(results); n < len(m.script) {
			input, _ := json.Marshal(m.script[n].Input)
			block = map[string]any{"type": "tool_use", "id": fmt.Sprintf("toolu_%d", n), "name": m.script[n].Tool, "input": map[string]any{}}
			delta, stop = map[string]any{"type": "input_json_delta", "partial_json": string(input)}, "tool_use"
		}
	}
	usage := map[string]any{"input_tokens": 1, "output_tokens": 1}
	message := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": q.Model, "content": []any{}, "stop_reason": nil, "usage": usage}
	if !q.Stream {
		message["content"], message["stop_reason"] = []any{map[string]any{"type": "text", "text": "all done"}}, "end_turn"
		data, _ := json.Marshal(message)
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write(data)
		return
	}
	events(w,
		map[string]any{"type": "message_start", "message": message},
		map[string]any{"type": "content_block_start", "index": 0, "content_block": block},
		map[string]any{"type": "content_block_delta", "index": 0, "delta": delta},
		map[string]any{"type": "content_block_stop", "index": 0},
		map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": stop}, "usage": usage},
		map[string]any{"type": "message_stop"},
	)
}

// plainText is the text of a result, which is a string or a list of parts.
func plainText(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct{ Text string }
	_ = json.Unmarshal(content, &parts)
	for _, p := range parts {
		text += p.Text
	}
	return text
}

func (m *modelAPI) openAI(w http.ResponseWriter, body []byte) {
	var q struct {
		Input []struct {
			Type   string
			Output json.RawMessage
		}
	}
	_ = json.Unmarshal(body, &q)
	m.results = nil
	for _, item := range q.Input {
		if strings.HasSuffix(item.Type, "_call_output") {
			m.results = append(m.results, plainText(item.Output))
		}
	}
	item := map[string]any{"type": "message", "id": "msg_1", "role": "assistant", "content": []any{map[string]any{"type": "output_text", "text": "all done", "annotations": []any{}}}}
	if n := len(m.results); n < len(m.script) {
		item = map[string]any{"type": "custom_tool_call", "id": "ctc_1", "call_id": fmt.Sprintf("call_%d", n), "namespace": "functions", "name": m.script[n].Tool, "input": m.script[n].Input}
	}
	usage := map[string]any{"input_tokens": 1, "input_tokens_details": nil, "output_tokens": 1, "output_tokens_details": nil, "total_tokens": 2}
	events(w,
		map[string]any{"type": "response.created", "response": map[string]any{"id": "resp_1"}},
		map[string]any{"type": "response.output_item.done", "output_index": 0, "item": item},
		map[string]any{"type": "response.completed", "response": map[string]any{"id": "resp_1", "usage": usage}},
	)
}
