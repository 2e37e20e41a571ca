//go:build linux

package manager_test

import (
	"encoding/json"
	"io"
	"path/filepath"
	"slices"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// TestForkIsOnRecord holds that the first record of a fork names its checkpoint, the
// sandbox and session of that, and the place where the chain ended; that no other
// record does; and that the chain verifies.
func TestForkIsOnRecord(t *testing.T) {
	testenv.UnmountBelow(t, filepath.Dir(t.TempDir()))
	var store *evidence.Store
	w := newSandboxed(t, func(o *manager.Options, state *statedir.Dir) {
		var err error
		store, err = evidence.Open(state.Evidence(), evidence.Options{Sync: evidence.SyncOff, KeyFile: state.EvidenceKey()})
		must(t, err)
		log := logrus.New()
		log.SetOutput(io.Discard)
		ctl, err := orchestrator.OpenOperations(orchestrator.OperationsOptions{State: state, Log: log, Sinks: []recorder.Sink{recorder.NewFile("file", store)}})
		must(t, err)
		t.Cleanup(func() { ctl.Close() })
		o.Control = func() (*manager.Control, error) { return &ctl.Control, nil }
		o.Settings, err = config.Parse("test", []byte(`{"agents": {"defaults": {"sandbox": {"provider": "local", "requireEvidence": true}}}}`))
		must(t, err)
	})
	k := &keeper{t: t, kind: "local", Manager: w.Manager}
	k.run("s", "echo one >file")
	id := k.checkpoint("s", "kept")
	head, err := store.Head(t.Context(), "")
	must(t, err)
	forks, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: "kept", Sessions: []string{"f"}})
	must(t, err)
	must(t, forks[0].Err)
	k.run("f", "cat file")

	var begun []evidence.Begin // of the fork
	for r, err := range store.Query(t.Context(), evidence.Filter{}) {
		must(t, err)
		var b evidence.Begin
		if r.Type != evidence.TypeBegin {
			continue
		}
		must(t, json.Unmarshal(r.Data, &b))
		switch {
		case r.Session == "f":
			begun = append(begun, b)
		case b.Parent != nil:
			t.Errorf("a record of the parent has a parent: %+v", b)
		}
	}
	slices.Reverse(begun) // which come the newest first
	if len(begun) < 2 {
		t.Fatalf("%d records of the fork", len(begun))
	}
	parent, err := k.Recorded(t.Context(), "", mustName(t, k.Manager, "s"), "")
	must(t, err)
	if p := begun[0].Parent; p == nil || p.Checkpoint != id || p.Session != "s" || p.Sandbox != parent.Name || p.Head == nil || *p.Head != *head || begun[0].Sandbox != forks[0].Name {
		t.Errorf("the first record of %s is %+v with the parent %+v; the chain ended at %+v", forks[0].Name, begun[0], p, head)
	}
	for _, b := range begun[1:] {
		if b.Parent != nil {
			t.Errorf("a later record has a parent: %+v", b)
		}
	}
	checked, err := store.Verified(t.Context(), evidence.Check{})
	if err != nil || !checked.OK() || len(checked.Chains) != 1 {
		t.Errorf("verified: %+v, %v", checked, err)
	}
}

func mustName(t *testing.T, m *manager.Manager, session string) string {
	t.Helper()
	name, err := m.Name(who(session), nil)
	must(t, err)
	return name
}
