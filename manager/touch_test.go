package manager_test

import (
	"context"
	"errors"
	"path/filepath"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/registry"
)

// A meeting is a provider whose Open waits until the record of the sandbox has
// been touched.
type meeting struct {
	sandbox.Provider
	records *registry.Store
	old     time.Time
	alone   bool // the record was not touched
	refuse  error
}

func (p *meeting) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	if !p.old.IsZero() {
		beat, end := time.NewTicker(time.Millisecond), time.After(10*time.Second)
		defer beat.Stop()
		for {
			if r, err := p.records.Look(s.Kind, s.Name); err == nil && r.LastUsedAt.After(p.old) {
				break
			}
			select {
			case <-beat.C:
				continue
			case <-end:
				p.alone = true
			}
			break
		}
	}
	if p.refuse != nil {
		return nil, p.refuse
	}
	return p.Provider.Open(ctx, s)
}

// TestRecordIsTouchedWhileTheSandboxOpens holds that the write of a record is
// not waited for before a sandbox is opened, or after, and that a sandbox which
// then cannot be opened is an error as before.
func TestRecordIsTouchedWhileTheSandboxOpens(t *testing.T) {
	t.Parallel()
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	records, err := registry.Open(state.Registry())
	must(t, err)
	p := &meeting{Provider: fake.New(fake.Options{Name: "local"}), records: records}
	c := &machine{t: t, state: state, docker: noEngine(), local: p, log: &logBuffer{}}
	m := c.manager(`{}`, "local")
	c.run(m, "met", nil)
	list, _, err := records.List(sandbox.KindSandbox)
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("there are %d records", len(list))
	}
	must(t, m.Close())
	old := time.Now().Add(-time.Hour)
	age := func() {
		must(t, records.Update(list[0].Kind, list[0].Name, func(r *registry.Record) error { r.LastUsedAt = old; return nil }))
	}
	age()
	p.old = old
	c.run(c.manager(`{}`, "local"), "met", nil)
	if p.alone {
		t.Error("the record was not touched while the sandbox was being opened")
	}

	age()
	p.refuse = errors.New("it does not open")
	if _, err := c.manager(`{}`, "local").Run(t.Context(), manager.Request{Who: who("met"), Command: sandbox.Command{Args: []string{"true"}}}); !errors.Is(err, p.refuse) {
		t.Errorf("a sandbox that does not open: %v", err)
	}
}
