package egress

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/policy"
)

// TestWhatIsRecorded checks the records of one allowed and one refused
// connection.
func TestWhatIsRecorded(t *testing.T) {
	g := recordNewRig(t, RecorderOptions{}, evidence.Options{})
	if err := g.Decide(allowed()); err != nil {
		t.Fatal(err)
	}
	g.Record(recordRefused())
	end := allowed()
	end.Phase, end.BytesIn, end.BytesOut, end.Duration = PhaseEnd, 1000, 20, time.Second
	g.Record(end)
	g.flush(t)

	got := g.proven(t)
	if len(got) != 3 {
		t.Fatalf("%d records", len(got))
	}
	for _, r := range got {
		if r.Tenant != "acme" || r.Agent != "main" || r.Session != "chat-42" || r.Sandbox != sbx || r.Command != "run-1" || r.Type != evidence.TypeEgress || r.Time.IsZero() {
			t.Errorf("record %+v", r)
		}
	}
	if e := eventOf(t, got[0]); e.Phase != PhaseEnd || e.BytesIn != 1000 || e.BytesOut != 20 || e.Duration != time.Second || e.Verdict != policy.Allow {
		t.Errorf("end %+v", e)
	}
	if e := eventOf(t, got[1]); e.Host != "evil.example" || e.Verdict != policy.Deny || e.Rule != "network.allowedDomains" {
		t.Errorf("refusal %+v", e)
	}
	vs := g.listed(t)
	if len(vs) != 1 {
		t.Fatalf("violations %+v", vs)
	}
	v := vs[0]
	v.Time = time.Time{}
	want := violation.Record{
		Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: sbx, Type: violation.NetworkViolation, Severity: policy.Medium, Verdict: policy.Deny,
		Kind: sandbox.ResourceNetwork, Op: sandbox.OpConnect, Resource: "evil.example:443", Rule: "network.allowedDomains",
		Message: "no rule allows evil.example:443", Program: "curl", Count: 1, CommandDigest: v.CommandDigest,
	}
	if v != want || len(v.CommandDigest) != 64 {
		t.Errorf("violation %+v\nwant %+v", v, want)
	}
	if c := g.Counters(); c != (recordCounters{Recorded: 3, Refusals: 1, Batches: c.Batches}) || c.Batches == 0 {
		t.Errorf("counters %+v", c)
	}
}

// TestFloodOfRefusals checks that a command that repeatedly tries one host
// makes few records, which contain the count.
func TestFloodOfRefusals(t *testing.T) {
	g := recordNewRig(t, RecorderOptions{}, evidence.Options{})
	const n = 10000
	for range n {
		g.Record(recordRefused())
	}
	g.Record(allowed())
	g.flush(t)
	vs := g.listed(t)
	var count int64
	for _, v := range vs {
		count += v.Count
	}
	if count != n || len(vs) > 4 { // the minute may end while they come
		t.Errorf("%d violations count %d", len(vs), count)
	}
	var kept, omitted, others int64
	for _, r := range g.proven(t) {
		switch {
		case r.Omitted > 0:
			omitted += r.Omitted
		case eventOf(t, r).Verdict == policy.Allow:
			others++
		default:
			kept++
		}
	}
	if kept+omitted != n || others != 1 || omitted == 0 {
		t.Errorf("%d refusals are kept and %d counted, and %d other events", kept, omitted, others)
	}
	if c := g.Counters(); c.Recorded != n+1 || c.Lost != 0 {
		t.Errorf("counters %+v", c)
	}
}

// TestWhoseItIs checks that attribution follows the sandbox, and that an event
// is not attributed to a command of another one.
func TestWhoseItIs(t *testing.T) {
	g := recordNewRig(t, RecorderOptions{}, evidence.Options{})
	g.Sandbox("sbx-2", recordWho{Tenant: "evil", Agent: "a2", Session: "s2"})
	leave := g.Command("sbx-2", "run-2", recordWho{Tenant: "evil", Agent: "a3", Session: "s3"})
	for _, tt := range []struct{ sandbox, caller, want string }{
		{sbx, "run-1", "acme main chat-42 curl"},
		{sbx, "", "acme main chat-42 "},
		{sbx, "run-2", "acme main chat-42 "},
		{"sbx-2", "run-1", "evil a2 s2 "},
		{"sbx-2", "run-2", "evil a3 s3 "},
		{"nobody's", "run-1", "   "},
	} {
		w, known := g.names.find(tt.sandbox, tt.caller)
		if got := fmt.Sprint(w.meta.Tenant, " ", w.meta.Agent, " ", w.meta.Session, " ", w.meta.Program); got != tt.want || known != (tt.want != "   ") {
			t.Errorf("%s of %s is %q, known %v", tt.caller, tt.sandbox, got, known)
		}
	}
	leave()
	if w, known := g.names.find("sbx-2", "run-2"); !known || w.meta.Session != "s2" {
		t.Errorf("a command that has ended is %+v", w.meta)
	}
	e := allowed()
	e.Sandbox = "nobody's"
	if err := g.Decide(e); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("something passes for nobody: %v", err)
	}
}

// TestTwiceEntered checks that leave removes only its own registration.
func TestTwiceEntered(t *testing.T) {
	g := recordNewRig(t, RecorderOptions{}, evidence.Options{})
	first := g.Sandbox("s", recordWho{Session: "first", Require: true})
	second := g.Sandbox("s", recordWho{Session: "second"})
	if w, _ := g.names.find("s", ""); w.meta.Session != "second" || !w.require {
		t.Errorf("%+v", w)
	}
	first()
	if w, known := g.names.find("s", ""); !known || w.meta.Session != "second" || w.require {
		t.Errorf("%+v", w)
	}
	second()
	second()
	if _, known := g.names.find("s", ""); known || len(g.names.places) != 2 {
		t.Errorf("%d places are left", len(g.names.places))
	}
}

// TestFlushAndClose checks that both wait for earlier events, and the effect
// of events after Close.
func TestFlushAndClose(t *testing.T) {
	g := recordNewRig(t, RecorderOptions{}, evidence.Options{Burst: 1, Rate: 1})
	var done sync.WaitGroup
	for range 4 {
		done.Go(func() {
			for range 250 {
				g.Record(allowed())
			}
		})
	}
	done.Wait()
	if err := g.Close(); err != nil {
		t.Fatal(err)
	}
	var n int64
	for _, r := range g.proven(t) {
		n += max(r.Omitted, 1)
	}
	if n != 1000 {
		t.Errorf("%d are on record", n)
	}
	g.Record(allowed())
	if err := g.Decide(allowed()); err != nil { // not required
		t.Errorf("refused: %v", err)
	}
	if c := g.Counters(); c.Recorded != 1000 || c.Lost != 2 {
		t.Errorf("counters %+v", c)
	}
	if err := g.Flush(context.Background()); err == nil {
		t.Error("a closed record can be flushed")
	}
	if err := g.Close(); err == nil {
		t.Error("closing again says nothing of what was lost")
	}
}

// TestEventsWhileClosing checks that no event is lost without being counted.
func TestEventsWhileClosing(t *testing.T) {
	g := recordNewRig(t, RecorderOptions{Queue: 1}, evidence.Options{Burst: 1, Rate: 1})
	var done sync.WaitGroup
	const n = 2000
	half := make(chan struct{})
	done.Go(func() {
		for i := range n {
			if i == n/2 {
				close(half)
			}
			g.Record(allowed())
		}
	})
	<-half
	g.Close()
	done.Wait()
	if c := g.Counters(); c.Recorded+c.Lost != n || c.Recorded < n/2 {
		t.Errorf("counters %+v", c)
	}
}

// TestKindsOfRefusals checks how refusals are listed.
func TestKindsOfRefusals(t *testing.T) {
	for rule, want := range map[string]struct {
		kind     violation.Type
		severity policy.Severity
	}{
		"network.allowedDomains":         {violation.NetworkViolation, policy.Medium},
		"network.deniedDomains[0]: evil": {violation.NetworkViolation, policy.High},
		"address":                        {violation.NetworkViolation, policy.High},
		"sni":                            {violation.NetworkViolation, policy.Medium},
		"limits.requestBytes":            {violation.LimitExceeded, policy.Low},
	} {
		e := recordRefused()
		e.Rule = rule
		if v, ok := (item{event: e}).refusal(); !ok || v.Type != want.kind || v.Severity != want.severity || v.Resource != "evil.example:443" {
			t.Errorf("%s: %+v", rule, v)
		}
	}
	e := allowed()
	e.Error = "connection refused"
	for _, e.Phase = range []Phase{PhaseDecision, PhaseEnd} {
		if v, ok := (item{event: e}).refusal(); ok {
			t.Errorf("what was allowed is a violation: %+v", v)
		}
	}
}

func TestOptions(t *testing.T) {
	g := recordNewRig(t, RecorderOptions{}, evidence.Options{})
	for _, o := range []RecorderOptions{{}, {Evidence: g.evidence}, {Evidence: g.evidence, Log: g.log.logger(), Queue: -1}, {Evidence: g.evidence, Log: g.log.logger(), Wait: -1}, {Evidence: g.evidence, Log: g.log.logger(), Within: -1}} {
		if _, err := NewRecorder(o); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%+v: error %v", o, err)
		}
	}
}
