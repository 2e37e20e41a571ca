package sdk_test

import (
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// kept are the records of a daemon.
type kept struct {
	*managerRig
	dir        string
	violations *violation.Store
	evidence   *evidence.Store
}

func newKept(t *testing.T) kept {
	k := kept{dir: t.TempDir()}
	var err error
	if k.violations, err = violation.Open(filepath.Join(k.dir, "violations"), violation.Options{}); err != nil {
		t.Fatal(err)
	}
	if k.evidence, err = evidence.Open(filepath.Join(k.dir, "evidence"), evidence.Options{KeyFile: filepath.Join(k.dir, "key")}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { k.violations.Close(); k.evidence.Close() })
	k.managerRig = &managerRig{T: t, ctx: t.Context(), Rig: served.New(t, served.Options{Resources: func(*served.Rig) []resource.Resource {
		return []resource.Resource{resource.NewViolations(k.violations), resource.NewEvidence(k.evidence)}
	}})}
	for i := range 200 {
		tenant := []string{"acme", "evil"}[i%2]
		v := violation.FromNetwork(sandbox.Violation{Kind: sandbox.ResourceNetwork, Operation: sandbox.OpConnect, Resource: fmt.Sprint(i), Rule: "r"},
			"\x1b[2J", violation.Meta{Tenant: tenant, Agent: "main", Session: "s1", Sandbox: "box"})
		if err := k.violations.Append(t.Context(), v); err != nil {
			t.Fatal(err)
		}
		if i >= 20 {
			continue
		}
		e := evidence.Record{Tenant: tenant, Agent: "main", Session: "s1", Sandbox: "box", Command: fmt.Sprint(i), Type: evidence.TypeEgress, Data: []byte(`{"host":"h"}`)}
		if err := k.evidence.Append(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

// all are records, and how many places were damaged.
func all[T any](t *testing.T, from iter.Seq2[T, error]) (out []T, damaged int) {
	t.Helper()
	for r, err := range from {
		var d *journal.Damage
		if errors.As(err, &d) {
			damaged++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, r)
	}
	return out, damaged
}

// TestRecords holds that records come through a daemon as they are, whatever
// is asked.
func TestRecords(t *testing.T) {
	k := newKept(t)
	admin := k.as("")
	high := violation.Filter{Tenant: "acme", MinSeverity: policy.Critical}
	for _, f := range []violation.Filter{
		{Tenant: "acme"}, {Tenant: "acme", Limit: 7}, {AllTenants: true}, {AllTenants: true, Limit: 150}, {Tenant: "none"}, high,
		{Tenant: "acme", Types: []violation.Type{violation.Types()[0], violation.Types()[1]}, Agent: "main", Session: "s1", Sandbox: "box", Since: time.Now().Add(-time.Hour), Until: time.Now()},
	} {
		want, _ := all(t, k.violations.Query(t.Context(), f))
		got, _ := all(t, admin.Violations().Query(t.Context(), f))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %d records came of %d, or others", f, len(got), len(want))
		}
	}
	n, err := admin.Violations().Count(t.Context(), violation.Filter{AllTenants: true})
	want, _ := k.violations.Count(t.Context(), violation.Filter{AllTenants: true})
	if err != nil || !reflect.DeepEqual(n, want) || len(want) == 0 {
		t.Errorf("%v, %v, want %v", n, err, want)
	}
	for _, f := range []evidence.Filter{{Tenant: "acme"}, {AllTenants: true, Limit: 3}, {Tenant: "acme", Command: "4"}, {Tenant: "acme", Type: evidence.TypeBegin}} {
		want, _ := all(t, k.evidence.Query(t.Context(), f))
		got, _ := all(t, admin.Evidence().Query(t.Context(), f))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%+v: %+v, want %+v", f, got, want)
		}
	}
	acme := k.as("acme")
	if got, _ := all(t, acme.Violations().Query(t.Context(), violation.Filter{})); len(got) != 100 || got[0].Tenant != "acme" {
		t.Errorf("a tenant sees %d records", len(got))
	}
	for _, err := range acme.Violations().Query(t.Context(), violation.Filter{AllTenants: true}) {
		k.code("a tenant asks for all", err, sandbox.CodePermissionDeny)
	}
	_, err = k.as("acme-s1").Violations().Clear(t.Context(), violation.Filter{}, "")
	k.code("an agent clears", err, sandbox.CodePermissionDeny)
	if n, err := acme.Violations().Clear(t.Context(), violation.Filter{Session: "s1"}, "nobody"); err != nil || n != 100 {
		t.Errorf("%d cleared, %v", n, err)
	}
	if left, _ := all(t, k.violations.Query(t.Context(), violation.Filter{AllTenants: true})); len(left) != 100 || left[0].Tenant != "evil" {
		t.Errorf("%d are left", len(left))
	}
}

// TestVerified holds that what a check comes to arrives whole, also where
// something was changed.
func TestVerified(t *testing.T) {
	k := newKept(t)
	admin, ctx := k.as(""), t.Context()
	same := func(c evidence.Check) evidence.Verified {
		t.Helper()
		want, err := k.evidence.Verified(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		got, err := admin.Evidence().Verified(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		a, b := text(t, got), text(t, want)
		if a != b {
			t.Errorf("%+v came as\n%s, want\n%s", c, a, b)
		}
		return got
	}
	whole := same(evidence.Check{AllTenants: true})
	if len(whole.Chains) != 2 || !whole.OK() || len(whole.Keys) != 1 {
		t.Fatalf("%+v", whole)
	}
	signed := whole.Chains[0].Signed.Place
	tenant := whole.Chains[0].Tenant
	if v := same(evidence.Check{Tenant: tenant, Signed: &signed}); !v.OK() {
		t.Errorf("%+v", v)
	}
	if v := same(evidence.Check{Tenant: tenant, Keys: []ed25519.PublicKey{make([]byte, ed25519.PublicKeySize)}}); v.OK() {
		t.Errorf("with the key of nobody: %+v", v)
	}
	file := filepath.Join(k.dir, "evidence", whole.Chains[0].Folder, whole.Chains[0].Last.File)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(string(b), `"host":"h"`, `"host":"x"`)), 0o600); err != nil {
		t.Fatal(err)
	}
	if v := same(evidence.Check{AllTenants: true}); v.OK() || v.Chains[0].Broken == nil {
		t.Errorf("changed records are whole: %+v", v)
	}
	if _, damaged := all(t, admin.Evidence().Query(ctx, evidence.Filter{AllTenants: true})); damaged == 0 {
		t.Error("the damage is not told")
	}
	_, err = k.as("acme").Evidence().Verified(ctx, evidence.Check{AllTenants: true})
	k.code("a tenant checks all", err, sandbox.CodePermissionDeny)
}

func text(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestRecordsOfLiars holds what is made of records that cannot be.
func TestRecordsOfLiars(t *testing.T) {
	for name, lie := range map[string]string{
		"no severity":          `{"severity":"\u001b[2J"}`,
		"a number for a text":  `{"severity":"low","tenant":7}`,
		"no record":            `[]`,
		"a count beyond count": `{"severity":"low","count":1e300}`,
	} {
		d := liar(t, "text/event-stream", "event: record\ndata: "+lie+"\n\nevent: end\ndata: {}\n\n")
		var last error
		for _, err := range d.Violations().Query(t.Context(), violation.Filter{}) {
			last = err
		}
		if sandbox.CodeOf(last) != sandbox.CodeUnavailable || strings.Contains(last.Error(), "\x1b") {
			t.Errorf("%s: %v", name, last)
		}
		if _, err := d.Violations().Count(t.Context(), violation.Filter{}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("%s, counted: %v", name, err)
		}
	}
	for name, lie := range map[string]string{
		"whole with damage":    `{"ok":true,"keys":[],"chains":[{"ok":true,"damage":[{"kind":"edit"}]}]}`,
		"damaged without":      `{"ok":false,"keys":[],"chains":[{"ok":true}]}`,
		"a chain that differs": `{"ok":true,"keys":[],"chains":[{"ok":false}]}`,
		"no key":               `{"ok":true,"keys":[{"public":"x"}],"chains":[]}`,
	} {
		if _, err := liar(t, "application/json", lie).Evidence().Verified(t.Context(), evidence.Check{}); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// liar is the conductor of a server that answers everything with the same text.
func liar(t *testing.T, kind, text string) *sdk.Manager {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		fmt.Fprint(w, text)
	}))
	t.Cleanup(s.Close)
	d, err := sdk.NewManager(s.URL, sdk.APIOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d
}
