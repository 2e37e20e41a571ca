package orchestrator_test

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/store"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/server"
)

// The worked example of docs/grants.md, word for word: a tool fetches a report
// and keeps it, and what else could be asked is refused.
func ExampleOpenOperations() {
	h := newOrchestrator(nil)
	defer h.close()
	ctx, m, now := context.Background(), h.Manager, time.Now()

	manifest, g := granted(now)
	got, err := m.Operate(ctx, manager.Operation{Grant: g, Manifest: manifest,
		Do: grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://reports.example/q3.csv"}})
	fmt.Printf("fetched %q, %v\n", got.Output.Data, err)
	_, err = m.Operate(ctx, manager.Operation{Grant: g, Manifest: manifest,
		Do: grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/reports/q3.csv", Data: got.Output.Data}})
	fmt.Println("kept,", err)

	ask := func(what string, g grant.Grant, do grant.Operation) {
		done, err := m.Operate(ctx, manager.Operation{Grant: g, Manifest: manifest, Do: do})
		fmt.Printf("%s: %s by %s\n", what, done.Code, grant.Audit(err).Rule)
	}
	report := grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://reports.example/q3.csv"}
	post := report
	post.Method = "POST"
	ask("POST", g, post)
	moved := report
	moved.URL = "https://reports.example/moved.csv"
	ask("a redirect elsewhere", g, moved)
	ask("another folder", g, grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/notes.txt", Data: got.Output.Data})
	ask("a second file", g, grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/reports/q4.csv", Data: got.Output.Data})
	again := g
	again.Call = "call-10"
	ask("the same grant for another call", again, report)
	again.ID = "g-8000"
	ask("the same decision for another call", again, report)

	_ = h.ctl.Revoke(g)
	ask("after Revoke", g, report)

	_ = h.ctl.Recorder.Flush(ctx)
	fmt.Println(onRecord(ctx, h.evidence), "operations are on record")
	// Output:
	// fetched "quarter,sum\nq3,42\n", <nil>
	// kept, <nil>
	// POST: SANDBOX.PERMISSION_DENY by grant.capabilities
	// a redirect elsewhere: SANDBOX.PERMISSION_DENY by grant.capabilities
	// another folder: POLICY.DENY_TOOL by manifest.capabilities
	// a second file: QUOTA.BUDGET_EXCEEDED by budget.files
	// the same grant for another call: SANDBOX.PERMISSION_DENY by grant.id
	// the same decision for another call: SANDBOX.PERMISSION_DENY by grant.decisionKeyFingerprint
	// after Revoke: SANDBOX.PERMISSION_DENY by grant.revoked
	// 9 operations are on record
}

// granted is what the tool declares, and what the backend grants.
func granted(now time.Time) (grant.Manifest, grant.Grant) {
	manifest := grant.Manifest{
		Tool: "reporter", Version: "1.2.0", Safety: grant.SafetyMedium,
		SideEffects: []grant.SideEffect{grant.EffectNetwork, grant.EffectWrite},
		Capabilities: []grant.Capability{
			{Kind: grant.NetHTTP, Host: "*", Methods: []string{"GET"}},
			{Kind: grant.FSWrite, Path: "/workspace/reports"},
		},
	}
	g := grant.Grant{
		ID: "g-7f3a", Tenant: "acme", Subject: "user-17", Session: "chat-42", Tool: "reporter", Call: "call-9",
		Capabilities: []grant.Capability{
			{Kind: grant.NetHTTP, Scheme: "https", Host: "reports.example", Methods: []string{"GET"}},
			{Kind: grant.FSWrite, Path: "/workspace"},
		},
		Budget: grant.Budget{Calls: 10, BytesIn: 5 << 20, BytesOut: 5 << 20, Files: 1, WallMs: 60_000},
		Issued: now, Expires: now.Add(5 * time.Minute),
		Consent:     &grant.Consent{By: "user-17", At: now, Expires: now.Add(5 * time.Minute)},
		DecisionKey: "sha256:9f86d081884c7d65",
	}
	return manifest, g
}

// onRecord counts the operations that have a begin and an end.
func onRecord(ctx context.Context, s *evidence.Store) int {
	begun, both := map[string]bool{}, 0
	for r, err := range s.Query(ctx, evidence.Filter{Tenant: "acme"}) { // the newest first
		check(err)
		switch {
		case r.Type == evidence.TypeEnd:
			begun[r.Command] = true
		case r.Type == evidence.TypeBegin && begun[r.Command]:
			both++
		}
	}
	return both
}

// Evidence goes to the state folder, to memory and to a function, and what is
// done is counted in a registry. All that is left to do is to give c to the
// Manager.
func ExampleOpen() {
	dir, state, store, log, registry := setting()
	defer os.RemoveAll(dir)
	defer store.Close()
	publish := func(_ context.Context, r evidence.Record) { fmt.Println(r.Tenant, r.Type) }

	newest, err := recorder.NewMemory("newest", 1000)
	check(err)
	counters, err := server.NewMetrics(registry, server.MetricsOptions{})
	check(err)
	c, err := orchestrator.OpenOperations(orchestrator.OperationsOptions{
		State: state, Log: log,
		Sinks: []recorder.Sink{recorder.NewFile("evidence", store), newest, recorder.NewCallback("stream", publish)},
		Fetch: orchestrator.Fetch(nil), Observe: counters,
	})
	check(err)
	defer c.Close()
	options := manager.Options{State: state, Log: log, Control: func() (*manager.Control, error) { return &c.Control, nil }}

	// What the Manager does for an operation that it refuses.
	ctl, err := options.Control()
	check(err)
	begin := evidence.Begin{Tenant: "acme", Tool: "reporter", Kind: grant.OpNetHTTP}
	check(ctl.Recorder.Refused(context.Background(), begin, evidence.End{Code: sandbox.CodeDenyTool}, true))
	check(c.Recorder.Flush(context.Background()))
	fmt.Println(len(newest.Records()), "in memory")
	// Output:
	// acme begin
	// acme end
	// 2 in memory
}

// A part of a grant is handed on, and counted.
func ExampleControl_Derive() {
	h := newOrchestrator(nil)
	defer h.close()
	ctx, m, c, now := context.Background(), h.Manager, h.ctl, time.Now()
	manifest, g := granted(now)

	part, err := c.Derive(g, grant.Wish{ID: "g-7f3b", Call: "call-10", DecisionKey: "sha256:60303ae22b998861",
		Capabilities: g.Capabilities[:1], Budget: &grant.Budget{Calls: 2, BytesIn: 1 << 20, BytesOut: 4 << 10, WallMs: 60_000}})
	fmt.Println(part.Parent, err)
	done, err := m.Operate(ctx, manager.Operation{Grant: part, Line: []grant.Grant{g}, Manifest: manifest,
		Do: grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://reports.example/q4.csv"}})
	fmt.Println(done.OK, err)
	fmt.Println(c.Revoke(g))
	fmt.Println(c.Revoked.Revoked(store.Name(part.Tenant, part.ID)))
	// Output:
	// g-7f3a <nil>
	// true <nil>
	// <nil>
	// true <nil>
}
