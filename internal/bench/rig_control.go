//go:build linux

package main

import (
	"context"
	"path/filepath"
	"runtime"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/provider"
)

// toolName is the tool whose operations are measured.
const toolName = "bench"

// Operators carry operations under grants out on a container of their own: one
// that puts them on record, and one that does not.
type rigOperators struct {
	Recorded, Silent *manager.Manager
	work             manager.Operation
}

// A silence is an audit recorder that keeps nothing.
type silence struct{}

func (silence) Begin(context.Context, evidence.Begin, bool) (manager.Entry, error) {
	return silence{}, nil
}
func (silence) Refused(context.Context, evidence.Begin, evidence.End, bool) error { return nil }
func (silence) End(context.Context, evidence.End) error                           { return nil }

// OpenOperators returns them, with a file of so many bytes to be read. The rig
// ends them.
func (r *rig) OpenOperators(ctx context.Context, bytes int) (*rigOperators, error) {
	log := logrus.New()
	log.SetLevel(logrus.WarnLevel)
	store, err := evidence.Open(r.state.Evidence(), evidence.Options{KeyFile: r.state.EvidenceKey(), Sync: evidence.SyncOff})
	if err != nil {
		return nil, err
	}
	c, err := orchestrator.OpenOperations(orchestrator.OperationsOptions{State: r.state, Log: log, Sinks: []recorder.Sink{recorder.NewFile("evidence", store)}})
	if err != nil {
		return nil, err
	}
	quiet := c.Control
	quiet.Recorder = silence{}
	o := &rigOperators{work: workRig(1)}
	if o.Recorded, err = r.operator(&c.Control, log); err != nil {
		return nil, err
	}
	if o.Silent, err = r.operator(&quiet, log); err != nil {
		return nil, err
	}
	r.later(func(context.Context) error {
		o.Silent.Close()
		o.Recorded.Close()
		return c.Close()
	})
	o.work.Do = grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/file", Data: make([]byte, bytes), Overwrite: true}
	_, err = o.Recorded.Operate(ctx, o.work)
	return o, err
}

// operator returns a manager with c.
func (r *rig) operator(c *manager.Control, log logrus.FieldLogger) (*manager.Manager, error) {
	// A sweep would take the sandbox of the rig, of which there is no record.
	settings, err := config.Parse("bench", []byte(`{"agents":{"defaults":{"sandbox":{"tools":{"alsoAllow":["`+toolName+`"]},"prune":{"every":"0s"}}}}}`))
	if err != nil {
		return nil, err
	}
	set, err := provider.New(r.Provider)
	if err != nil {
		return nil, err
	}
	api, err := container.Dial()
	if err != nil {
		return nil, err
	}
	r.later(func(context.Context) error { return api.Close() })
	return manager.New(manager.Options{
		Settings: settings, State: r.state, Providers: set,
		Images: images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(r.state.Locks(), "images")})},
		Host: manager.Host{
			CPUs: runtime.NumCPU(), Memory: r.Posture.Memory, Sensitive: []string{r.state.Path(), "/run/docker.sock"},
			Guest: func() (sandbox.GuestRef, error) { return r.Spec.Guest, nil },
		},
		Log: log, Control: func() (*manager.Control, error) { return c, nil },
	})
}

// Read reads the file by m and returns how many bytes came.
func (o *rigOperators) Read(ctx context.Context, m *manager.Manager) (int64, error) {
	op := o.work
	op.Do = grant.Operation{Kind: grant.OpFsRead, Path: "/workspace/file"}
	done, err := m.Operate(ctx, op)
	return done.Output.Digest.Size, err
}

// Work is an operation under a grant that allows what a tool of some size
// wants; n tells one from another.
func workRig(n int) manager.Operation {
	now := time.Now()
	all := []grant.Capability{
		{Kind: grant.FSRead, Path: "/workspace"}, {Kind: grant.FSList, Path: "/workspace"}, {Kind: grant.FSWrite, Path: "/workspace"},
		{Kind: grant.NetHTTP, Host: "api.example.com", Scheme: "https", Methods: []string{"GET", "POST"}},
		{Kind: grant.NetHTTP, Host: "*.cdn.example.com", Methods: []string{"GET"}},
		{Kind: grant.Browser, Actions: []string{"open", "screenshot"}},
		{Kind: grant.Process, Tool: "git"}, {Kind: grant.Process, Tool: "make"}, {Kind: grant.Temp, Bytes: 1 << 20},
	}
	id := string(rune('a' + n%26))
	free := grant.Budget{Calls: grant.Unlimited, BytesIn: grant.Unlimited, BytesOut: grant.Unlimited, CPUMs: grant.Unlimited, GPUMs: grant.Unlimited, Files: grant.Unlimited, WallMs: grant.Unlimited}
	return manager.Operation{
		Grant: grant.Grant{
			ID: "grant-" + id, Tenant: "bench", Subject: "user", Session: "bench-operate", Tool: toolName, Call: "call-" + id, DecisionKey: "key-" + id,
			Capabilities: all, Budget: free, Issued: now.Add(-time.Minute), Expires: now.Add(time.Hour),
			Consent: &grant.Consent{By: "user", At: now.Add(-time.Minute), Expires: now.Add(time.Hour)},
		},
		Manifest: grant.Manifest{
			Tool: toolName, Version: "1.0.0", Safety: grant.SafetyMedium, Capabilities: all, SideEffects: []grant.SideEffect{grant.EffectWrite},
			Limits:   grant.Limits{MaxFiles: 1 << 20},
			Commands: []grant.Template{{Tool: "git", Args: []grant.Argument{{OneOf: []string{"log", "status"}}}, Rest: &grant.Argument{Pattern: `[a-z/]+`}}},
		},
	}
}
