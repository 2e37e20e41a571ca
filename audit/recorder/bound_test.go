package recorder

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/grant"
)

// large are a begin and an end of which every text is s.
func large(s string) (evidence.Begin, evidence.End) {
	d := evidence.Digest{Algo: s, B64: s}
	effects := make([]evidence.Effect, 3*evidence.MaxEffects)
	for i := range effects {
		effects[i] = evidence.Effect{Kind: grant.SideEffect(s), Path: s, Method: s, Host: s, Program: s, Digest: d}
	}
	return evidence.Begin{
			Tenant: s, Subject: s, Agent: s, Session: s, Tool: s, Call: s, Grant: s, Sandbox: s, Kind: grant.OpKind(s), Capability: s,
			Request: evidence.Request{Path: s, Method: s, Scheme: s, Host: s, Program: s}, Inputs: d,
			ProfileHash: s, PolicyVersion: s, ManifestVersion: s, RequestID: s, TraceParent: s,
		}, evidence.End{
			Status: evidence.Failed, Code: sandbox.Code(s), Rule: s, Detail: s, Resource: s, Outputs: d, Effects: effects,
		}
}

// keptAs puts an operation on record and reads it back.
func keptAs(t testing.TB, g *rig, b evidence.Begin, how evidence.End) evidence.Item {
	t.Helper()
	e, err := g.Begin(t.Context(), b, true)
	if err != nil {
		t.Fatal(err)
	}
	end(t, e, how)
	return operations(t, g.store, b.Tenant)[e.ID()]
}

// TestLargeTexts checks that whatever the texts are, the records can be written,
// the tenant's own can be found, and no effect is lost without being counted.
func TestLargeTexts(t *testing.T) {
	for name, s := range map[string]string{
		"long":             strings.Repeat("x", 100_000),
		"grows as JSON":    strings.Repeat("<", 100_000),
		"control":          strings.Repeat("\x01", 3000),
		"no UTF-8":         strings.Repeat("\xff", 3000),
		"of several bytes": strings.Repeat("ü", 3000),
		"empty":            "",
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, t.TempDir(), Options{})
			b, how := large(s)
			o := keptAs(t, g, b, how)
			if o.Begin == nil || o.End == nil {
				t.Fatalf("%+v", o)
			}
			if o.End.Status != evidence.Failed || len(o.End.Effects)+o.End.More != 3*evidence.MaxEffects || len(o.End.Effects) > evidence.MaxEffects {
				t.Errorf("%d effects and %d more", len(o.End.Effects), o.End.More)
			}
			if len(o.End.Detail) > 512 || len(o.End.Resource) > 512 || len(o.Begin.Tool) > journal.MaxName {
				t.Errorf("%d bytes of detail, %d of a resource, %d of a name", len(o.End.Detail), len(o.End.Resource), len(o.Begin.Tool))
			}
		})
	}
}

// TestLongPath checks that of one long path as much is kept as fits, and all of
// the rest.
func TestLongPath(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	b := write("acme")
	b.Request.Path = "/" + strings.Repeat("a", 3000)
	if o := keptAs(t, g, b, wrote()); o.Begin.Request.Path != b.Request.Path {
		t.Errorf("a path of %d bytes is kept as %d", len(b.Request.Path), len(o.Begin.Request.Path))
	}
	b.Request.Path = "/" + strings.Repeat("<", 3000)
	if o := keptAs(t, g, b, wrote()); len(o.Begin.Request.Path) < 500 || o.Begin.Capability != b.Capability || o.Begin.Grant != b.Grant {
		t.Errorf("kept is %+v", o.Begin)
	}
}

// TestCallersEnd checks that what the caller has handed over is not changed.
func TestCallersEnd(t *testing.T) {
	g := newRig(t, t.TempDir(), Options{})
	b, how := large(strings.Repeat("y", 600))
	keptAs(t, g, b, how)
	if len(how.Effects) != 3*evidence.MaxEffects || len(how.Effects[0].Path) != 600 {
		t.Error("the effects of the caller are cut")
	}
}

// FuzzBound checks that every text fits into a record as data.
func FuzzBound(f *testing.F) {
	f.Add("x", uint16(10))
	f.Add("<", uint16(60000))
	f.Add("\xff\u2028", uint16(3000))
	f.Fuzz(func(t *testing.T, s string, times uint16) {
		if len(s) > 64 {
			s = s[:64]
		}
		b, how := large(strings.Repeat(s, int(times)))
		begin, err := encodeBegin(b)
		if err != nil {
			t.Fatal(err)
		}
		last, err := encodeEnd(how)
		if err != nil {
			t.Fatal(err)
		}
		if len(begin) > evidence.MaxData || len(last) > evidence.MaxData || !json.Valid(begin) || !json.Valid(last) {
			t.Errorf("a begin of %d bytes and an end of %d", len(begin), len(last))
		}
	})
}
