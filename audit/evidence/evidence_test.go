package evidence

import (
	"context"
	"crypto/ed25519"
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
)

// A clock is set by hand.
type clock struct{ now time.Time }

func newClock() *clock { return &clock{time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)} }

func (c *clock) Now() time.Time { return c.now }

func open(t testing.TB, dir string, o Options) *Store {
	t.Helper()
	s, err := Open(dir, o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// numbered returns r with Data that contain n.
func numbered(r Record, n int) Record {
	if r.Type == "" {
		r.Type = TypeEgress
	}
	r.Data = json.RawMessage(fmt.Sprintf(`{"n":%d}`, n))
	return r
}

// audit returns what Verify says of one tenant's chain.
func audit(t testing.TB, s *Store, tenant string) Chain {
	t.Helper()
	var out []Chain
	for r, err := range s.Verify(context.Background(), Check{Tenant: tenant}) {
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	if len(out) != 1 {
		t.Fatalf("%d reports of one tenant", len(out))
	}
	return out[0]
}

func add(t testing.TB, s *Store, rs ...Record) {
	t.Helper()
	if err := s.Append(context.Background(), rs...); err != nil {
		t.Fatal(err)
	}
}

// query returns what is found as its numbers, and "+n" for records that stand
// for n.
func query(t testing.TB, s *Store, f Filter) string {
	t.Helper()
	var out []string
	for r, err := range s.Query(context.Background(), f) {
		if err != nil {
			t.Fatal(err)
		}
		var data struct{ N int }
		if err := json.Unmarshal(r.Data, &data); err != nil {
			t.Fatal(err)
		}
		text := fmt.Sprint(data.N)
		if r.Omitted > 0 {
			text = fmt.Sprintf("+%d", r.Omitted)
		}
		out = append(out, text)
	}
	return strings.Join(out, " ")
}

func TestQueryByEverything(t *testing.T) {
	c := newClock()
	s := open(t, t.TempDir(), Options{Now: c.Now})
	at := c.now
	for n, r := range []Record{
		{Tenant: "acme", Agent: "main", Session: "s1", Sandbox: "sbx-1", Command: "c1"},
		{Tenant: "acme", Agent: "main", Session: "s2", Sandbox: "sbx-2", Command: "c2", Type: "other"},
		{Tenant: "acme", Agent: "other", Session: "s1", Sandbox: "sbx-1"},
		{Tenant: "evil", Agent: "main", Session: "s1", Sandbox: "sbx-4", Command: "c1"},
		{Agent: "main", Session: "s1", Command: "c3"},
	} {
		add(t, s, numbered(r, n+1))
		c.now = c.now.Add(time.Minute)
	}
	all := Filter{AllTenants: true}
	with := func(change func(*Filter)) Filter { f := all; change(&f); return f }
	for _, tt := range []struct {
		name string
		f    Filter
		want string
	}{
		{"zero", Filter{}, "5"},
		{"tenant", Filter{Tenant: "acme"}, "3 2 1"},
		{"another tenant", Filter{Tenant: "evil"}, "4"},
		{"no such tenant", Filter{Tenant: "ac"}, ""},
		{"all tenants", all, "5 4 3 2 1"},
		{"agent", with(func(f *Filter) { f.Agent = "other" }), "3"},
		{"session", Filter{Tenant: "acme", Session: "s1"}, "3 1"},
		{"sandbox", with(func(f *Filter) { f.Sandbox = "sbx-1" }), "3 1"},
		{"command", with(func(f *Filter) { f.Command = "c1" }), "4 1"},
		{"command of a tenant", Filter{Tenant: "evil", Command: "c1"}, "4"},
		{"type", with(func(f *Filter) { f.Type = "other" }), "2"},
		{"since", with(func(f *Filter) { f.Since = at.Add(2 * time.Minute) }), "5 4 3"},
		{"until", with(func(f *Filter) { f.Until = at.Add(2 * time.Minute) }), "2 1"},
		{"limit", with(func(f *Filter) { f.Limit = 2 }), "5 4"},
		{"limit of what is meant", Filter{Tenant: "acme", Limit: 2}, "3 2"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := query(t, s, tt.f); got != tt.want {
				t.Errorf("finds %q, want %q", got, tt.want)
			}
		})
	}
}

func TestWhatIsRefused(t *testing.T) {
	for name, r := range map[string]Record{
		"a checkpoint":       {Type: TypeCheckpoint, Data: json.RawMessage(`{}`)},
		"no type":            {Data: json.RawMessage(`{}`)},
		"a type in capitals": {Type: "Egress", Data: json.RawMessage(`{}`)},
		"a long type":        {Type: Type(strings.Repeat("x", 33)), Data: json.RawMessage(`{}`)},
		"no data":            {Type: TypeEgress},
		"null":               {Type: TypeEgress, Data: json.RawMessage(`null`)},
		"a list":             {Type: TypeEgress, Data: json.RawMessage(`[]`)},
		"half an object":     {Type: TypeEgress, Data: json.RawMessage(`{"a":`)},
		"two objects":        {Type: TypeEgress, Data: json.RawMessage(`{}{}`)},
		"no UTF-8":           {Type: TypeEgress, Data: json.RawMessage("{\"a\":\"\xff\"}")},
		"large data":         {Type: TypeEgress, Data: json.RawMessage(`{"a":"` + strings.Repeat("x", MaxData) + `"}`)},
		"data that grow":     {Type: TypeEgress, Data: json.RawMessage(`{"a":"` + strings.Repeat("<", MaxData/2) + `"}`)},
		"huge data":          {Type: TypeEgress, Data: json.RawMessage(`{` + strings.Repeat(" ", 4*MaxData) + `}`)},
		"a share":            {Type: TypeEgress, Data: json.RawMessage(`{}`), Share: 9},
		"less than nothing":  {Type: TypeEgress, Data: json.RawMessage(`{}`), Omitted: -1},
		"the year 12000":     {Type: TypeEgress, Data: json.RawMessage(`{}`), Time: time.Date(12000, 1, 1, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), Options{})
			err := s.Append(t.Context(), numbered(Record{}, 1), r)
			if sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Errorf("error %v", err)
			}
			if got := query(t, s, Filter{}); got != "" {
				t.Errorf("%s was kept", got)
			}
		})
	}
}

// TestHostileNames checks that a record with any names and the largest data
// fits, is returned, and that two owners stay distinct.
func TestHostileNames(t *testing.T) {
	data := json.RawMessage(`{"a":"` + strings.Repeat("x", MaxData-8) + `"}`)
	for name, text := range map[string]string{
		"long": strings.Repeat("x", 100<<10), "control": strings.Repeat("\x01\x1b[2J", 50000), "invalid": strings.Repeat("\xff", 50000),
		"wide": strings.Repeat("日", 50000), "markup": strings.Repeat("<&>\u2028", 50000), "256 escapes": strings.Repeat("\x01", 255),
	} {
		t.Run(name, func(t *testing.T) {
			s := open(t, t.TempDir(), Options{})
			add(t, s, Record{Tenant: text + "1", Agent: text, Session: text, Sandbox: text, Command: text, Type: TypeEgress, Data: data})
			if got := query(t, s, Filter{Tenant: text + "2"}) + query(t, s, Filter{Tenant: text}); got != "" {
				t.Errorf("another tenant sees %s", got)
			}
			if got := query(t, s, Filter{Tenant: text + "1", Agent: text, Session: text, Sandbox: text, Command: text}); got != "0" {
				t.Errorf("finds %q", got)
			}
		})
	}
}

// TestDamage checks that an edit is reported with its place and hides nothing
// else.
func TestDamage(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir, Options{})
	for n := range 3 {
		add(t, s, numbered(Record{Session: fmt.Sprint("session", n)}, n))
	}
	if r := audit(t, s, ""); !r.OK() || r.Records != 3 {
		t.Fatalf("report %+v", r)
	}
	files, err := filepath.Glob(filepath.Join(dir, "*", "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], []byte(strings.Replace(string(text), "session1", "sessionX", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := audit(t, s, ""); r.OK() || len(r.Damage) != 1 || r.Damage[0].Kind != journal.DamageEdit || r.Damage[0].Line != 4 {
		t.Errorf("report %+v", r)
	}
	var got []string
	damaged := 0
	for r, err := range s.Query(t.Context(), Filter{}) {
		var d *journal.Damage
		if errors.As(err, &d) {
			damaged++
			continue
		}
		got = append(got, r.Session)
	}
	if !slices.Equal(got, []string{"session2", "session0"}) || damaged != 1 {
		t.Errorf("found %v and %d damaged places", got, damaged)
	}
}

// TestKeysAreStable checks the names under which a record is stored and shown.
func TestKeysAreStable(t *testing.T) {
	c := newClock()
	r, err := numbered(Record{Share: Exact}, 1).bounded(c.now)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		r    Record
		want string
	}{
		{r, `{"time":"2026-11-21T12:00:00Z","tenant":"","agent":"","session":"","sandbox":"","command":"","type":"egress","data":{"n":1}}`},
		{r.Omit(7, Omission{Reason: OmittedFlood, Since: c.now, Until: c.now.Add(time.Second)}), `{"time":"2026-11-21T12:00:01Z","tenant":"","agent":"","session":"","sandbox":"","command":"","type":"egress",` +
			`"data":{"reason":"flood","since":"2026-11-21T12:00:00Z","until":"2026-11-21T12:00:01Z"},"omitted":7}`},
	} {
		if data, err := json.Marshal(tt.r); err != nil || string(data) != tt.want {
			t.Errorf("%s, %v\nwant %s", data, err, tt.want)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, o := range []Options{
		{Burst: -1}, {Rate: -1}, {MaxFile: 1}, {MaxFile: 1 << 20, MaxTotal: 1 << 20}, {Sync: "sometimes"},
		{CheckpointEvery: -1}, {CheckpointEvery: maxCheckpointEvery + 1}, {TrustedKeys: []ed25519.PublicKey{{1}}},
	} {
		if _, err := Open(t.TempDir(), o); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%+v: error %v", o, err)
		}
	}
	if _, err := Open(t.TempDir(), Options{MaxFile: 200 << 20}); err != nil {
		t.Error(err)
	}
}
