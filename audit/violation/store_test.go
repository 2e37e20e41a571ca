package violation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/policy"
)

// A clock is set by hand.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time { return c.now }

func open(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(t.TempDir(), o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func add(t testing.TB, s *Store, rs ...Record) {
	t.Helper()
	if err := s.Append(context.Background(), rs...); err != nil {
		t.Fatal(err)
	}
}

// query returns what is found as "resource×count".
func query(t testing.TB, s *Store, f Filter) []string {
	t.Helper()
	var out []string
	for r, err := range s.Query(context.Background(), f) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, fmt.Sprintf("%s×%d", r.Resource, r.Count))
	}
	return out
}

func wantQuery(t testing.TB, s *Store, f Filter, want ...string) {
	t.Helper()
	if got := query(t, s, f); !slices.Equal(got, want) {
		t.Errorf("%v finds %v, want %v", f, got, want)
	}
}

func TestQueryByEverything(t *testing.T) {
	c := newClock()
	s := open(t, Options{Now: c.Now})
	at := c.now
	for _, r := range []Record{
		{Tenant: "acme", Agent: "main", Session: "s1", Sandbox: "sbx-1", Type: WallPath, Severity: policy.Medium, Resource: "1"},
		{Tenant: "acme", Agent: "main", Session: "s2", Sandbox: "sbx-2", Type: WallPath, Severity: policy.High, Resource: "2"},
		{Tenant: "acme", Agent: "other", Session: "s1", Type: CommandBlocked, Severity: policy.Low, Resource: "3"},
		{Tenant: "evil", Agent: "main", Session: "s1", Type: providerNetwork, Severity: policy.Critical, Resource: "4"},
		{Agent: "main", Session: "s1", Type: LimitExceeded, Resource: "5"},
	} {
		add(t, s, r)
		c.now = c.now.Add(time.Minute)
	}
	tests := []struct {
		name string
		f    Filter
		want string
	}{
		{"zero", Filter{}, "5"},
		{"tenant", Filter{Tenant: "acme"}, "3 2 1"},
		{"another tenant", Filter{Tenant: "evil"}, "4"},
		{"no such tenant", Filter{Tenant: "ac"}, ""},
		{"all tenants", Filter{AllTenants: true}, "5 4 3 2 1"},
		{"all tenants whatever the tenant", Filter{AllTenants: true, Tenant: "evil"}, "5 4 3 2 1"},
		{"type", Filter{AllTenants: true, Types: []Type{WallPath}}, "2 1"},
		{"types", Filter{AllTenants: true, Types: []Type{WallPath, providerNetwork}}, "4 2 1"},
		{"severity", Filter{AllTenants: true, MinSeverity: policy.High}, "4 2"},
		{"agent", Filter{AllTenants: true, Agent: "other"}, "3"},
		{"session", Filter{Tenant: "acme", Session: "s1"}, "3 1"},
		{"session of all tenants", Filter{AllTenants: true, Session: "s1"}, "5 4 3 1"},
		{"sandbox", Filter{Tenant: "acme", Sandbox: "sbx-2"}, "2"},
		{"since", Filter{AllTenants: true, Since: at.Add(2 * time.Minute)}, "5 4 3"},
		{"until", Filter{AllTenants: true, Until: at.Add(2 * time.Minute)}, "2 1"},
		{"since and until", Filter{AllTenants: true, Since: at.Add(time.Minute), Until: at.Add(3 * time.Minute)}, "3 2"},
		{"limit", Filter{AllTenants: true, Limit: 2}, "5 4"},
		{"limit of what is meant", Filter{Tenant: "acme", Limit: 2}, "3 2"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var want []string
			for _, r := range strings.Fields(tt.want) {
				want = append(want, r+"×1")
			}
			wantQuery(t, s, tt.f, want...)
			n, err := s.Count(t.Context(), tt.f)
			var sum int64
			for _, c := range n {
				sum += c
			}
			if err != nil || tt.f.Limit == 0 && int(sum) != len(want) {
				t.Errorf("counted %v, %v", n, err)
			}
		})
	}
}

func TestClearByFilter(t *testing.T) {
	s := open(t, Options{})
	for n := range 6 {
		add(t, s, Record{Tenant: []string{"acme", "evil"}[n%2], Type: WallPath, Resource: fmt.Sprint(n)})
	}
	n, err := s.Clear(t.Context(), Filter{Tenant: "acme", Limit: 1}, "uid 0")
	if n != 3 || err != nil {
		t.Fatalf("removed %d, %v", n, err)
	}
	wantQuery(t, s, Filter{Tenant: "acme"})
	wantQuery(t, s, Filter{Tenant: "evil"}, "5×1", "3×1", "1×1")
	report, err := s.Verify(t.Context())
	if err != nil || !report.OK() || len(report.Clearings) != 1 {
		t.Fatalf("report %+v, %v", report, err)
	}
	if c := report.Clearings[0]; c.By != "uid 0" || c.Reason != `tenant "acme"` || c.Removed != 3 {
		t.Errorf("clearing %+v", c)
	}
	// What was cleared is written again when it happens again.
	add(t, s, Record{Tenant: "acme", Type: WallPath, Resource: "0"})
	wantQuery(t, s, Filter{Tenant: "acme"}, "0×1")
}

func TestUnknownTypeIsRefused(t *testing.T) {
	s := open(t, Options{})
	err := s.Append(t.Context(), Record{Type: WallPath}, Record{Type: "no_such"})
	if sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), "no_such") {
		t.Errorf("error %v", err)
	}
	wantQuery(t, s, Filter{AllTenants: true})
}

// TestHostileTexts checks that a record with any texts is kept, is bounded, is
// returned, and that two owners stay distinct.
func TestHostileTexts(t *testing.T) {
	long := strings.Repeat("x", 100<<10)
	for name, text := range map[string]string{
		"long": long, "control": strings.Repeat("\x01\x1b[2J", 50000), "invalid": strings.Repeat("\xff", 50000),
		"wide": strings.Repeat("日", 50000), "markup": strings.Repeat("<&>\u2028", 50000), "NUL": "\x00",
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, Options{})
			add(t, s, Record{
				Tenant: text + "1", Agent: text, Session: text, Sandbox: text, Type: WallPath, Kind: text, Op: sandbox.Operation(text),
				Resource: text, Rule: text, Message: text, Program: text, Command: text, CommandDigest: text,
			})
			wantQuery(t, s, Filter{Tenant: text + "2"})
			wantQuery(t, s, Filter{Tenant: text})
			for r, err := range s.Query(t.Context(), Filter{Tenant: text + "1", Agent: text, Session: text, Sandbox: text}) {
				if err != nil {
					t.Fatal(err)
				}
				if len(r.Command) > maxCommand || len(r.Resource) > maxResource || len(r.Tenant) > 2*journal.MaxName || r.Resource == "" {
					t.Errorf("kept %d bytes of the command, %d of the resource", len(r.Command), len(r.Resource))
				}
				return
			}
			t.Error("it is not found")
		})
	}
}

// TestDamageDoesNotHideTheRest breaks one line.
func TestDamageDoesNotHideTheRest(t *testing.T) {
	dir := t.TempDir()
	s, err := Open(dir, Options{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 3 {
		add(t, s, Record{Type: WallPath, Resource: fmt.Sprint("resource", n)})
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	data, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], []byte(strings.Replace(string(data), "resource1", "resourceX", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	var got, damaged []string
	for r, err := range s.Query(t.Context(), Filter{}) {
		var d *journal.Damage
		if errors.As(err, &d) {
			damaged = append(damaged, d.Kind)
			continue
		}
		got = append(got, r.Resource)
	}
	if !slices.Equal(got, []string{"resource2", "resource0"}) || !slices.Equal(damaged, []string{journal.DamageEdit}) {
		t.Errorf("found %v and damage %v", got, damaged)
	}
	if n, err := s.Count(t.Context(), Filter{}); err != nil || n[WallPath] != 2 {
		t.Errorf("counted %v, %v", n, err)
	}
}

// TestKeysAreStable checks the names under which a record is stored and shown.
func TestKeysAreStable(t *testing.T) {
	data, err := json.Marshal(Record{Type: WallPath}.bounded(newClock().now))
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"time":"2026-11-21T12:00:00Z","tenant":"","agent":"","session":"","sandbox":"","type":"wall_path","severity":"medium",` +
		`"verdict":"deny","kind":"","operation":"","resource":"","rule":"","message":"","program":"","command":"","commandDigest":"","count":1}`
	if string(data) != want {
		t.Errorf("%s\nwant %s", data, want)
	}
}
