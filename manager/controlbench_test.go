//go:build linux

package manager_test

import (
	"context"
	"fmt"
	"io"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
)

// silent is a sink that keeps nothing.
type silent struct{}

func (silent) Begin(context.Context, evidence.Begin, bool) (manager.Entry, error) {
	return silent{}, nil
}
func (silent) Refused(context.Context, evidence.Begin, evidence.End, bool) error { return nil }
func (silent) End(context.Context, evidence.End) error                           { return nil }

// BenchmarkOperation measures an operation under a grant on a warm sandbox,
// beside the same without evidence and the bare file read that it is about.
func BenchmarkOperation(b *testing.B) {
	r := newRig(b)
	store, err := evidence.Open(r.state.Evidence(), evidence.Options{Sync: evidence.SyncOff, KeyFile: r.state.EvidenceKey()})
	must(b, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	ctl, err := orchestrator.OpenOperations(orchestrator.OperationsOptions{State: r.state, Log: log, Sinks: []recorder.Sink{recorder.NewFile("file", store)}})
	must(b, err)
	defer ctl.Close()
	quiet := ctl.Control
	quiet.Recorder = silent{}
	kinds := map[string]*manager.Control{"evidence": &ctl.Control, "without": &quiet}
	c := &controlled{wall: "docker"}
	for _, name := range []string{"evidence", "without"} {
		r.change = func(o *manager.Options) { o.Control = func() (*manager.Control, error) { return kinds[name], nil } }
		m := r.manager(`{"agents": {"defaults": {"sandbox": {"tools": {"alsoAllow": ["reporter"]}}}}}`)
		now := time.Now()
		all := []grant.Capability{{Kind: grant.FSRead, Path: "/workspace"}, {Kind: grant.FSWrite, Path: "/workspace"}}
		c.serial++
		op := manager.Operation{
			Grant: grant.Grant{ID: fmt.Sprint("g", c.serial), Tenant: tenant, Subject: "u", Session: "s", Tool: "reporter", Call: fmt.Sprint("c", c.serial), Capabilities: all, DecisionKey: fmt.Sprint("k", c.serial),
				Budget: grant.Budget{Calls: grant.Unlimited, BytesIn: grant.Unlimited, BytesOut: grant.Unlimited, Files: grant.Unlimited, WallMs: grant.Unlimited, CPUMs: grant.Unlimited},
				Issued: now, Expires: now.Add(time.Hour), Consent: &grant.Consent{By: "u", At: now.Add(-time.Minute), Expires: now.Add(time.Hour)}},
			Manifest: grant.Manifest{Tool: "reporter", Version: "1.0.0", Safety: grant.SafetyLow, Capabilities: all},
			Do:       grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/a", Data: []byte("text"), Overwrite: true},
		}
		_, err := m.Operate(context.Background(), op)
		must(b, err)
		op.Do = grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/a"}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := m.Operate(context.Background(), op); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
