package server

import (
	"bufio"
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/server/api"
)

const (
	secret   = "b-secret-7f31c2"
	hostile  = "tenant-a"
	victim   = "tenant-bravo"
	sessionB = "chat-of-bravo"
)

// A world is a house with two tenants: one that attacks, and one that has one of
// each kind of object.
type world struct {
	*fixture
	tokens map[string]string // secrets, by the name of the caller
	ids    map[string]string // the values of {name} in attempts
	hidden map[string]string // texts that no answer to the attacker may contain, by their description

	running *bufio.Reader // the output of a command that runs
	ended   chan said     // of the one that waits for a permission
}

func newWorld(t *testing.T) *world {
	w := &world{fixture: openAttack(t, settings), tokens: map[string]string{"none": "none", "admin": ""}, ids: map[string]string{}, hidden: map[string]string{}, ended: make(chan said, 1)}
	w.people()
	w.things()
	w.hidden = map[string]string{
		"the secret": secret, "the tenant": victim, "the session": sessionB, "a folder of the host": w.state,
		"the container": is[api.Sandbox](t, w.send(w.tokens["b"], "GET", "/v1/sandboxes/"+w.ids["box"], ""), 200).ID,
	}
	for _, name := range []string{"box", "shell", "terminal", "question", "token", "mcp", "cursor", "key"} {
		if w.ids[name] == "" {
			t.Fatalf("there is no %s", name)
		}
		w.hidden["the id of "+name] = w.ids[name]
	}
	return w
}

// people makes the tokens.
func (w *world) people() {
	a := w.mint("", api.CreateToken{Role: "tenant", Tenant: hostile})
	w.tokens["a"] = a.Secret
	w.tokens["a-session"] = w.mint("", api.CreateToken{Role: "session", Tenant: hostile, Session: "mine", TTLSeconds: 3600}).Secret
	w.tokens["a-child"] = w.mint(a.Secret, api.CreateToken{Role: "session", Session: sessionB, TTLSeconds: 3600}).Secret
	w.tokens["a-agent"] = w.mint(a.Secret, api.CreateToken{Role: "tenant", Agent: "helper"}).Secret
	old := w.mint("", api.CreateToken{Role: "tenant", Tenant: victim, TTLSeconds: 1})
	w.tokens["b-expired"] = old.Secret
	lost := w.mint("", api.CreateToken{Role: "tenant", Tenant: victim})
	w.tokens["b-revoked"] = lost.Secret
	is[api.Revoked](w.t, w.send("", "DELETE", "/v1/tokens/"+lost.ID, ""), 200)
	b := w.mint("", api.CreateToken{Role: "tenant", Tenant: victim})
	w.tokens["b"] = b.Secret
	child := w.mint(b.Secret, api.CreateToken{Role: "session", Session: sessionB, TTLSeconds: 3600})
	w.tokens["b-session"], w.ids["token"] = child.Secret, child.ID
	w.tokens["b-other"] = w.mint(b.Secret, api.CreateToken{Role: "session", Session: "another-chat", TTLSeconds: 3600}).Secret
	for _, tenant := range []string{"small", "slow"} {
		w.tokens[tenant] = w.mint("", api.CreateToken{Role: "tenant", Tenant: tenant}).Secret
	}
	w.until("a token expires", func() bool { return w.send(old.Secret, "GET", "/v1/tokens", "").status == 401 })
}

// made makes the sandbox of a session of an agent.
func (w *world) made(as, body string, header ...string) string {
	w.t.Helper()
	return is[api.Sandbox](w.t, w.send(w.tokens[as], "POST", "/v1/sandboxes", body, header...), 200, 201).Name
}

// things makes one object of each kind for both tenants.
func (w *world) things() {
	t, b := w.t, w.tokens["b"]
	w.ids["key"] = "order-of-bravo-17"
	w.ids["box"] = w.made("b", `{"session":"`+sessionB+`"}`, "Idempotency-Key", w.ids["key"])
	w.ids["spare"] = w.made("b", `{"session":"spare"}`)
	w.ids["asks"] = w.made("b", `{"agent":"asker","session":"asks"}`)
	w.ids["mine"] = w.made("a", `{"session":"mine"}`)
	box := "/v1/sandboxes/" + w.ids["box"]
	w.exec(b, w.ids["box"], "echo "+secret+" > secret.txt; mkdir -p d; echo "+secret+" > d/other.txt")
	w.exec(w.tokens["a"], w.ids["mine"], "echo own > secret.txt; ln -s /etc/passwd link")
	w.send(b, "POST", box+"/exec", `{"line":"forbidden --by bravo"}`)

	w.ids["shell"] = is[api.Shell](t, w.send(b, "POST", box+"/shells", `{}`), 201).ID
	w.line(`cd /tmp; STATE=kept`)
	res := w.patient().start(b, "POST", box+"/exec", `{"line":"echo begun; for i in $(seq 3000); do sleep 0.2; echo tick; done"}`, "Accept", api.ContentEvents)
	w.running = bufio.NewReader(res.Body)
	w.hears(w.running, "begun")

	ctx, done := context.WithTimeout(t.Context(), time.Minute)
	defer done()
	conn, upgraded, err := websocket.Dial(ctx, "ws://"+w.addr+box+"/pty?keep=true", &websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + b}}})
	must(t, err)
	t.Cleanup(func() { conn.CloseNow() })
	w.ids["terminal"] = upgraded.Header.Get(api.HeaderTerminal)

	go func() {
		defer close(w.ended) // also when it gets no answer
		w.ended <- w.patient().send(b, "POST", "/v1/sandboxes/"+w.ids["asks"]+"/exec", `{"line":"echo allowed","ask":true}`, "Sandbox-Agent", "asker", "Sandbox-Session", "asks")
	}()
	questions := is[api.ApprovalList](t, w.send(b, "GET", "/v1/approvals?waitSeconds=50", ""), 200).Items
	if len(questions) != 1 {
		t.Fatalf("%+v", questions)
	}
	w.ids["question"] = questions[0].ID
	first := w.send(b, "POST", "/mcp", hello, "Accept", "application/json, text/event-stream")
	w.ids["mcp"] = first.header.Get("Mcp-Session-Id")
	w.ids["cursor"] = is[api.SandboxPage](t, w.send(b, "GET", "/v1/sandboxes?limit=1", ""), 200).Next
	w.granted()
}

// granted has B carry out an operation under a grant.
func (w *world) granted() {
	now := time.Now()
	all := []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}}
	g := grant.Grant{
		ID: "grant-of-bravo", Tenant: victim, Subject: "user-17", Agent: "main", Session: sessionB, Tool: "reporter", Call: "call-1", Capabilities: all,
		DecisionKey: "key-1", Issued: now.Add(-time.Minute), Expires: now.Add(time.Hour),
		Budget:  grant.Budget{Calls: 100, BytesIn: 1 << 20, BytesOut: 1 << 20, CPUMs: 10_000, Files: 5, WallMs: 600_000},
		Consent: &grant.Consent{By: "user-17", At: now.Add(-time.Minute), Expires: now.Add(time.Hour)},
	}
	m := grant.Manifest{Tool: "reporter", Version: "1.2.0", Safety: grant.SafetyLow, Capabilities: all, SideEffects: []grant.SideEffect{grant.EffectWrite}}
	w.ids["grant"], w.ids["soon"] = g.ID, now.Add(time.Hour).UTC().Format(time.RFC3339)
	w.ids["check"] = text(w.t, api.CheckGrant{Grant: g, Manifest: m})
	w.ids["operate"] = text(w.t, api.Operate{Grant: g, Manifest: m, Operation: grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/d/other.txt"}})
	w.operates()
	g.Tenant = hostile
	w.ids["forged"] = text(w.t, api.CheckGrant{Grant: g, Manifest: m})
}

// operates has B carry it out again.
func (w *world) operates() {
	w.t.Helper()
	if p := is[api.Performed](w.t, w.send(w.tokens["b"], "POST", "/v1/operate", w.ids["operate"]), 200); !p.OK {
		w.t.Errorf("B's operation is refused: %+v", p)
	}
}

// hello begins a session of the Model Context Protocol.
const hello = `{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`

func (w *world) hears(from *bufio.Reader, text string) {
	w.t.Helper()
	for {
		line, err := from.ReadString('\n')
		must(w.t, err)
		if strings.Contains(line, text) {
			return
		}
	}
}

// line runs a line in B's shell.
func (w *world) line(line string) string {
	w.t.Helper()
	path := "/v1/sandboxes/" + w.ids["box"] + "/shells/" + w.ids["shell"] + "/run"
	return is[api.ExecResult](w.t, w.send(w.tokens["b"], "POST", path, text(w.t, api.RunLine{Line: line})), 200).Stdout
}

// until waits until so returns true.
func (w *world) until(what string, so func() bool) {
	w.t.Helper()
	awaits(w.t, what, so)
}

func awaits(t *testing.T, what string, so func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !so(); {
		if time.Now().After(end) {
			t.Fatalf("it is not so that %s", what)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// untouched checks that everything that B has is unchanged.
func (w *world) untouched() {
	t, b := w.t, w.tokens["b"]
	t.Helper()
	if got := w.exec(b, w.ids["box"], "cat secret.txt d/other.txt; ls -A").Stdout; got != secret+"\n"+secret+"\nd\nsecret.txt\n" {
		t.Errorf("the files are %q", got)
	}
	if got := w.line(`echo $STATE in $PWD`); got != "kept in /tmp\n" {
		t.Errorf("the shell says %q", got)
	}
	w.hears(w.running, "tick")
	w.operates()
	box := is[api.Sandbox](t, w.send(b, "GET", "/v1/sandboxes/"+w.ids["box"], ""), 200)
	if box.ID != w.hidden["the container"] || box.Status != "running" || !box.ExpiresAt.IsZero() {
		t.Errorf("the sandbox is %+v", box)
	}
	terminals := is[api.TerminalList](t, w.send(b, "GET", "/v1/sandboxes/"+w.ids["box"]+"/terminals", ""), 200).Items
	if len(terminals) != 1 || terminals[0].State != "running" {
		t.Errorf("the terminals are %+v", terminals)
	}
	if v := is[api.ViolationList](t, w.send(b, "GET", "/v1/violations", ""), 200); len(v.Violations) == 0 {
		t.Error("the violations are gone")
	}
	is[api.TokenList](t, w.send(w.tokens["b-session"], "GET", "/v1/tokens", ""), 200)
	select {
	case got := <-w.ended:
		t.Errorf("what waited for a permission has ended: %+v", got)
	default:
	}
	is[struct{}](t, w.send(b, "POST", "/v1/approvals/"+w.ids["question"], `{"permission":"allow_once"}`), 204)
	if got := is[api.ExecResult](t, <-w.ended, 200); got.Stdout != "allowed\n" {
		t.Errorf("what was allowed says %+v", got)
	}
}
