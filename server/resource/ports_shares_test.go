package resource

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/registry"
)

// TestLabelledShares holds that a share of a label is found once more by the same
// sandbox alone, that the file has it soon, and that it goes with its sandbox.
func TestLabelledShares(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "ports.json")
	s := openShares(file)
	made := time.Now().Add(-time.Hour)
	rec := registry.Record{Tenant: "acme", Name: "sbx-a", Provider: "docker", CreatedAt: made}
	label := strings.Repeat("a", 32)
	e := Exposure{Record: rec, Who: config.Who{Tenant: "acme"}, Label: label, Until: time.Now().Add(shareLongest)}
	sh, secret, err := s.add(e)
	if err != nil || secret == "" {
		t.Fatal(err)
	}
	if found, same, ok := s.labelled(rec, label, labelledLeft); !ok || found.ID != sh.ID || same != secret {
		t.Errorf("%+v %v", found, ok)
	}
	again, other := rec, rec
	again.CreatedAt, other.Tenant = made.Add(time.Minute), "globex"
	for name, r := range map[string]registry.Record{"made anew": again, "of another tenant": other} {
		if _, _, ok := s.labelled(r, label, 0); ok {
			t.Errorf("a sandbox %s has the share", name)
		}
	}
	if _, _, ok := s.labelled(rec, label, shareLongest+time.Minute); ok {
		t.Error("a share that ends too soon is found")
	}
	testenv.Until(t, "the file has the share", func() bool {
		data, err := os.ReadFile(file)
		return err == nil && strings.Contains(string(data), sh.ID)
	})
	if found, same, ok := openShares(file).labelled(rec, label, labelledLeft); !ok || found.ID != sh.ID || same != secret {
		t.Error("a restart loses the share")
	}
	s.gone(func(share) bool { return true })
	if s.find(label, 80, secret) == nil {
		t.Fatal("a share whose sandbox exists is dropped")
	}
	s.gone(func(share) bool { t.Error("records are read again at once"); return true })
	s.now = func() time.Time { return time.Now().Add(2 * sweepEvery) }
	s.gone(func(share) bool { return false })
	if s.find(label, 80, secret) != nil || sh.life.Err() == nil {
		t.Error("the share outlasts its sandbox")
	}
}
