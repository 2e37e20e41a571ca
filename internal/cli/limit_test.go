package cli

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestLimitIsSaid holds what is said of a command that reached a limit, behind
// its own words, and that its exit status stays its own.
func TestLimitIsSaid(t *testing.T) {
	memory := &sandbox.LimitHit{Limit: sandbox.LimitMemory, Current: 268 << 20, Bound: 256 << 20, Unit: sandbox.UnitBytes}
	timeout := sandbox.TimeHit(2*time.Second+time.Millisecond, 2*time.Second)
	for _, tt := range []struct {
		name   string
		out    manager.Outcome
		status int
		text   string
		limit  string // in JSON
	}{
		{"memory", manager.Outcome{Exit: sandbox.Exit{Code: 137, Signal: "KILL", Limit: memory}}, 137,
			"sandbox: limits.memory: 268 MiB used, bound 256 MiB; raise limits.memory, or use less\n", "limits.memory"},
		{"a command that ended well", manager.Outcome{Exit: sandbox.Exit{Limit: memory}}, 0,
			"sandbox: limits.memory: 268 MiB used, bound 256 MiB; raise limits.memory, or use less\n", "limits.memory"},
		{"timeout", manager.Outcome{TimedOut: true, Duration: 2001 * time.Millisecond, Exit: sandbox.Exit{Code: 137, Limit: timeout}}, 124,
			"sandbox: the command was ended at its time limit after 2.001s: limits.timeout: 2 s used, bound 2 s; raise limits.timeout, or do less in one command\n", "limits.timeout"},
		{"blocked as well", manager.Outcome{Blocked: true, BlockedReason: "no", BlockedResource: "/x", Exit: sandbox.Exit{Code: 1, Limit: memory}}, 1,
			"sandbox: blocked: : no\nsandbox: limits.memory: 268 MiB used, bound 256 MiB; raise limits.memory, or use less\n", "limits.memory"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := &fake{run: func(context.Context, manager.Request) (manager.Outcome, error) { return tt.out, nil }}
			if r := call(t, f, "run", "--", "x"); r.status != tt.status || r.stderr != tt.text {
				t.Errorf("status %d, says %q", r.status, r.stderr)
			}
			r := call(t, f, "run", "-o", "json", "--", "x")
			var got struct {
				Limit sandbox.LimitHit `json:"limit"`
			}
			if err := json.Unmarshal([]byte(r.stderr), &got); err != nil || r.status != tt.status || got.Limit.Limit != tt.limit || got.Limit.Bound == 0 {
				t.Errorf("status %d, %v: %s", r.status, err, r.stderr)
			}
		})
	}
}

// TestFlagIsNamed checks that a time limit set by a flag is reported with the
// flag, because raising the setting would not change it.
func TestFlagIsNamed(t *testing.T) {
	f := &fake{run: func(_ context.Context, req manager.Request) (manager.Outcome, error) {
		return manager.Outcome{TimedOut: true, Duration: req.Timeout, Exit: sandbox.Exit{Code: 137, Limit: sandbox.TimeHit(req.Timeout, req.Timeout)}}, nil
	}}
	const hint = "raise --timeout, or do less in one command"
	r := call(t, f, "run", "--timeout", "1s", "--", "sleep", "9")
	if want := "sandbox: the command was ended at its time limit after 1s: limits.timeout: 1 s used, bound 1 s; " + hint + "\n"; r.status != 124 || r.stderr != want {
		t.Errorf("status %d, says %q, want %q", r.status, r.stderr, want)
	}
	r = call(t, f, "run", "-o", "json", "--timeout", "1s", "--", "sleep", "9")
	var got struct{ Hint string }
	if err := json.Unmarshal([]byte(r.stderr), &got); err != nil || got.Hint != hint {
		t.Errorf("%v: %s", err, r.stderr)
	}
}

// TestWaitIsSaid holds that a command whose connections waited for their turn says so
// from a second on, also where it succeeds.
func TestWaitIsSaid(t *testing.T) {
	long, short := &sandbox.Waited{Connections: 12, Millis: 31200}, &sandbox.Waited{Connections: 3, Millis: 999}
	const line = "sandbox: network.limits.connections made 12 connections wait for 31.2s in all; raise it in the settings, or open fewer connections at a time\n"
	left := sandbox.Exit{Left: &sandbox.Left{Count: 1, Names: []string{"sleep (41)"}}}
	for _, tt := range []struct {
		name string
		out  manager.Outcome
		want string
	}{
		{"success", manager.Outcome{Waited: long}, line},
		{"failure", manager.Outcome{Waited: long, Exit: sandbox.Exit{Code: 3}}, line},
		{"with processes that are left", manager.Outcome{Waited: long, Exit: left}, line + "sandbox: 1 background process was ended with the command: sleep (41)\n"},
		{"a moment", manager.Outcome{Waited: short}, ""},
	} {
		f := &fake{run: func(context.Context, manager.Request) (manager.Outcome, error) { return tt.out, nil }}
		if r := call(t, f, "run", "--", "x"); r.status != tt.out.Exit.Code || r.stderr != tt.want {
			t.Errorf("%s: status %d, says %q", tt.name, r.status, r.stderr)
		}
		var got struct{ Waited *sandbox.Waited }
		r := call(t, f, "run", "-o", "json", "--", "x")
		if err := json.Unmarshal([]byte(r.stderr), &got); tt.want != "" && (err != nil || got.Waited == nil || *got.Waited != *long) || tt.want == "" && r.stderr != "" {
			t.Errorf("%s: as JSON: %s", tt.name, r.stderr)
		}
	}
}

// TestWarningsAreSaid holds that warnings about a line are one line on standard
// error, or part of the one document as JSON, however the command ended.
func TestWarningsAreSaid(t *testing.T) {
	warned := []string{`"$(" puts in what a command prints`, `";" chains commands`}
	const line = `sandbox: warning: "$(" puts in what a command prints, ";" chains commands; strictness strict refuses such lines` + "\n"
	left := sandbox.Exit{Left: &sandbox.Left{Count: 1, Names: []string{"sleep (41)"}}}
	for _, tt := range []struct {
		name   string
		out    manager.Outcome
		status int
	}{
		{"success", manager.Outcome{}, 0},
		{"failure", manager.Outcome{Exit: sandbox.Exit{Code: 3}}, 3},
		{"processes that are left", manager.Outcome{Exit: left}, 0},
		{"connections that waited", manager.Outcome{Waited: &sandbox.Waited{Connections: 12, Millis: 31200}}, 0},
		{"a limit", manager.Outcome{Exit: sandbox.Exit{Limit: sandbox.TimeHit(2, 1)}}, 0},
		{"out of time", manager.Outcome{TimedOut: true, Exit: sandbox.Exit{Limit: sandbox.TimeHit(2, 1)}}, 124},
		{"blocked", manager.Outcome{Blocked: true, Exit: sandbox.Exit{Code: 1}}, 1},
	} {
		tt.out.Warnings = warned
		f := &fake{run: func(context.Context, manager.Request) (manager.Outcome, error) { return tt.out, nil }}
		if r := call(t, f, "run", "--", "x"); r.status != tt.status || strings.Count(r.stderr, line) != 1 {
			t.Errorf("%s: status %d, says %q", tt.name, r.status, r.stderr)
		}
		var got struct{ Warnings []string }
		r := call(t, f, "run", "-o", "json", "--", "x")
		if err := json.Unmarshal([]byte(r.stderr), &got); err != nil || len(got.Warnings) != 2 {
			t.Errorf("%s: as JSON: %v: %s", tt.name, err, r.stderr)
		}
	}
}

// TestNetworkLimitIsSaid holds that a limit of the network which refused
// something is named also where the command succeeds, or was blocked by
// something else.
func TestNetworkLimitIsSaid(t *testing.T) {
	refused := sandbox.Violation{Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: "unknown host", Rule: "limits.connections", Evidence: sandbox.EvidenceCertain}
	host := sandbox.Violation{Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: "a.example:443", Rule: "network.deniedDomains[0]", Evidence: sandbox.EvidenceCertain}
	const line = "sandbox: the network's limits were reached, and requests refused: network.limits.connections; raise them in the settings, or use less\n"
	for _, tt := range []struct {
		name string
		out  manager.Outcome
		want string
	}{
		{"success", manager.Outcome{Violations: []sandbox.Violation{refused, refused}}, line},
		{"other cause", manager.Outcome{Exit: sandbox.Exit{Code: 1}, Blocked: true, BlockedReason: "no", Causes: []sandbox.Violation{host}, Violations: []sandbox.Violation{host, refused}},
			"sandbox: blocked: certain: no; no permission opens what is denied there\n" + line},
		{"no limit", manager.Outcome{Violations: []sandbox.Violation{host}}, ""},
	} {
		f := &fake{run: func(context.Context, manager.Request) (manager.Outcome, error) { return tt.out, nil }}
		if r := call(t, f, "run", "--", "x"); r.status != tt.out.Exit.Code || r.stderr != tt.want {
			t.Errorf("%s: status %d, says %q", tt.name, r.status, r.stderr)
		}
		if r := call(t, f, "run", "-o", "json", "--", "x"); tt.want != "" && (!json.Valid([]byte(r.stderr)) || !strings.Contains(r.stderr, "limits.connections")) {
			t.Errorf("%s: as JSON: %s", tt.name, r.stderr)
		}
	}
}
