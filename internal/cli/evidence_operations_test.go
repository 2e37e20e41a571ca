package cli

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/replay"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// withOperations has, the newest first: one that goes on, a decision, one that
// was refused, one that failed, and the end of one whose begin is gone.
func withOperations() *fake {
	f := &fake{}
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	id := func(n int) string { return fmt.Sprintf("%032x", n) }
	begin := func(n int, b evidence.Begin) evidence.Record {
		b.ID, b.Time, b.Tenant, b.Agent, b.Session, b.Tool = id(n), at.Add(time.Duration(n)*time.Minute), "acme", "main", "chat-42", "builder"
		b.Call, b.Grant, b.Subject, b.PolicyVersion = fmt.Sprintf("call-%d", n), "g-1", "ann", "old"
		return operationRecord(evidence.TypeBegin, b.ID, b.Time, b)
	}
	end := func(n int, e evidence.End) evidence.Record {
		e.ID, e.Time = id(n), at.Add(time.Duration(n)*time.Minute+2*time.Second)
		return operationRecord(evidence.TypeEnd, e.ID, e.Time, e)
	}
	egress := withEvidence().evidence.records
	f.evidence.records = []evidence.Record{
		begin(5, evidence.Begin{Kind: grant.OpProcExec, Capability: "proc:make", Request: evidence.Request{Program: "make", Args: 1}}),
		end(4, evidence.End{Status: evidence.Denied, Code: sandbox.CodeCapabilityBlocked, Rule: "policy.lists.domains"}),
		egress[0],
		begin(4, evidence.Begin{Kind: grant.OpNetHTTP, Request: evidence.Request{Method: "GET", Scheme: "https", Host: "a.example", Port: 443}}),
		end(3, evidence.End{Status: evidence.Failed, Code: sandbox.CodeExecution, Duration: 1500 * time.Millisecond, Used: grant.Budget{Calls: 1, BytesOut: 4096, Files: 1, WallMs: 1500}}),
		begin(3, evidence.Begin{Kind: grant.OpFsWrite, Capability: "fs.write:/workspace/a", Request: evidence.Request{Path: "/workspace/a", Bytes: 4096}}),
		end(1, evidence.End{Status: evidence.Aborted, Code: sandbox.CodeExecution}),
	}
	return f
}

func operationRecord(t evidence.Type, id string, at time.Time, data any) evidence.Record {
	return evidence.Record{Time: at, Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: "sbx-a", Command: id, Type: t, Data: must(json.Marshal(data))}
}

func TestEvidenceOfOperations(t *testing.T) {
	for _, args := range []string{"evidence list --limit 0", "evidence list --type operation --all"} {
		r := call(t, withOperations(), strings.Fields(args)...)
		if r.status != 0 || r.stderr != "" {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
		golden(t, strings.ReplaceAll(args, " ", "_")+"_operations", r.stdout)
	}
}

// TestEvidenceSelectsOperations holds what each flag selects, by the last digit
// of the ids.
func TestEvidenceSelectsOperations(t *testing.T) {
	tests := []struct{ args, want string }{
		{"--type operation", "5 4 3 1"},
		{"--status open", "5"},
		{"--status denied", "4"},
		{"--status error", "3"},
		{"--status aborted", "1"},
		{"--status ok", ""},
		{"--code " + string(sandbox.CodeExecution), "3 1"},
		{"--code " + string(sandbox.CodeExecution) + " --status error", "3"},
		{"--tool builder", "5 4 3"},
		{"--tool other", ""},
		{"--call call-4", "4"},
		{"--grant g-1", "5 4 3"},
		{"--subject ann --call call-5", "5"},
		{"--operation " + fmt.Sprintf("%032x", 1), "1"},
		{"--operation " + fmt.Sprintf("%032x", 3), "3"},
		{"--type operation --limit 2", "5 4"},
		{"--type operation --session other", ""},
		{"--type operation --since 2026-11-21T03:03:30+00:00", ""},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			args := strings.ReplaceAll(tt.args, "+00:00", time.Date(2026, 11, 21, 3, 3, 0, 0, time.Local).Format("Z07:00"))
			if args != tt.args {
				tt.want = "5 4" // the end of the third is later, and its begin counts
			}
			r := call(t, withOperations(), append([]string{"evidence", "list"}, strings.Fields(args)...)...)
			var got []string
			for _, line := range strings.Split(strings.TrimSpace(r.stdout), "\n")[1:] {
				got = append(got, line[len(line)-1:])
			}
			if r.status != 0 || strings.Join(got, " ") != tt.want {
				t.Errorf("status %d, %q, want %q: %s", r.status, got, tt.want, r.stderr)
			}
		})
	}
}

// TestEvidenceKeepsRawRecords holds that JSON has both records of an operation
// as they are, and that the bound is one of operations.
func TestEvidenceKeepsRawRecords(t *testing.T) {
	f := withOperations()
	r := call(t, f, strings.Fields("evidence list --type operation --limit 2 -o json")...)
	var got evidenceView
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.status != 0 || !got.More {
		t.Fatalf("status %d, %v: %s", r.status, err, r.stderr)
	}
	var types []string
	for _, e := range got.Evidence {
		types = append(types, string(e.Type))
	}
	if !slices.Equal(types, []string{"begin", "end", "begin"}) || !strings.Contains(r.stdout, `"errorCode": "SANDBOX.CAPABILITY_BLOCKED"`) {
		t.Errorf("%q:\n%s", types, r.stdout)
	}
	r = call(t, f, strings.Fields("evidence list --type end")...)
	if r.status != 0 || strings.Count(r.stdout, "\n") != 8 {
		t.Errorf("a type of record is shown as it is: %s%s", r.stdout, r.stderr)
	}
}

// replayView is what replay prints.
type replayView struct {
	Replay                                   []replay.Result
	Judged, Differing, Uncertain, Incomplete int
	Omitted                                  int64
	More                                     bool
	Damaged                                  int
}

// replayed runs replay against settings that let only a.example pass, and block make.
func replayed(t *testing.T, f *fake, args string) (result, replayView) {
	t.Helper()
	s, err := config.Parse("f", []byte(`{"agents":{"defaults":{"sandbox":{"network":{"allowedDomains":["a.example"]},"commands":{"block":["make"]},"tools":{"alsoAllow":["builder"]}}}}}`))
	if err != nil {
		t.Fatal(err)
	}
	f.settings = s
	var view replayView
	r := call(t, f, append([]string{"evidence", "replay", "-o", "json"}, strings.Fields(args)...)...)
	if err := json.Unmarshal([]byte(r.stdout), &view); err != nil {
		t.Fatalf("status %d, %v: %s", r.status, err, r.stderr)
	}
	return call(t, f, append([]string{"evidence", "replay"}, strings.Fields(args)...)...), view
}

func TestEvidenceReplay(t *testing.T) {
	f := withOperations()
	f.evidence.records = append(f.evidence.records, withEvidence().evidence.records...)
	r, view := replayed(t, f, "--all")
	if r.status != 0 {
		t.Errorf("status %d", r.status)
	}
	golden(t, "evidence_replay", r.stdout)
	if want := "sandbox: 6 decisions judged; 4 differ, 1 are not certain\n" +
		"sandbox: of 1 operation the begin is no longer there; they are not judged\n" +
		"sandbox: 24690 decisions were not kept one by one and are not judged\n"; r.stderr != want {
		t.Errorf("it says %q", r.stderr)
	}
	if view.Judged != 6 || view.Differing != 4 || view.Incomplete != 1 || view.Omitted != 24690 || len(view.Replay) != 6 {
		t.Errorf("%+v", view)
	}
	first := view.Replay[0]
	if first.Kind != "ProcExec" || first.Recorded.Verdict != "allow" || first.Today.Verdict != "deny" || !first.Differs || !first.Certain || first.Today.Rule != "commands.block[0]" {
		t.Errorf("%+v", first)
	}
}

func TestEvidenceReplaySelects(t *testing.T) {
	tests := []struct {
		args          string
		shown, judged int
		differing     bool // all that is shown
		more          bool
	}{
		{"--differing", 3, 4, true, false},
		{"--limit 1", 1, 4, true, true},
		{"--type operation", 3, 3, false, false},
		{"--type egress", 1, 1, true, false},
		{"--tool builder --status error", 1, 1, false, false},
		{"--call call-4 --differing", 1, 1, true, false},
		{"--session other", 0, 0, false, false},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			r, view := replayed(t, withOperations(), tt.args)
			if r.status != 0 || len(view.Replay) != tt.shown || view.Judged != tt.judged || view.More != tt.more {
				t.Errorf("status %d, %d shown of %d, more %v: %s", r.status, len(view.Replay), view.Judged, view.More, r.stderr)
			}
			for _, one := range view.Replay {
				if tt.differing && !one.Differs {
					t.Errorf("%+v does not differ", one)
				}
			}
		})
	}
}

// TestEvidenceReplayTellsOfDamage checks that unreadable entries are reported
// and the rest is still judged.
func TestEvidenceReplayTellsOfDamage(t *testing.T) {
	f := withOperations()
	f.evidence.damage = 2
	f.evidence.records[2].Data = json.RawMessage(`{"phase":"decision"}`)
	f.evidence.records[5].Data = json.RawMessage(`[]`)
	r, view := replayed(t, f, "")
	if r.status != 0 || view.Damaged != 4 || view.Judged != 2 || !strings.Contains(r.stderr, "damaged in 4 places") {
		t.Errorf("status %d, %+v: %s", r.status, view, r.stderr)
	}
	f.evidence.err = &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "no disk"}
	if r := call(t, f, "evidence", "replay"); r.status != 125 || r.stdout != "" || r.stderr != "sandbox: PROVIDER.UNAVAILABLE: no disk\n" {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestEvidenceReplayOfNobody checks that an entry whose subject can have no
// policy is reported as one, and not judged.
func TestEvidenceReplayOfNobody(t *testing.T) {
	f := withOperations()
	b := evidence.Begin{ID: "x", Agent: "../../etc", Session: "s", Kind: grant.OpFsRead, Request: evidence.Request{Path: "/workspace/a"}}
	f.evidence.records = []evidence.Record{operationRecord(evidence.TypeBegin, "x", time.Now(), b)}
	_, view := replayed(t, f, "")
	if view.Judged != 1 || view.Uncertain != 1 || view.Differing != 0 || !strings.Contains(view.Replay[0].Why, "no policy for it") {
		t.Errorf("%+v", view)
	}
}

func TestEvidenceOfOperationsIsSafeToShow(t *testing.T) {
	f := withOperations()
	f.evidence.records = []evidence.Record{
		operationRecord(evidence.TypeEnd, hostile, time.Now(), evidence.End{ID: hostile, Status: hostile, Code: hostile, Rule: hostile}),
		operationRecord(evidence.TypeBegin, hostile, time.Now(), evidence.Begin{
			ID: hostile, Tool: hostile, Kind: hostile, Capability: hostile, Tenant: hostile, Agent: "main", Session: "s",
			Request: evidence.Request{Path: hostile, Host: hostile, Method: hostile, Scheme: hostile, Program: hostile},
		}),
		operationRecord(evidence.TypeBegin, hostile, time.Now(), evidence.Begin{ID: "2", Agent: hostile, Session: hostile, Kind: grant.OpProcExec, Request: evidence.Request{Program: hostile}}),
	}
	for i := range f.evidence.records {
		r := &f.evidence.records[i]
		r.Tenant, r.Agent, r.Session = hostile, hostile, hostile
	}
	for _, args := range []string{"list --all", "list --all --type operation", "list --type begin", "list --type end", "replay --all", "list --all -o json", "replay --all -o json"} {
		got := call(t, f, append([]string{"evidence"}, strings.Fields(args)...)...)
		if got.status != 0 || got.stdout == "" {
			t.Errorf("%s: status %d: %s", args, got.status, got.stderr)
		}
		for _, c := range got.stdout + got.stderr {
			if c != '\n' && !termsafe.Safe(c) {
				t.Errorf("%s holds %U", args, c)
			}
		}
	}
}

// TestEvidenceOfForks holds that the list says what a sandbox begins with.
func TestEvidenceOfForks(t *testing.T) {
	f, at := &fake{}, time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	b := evidence.Begin{
		ID: strings.Repeat("1", 32), Time: at, Tenant: "acme", Agent: "main", Session: "chat-42", Kind: evidence.Command, Capability: "files",
		Parent: &evidence.Parent{Checkpoint: "cp-1", Sandbox: "sbx-b", Session: "chat-41", Head: &evidence.Head{Seq: 7, Hash: strings.Repeat("0a", 32)}},
	}
	f.evidence.records = []evidence.Record{operationRecord(evidence.TypeBegin, b.ID, at, b)}
	r := call(t, f, "evidence", "list")
	if r.status != 0 || !strings.Contains(r.stdout, "files begins with checkpoint cp-1 of sbx-b, session chat-41, chain 7 0a0a0a0a0a0a") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}
