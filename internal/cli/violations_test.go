package cli

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
	"github.com/bulkhead-dev/sandbox/policy"
)

// fakeViolations returns what a test sets and notes what it is asked.
type fakeViolations struct {
	records  []violation.Record
	damage   int // reported before the records
	err      error
	asked    violation.Filter
	cleared  int
	by       string
	released bool
}

func (f *fakeViolations) Query(_ context.Context, q violation.Filter) iter.Seq2[violation.Record, error] {
	f.asked = q
	return func(yield func(violation.Record, error) bool) {
		if f.err != nil {
			yield(violation.Record{}, f.err)
			return
		}
		for range f.damage {
			if !yield(violation.Record{}, &journal.Damage{Kind: journal.DamageEdit}) {
				return
			}
		}
		for n, r := range f.records {
			if q.Limit > 0 && n == q.Limit || !yield(r, nil) {
				return
			}
		}
	}
}

func (f *fakeViolations) Count(context.Context, violation.Filter) (map[violation.Type]int64, error) {
	return map[violation.Type]int64{violation.WallPath: int64(len(f.records))}, f.err
}

func (f *fakeViolations) Clear(_ context.Context, q violation.Filter, by string) (int64, error) {
	f.asked, f.by = q, by
	f.cleared++
	return int64(len(f.records)), f.err
}

func withRecords(n int) *fake {
	f := &fake{}
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	for i := range n {
		r := violation.Record{
			Time: at.Add(time.Duration(i) * time.Second), Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: "sbx-a", Type: violation.WallPath,
			Severity: policy.High, Verdict: policy.Deny, Kind: "path", Op: sandbox.OpWrite, Resource: fmt.Sprint("/etc/", i), Rule: "filesystem.denyWrite: /etc",
			Program: "touch", Count: int64(i + 1),
		}
		if i%2 == 1 {
			r.Type, r.Kind, r.Op, r.Resource, r.Command = violation.CriticalPathRemoval, sandbox.ResourceCommand, sandbox.OpExecute, "", "rm -rf "+hostile
		}
		f.violations.records = append(f.violations.records, r)
	}
	return f
}

func TestViolationsTable(t *testing.T) {
	for _, args := range []string{"violations list", "violations list --all"} {
		r := call(t, withRecords(3), strings.Fields(args)...)
		if r.status != 0 || r.stderr != "" {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
		golden(t, strings.ReplaceAll(args, " ", "_"), r.stdout)
	}
}

func TestViolationsFilter(t *testing.T) {
	tests := []struct {
		args string
		want violation.Filter // times excepted
	}{
		{"", violation.Filter{Limit: 101}},
		{"--limit 0", violation.Filter{}},
		{"--limit 7", violation.Filter{Limit: 8}},
		{"--tenant acme", violation.Filter{Tenant: "acme", Limit: 101}},
		{"--all", violation.Filter{AllTenants: true, Limit: 101}},
		{"--session s --agent a", violation.Filter{Session: "s", Agent: "a", Limit: 101}},
		{"--session default", violation.Filter{Session: "default", Limit: 101}},
		{"--sandbox sbx-a", violation.Filter{Sandbox: "sbx-a", Limit: 101}},
		{"--type wall_path --type command_blocked", violation.Filter{Types: []violation.Type{violation.WallPath, violation.CommandBlocked}, Limit: 101}},
		{"--severity high", violation.Filter{MinSeverity: policy.High, Limit: 101}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			f := &fake{}
			if r := call(t, f, append([]string{"violations", "list"}, strings.Fields(tt.args)...)...); r.status != 0 {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			got := f.violations.asked
			if got.String() != tt.want.String() || got.Limit != tt.want.Limit || !slices.Equal(got.Types, tt.want.Types) || !got.Since.IsZero() || !got.Until.IsZero() {
				t.Errorf("asked for %+v, want %+v", got, tt.want)
			}
			if !f.violations.released {
				t.Error("the store was not let go of")
			}
		})
	}
}

func TestViolationsTimes(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	for v, want := range map[string]time.Time{
		"10m": now.Add(-10 * time.Minute), "7d": now.Add(-7 * 24 * time.Hour), "0s": now,
		"2026-11-20T06:00:00Z": time.Date(2026, 11, 20, 6, 0, 0, 0, time.UTC),
		"2026-11-20":           time.Date(2026, 11, 20, 0, 0, 0, 0, time.Local),
		"2026-11-20 06:00:00":  time.Date(2026, 11, 20, 6, 0, 0, 0, time.Local),
	} {
		var m moment
		if err := m.Set(v); err != nil || !m.at(now).Equal(want) {
			t.Errorf("%s is %v, %v, want %v", v, m.at(now), err, want)
		}
	}
	var m moment
	if !m.at(now).IsZero() || m.Set("yesterday") == nil || m.Set("") == nil {
		t.Error("what is no time is taken for one")
	}
}

func TestViolationsShowThatThereIsMore(t *testing.T) {
	f := withRecords(3)
	r := call(t, f, "violations", "list", "--limit", "2")
	if r.status != 0 || strings.Count(r.stdout, "\n") != 3 || !strings.Contains(r.stderr, "only the newest 2") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	var got violationsView
	r = call(t, f, "violations", "list", "--limit", "2", "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Violations) != 2 || !got.More || r.stderr != "" {
		t.Errorf("%+v, %v: %s", got, err, r.stderr)
	}
	if r = call(t, f, "violations", "list", "--limit", "3"); r.stderr != "" {
		t.Errorf("it says %q when all are shown", r.stderr)
	}
}

func TestViolationsTellOfDamage(t *testing.T) {
	f := withRecords(1)
	f.violations.damage = 2
	r := call(t, f, "violations", "list")
	if r.status != 1 || !strings.Contains(r.stdout, "/etc/0") || r.stderr != "sandbox: the records are damaged in 2 places; what was there is not shown\n" {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	f.violations.err = &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "no disk"}
	if r = call(t, f, "violations", "list"); r.status != 125 || r.stderr != "sandbox: PROVIDER.UNAVAILABLE: no disk\n" {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
}

func TestViolationsAreSafeToShow(t *testing.T) {
	f := withRecords(1)
	r := &f.violations.records[0]
	r.Tenant, r.Agent, r.Session, r.Sandbox, r.Kind, r.Op = hostile, hostile, hostile, hostile, hostile, sandbox.Operation(hostile)
	r.Type, r.Verdict, r.Severity = violation.Type(hostile), policy.Verdict(hostile), policy.Critical
	r.Resource, r.Rule, r.Message, r.Program, r.Command, r.CommandDigest = hostile, hostile, hostile, hostile, hostile, hostile
	for _, format := range []string{"table", "json"} {
		got := call(t, f, "violations", "list", "--all", "-o", format)
		for _, c := range got.stdout + got.stderr {
			if c != '\n' && !termsafe.Safe(c) {
				t.Errorf("%s holds %U", format, c)
			}
		}
	}
}

func TestViolationsClear(t *testing.T) {
	f := withRecords(3)
	r := call(t, f, "violations", "clear", "--force", "--tenant", "acme", "--severity", "high")
	if r.status != 0 || r.stdout != "removed 3 records\n" || r.stderr != "" {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if got := f.violations; got.cleared != 1 || got.asked.Tenant != "acme" || got.asked.MinSeverity != policy.High || !strings.HasPrefix(got.by, "uid ") {
		t.Errorf("asked for %+v by %q", got.asked, got.by)
	}
	if r = call(t, f, "violations", "clear", "--force", "-o", "json"); r.stdout != "{\n  \"removed\": 3\n}\n" {
		t.Errorf("it prints %s", r.stdout)
	}
	if r = call(t, &fake{}, "violations", "clear", "--force"); r.stdout != "there is none\n" {
		t.Errorf("it prints %s", r.stdout)
	}
}
