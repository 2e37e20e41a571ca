package main

import (
	"context"
	"encoding/json"
	"strings"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
)

// operate writes begin and end of an operation into the script's state folder.
// WHAT is a path that was read, a program that was run, or the https address of
// a host; STATUS is that of the end, with the code and the rule of a refusal
// behind it, or "open" for none:
//
//	operate TENANT SESSION ID WHAT STATUS[:CODE:RULE]
func operate(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 5 {
		ts.Fatalf("usage: operate TENANT SESSION ID WHAT STATUS[:CODE:RULE]")
	}
	state, err := statedir.Open(ts.Getenv("SANDBOX_STATE_DIR"))
	ts.Check(err)
	s, err := evidence.Open(state.Evidence(), evidence.Options{KeyFile: state.EvidenceKey()})
	ts.Check(err)
	b := evidence.Begin{ID: args[2], Time: time.Now(), Tenant: args[0], Agent: "main", Session: args[1], Tool: "exec", Call: "call-" + args[2], PolicyVersion: "old"}
	host, web := strings.CutPrefix(args[3], "https://")
	switch {
	case web:
		b.Kind, b.Request = grant.OpNetHTTP, evidence.Request{Method: "GET", Scheme: "https", Host: host, Port: 443}
	case strings.HasPrefix(args[3], "/"):
		b.Kind, b.Request = grant.OpFsRead, evidence.Request{Path: args[3]}
	default:
		b.Kind, b.Request = grant.OpProcExec, evidence.Request{Program: args[3]}
	}
	records := []evidence.Record{recordOf(ts, evidence.TypeBegin, b, b)}
	if status := strings.SplitN(args[4], ":", 3); status[0] != "open" {
		e := evidence.End{ID: b.ID, Time: b.Time, Status: evidence.Status(status[0]), Duration: 12 * time.Millisecond, Used: grant.Budget{Calls: 1}}
		if len(status) == 3 {
			e.Code, e.Rule = sandbox.Code(status[1]), status[2]
		}
		records = append(records, recordOf(ts, evidence.TypeEnd, b, e))
	}
	ts.Check(s.Append(context.Background(), records...))
	ts.Check(s.Close())
}

func recordOf(ts *testscript.TestScript, t evidence.Type, b evidence.Begin, data any) evidence.Record {
	text, err := json.Marshal(data)
	ts.Check(err)
	return evidence.Record{Tenant: b.Tenant, Agent: b.Agent, Session: b.Session, Command: b.ID, Type: t, Data: text, Share: evidence.Exact}
}
