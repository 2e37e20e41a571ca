package registry

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func claims(t *testing.T) *Store {
	t.Helper()
	s, err := Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestClaim checks that a claim is found by both its names until it is removed,
// and that no other sandbox can claim the slot meanwhile.
func TestClaim(t *testing.T) {
	s := claims(t)
	c := Claim{Slot: "sbx-pool-1", Name: "sbx-a", Owner: sandbox.Owner{Instance: "i", ScopeKey: "a"}, Hash: "h", SlotHash: "g", Workspace: "/w"}
	settle, err := s.Claim(c)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 { // before it is settled and after
		for find, name := range map[string]func(string) (Claim, bool, error){"sbx-a": s.ClaimOf, "sbx-pool-1": s.ClaimOn} {
			got, ok, err := name(find)
			got.Format = 0
			if !ok || err != nil || got != c {
				t.Errorf("%s: %+v, %v, %v", find, got, ok, err)
			}
		}
		if err := settle(); err != nil {
			t.Fatal(err)
		}
		settle = func() error { return nil }
	}
	if _, err := s.Claim(Claim{Slot: c.Slot, Name: "sbx-b"}); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a second claim on the slot: %v", err)
	}
	if _, ok, _ := s.ClaimOf("sbx-b"); ok {
		t.Error("who came too late has the slot")
	}
	if _, err := s.Claim(Claim{Slot: "sbx-pool-2", Name: "sbx-a"}); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a second slot for the sandbox: %v", err)
	}
	if slots, err := s.ClaimedSlots(); err != nil || len(slots) != 1 || slots[0] != c.Slot {
		t.Errorf("slots %v, %v: what failed must leave none", slots, err)
	}
	for range 2 {
		if err := s.Unclaim(c); err != nil {
			t.Fatal(err)
		}
	}
	if _, ok, err := s.ClaimOn(c.Slot); ok || err != nil {
		t.Errorf("after Unclaim: %v, %v", ok, err)
	}
}

// TestClaimsRace holds that of many who claim one slot one gets it.
func TestClaimsRace(t *testing.T) {
	s := claims(t)
	var got atomic.Int32
	var work sync.WaitGroup
	for i := range 32 {
		work.Go(func() {
			if settle, err := s.Claim(Claim{Slot: "sbx-pool-1", Name: "sbx-" + string(rune('a'+i%26)) + string(rune('a'+i/26))}); err == nil {
				got.Add(1)
				if err := settle(); err != nil {
					t.Error(err)
				}
			} else if sandbox.CodeOf(err) != sandbox.CodeBusy {
				t.Error(err)
			}
		})
	}
	work.Wait()
	if got.Load() != 1 {
		t.Errorf("%d have the slot", got.Load())
	}
}

// TestClaimLost holds that a claim of which a loss of power has left the names
// alone is none.
func TestClaimLost(t *testing.T) {
	s := claims(t)
	settle, err := s.Claim(Claim{Slot: "sbx-pool-1", Name: "sbx-a"})
	if err := errors.Join(err, settle(), os.Truncate(filepath.Join(s.root, slotClaimsDir, "sbx-pool-1.json"), 0)); err != nil {
		t.Fatal(err)
	}
	if _, ok, err := s.ClaimOf("sbx-a"); ok || err != nil {
		t.Errorf("of the sandbox: %v, %v", ok, err)
	}
	if _, ok, err := s.ClaimOn("sbx-pool-1"); ok || err != nil {
		t.Errorf("on the slot: %v, %v", ok, err)
	}
	if slots, err := s.ClaimedSlots(); err != nil || len(slots) != 0 {
		t.Errorf("%v, %v", slots, err)
	}
}

// TestClaimDamaged holds that a claim that cannot be read is an error, and
// never none.
func TestClaimDamaged(t *testing.T) {
	for name, text := range map[string]string{"no JSON": "{", "of another": `{"format":1,"slot":"sbx-x","name":"sbx-y"}`, "newer": `{"format":99,"slot":"sbx-pool-1","name":"sbx-a"}`, "a path": `{"format":1,"slot":"../x","name":"sbx-a"}`} {
		t.Run(name, func(t *testing.T) {
			s := claims(t)
			settle, err := s.Claim(Claim{Slot: "sbx-pool-1", Name: "sbx-a"})
			if err := errors.Join(err, settle(), os.WriteFile(filepath.Join(s.root, slotClaimsDir, "sbx-pool-1.json"), []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			if _, ok, err := s.ClaimOf("sbx-a"); ok || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("of the sandbox: %v, %v", ok, err)
			}
			if _, ok, err := s.ClaimOn("sbx-pool-1"); ok || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
				t.Errorf("on the slot: %v, %v", ok, err)
			}
			if slots, err := s.ClaimedSlots(); err != nil || len(slots) != 1 {
				t.Errorf("%v, %v", slots, err)
			}
		})
	}
}

// TestDamagedClaimIsSetAside holds that what one of the two files of a claim says
// sound is enough, and that a slot whose claim is damaged stays taken.
func TestDamagedClaimIsSetAside(t *testing.T) {
	s := claims(t)
	made := Claim{Slot: "sbx-pool-1", Name: "sbx-a", Owner: sandbox.Owner{Instance: "i", ScopeKey: "a"}}
	settle, err := s.Claim(made)
	if err != nil || settle() != nil {
		t.Fatal(err)
	}
	slot, name, err := s.claimPaths(made)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Remove(name), os.WriteFile(name, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if c, ok, err := s.ClaimOf("sbx-a"); !ok || err != nil || c.Slot != made.Slot {
		t.Errorf("from the slot's file: %+v, %v, %v", c, ok, err)
	}
	if err := os.WriteFile(slot, []byte("[]"), 0o600); err != nil { // and so the other
		t.Fatal(err)
	}
	for range 2 {
		if _, ok, err := s.ClaimOn("sbx-pool-1"); ok || !errors.Is(err, ErrCorrupt) {
			t.Errorf("the slot counts as free: %v, %v", ok, err)
		}
		if all, err := s.ClaimedSlots(); len(all) != 1 || err != nil {
			t.Errorf("claimed are %v, %v", all, err)
		}
	}
	if _, _, err := s.ClaimOf("sbx-a"); !errors.Is(err, ErrCorrupt) {
		t.Errorf("first it is %v", err)
	}
	if _, ok, err := s.ClaimOf("sbx-a"); ok || err != nil {
		t.Errorf("then it is %v, %v", ok, err)
	}
	for _, path := range []string{slot, name} {
		if _, err := os.Lstat(path + setAsideClaim); err != nil {
			t.Error(err)
		}
	}
}
