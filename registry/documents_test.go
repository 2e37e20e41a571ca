package registry_test

import (
	"errors"
	"maps"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/registry"
)

// inMemory are documents of one process.
type inMemory struct {
	mu   sync.Mutex
	of   map[string]registry.Document
	down error
	gets int
}

func (m *inMemory) Get(name string) (registry.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.gets++
	d := m.of[name]
	d.Name = name
	return d, m.down
}

func (m *inMemory) Change(name string, change func(*registry.Document) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.down != nil {
		return m.down
	}
	d := m.of[name]
	d.Name = name
	if err := change(&d); err != nil {
		return err
	}
	if m.of[name] = d; d.Empty() {
		delete(m.of, name)
	}
	return nil
}

func (m *inMemory) Note(name string, change func(*registry.Document) error) error {
	return m.Change(name, change)
}

func (m *inMemory) List() ([]registry.Document, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []registry.Document
	for _, name := range slices.Sorted(maps.Keys(m.of)) {
		out = append(out, m.of[name])
	}
	return out, m.down
}

func apart(t *testing.T) (*registry.Store, *inMemory) {
	t.Helper()
	s, err := registry.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	docs := &inMemory{of: map[string]registry.Document{}}
	s.Keep("cluster", docs)
	return s, docs
}

func recordOf(provider, name string) registry.Record {
	now := time.Now().UTC()
	return registry.Record{Name: name, Kind: sandbox.KindSandbox, Provider: provider, Tenant: "t", CreatedAt: now, LastUsedAt: now.Add(-time.Hour), Spec: &sandbox.Spec{Name: name}}
}

// TestRecordsElsewhere holds that the records of a provider that keeps them elsewhere
// are found like those of the folder, and that neither stands for the other.
func TestRecordsElsewhere(t *testing.T) {
	s, docs := apart(t)
	for _, r := range []registry.Record{recordOf("docker", "here"), recordOf("cluster", "there")} {
		if err := s.Put(r); err != nil {
			t.Fatal(err)
		}
	}
	if len(docs.of) != 1 {
		t.Errorf("elsewhere are %d documents, want 1", len(docs.of))
	}
	for name, provider := range map[string]string{"here": "docker", "there": "cluster"} {
		for _, view := range []*registry.Store{s, s.Of(provider)} {
			got, err := view.Get(sandbox.KindSandbox, name)
			if err != nil || got.Provider != provider || got.Spec == nil {
				t.Errorf("Get(%s): %+v, %v", name, got, err)
			}
		}
	}
	if _, err := s.Of("docker").Look(sandbox.KindSandbox, "there"); !sandbox.IsNotFound(err) {
		t.Errorf("the folder has what is elsewhere: %v", err)
	}
	if _, err := s.Look(sandbox.KindBrowser, "there"); !sandbox.IsNotFound(err) {
		t.Errorf("a sandbox is a browser: %v", err)
	}
	before := docs.gets
	if _, err := s.Look(sandbox.KindSandbox, "here"); err != nil || docs.gets != before {
		t.Errorf("what the folder has is asked for elsewhere: %v", err)
	}
	now := time.Now().Add(time.Minute)
	if err := s.Touch(sandbox.KindSandbox, "there", now); err != nil {
		t.Fatal(err)
	}
	if got, err := s.Look(sandbox.KindSandbox, "there"); err != nil || !got.LastUsedAt.Equal(now) {
		t.Errorf("the last use: %v, %v", got.LastUsedAt, err)
	}
	all, problems, err := s.List("")
	if err != nil || len(all) != 2 || len(problems) > 0 {
		t.Errorf("List: %v, %v, %v", all, problems, err)
	}
	if err := s.Delete(sandbox.KindSandbox, "there"); err != nil || len(docs.of) > 0 {
		t.Errorf("Delete: %v, %v", err, docs.of)
	}
	if err := s.Touch(sandbox.KindSandbox, "there", now); !sandbox.IsNotFound(err) {
		t.Errorf("Touch of what is gone: %v", err)
	}
}

// TestUnansweredRecords holds that the folder is listed where what is kept elsewhere
// does not answer, and that the error says so.
func TestUnansweredRecords(t *testing.T) {
	s, docs := apart(t)
	if err := s.Put(recordOf("docker", "here")); err != nil {
		t.Fatal(err)
	}
	docs.down = errors.New("no answer")
	all, _, err := s.List("")
	u, ok := errors.AsType[*registry.Unanswered](err)
	if len(all) != 1 || !ok || u.Providers["cluster"] == nil || !errors.Is(err, docs.down) {
		t.Errorf("List: %v, %v", all, err)
	}
	if _, err := s.Look(sandbox.KindSandbox, "unknown"); !errors.Is(err, docs.down) {
		t.Errorf("a record that may be elsewhere: %v", err)
	}
	if all, _, err := s.Of("docker").List(""); len(all) != 1 || err != nil {
		t.Errorf("List of the other provider: %v, %v", all, err)
	}
}

// TestClaimsElsewhere holds that a slot is claimed once, and what is left of a claim
// whose second half fails.
func TestClaimsElsewhere(t *testing.T) {
	s, docs := apart(t)
	of := s.Of("cluster")
	claim := func(slot, name string) error {
		_, err := of.Claim(registry.Claim{Slot: slot, Name: name})
		return err
	}
	if err := claim("slot", "one"); err != nil {
		t.Fatal(err)
	}
	if err := claim("slot", "two"); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a slot that is claimed: %v", err)
	}
	if err := claim("other", "one"); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a name that has claimed: %v", err)
	}
	if c, ok, err := of.ClaimOn("slot"); !ok || c.Name != "one" || err != nil {
		t.Errorf("ClaimOn: %+v, %v, %v", c, ok, err)
	}
	if c, ok, err := of.ClaimOf("one"); !ok || c.Slot != "slot" || err != nil {
		t.Errorf("ClaimOf: %+v, %v, %v", c, ok, err)
	}
	if slots, err := of.ClaimedSlots(); !slices.Equal(slots, []string{"slot"}) || err != nil {
		t.Errorf("ClaimedSlots: %v, %v", slots, err)
	}
	if _, ok, err := s.ClaimOf("one"); ok || err != nil {
		t.Errorf("the folder has the claim: %v, %v", ok, err)
	}
	if err := of.Unclaim(registry.Claim{Slot: "slot", Name: "one"}); err != nil || len(docs.of) > 0 {
		t.Errorf("Unclaim: %v, %v", err, docs.of)
	}
}
