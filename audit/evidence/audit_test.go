package evidence

import (
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/journal"
)

// TestSyncWishes checks which lines ask to be on the disk at once.
func TestSyncWishes(t *testing.T) {
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	tail := journal.Tail{Place: journal.Place{Seq: 1, Hash: strings.Repeat("0a", 32)}}
	for sync, want := range map[Sync]bool{SyncOff: false, SyncCheckpoint: true, SyncAlways: false} { // whose journal syncs by itself
		c := &chain{key: key, every: 4, promised: 4, sync: sync, now: time.Now}
		if _, got, err := c.checkpoint(tail); err != nil || got != want {
			t.Errorf("%s: a checkpoint is synced: %t, %v", sync, got, err)
		}
		if _, got, err := c.after(tail); err != nil || got {
			t.Errorf("%s: a record is synced: %t, %v", sync, got, err)
		}
	}
}

// FuzzAudit checks that whatever stands in a record, only what the key has
// signed for this place counts as signed.
func FuzzAudit(f *testing.F) {
	key := ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize))
	public := key.Public().(ed25519.PublicKey)
	hash := strings.Repeat("0a", 32)
	good, err := json.Marshal(signCheckpoint(checkpoint{Tenant: "acme", Seq: 6, Hash: hash, Records: 5, Every: 256, Time: time.Unix(1795262400, 0)}, key))
	if err != nil {
		f.Fatal(err)
	}
	record := func(tenant string, data []byte) []byte {
		r, err := json.Marshal(Record{Tenant: tenant, Type: TypeCheckpoint, Data: data})
		if err != nil {
			f.Fatal(err)
		}
		return r
	}
	f.Add(record("acme", good))
	f.Add(record("evil", good))
	f.Add([]byte(`{"type":"checkpoint","data":{}}`))
	f.Add([]byte(`{"type":"egress","tenant":"acme","data":{}}`))
	f.Add([]byte(`[]`))
	f.Fuzz(func(t *testing.T, data []byte) {
		a := &auditor{
			folder: folderOf("acme"), tenant: "acme", named: true, file: "f", seen: map[string]bool{},
			keys: map[string]ed25519.PublicKey{KeyID(public): public},
		}
		raw := journal.Record{Seq: 7, Prev: hash, File: "f", Data: data}
		d := a.check(raw)
		if (a.signed != nil) != (a.good == 1) || a.signed != nil && d != nil {
			t.Fatalf("%+v, %+v", a, d)
		}
		if a.signed == nil {
			return
		}
		c, ok := asCheckpoint(raw)
		want, err := json.Marshal(c)
		if !ok || err != nil || string(want) != string(good) {
			t.Fatalf("%s counts as signed", data)
		}
		for _, other := range []journal.Record{{Seq: 8, Prev: hash, Data: data}, {Seq: 7, Prev: strings.Repeat("0b", 32), Data: data}} {
			other.File = "f"
			if a.check(other); a.good > 1 {
				t.Fatal("a checkpoint counts at another place")
			}
		}
	})
}
