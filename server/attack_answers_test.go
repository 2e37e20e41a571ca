package server

import (
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// TestAnswers has questions answered by callers without the right to, by two at
// the same time, and after the subject of the question has been removed.
func TestAnswers(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	h := startAttack(t, alone, filepath.Join(t.TempDir(), "state"))
	of := func(by string, in api.CreateToken) string { return h.mint(by, in).Secret }
	people := of("", api.CreateToken{Role: "tenant", Tenant: victim})
	strangers := of("", api.CreateToken{Role: "tenant", Tenant: hostile})
	agent := of(people, api.CreateToken{Role: "session", Agent: "asker", Session: "one", TTLSeconds: 3600})
	other := of(people, api.CreateToken{Role: "tenant", Agent: "main"})
	made := func(session string) string {
		return is[api.Sandbox](t, h.send(people, "POST", "/v1/sandboxes", `{"agent":"asker","session":"`+session+`"}`), 200, 201).Name
	}
	answer := func(as, id, body string) said { return h.send(as, "POST", "/v1/approvals/"+id, body) }
	// asked runs a line, and returns the id of the question and a channel for
	// the answer to the line.
	asked := func(box, session, line string) (string, chan said) {
		t.Helper()
		ended := make(chan said, 1)
		go func() {
			ended <- h.send(people, "POST", "/v1/sandboxes/"+box+"/exec", text(t, api.Exec{Line: line, Ask: true}), "Sandbox-Agent", "asker", "Sandbox-Session", session)
		}()
		all := is[api.ApprovalList](t, h.send(people, "GET", "/v1/approvals?waitSeconds=50", ""), 200).Items
		if len(all) != 1 || !strings.Contains(strings.Join(all[0].Command, " "), line) {
			t.Fatalf("%+v", all)
		}
		return all[0].ID, ended
	}
	box := made("one")
	id, ended := asked(box, "one", "echo of one")
	for name, tt := range map[string]struct {
		as, body string
		want     int
	}{
		"the agent itself":           {agent, `{"permission":"allow_once"}`, 403},
		"another tenant":             {strangers, `{"permission":"allow_once"}`, 404},
		"one for another agent":      {other, `{"permission":"allow_once"}`, 404},
		"for all tenants":            {people, `{"permission":"allow_permanent"}`, 403},
		"with the id of another":     {people, `{"permission":"allow_once","id":"x"}`, 422},
		"with two answers":           {people, `{"permission":"deny","permission":"allow_once"}`, 422},
		"with one that there is not": {people, `{"permission":"allow"}`, 422},
	} {
		if got := answer(tt.as, id, tt.body); got.status != tt.want {
			t.Errorf("an answer by %s: %d, want %d: %s", name, got.status, tt.want, got.body)
		}
	}
	var mu sync.Mutex
	var all sync.WaitGroup
	var first []string
	for i := range 16 {
		p := []string{"allow_once", "deny"}[i%2]
		all.Go(func() {
			if answer(people, id, `{"permission":"`+p+`"}`).status == 204 {
				mu.Lock()
				first = append(first, p)
				mu.Unlock()
			}
		})
	}
	all.Wait()
	got := <-ended
	if len(first) != 1 || (got.status == 200) != (first[0] == "allow_once") {
		t.Errorf("the answers %v count, and the command is answered %d %s", first, got.status, got.body)
	}

	// What is allowed in one session must be asked again in another.
	id, ended = asked(box, "one", "echo again")
	is[any](t, answer(people, id, `{"permission":"allow_session"}`), 204)
	is[api.ExecResult](t, <-ended, 200)
	second := made("two")
	id, ended = asked(second, "two", "echo again")
	is[any](t, answer(people, id, `{"permission":"deny"}`), 204)
	is[api.Problem](t, <-ended, 403)

	// The sandbox is removed while the question is open: the answer makes no new
	// one.
	id, ended = asked(second, "two", "echo late > /workspace/late")
	is[any](t, h.send(people, "DELETE", "/v1/sandboxes/"+second+"?force=true", ""), 204)
	is[any](t, answer(people, id, `{"permission":"allow_once"}`), 204)
	if p := is[api.Problem](t, <-ended, 404); p.Code != "SANDBOX.NOT_FOUND" {
		t.Errorf("%+v", p)
	}
	if got := h.send(people, "GET", "/v1/sandboxes/"+second, ""); got.status != 404 {
		t.Errorf("it is there again: %d %s", got.status, got.body)
	}
}
