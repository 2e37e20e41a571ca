package served

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// archivePrefix begins what Checkpoints exports; an id follows.
const archivePrefix = "archive of "

// A Checkpoints is a manager that only records checkpoints: it keeps no file, and
// a sandbox that begins with one is a new one. It is for tests of what stands in
// front of a manager.
type Checkpoints struct {
	*manager.Manager

	mu      sync.Mutex
	records []checkpoint.Record
	began   map[string]string // ids of checkpoints, by the session that began with them
	Broken  error             // of the end of each export
}

// KeepCheckpoints returns a Checkpoints with the sandboxes of m.
func KeepCheckpoints(m *manager.Manager) *Checkpoints {
	return &Checkpoints{Manager: m, began: map[string]string{}}
}

// Began returns the id of the checkpoint with which the sandbox of a session has
// begun.
func (k *Checkpoints) Began(session string) string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.began[session]
}

func (k *Checkpoints) add(r checkpoint.Record) (checkpoint.Record, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, other := range k.records {
		if r.Name != "" && other.Tenant == r.Tenant && other.Name == r.Name {
			return checkpoint.Record{}, &sandbox.Error{Code: sandbox.CodeBusy, Op: "checkpoint", Field: "name", Resource: r.Name, Message: "there is a checkpoint of this name"}
		}
		r.Parent = other.ID
	}
	r.ID = fmt.Sprintf("cp%04d", len(k.records)+1)
	r.CreatedAt = time.Date(2026, 11, 29, 3, 0, len(k.records)/2, 0, time.UTC) // two of each second
	r.Means, r.Files, r.Bytes = checkpoint.Copy, 3, 4096
	r.Trees = []checkpoint.Tree{{Name: checkpoint.WorkspaceTree, Target: "/workspace", Base: "/srv/of-the-host", Layers: []checkpoint.Layer{{ID: "layer-of-the-host"}}}}
	r.Shells = []sandbox.ShellState{{ID: "s1", Program: "/bin/bash", Dir: "/workspace", Content: []byte("A=private; f () { :; }")}}
	k.records = append(k.records, r)
	return r, nil
}

// Checkpoint implements a method of a manager.
func (k *Checkpoints) Checkpoint(ctx context.Context, req manager.Request, o manager.CheckpointOptions) (checkpoint.Record, error) {
	name, err := k.Name(req.Who, req.Flags)
	if err != nil {
		return checkpoint.Record{}, err
	}
	if _, err := k.Recorded(ctx, req.Who.Tenant, name, ""); err != nil {
		return checkpoint.Record{}, err
	}
	return k.add(checkpoint.Record{
		Name: o.Name, Workspace: name, Sandbox: name, Tenant: req.Who.Tenant, Agent: cmp.Or(req.Who.Agent, config.DefaultAgent), Session: cmp.Or(req.Who.Session, config.DefaultSession),
		Auto: o.Auto, Running: []sandbox.RunningCommand{{PID: 7, Args: []string{"sleep", "9"}}},
	})
}

// Checkpoints implements a method of a manager.
func (k *Checkpoints) Checkpoints(_ context.Context, f manager.CheckpointFilter) ([]checkpoint.Record, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	var out []checkpoint.Record
	for _, r := range k.records {
		if r.Tenant == f.Tenant && (f.Agent == "" || r.Agent == f.Agent) && (f.Session == "" || r.Session == f.Session) && (f.Sandbox == "" || r.Sandbox == f.Sandbox) {
			out = append(out, r)
		}
	}
	return out, nil
}

// FindCheckpoint implements a method of a manager.
func (k *Checkpoints) FindCheckpoint(_ context.Context, tenant, ref string) (checkpoint.Record, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, r := range k.records {
		if r.Tenant == tenant && (r.ID == ref || r.Name == ref && ref != "") {
			return r, nil
		}
	}
	return checkpoint.Record{}, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "find", Resource: ref, Message: "there is no such checkpoint of tenant " + tenant}
}

// RemoveCheckpoint implements a method of a manager.
func (k *Checkpoints) RemoveCheckpoint(ctx context.Context, tenant, ref string) error {
	r, err := k.FindCheckpoint(ctx, tenant, ref)
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.records = slices.DeleteFunc(k.records, func(other checkpoint.Record) bool { return other.ID == r.ID })
	return nil
}

// ExportCheckpoint implements a method of a manager.
func (k *Checkpoints) ExportCheckpoint(ctx context.Context, tenant, ref string, w io.Writer) error {
	r, err := k.FindCheckpoint(ctx, tenant, ref)
	if err != nil {
		return err
	}
	if _, err := io.WriteString(w, archivePrefix+r.ID); err != nil {
		return err
	}
	return k.Broken
}

// ImportCheckpoint implements a method of a manager.
func (k *Checkpoints) ImportCheckpoint(_ context.Context, who config.Who, name string, from io.Reader) (checkpoint.Record, error) {
	b, err := io.ReadAll(from)
	if err != nil {
		return checkpoint.Record{}, &sandbox.Error{Code: sandbox.CodeExecution, Op: "import checkpoint", Message: "the archive cannot be read", Err: err}
	}
	if !strings.HasPrefix(string(b), archivePrefix) {
		return checkpoint.Record{}, &sandbox.Error{Code: sandbox.CodeValidation, Op: "import checkpoint", Message: "this is no archive of a checkpoint"}
	}
	return k.add(checkpoint.Record{Name: name, Tenant: who.Tenant, Agent: cmp.Or(who.Agent, config.DefaultAgent), Session: cmp.Or(who.Session, config.DefaultSession)})
}

// Rollback implements a method of a manager.
func (k *Checkpoints) Rollback(ctx context.Context, req manager.Request, ref string) (manager.RolledBack, error) {
	r, err := k.FindCheckpoint(ctx, req.Who.Tenant, ref)
	if err != nil {
		return manager.RolledBack{}, err
	}
	return manager.RolledBack{Checkpoint: r, Ended: []sandbox.RunningCommand{{PID: 9, Args: []string{"npm", "start"}}}, Recreated: true}, nil
}

// Fork implements a method of a manager.
func (k *Checkpoints) Fork(ctx context.Context, req manager.Request, o manager.ForkOptions) ([]manager.Forked, error) {
	from := o.From
	if from == "" {
		r, err := k.Checkpoint(ctx, req, manager.CheckpointOptions{})
		if err != nil {
			return nil, err
		}
		from = r.ID
	}
	var out []manager.Forked
	for _, session := range o.Sessions {
		who := req.Who
		who.Session = session
		p, err := k.Ready(ctx, manager.Request{Who: who, Flags: req.Flags, From: from})
		out = append(out, manager.Forked{Session: session, Name: p.Name, Checkpoint: from, Err: err})
	}
	return out, nil
}

// Ready implements a method of a manager.
func (k *Checkpoints) Ready(ctx context.Context, req manager.Request) (manager.Prepared, error) {
	if err := k.begin(ctx, &req); err != nil {
		return manager.Prepared{}, err
	}
	return k.Manager.Ready(ctx, req)
}

// Create implements a method of a manager.
func (k *Checkpoints) Create(ctx context.Context, req manager.Request, c config.Creation) (manager.Prepared, error) {
	if err := k.begin(ctx, &req); err != nil {
		return manager.Prepared{}, err
	}
	return k.Manager.Create(ctx, req, c)
}

// begin takes From out of a request and records it.
func (k *Checkpoints) begin(ctx context.Context, req *manager.Request) error {
	if req.From == "" {
		return nil
	}
	r, err := k.FindCheckpoint(ctx, req.Who.Tenant, req.From)
	if err != nil {
		return err
	}
	name, err := k.Name(req.Who, req.Flags)
	if err != nil {
		return err
	}
	if _, err := k.Recorded(ctx, req.Who.Tenant, name, ""); err == nil {
		return &sandbox.Error{Code: sandbox.CodeBusy, Op: "run", Field: "from", Resource: name, Message: "the session has a sandbox"}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.began[cmp.Or(req.Who.Session, config.DefaultSession)] = r.ID
	req.From = ""
	return nil
}
