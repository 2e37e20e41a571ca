package cli

import (
	"crypto/ed25519"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// testKey returns a public key without a private one.
func testKey(n byte) ed25519.PublicKey {
	k := make(ed25519.PublicKey, ed25519.PublicKeySize)
	k[0] = n
	return k
}

// withChains has a chain of a tenant and one of the tenant without a name.
func withChains() *fake {
	f := &fake{}
	f.evidence.key = testKey(1)
	f.evidence.chains = []evidence.Chain{
		{
			Tenant: "acme", Folder: "f1", Report: journal.Report{Files: 2, Records: 1234, Dropped: 3, First: journal.Place{Seq: 900}, Last: journal.Place{Seq: 2140, Hash: "abc123"}},
			Checkpoints: 7, Signed: &evidence.Place{Place: journal.Place{Seq: 2100, Hash: "5d0c"}, Records: 1200}, Unsigned: 34, Keys: []string{"k1"},
		},
		{Folder: "f2", Report: journal.Report{Files: 1, Records: 2}},
	}
	return f
}

func TestEvidenceVerify(t *testing.T) {
	f := withChains()
	r := call(t, f, "evidence", "verify")
	if r.status != 0 || r.stderr != "" {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	golden(t, "evidence_verify", r.stdout)

	torn := journal.Damage{Kind: journal.DamageTorn, File: "0000000004.jsonl", Offset: 77, Detail: "9 bytes are no record"}
	f.evidence.chains[0].Damage, f.evidence.chains[0].Torn = []journal.Damage{torn}, 1
	if r = call(t, f, "evidence", "verify"); r.status != 0 || !strings.Contains(r.stdout, "whole, 1 torn") || !strings.Contains(r.stdout, "f1/0000000004.jsonl") || r.stderr != "" {
		t.Errorf("a write that did not come to its end: status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

func TestEvidenceVerifyNamesWhatIsBroken(t *testing.T) {
	f := withChains()
	edit := journal.Damage{Kind: journal.DamageEdit, File: "0000000005.jsonl", Line: 12, Seq: 77, Detail: "changed"}
	f.evidence.chains[0].Damage, f.evidence.chains[0].Omitted = []journal.Damage{edit}, 1
	f.evidence.chains[0].Broken = &evidence.Broken{Damage: edit, ID: "op-1", Type: evidence.TypeEnd}
	const said = "sandbox: the evidence is not as it was written\n" +
		"sandbox: the first broken record of tenant \"acme\": f1/0000000005.jsonl line 12, record 77 (end op-1): changed\n"
	r := call(t, f, "evidence", "verify")
	if r.status != 1 || !strings.Contains(r.stdout, "edit    f1/0000000005.jsonl  12") || !strings.Contains(r.stdout, "and 1 more") || r.stderr != said {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	var got struct {
		OK     bool
		Keys   []keyView
		Chains []struct {
			OK     bool
			Tenant string
			Broken *struct {
				File, ID, Type string
				Line, Seq      int
			}
		}
	}
	r = call(t, f, "evidence", "verify", "-o", "json")
	if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.status != 1 || r.stderr != "" {
		t.Fatalf("status %d: %v: %s%s", r.status, err, r.stdout, r.stderr)
	}
	b := got.Chains[0].Broken
	if got.OK || got.Chains[0].OK || !got.Chains[1].OK || got.Chains[1].Broken != nil || b == nil || b.Line != 12 || b.Seq != 77 || b.ID != "op-1" || b.Type != "end" {
		t.Errorf("%s", r.stdout)
	}
	if len(got.Keys) != 1 || got.Keys[0].Public != evidence.Public(testKey(1)) {
		t.Errorf("keys %v", got.Keys)
	}
}

// TestEvidenceVerifyKeys holds which keys and chains are asked about.
func TestEvidenceVerifyKeys(t *testing.T) {
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, []byte(evidence.Public(testKey(3))+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := withChains()
	r := call(t, f, "evidence", "verify", "--key", evidence.Public(testKey(2)), "--key", file)
	if r.status != 0 || len(f.evidence.checked.Keys) != 2 || !f.evidence.checked.Keys[1].Equal(testKey(3)) || !f.evidence.checked.AllTenants {
		t.Errorf("status %d: asked %+v: %s", r.status, f.evidence.checked, r.stderr)
	}
	if strings.Contains(r.stdout, evidence.KeyID(testKey(1))) || !strings.Contains(r.stdout, evidence.KeyID(testKey(3))) {
		t.Errorf("the keys that count are not shown: %s", r.stdout)
	}
	call(t, f, "evidence", "verify", "--tenant", "acme")
	if c := f.evidence.checked; c.AllTenants || c.Tenant != "acme" || c.Keys != nil {
		t.Errorf("asked %+v", c)
	}
	hash := strings.Repeat("0a", 32)
	call(t, f, "evidence", "verify", "--tenant", "acme", "--signed", "17:"+hash)
	if c := f.evidence.checked; c.Signed == nil || c.Signed.Seq != 17 || c.Signed.Hash != hash {
		t.Errorf("asked %+v", c)
	}
	call(t, f, "evidence", "verify", "--all")
	if c := f.evidence.checked; !c.AllTenants {
		t.Errorf("asked %+v", c)
	}
}
