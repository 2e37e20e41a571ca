package evidence

import (
	"crypto/ed25519"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// A victim is a folder with two signed chains of 12 records each. The lines of
// a chain: 1 header, 2 checkpoint, 3 to 6 records 0 to 3, 7 checkpoint, 8 to 11
// records 4 to 7, 12 checkpoint, 13 to 16 records 8 to 11, 17 checkpoint.
func victim(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	s := open(t, dir, Options{CheckpointEvery: 4})
	for _, tenant := range []string{"acme", "evil"} {
		each(t, s, of(tenant, 0, 12))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for _, r := range everything(t, s, Check{}) {
		wantWhole(t, r, 12, 4, 0)
	}
	return dir
}

// change replaces a text in one line, from 1.
func change(lines []string, line int, from, to string) []string {
	lines[line-1] = strings.Replace(lines[line-1], from, to, 1)
	return lines
}

// TestTampering checks that each change is found and that the first broken
// record is named.
func TestTampering(t *testing.T) {
	plain, forged := save, forge
	for name, tt := range map[string]struct {
		put    func(t testing.TB, dir, tenant string, lines []string)
		change func(dir string, lines []string) []string
		kind   string
		line   int
		id     string // of the record named
	}{
		"edit": {plain, func(_ string, l []string) []string { return change(l, 9, "op-5", "op-X") }, journal.DamageEdit, 9, "op-X"},
		"edit that cannot be read": {plain, func(_ string, l []string) []string { return change(l, 9, `"data"`, `"dat"`) },
			journal.DamageEdit, 9, ""},
		"gap":     {plain, func(_ string, l []string) []string { return slices.Delete(l, 8, 10) }, journal.DamageGap, 9, "op-7"},
		"cut":     {plain, func(_ string, l []string) []string { return l[:13] }, journal.DamageTruncated, 0, ""},
		"reorder": {plain, func(_ string, l []string) []string { l[7], l[8] = l[8], l[7]; return l }, journal.DamageGap, 8, "op-5"},
		"double":  {plain, func(_ string, l []string) []string { return slices.Insert(l, 9, l[8]) }, journal.DamageReorder, 10, "op-5"},
		"edit, hashes made anew": {forged, func(_ string, l []string) []string { return change(l, 9, "op-5", "op-X") },
			DamageRewritten, 12, ""},
		"gap, hashes made anew": {forged, func(_ string, l []string) []string { return slices.Delete(l, 8, 9) },
			DamageRewritten, 11, ""},
		"reorder, hashes made anew": {forged, func(_ string, l []string) []string { l[7], l[8] = l[8], l[7]; return l },
			DamageRewritten, 12, ""},
		"insertion, hashes made anew": {forged, func(_ string, l []string) []string { return slices.Insert(l, 9, l[8]) },
			DamageRewritten, 13, ""},
		"rewritten without checkpoints": {forged, func(_ string, l []string) []string {
			return slices.DeleteFunc(change(l, 9, "op-5", "op-X"), func(s string) bool { return strings.Contains(s, `"checkpoint"`) })
		}, DamageUnsigned, 2, "op-0"},
		"the first checkpoint is gone": {forged, func(_ string, l []string) []string { return slices.Delete(l, 1, 2) },
			DamageUnsigned, 2, "op-0"},
		"a checkpoint moved": {forged, func(_ string, l []string) []string { l[6], l[7] = l[7], l[6]; return l },
			DamageRewritten, 8, ""},
		"a checkpoint of another tenant": {forged, func(dir string, l []string) []string { l[6] = load(t, dir, "evil")[6]; return l },
			DamageTenant, 7, ""},
		"a checkpoint of another tenant, renamed": {forged, func(dir string, l []string) []string {
			l[6] = strings.ReplaceAll(load(t, dir, "evil")[6], "evil", "acme")
			return l
		}, DamageSignature, 7, ""},
		"a record of another tenant": {forged, func(dir string, l []string) []string { return append(l, load(t, dir, "evil")[8]) },
			DamageTenant, 18, "op-5"},
		"a flipped signature": {forged, func(_ string, l []string) []string {
			at := strings.Index(l[6], `"sig":"`) + len(`"sig":"`)
			b := []byte(l[6])
			if b[at]++; b[at] > 'z' || b[at] == '[' {
				b[at] = 'A'
			}
			l[6] = string(b)
			return l
		}, DamageSignature, 7, ""},
		"fewer records claimed": {forged, func(_ string, l []string) []string { return change(l, 7, `"records":4`, `"records":3`) },
			DamageSignature, 7, ""},
		"what is no checkpoint": {forged, func(_ string, l []string) []string { return change(l, 7, `"seq":6`, `"seq":"6"`) },
			DamageSignature, 7, ""},
		"what is no record": {forged, func(_ string, l []string) []string { return change(l, 9, `"agent":""`, `"agent":7`) },
			journal.DamageStranger, 9, ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := victim(t)
			tt.put(t, dir, "acme", tt.change(dir, load(t, dir, "acme")))
			all := everything(t, open(t, dir, Options{}), Check{})
			wantWhole(t, all["evil"], 12, 4, 0)
			r := all["acme"]
			if r.OK() || r.Broken == nil {
				t.Fatalf("nothing is found: %+v", r)
			}
			if b := r.Broken; b.Kind != tt.kind || b.Line != tt.line || b.ID != tt.id {
				t.Errorf("found %s in line %d, record %d, id %q: %s; want %s in line %d, id %q", b.Kind, b.Line, b.Seq, b.ID, b.Detail, tt.kind, tt.line, tt.id)
			}
		})
	}
}

// TestForgedTail bounds how much an attacker without the key can append after
// the last checkpoint: fewer records than a writer could have left there.
func TestForgedTail(t *testing.T) {
	for _, tt := range []struct {
		records int
		ok      bool
	}{{4 + mostBatch - 1, true}, {4 + mostBatch, false}} {
		dir := victim(t)
		lines := load(t, dir, "acme")
		for range tt.records {
			lines = append(lines, lines[8])
		}
		forge(t, dir, "acme", lines)
		r := everything(t, open(t, dir, Options{}), Check{})["acme"]
		if r.OK() != tt.ok || r.Unsigned != int64(tt.records) {
			t.Errorf("%d records behind the last checkpoint: %d unsigned, %+v", tt.records, r.Unsigned, r.Broken)
		}
		if !tt.ok && r.Broken.Kind != DamageUnsigned {
			t.Errorf("found %+v", r.Broken)
		}
	}
}

// TestKeptPlace checks that the last signed line, kept in another place,
// reveals an end that was removed without a trace, and that rotation does not
// count as a loss.
func TestKeptPlace(t *testing.T) {
	dir := victim(t)
	s := open(t, dir, Options{CheckpointEvery: 4})
	kept := everything(t, s, Check{})["acme"].Signed.Place
	check := func(tenant string, ok bool) {
		t.Helper()
		for r, err := range s.Verify(t.Context(), Check{Tenant: tenant, Signed: &kept}) {
			if err != nil || r.OK() != ok || !ok && (r.Broken.Kind != DamageRewritten || r.Broken.Seq != kept.Seq) {
				t.Errorf("%q: %v, broken %+v", tenant, err, r.Broken)
			}
		}
	}
	check("acme", true)
	check("evil", false)
	check("nobody", false)
	for _, err := range s.Verify(t.Context(), Check{AllTenants: true, Signed: &kept}) {
		wantCode(t, err, sandbox.CodeValidation, "certain tenant")
	}
	lines := load(t, dir, "acme")
	forge(t, dir, "acme", lines[:12])
	wantWhole(t, everything(t, s, Check{})["acme"], 8, 3, 0) // nothing in the folder shows it
	check("acme", false)
	forge(t, dir, "acme", lines)
	check("acme", true)

	small := open(t, dir, Options{MaxFile: 64 << 10, MaxTotal: 128 << 10})
	for n := 12; everything(t, small, Check{})["acme"].Dropped == 0; n += 20 {
		add(t, small, of("acme", n, n+20)...)
	}
	check("acme", true)
}

// TestAnotherKey checks that signatures by another key do not count, that
// Verify reports that key, and that a key kept elsewhere decides.
func TestAnotherKey(t *testing.T) {
	dir := victim(t)
	s := open(t, dir, Options{})
	old, err := s.PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	pinned := func(keys ...ed25519.PublicKey) map[string]Chain {
		return everything(t, open(t, dir, Options{TrustedKeys: keys}), Check{})
	}
	wantWhole(t, pinned(old)["acme"], 12, 4, 0)

	_, foreign, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(s.keyFile, []byte(secretCheckpoint(foreign)), 0o600); err != nil {
		t.Fatal(err)
	}
	newID := KeyID(foreign.Public().(ed25519.PublicKey))
	each(t, open(t, dir, Options{CheckpointEvery: 2}), of("acme", 12, 14))
	r := everything(t, open(t, dir, Options{}), Check{})["acme"]
	want := slices.Sorted(maps.Keys(map[string]bool{KeyID(old): true, newID: true}))
	if r.OK() || r.Broken.Kind != DamageKey || r.Broken.Line != 2 || !strings.Contains(r.Broken.Detail, KeyID(old)) || !slices.Equal(r.Keys, want) {
		t.Errorf("with the new key: %v, %+v", r.Keys, r.Broken)
	}
	r = pinned(old)["acme"]
	if r.OK() || r.Broken.Kind != DamageKey || r.Broken.Line != 20 || !strings.Contains(r.Broken.Detail, newID) || r.Unsigned != 2 {
		t.Errorf("with the old key: %+v", r.Broken)
	}
	both := []ed25519.PublicKey{old, foreign.Public().(ed25519.PublicKey)}
	if r := everything(t, open(t, dir, Options{TrustedKeys: both[:1]}), Check{Keys: both})["acme"]; !r.OK() {
		t.Errorf("with both keys: %+v", r.Broken)
	}
}

// TestWhollyAnew checks that the kept public key reveals a chain that was
// signed anew with another key.
func TestWhollyAnew(t *testing.T) {
	dir := victim(t)
	kept, err := open(t, dir, Options{}).PublicKey()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(dir + ".key"); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir, Options{})
	each(t, s, of("acme", 0, 3))
	if r := everything(t, s, Check{})["acme"]; !r.OK() {
		t.Fatalf("broken: %+v", r.Broken)
	}
	if r := everything(t, s, Check{Keys: []ed25519.PublicKey{kept}})["acme"]; r.OK() || r.Broken.Kind != DamageKey {
		t.Errorf("found %+v", r.Broken)
	}
}

// TestReportKeysAreStable checks the words of a report as JSON.
func TestReportKeysAreStable(t *testing.T) {
	dir := victim(t)
	save(t, dir, "acme", change(load(t, dir, "acme"), 9, "op-5", "op-X"))
	data, err := json.Marshal(everything(t, open(t, dir, Options{}), Check{})["acme"])
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]json.RawMessage
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	const want = "broken checkpoints clearings damage dropped files first folder keys last old omitted records signed tenant torn unsigned"
	if have := strings.Join(slices.Sorted(maps.Keys(got)), " "); have != want {
		t.Errorf("keys %s", have)
	}
	var broken, signed map[string]any
	if err := json.Unmarshal(got["broken"], &broken); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got["signed"], &signed); err != nil {
		t.Fatal(err)
	}
	if have := fmt.Sprint(slices.Sorted(maps.Keys(broken)), slices.Sorted(maps.Keys(signed))); have != "[detail file id kind line offset seq type] [file hash key records seq]" {
		t.Errorf("keys %s", have)
	}
}
