package server

import (
	"bufio"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// agent begins a session of the Model Context Protocol and returns the headers
// of its requests.
func (w *world) agent(secret string) []string {
	w.t.Helper()
	accept := []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18"}
	first := w.send(secret, "POST", "/mcp", hello, accept...)
	header := append(accept, "Mcp-Session-Id", first.header.Get("Mcp-Session-Id"))
	w.start(secret, "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header...)
	return header
}

func toolCall(id int, tool, input string) string {
	return fmt.Sprintf(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":%q,"arguments":%s,"_meta":{"progressToken":"p"}}}`, id, tool, input)
}

// budgets makes attempts to use more than a token's budget, by derived tokens,
// by other protocols, and by concurrent requests. The tenant's own token, which
// has no budget, goes on working.
func (w *world) budgets(t *testing.T) {
	n := int64(24)
	top := w.mint(w.tokens["a"], api.CreateToken{Role: "tenant", Budget: &api.TokenBudget{Calls: &n}})
	box := "/v1/sandboxes/" + w.ids["mine"]
	secrets := []string{top.Secret}
	for range 4 {
		secrets = append(secrets, w.mint(top.Secret, api.CreateToken{Role: "session", Session: "mine", TTLSeconds: 600}).Secret)
	}
	more := n + 1
	if got := w.send(top.Secret, "POST", "/v1/tokens", text(t, api.CreateToken{Role: "tenant", Budget: &api.TokenBudget{Calls: &more}})); got.status != 403 {
		t.Errorf("a child with more: %d %s", got.status, got.body)
	}
	header := w.agent(secrets[1])
	header = append(header, "Sandbox-Session", "mine")
	ways := []func(secret string, i int) bool{
		func(secret string, _ int) bool {
			return w.carried(w.send(secret, "POST", box+"/exec", `{"line":"true"}`))
		},
		func(secret string, _ int) bool {
			return w.carried(w.send(secret, "POST", box+"/tools/exec", `{"command":"true"}`))
		},
		func(secret string, i int) bool {
			return w.carried(w.send(secret, "PUT", fmt.Sprintf("%s/files/workspace/budget-%d", box, i), "x", "Content-Type", "application/octet-stream"))
		},
		func(_ string, i int) bool {
			res := w.start(secrets[1], "POST", "/mcp", toolCall(100+i, "exec", `{"command":"echo carried-out"}`), header...)
			lines := bufio.NewScanner(res.Body)
			for lines.Scan() {
				if strings.Contains(lines.Text(), "carried-out") {
					return true
				}
				if strings.Contains(lines.Text(), "BUDGET_EXCEEDED") {
					return false
				}
			}
			t.Error("a call over MCP has no answer")
			return false
		},
	}
	var carried atomic.Int64
	var wg sync.WaitGroup
	// Not all at the same moment: a call that waits too long for the accounts is
	// refused because they are busy, and stays charged.
	at := make(chan struct{}, 9)
	for i := range 80 {
		wg.Go(func() {
			at <- struct{}{}
			defer func() { <-at }()
			if ways[i%len(ways)](secrets[i%len(secrets)], i) {
				carried.Add(1)
			}
		})
	}
	wg.Wait()
	if carried.Load() != n {
		t.Errorf("%d calls were carried out, want the %d of the budget", carried.Load(), n)
	}
	again := w.mint(top.Secret, api.CreateToken{Role: "tenant"}).Secret // a new child has nothing either
	got := w.send(again, "POST", box+"/exec", `{"line":"true"}`)
	if got.status != 429 || strings.Contains(got.body, top.ID) {
		t.Errorf("a new child: %d %s", got.status, got.body)
	}
	w.exec(w.tokens["a"], w.ids["mine"], "true")
}

// carried reports whether a request was carried out, and not refused for its
// budget.
func (w *world) carried(s said) bool {
	if s.status >= 300 && s.status != 429 {
		w.t.Errorf("%d %s", s.status, s.body)
	}
	return s.status < 300
}

// endsWithItsToken revokes a token while a call over MCP runs: the call ends,
// and sends no more progress.
func (w *world) endsWithItsToken(t *testing.T) {
	tok := w.mint(w.tokens["a"], api.CreateToken{Role: "session", Session: "mine", TTLSeconds: 600})
	header := append(w.agent(tok.Secret), "Sandbox-Session", "mine")
	res := w.start(tok.Secret, "POST", "/mcp", toolCall(7, "exec", `{"command":"echo $$ > loop; echo begun; while :; do sleep 0.05; done"}`), header...)
	lines := bufio.NewReader(res.Body)
	w.hears(lines, "begun")
	lives := func() bool {
		return w.exec(w.tokens["a"], w.ids["mine"], "test -d /proc/$(cat /workspace/loop) && echo lives; true").Stdout == "lives\n"
	}
	if !lives() {
		t.Error("control: it does not run before its token is taken back")
	}
	is[api.Revoked](t, w.send(w.tokens["a"], "DELETE", "/v1/tokens/"+tok.ID, ""), 200)
	began := time.Now()
	for {
		if _, err := lines.ReadString('\n'); err != nil {
			break
		}
	}
	if took := time.Since(began); took > time.Minute { // a second, on a machine with nothing else to do
		t.Errorf("its stream ends after %v", took)
	}
	w.until("the command ends", func() bool { return !lives() })
	if got := w.send(tok.Secret, "POST", "/mcp", toolCall(8, "exec", `{"command":"true"}`), header...); got.status != 401 {
		t.Errorf("its session of tools is answered %d", got.status)
	}
}
