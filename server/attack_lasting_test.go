package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/server/api"
)

// upgrade returns the headers that request a WebSocket.
func upgrade(more ...string) []string {
	return append([]string{"Connection", "Upgrade", "Upgrade", "websocket", "Sec-Websocket-Version", "13", "Sec-Websocket-Key", "AQIDBAUGBwgJCgsMDQ4PEA=="}, more...)
}

// lasting returns attempts on objects that outlast a request.
func lasting() []attempt {
	const box, own = "/v1/sandboxes/{box}", "/v1/sandboxes/{mine}"
	socket := func(name, path string, want int, right ask, more ...string) attempt {
		return attempt{name: name, ask: ask{as: "a", path: path, header: upgrade(more...)}, want: []int{want}, right: right, okay: []int{101}}
	}
	over := []string{"Accept", "application/json, text/event-stream", "Mcp-Session-Id", "{mcp}", "Mcp-Protocol-Version", "2025-06-18"}
	const list = `{"jsonrpc":"2.0","id":2,"method":"tools/list"}`
	agent := func(name, as, method, body string, want ...int) attempt {
		return attempt{name: name, ask: ask{as: as, method: method, path: "/mcp", body: body, header: over}, want: want, right: ask{as: "b", method: "POST", body: list}}
	}
	return []attempt{
		socket("attach to it", box+"/attach", 404, ask{}),
		{name: "connect to a port of it", ask: ask{as: "a", path: box + "/ports/9", header: upgrade()}, want: []int{404}, right: ask{as: "b"}, okay: []int{503}}, // there nothing listens
		socket("a terminal in it", box+"/pty", 404, ask{}),
		socket("its terminal", box+"/pty?id={terminal}", 404, ask{}),
		socket("its terminal by one's own sandbox", own+"/pty?id={terminal}", 404, ask{as: "b", path: box + "/pty?id={terminal}"}),
		socket("a socket from a page", own+"/attach", 403, ask{as: "a", header: upgrade()}, "Origin", "https://evil.example"),
		socket("a socket with a token in its protocol", own+"/attach", 401, ask{as: "a", header: upgrade()}, "Sec-Websocket-Protocol", "bearer, {token of b}").by2("none", "a"),
		{name: "end its terminal", ask: ask{as: "a", method: "DELETE", path: own + "/terminals/{terminal}"}, want: []int{404}, right: ask{as: "b", path: box + "/terminals", method: "GET"}},
		{name: "close its shell", ask: ask{as: "a", method: "DELETE", path: own + "/shells/{shell}"}, want: []int{404}, right: ask{as: "b", path: box + "/shells", method: "GET"}},
		agent("its session of tools", "a", "POST", list, 404),
		agent("its session of tools by its own session token", "b-session", "POST", list, 404),
		agent("what its session of tools hears", "a", "GET", "", 404),
		agent("end its session of tools", "a", "DELETE", "", 404),
		{name: "allow what waits", ask: ask{as: "a", method: "POST", path: "/v1/approvals/{question}", body: `{"permission":"allow_once"}`}, want: []int{404}, right: ask{as: "b", path: "/v1/approvals", method: "GET", body: "-"}},
		{name: "deny what waits", ask: ask{as: "a", method: "POST", path: "/v1/approvals/{question}", body: `{"permission":"deny"}`}, want: []int{404}, right: ask{as: "b", path: "/v1/approvals", method: "GET", body: "-"}},
		{name: "allow oneself", ask: ask{as: "b-session", method: "POST", path: "/v1/approvals/{question}", body: `{"permission":"allow_once"}`}, want: []int{403}, right: ask{as: "b", path: "/v1/approvals", method: "GET", body: "-"}},
		{name: "all violations", ask: ask{as: "a", path: "/v1/violations?all=true"}, want: []int{403}, right: ask{as: "admin"}},
		{name: "all evidence", ask: ask{as: "a", path: "/v1/evidence?all=true"}, want: []int{403}, right: ask{as: "admin"}},
		{name: "evidence of another session", ask: ask{as: "a-session", path: "/v1/evidence?session=" + sessionB}, want: []int{403}, right: ask{as: "b-session"}},
		{name: "violations in B's name", ask: ask{as: "a", path: "/v1/violations", header: []string{"Sandbox-Tenant", victim}}, want: []int{403}},
		{name: "forget B's violations", ask: ask{as: "a", method: "DELETE", path: "/v1/violations", header: []string{"Sandbox-Tenant", victim}}, want: []int{403}},
		{name: "forget as a session", ask: ask{as: "b-session", method: "DELETE", path: "/v1/violations"}, want: []int{403}},
	}
}

func (a attempt) by2(wrong, right string) attempt {
	a.as, a.right.as = wrong, right
	return a
}

// children returns attempts to get more rights by deriving a token.
func children() []attempt {
	more := func(name, as, body string, want ...int) attempt {
		return attempt{name: name, ask: ask{as: as, method: "POST", path: "/v1/tokens", body: body}, want: want, right: ask{as: "b", body: `{"role":"session","session":"x","ttlSeconds":60}`}}
	}
	return []attempt{
		more("a child that is an admin", "a", `{"role":"admin"}`, 403, 422),
		more("a child for B", "a", `{"role":"tenant","tenant":"`+victim+`"}`, 403, 422),
		more("a child of a session for all of the tenant", "a-session", `{"role":"tenant"}`, 403, 422),
		more("a child of a session for another", "a-session", `{"role":"session","session":"other","ttlSeconds":60}`, 403, 422),
		more("a child that lasts longer", "a-session", `{"role":"session","session":"mine","ttlSeconds":7200}`, 403, 422),
		more("a child for another agent", "a-agent", `{"role":"tenant","agent":"main"}`, 403, 422),
		more("a child that was made from B's", "a", `{"role":"tenant","parent":"{token}"}`, 404),
		{name: "look at B's token", ask: ask{as: "a", method: "GET", path: "/v1/tokens/{token}"}, want: []int{404}, right: ask{as: "b"}},
		{name: "take B's token back", ask: ask{as: "a", method: "DELETE", path: "/v1/tokens/{token}"}, want: []int{404}, right: ask{as: "b"}},
		{name: "ask about a grant of B's", ask: ask{as: "a", method: "POST", path: "/v1/grants/check", body: "{check}"}, want: []int{403}},
		{name: "operate under a grant of B's", ask: ask{as: "a", method: "POST", path: "/v1/operate", body: "{operate}"}, want: []int{403}},
		{name: "operate under a grant of B's in B's name", ask: ask{as: "a", method: "POST", path: "/v1/operate", body: "{operate}", header: []string{"Sandbox-Tenant", victim}}, want: []int{403}},
		{name: "operate as a session", ask: ask{as: "b-session", method: "POST", path: "/v1/operate", body: "{operate}"}, want: []int{403}},
		{name: "take B's grant back in B's name", ask: ask{as: "a", method: "DELETE", path: "/v1/grants/{grant}?expires={soon}", header: []string{"Sandbox-Tenant", victim}}, want: []int{403}},
	}
}

// sameGrant revokes a grant of A's with the same id as B's. A has the right to
// that, and B's grant is not affected.
func (w *world) sameGrant(t *testing.T) {
	path := "/v1/grants/{grant}?expires={soon}"
	if got, _ := w.does(ask{as: "a", method: "DELETE", path: path}); got.status != 204 {
		t.Errorf("%d %s", got.status, got.body)
	}
	if got, _ := w.does(ask{as: "a", method: "POST", path: "/v1/grants/check", body: "{forged}"}); got.status != 403 {
		t.Errorf("its own is good after it was taken back: %d %s", got.status, got.body)
	}
	w.operates()
}

// oneAgent has a token for one agent call the tools that make and remove
// sandboxes on another agent's.
func (w *world) oneAgent(t *testing.T) {
	accept := []string{"Accept", "application/json, text/event-stream", "Mcp-Protocol-Version", "2025-06-18"}
	calls := func(as, tool, input string) string {
		first := w.send(w.tokens[as], "POST", "/mcp", hello, accept...)
		header := append(accept, "Mcp-Session-Id", first.header.Get("Mcp-Session-Id"))
		w.send(w.tokens[as], "POST", "/mcp", `{"jsonrpc":"2.0","method":"notifications/initialized"}`, header...)
		res := w.start(w.tokens[as], "POST", "/mcp", `{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"`+tool+`","arguments":`+w.fill(input)+`}}`, header...)
		data, err := io.ReadAll(res.Body)
		must(t, err)
		return string(data)
	}
	for _, tt := range [][2]string{{"sandbox_remove", `{"name":"{mine}"}`}, {"sandbox_recreate", `{"name":"{mine}"}`}, {"sandbox_create", `{"agent":"main","session":"taken"}`}} {
		if got := calls("a-agent", tt[0], tt[1]); !strings.Contains(got, "PERMISSION_DENY") && !strings.Contains(got, "NOT_FOUND") {
			t.Errorf("%s of another agent's: %s", tt[0], got)
		}
	}
	if got := calls("a-agent", "sandbox_list", `{}`); strings.Contains(got, w.ids["mine"]) || !strings.Contains(got, "result") {
		t.Errorf("another agent's is listed: %s", got)
	}
	if got := calls("a", "sandbox_list", `{}`); !strings.Contains(got, w.ids["mine"]) {
		t.Errorf("the tenant's own is not listed: %s", got)
	}
	if got := calls("a", "sandbox_remove", `{"name":"{box}"}`); !strings.Contains(got, "NOT_FOUND") {
		t.Errorf("another tenant's: %s", got)
	}
}

// quotas returns attempts to exceed a tenant's share by concurrent requests.
func (w *world) quotas(t *testing.T) {
	all := func(n int, each func(i int) said) map[int]int {
		var mu sync.Mutex
		var wg sync.WaitGroup
		out := map[int]int{}
		for i := range n {
			wg.Go(func() {
				got := each(i)
				mu.Lock()
				defer mu.Unlock()
				out[got.status]++
				if what := w.tells(got, ""); what != "" {
					t.Errorf("it tells %s", what)
				}
			})
		}
		wg.Wait()
		return out
	}
	child := w.mint(w.tokens["small"], api.CreateToken{Role: "tenant"}).Secret
	secrets := []string{w.tokens["small"], child}
	t.Run("sandboxes", func(t *testing.T) {
		got := all(64, func(i int) said {
			return w.send(secrets[i%2], "POST", "/v1/sandboxes", fmt.Sprintf(`{"session":"s-%d"}`, i))
		})
		if got[201] != 1 || got[201]+got[429] != 64 {
			t.Errorf("statuses %v, want one sandbox", got)
		}
	})
	t.Run("commands", func(t *testing.T) {
		items := is[api.SandboxPage](t, w.send(child, "GET", "/v1/sandboxes", ""), 200).Items
		if len(items) != 1 {
			t.Fatalf("there are %d sandboxes", len(items))
		}
		path := "/v1/sandboxes/" + items[0].Name + "/exec"
		ctx, done := context.WithCancel(t.Context())
		defer done()
		r := w.request(child, "POST", path, `{"line":"echo begun; sleep 600"}`, "Accept", api.ContentEvents)
		res, err := w.tcp.Do(r.WithContext(ctx))
		must(t, err)
		defer res.Body.Close()
		if res.StatusCode != http.StatusOK {
			t.Fatalf("the first command is answered %d", res.StatusCode)
		}
		var ran atomic.Int64
		got := all(64, func(i int) said {
			s := w.send(secrets[i%2], "POST", path, `{"line":"true"}`)
			if s.status == 200 {
				ran.Add(1)
			}
			return s
		})
		if ran.Load() != 0 || got[429] != 64 {
			t.Errorf("statuses %v while the only command that may runs", got)
		}
	})
	t.Run("requests", func(t *testing.T) {
		began := time.Now()
		got := all(64, func(int) said { return w.send(w.tokens["slow"], "GET", "/v1/tokens", "") })
		most := 2 + 2*int(time.Since(began)/time.Second+1)
		if got[200] < 1 || got[200] > most || got[200]+got[429] != 64 {
			t.Errorf("statuses %v, want at most %d of 200", got, most)
		}
	})
	t.Run("tokens", func(t *testing.T) {
		got := all(64, func(i int) said { return w.send(secrets[i%2], "POST", "/v1/tokens", `{"role":"tenant"}`) })
		if got[201] != 2 || got[201]+got[429] != 64 {
			t.Errorf("statuses %v, want two children more", got)
		}
	})
	t.Run("nobody else", func(t *testing.T) {
		if got := w.exec(w.tokens["a"], w.ids["mine"], "echo fine"); got.Stdout != "fine\n" {
			t.Errorf("another tenant's command says %q", got.Stdout)
		}
	})
}
