package cli

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"iter"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/internal/termsafe"
)

// fakeEvidence returns what a test sets and notes what it is asked.
type fakeEvidence struct {
	records  []evidence.Record
	damage   int // reported before the records
	err      error
	asked    evidence.Filter
	chains   []evidence.Chain
	checked  evidence.Check
	key      ed25519.PublicKey
	released bool
}

func (f *fakeEvidence) Query(_ context.Context, q evidence.Filter) iter.Seq2[evidence.Record, error] {
	f.asked = q
	return func(yield func(evidence.Record, error) bool) {
		if f.err != nil {
			yield(evidence.Record{}, f.err)
			return
		}
		for range f.damage {
			if !yield(evidence.Record{}, &journal.Damage{Kind: journal.DamageEdit}) {
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

func (f *fakeEvidence) Verified(_ context.Context, c evidence.Check) (evidence.Verified, error) {
	f.checked = c
	v := evidence.Verified{Keys: c.Keys}
	if len(v.Keys) == 0 && f.key != nil {
		v.Keys = []ed25519.PublicKey{f.key}
	}
	for _, c := range f.chains {
		c.Clearings, c.Damage, c.Keys = notNil(c.Clearings), notNil(c.Damage), notNil(c.Keys)
		v.Chains = append(v.Chains, c)
	}
	return v, f.err
}

// withEvidence has a decision, a refusal, two ends, counts and data of a type
// that is not known.
func withEvidence() *fake {
	f := &fake{}
	at := time.Date(2026, 11, 21, 3, 0, 0, 0, time.Local)
	for i, data := range []string{
		`{"phase":"decision","protocol":"connect","method":"CONNECT","host":"pkg.test","port":443,"verdict":"allow","rule":"network.allowedDomains[0]: pkg.test"}`,
		`{"phase":"decision","protocol":"socks5","host":"fe80::1","port":22,"verdict":"deny","rule":"address"}`,
		`{"phase":"end","method":"GET","host":"pkg.test","port":80,"path":"/simple/","verdict":"allow","status":200,"bytesIn":4096,"bytesOut":120,"duration":1500000000}`,
		`{"phase":"end","host":"pkg.test","port":443,"verdict":"allow","error":"connection reset","duration":1}`,
		`{"reason":"flood"}`,
		`{"reason":"lost"}`,
		`{"name":` + string(must(json.Marshal(hostile))) + `}`,
	} {
		r := evidence.Record{
			Time: at.Add(time.Duration(i) * time.Second), Tenant: "acme", Agent: "main", Session: "chat-42", Sandbox: "sbx-a", Command: "0123abcd",
			Type: evidence.TypeEgress, Data: json.RawMessage(data),
		}
		switch i {
		case 4, 5:
			r.Omitted, r.Command = 12345, ""
		case 6:
			r.Type = "later"
		}
		f.evidence.records = append(f.evidence.records, r)
	}
	return f
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}

// evidenceView is what list prints.
type evidenceView struct {
	Evidence []evidence.Record
	More     bool
	Damaged  int
}

func TestEvidenceTable(t *testing.T) {
	for _, args := range []string{"evidence list", "evidence list --all"} {
		r := call(t, withEvidence(), strings.Fields(args)...)
		if r.status != 0 || r.stderr != "" {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
		golden(t, strings.ReplaceAll(args, " ", "_"), r.stdout)
	}
}

func TestEvidenceFilter(t *testing.T) {
	tests := []struct {
		args string
		want evidence.Filter // times excepted
	}{
		{"", evidence.Filter{}}, // the rest is asked of what was brought together
		{"--tenant acme --agent a --limit 7", evidence.Filter{Tenant: "acme"}},
		{"--all --type operation", evidence.Filter{AllTenants: true}},
		{"--type egress --limit 0", evidence.Filter{Type: evidence.TypeEgress}},
		{"--type egress --limit 7", evidence.Filter{Type: evidence.TypeEgress, Limit: 8}},
		{"--type egress --tenant acme", evidence.Filter{Type: evidence.TypeEgress, Tenant: "acme", Limit: 101}},
		{"--type egress --all", evidence.Filter{Type: evidence.TypeEgress, AllTenants: true, Limit: 101}},
		{"--type egress --session s --agent a", evidence.Filter{Type: evidence.TypeEgress, Session: "s", Agent: "a", Limit: 101}},
		{"--type egress --sandbox sbx-a --command c", evidence.Filter{Type: evidence.TypeEgress, Sandbox: "sbx-a", Command: "c", Limit: 101}},
		{"--type egress", evidence.Filter{Type: evidence.TypeEgress, Limit: 101}},
	}
	for _, tt := range tests {
		t.Run(tt.args, func(t *testing.T) {
			f := &fake{}
			if r := call(t, f, append([]string{"evidence", "list"}, strings.Fields(tt.args)...)...); r.status != 0 {
				t.Fatalf("status %d: %s", r.status, r.stderr)
			}
			if f.evidence.asked != tt.want {
				t.Errorf("asked for %+v, want %+v", f.evidence.asked, tt.want)
			}
			if !f.evidence.released {
				t.Error("the store was not let go of")
			}
		})
	}
	f := &fake{}
	call(t, f, "evidence", "list", "--type", "egress", "--since", "2026-11-20T06:00:00Z", "--until", "2026-11-21T06:00:00Z")
	if got := f.evidence.asked; got.Since.UTC().Day() != 20 || got.Until.UTC().Day() != 21 {
		t.Errorf("asked for %+v", got)
	}
}

func TestEvidenceShowsThatThereIsMore(t *testing.T) {
	f := withEvidence()
	r := call(t, f, "evidence", "list", "--limit", "2")
	if r.status != 0 || strings.Count(r.stdout, "\n") != 3 || !strings.Contains(r.stderr, "only the newest 2") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	var got evidenceView
	r = call(t, f, "evidence", "list", "--limit", "2", "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || len(got.Evidence) != 2 || !got.More || r.stderr != "" {
		t.Errorf("%+v, %v: %s", got, err, r.stderr)
	}
}

func TestEvidenceTellsOfDamage(t *testing.T) {
	f := withEvidence()
	f.evidence.damage = 2
	r := call(t, f, "evidence", "list")
	if r.status != 1 || !strings.Contains(r.stdout, "pkg.test:443") || !strings.Contains(r.stderr, "damaged in 2 places") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	f.evidence.err = &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "no disk"}
	for _, command := range []string{"list", "verify"} {
		if r = call(t, f, "evidence", command); r.status != 125 || r.stderr != "sandbox: PROVIDER.UNAVAILABLE: no disk\n" {
			t.Errorf("status %d: %s", r.status, r.stderr)
		}
	}
}

func TestEvidenceIsSafeToShow(t *testing.T) {
	f := withEvidence()
	for i := range f.evidence.records {
		r := &f.evidence.records[i]
		r.Tenant, r.Agent, r.Session, r.Sandbox, r.Command = hostile, hostile, hostile, hostile, hostile
	}
	text := string(must(json.Marshal(hostile)))
	f.evidence.records[0].Data = json.RawMessage(fmt.Sprintf(`{"phase":"end","verdict":%[1]s,"method":%[1]s,"host":%[1]s,"path":%[1]s,"rule":%[1]s,"error":%[1]s}`, text))
	broken := journal.Damage{Kind: hostile, File: hostile, Detail: hostile}
	f.evidence.chains = []evidence.Chain{{
		Tenant: hostile, Folder: hostile, Report: journal.Report{Damage: []journal.Damage{broken}}, Keys: []string{hostile},
		Signed: &evidence.Place{Place: journal.Place{Hash: hostile}}, Broken: &evidence.Broken{Damage: broken, ID: hostile, Type: evidence.Type(hostile)},
	}}
	for _, args := range []string{"list --all -o table", "list --all -o json", "verify -o table", "verify -o json"} {
		got := call(t, f, append([]string{"evidence"}, strings.Fields(args)...)...)
		for _, c := range got.stdout + got.stderr {
			if c != '\n' && !termsafe.Safe(c) {
				t.Errorf("%s holds %U", args, c)
			}
		}
	}
}
