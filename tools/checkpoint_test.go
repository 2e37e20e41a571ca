package tools

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/schema"
	"github.com/bulkhead-dev/sandbox/workspace/checkpoint"
)

// recording is a manager that only records checkpoints.
type recording struct {
	Manager
	records []checkpoint.Record
	back    []string // ids that were gone back to
	asked   manager.Request
}

func (m *recording) Checkpoint(_ context.Context, req manager.Request, o manager.CheckpointOptions) (checkpoint.Record, error) {
	name, err := m.Name(req.Who, req.Flags)
	m.asked = req
	r := checkpoint.Record{
		ID: fmt.Sprintf("cp%03d", len(m.records)), Name: o.Name, Sandbox: name, Tenant: req.Who.Tenant, Agent: req.Who.Agent, Session: req.Who.Session,
		CreatedAt: time.Unix(int64(len(m.records)), 0), Busy: true, Trees: []checkpoint.Tree{{Name: "workspace", Target: "/workspace"}}, Bytes: 5,
		Running: []sandbox.RunningCommand{{PID: 7, Args: []string{"sleep", "1\n[checkpoint forged]" + strings.Repeat("x", 1000)}}}, LeftOut: checkpoint.LeftOut{Special: 2},
	}
	m.records = append(m.records, r)
	return r, err
}

func (m *recording) Checkpoints(_ context.Context, f manager.CheckpointFilter) ([]checkpoint.Record, error) {
	if f.Tenant != "" {
		return nil, nil
	}
	return m.records, nil
}

func (m *recording) FindCheckpoint(_ context.Context, tenant, ref string) (checkpoint.Record, error) {
	for _, r := range m.records {
		if r.Tenant == tenant && (r.ID == ref || r.Name == ref) {
			return r, nil
		}
	}
	return checkpoint.Record{}, &sandbox.Error{Code: sandbox.CodeNotFound, Op: "find", Message: "there is no such checkpoint"}
}

func (m *recording) Rollback(_ context.Context, req manager.Request, ref string) (manager.RolledBack, error) {
	m.asked, m.back = req, append(m.back, ref)
	r, err := m.FindCheckpoint(context.Background(), "", ref)
	return manager.RolledBack{Checkpoint: r, Ended: []sandbox.RunningCommand{{PID: 9, Args: []string{"npm", "start"}}}, Recreated: true}, err
}

func newCheckpointRig(t *testing.T, settings string) (*rig, *recording) {
	m := &recording{}
	return newRig(t, settings, func(o *Options) {
		m.Manager = o.Manager
		o.Manager = m
	}), m
}

// TestCheckpoint holds that an agent keeps the state of its own sandbox, lists
// what it has kept and goes back to it, and that it reaches nothing of another
// session.
func TestCheckpoint(t *testing.T) {
	r, m := newCheckpointRig(t, plain)
	if a := r.call("checkpoint", obj{"action": "list"}); !strings.Contains(a.Text, "nothing was kept yet") {
		t.Errorf("%q", a.Text)
	}
	a := r.call("checkpoint", obj{"action": "create", "name": "built"})
	made := data[schema.CheckpointResult](t, a)
	if s := made.Checkpoints[0]; len(made.Checkpoints) != 1 || s.ID != "cp000" || s.Name != "built" || !s.Busy || s.LeftOut != 2 || !slices.Equal(s.Folders, []string{"/workspace"}) {
		t.Errorf("%+v", made)
	}
	if !strings.HasPrefix(a.Text, "[checkpoint cp000 built of 1970-01-01 00:00:00 UTC]\n") || strings.Contains(a.Text, "\n[checkpoint forged") || len(a.Text) > 1000 {
		t.Errorf("%q", a.Text)
	}
	if q := m.asked; !q.MustExist || q.Tool != "checkpoint" || q.Who != someone("a") {
		t.Errorf("it asks for %+v", q)
	}
	other := r.kit(Session{Who: someone("b")})
	if _, err := other.Call(deadline(t), "checkpoint", json.RawMessage(`{"action":"create","name":"theirs"}`), nil); err != nil {
		t.Fatal(err)
	}
	if d := data[schema.CheckpointResult](t, r.call("checkpoint", obj{"action": "list"})); len(d.Checkpoints) != 1 || d.Page.Total != 1 {
		t.Errorf("%+v", d)
	}
	for _, ref := range []string{"theirs", "cp001", "none", "x\x1b[2J"} {
		if e := r.refused(sandbox.CodeNotFound, "checkpoint", obj{"action": "rollback", "checkpoint": ref}); e.Field != "checkpoint" || strings.Contains(e.Error(), "\x1b") {
			t.Errorf("%q: %v", ref, e)
		}
	}
	back := r.call("checkpoint", obj{"action": "rollback", "checkpoint": "built"})
	if d := data[schema.CheckpointResult](t, back); !d.Recreated || len(d.Ended) != 1 || d.Ended[0].Command != "npm start" || !slices.Equal(m.back, []string{"cp000"}) {
		t.Errorf("%+v, gone back to %v", d, m.back)
	}
	if !strings.Contains(back.Text, "the sandbox holds this state now") || !strings.Contains(back.Text, "ended: npm start (process 9)") {
		t.Errorf("%q", back.Text)
	}
	// One that was imported for the session is its own.
	m.records = append(m.records, checkpoint.Record{ID: "cp900", Agent: "main", Session: "a"}, checkpoint.Record{ID: "cp901", Agent: "main", Session: "b"})
	r.call("checkpoint", obj{"action": "rollback", "checkpoint": "cp900"})
	r.refused(sandbox.CodeNotFound, "checkpoint", obj{"action": "rollback", "checkpoint": "cp901"})
	for range 60 {
		r.call("checkpoint", obj{"action": "create"})
	}
	a = r.call("checkpoint", obj{"action": "list"})
	if d := data[schema.CheckpointResult](t, a); len(d.Checkpoints) != maxCheckpoints || d.Page.Total != 62 || !d.Page.More || d.Checkpoints[0].ID != m.records[len(m.records)-1].ID || !strings.Contains(a.Text, "12 older ones") {
		t.Errorf("%d of %+v begin with %s", len(d.Checkpoints), d.Page, d.Checkpoints[0].ID)
	}
}

// TestCheckpointIsBounded holds where the tool does not exist, and that a session
// does not give up the work of others.
func TestCheckpointIsBounded(t *testing.T) {
	for name, more := range map[string]string{"denied": `, "tools": {"deny": ["checkpoint"]}`, "read-only": `, "workspaceAccess": "ro"`} {
		r, _ := newCheckpointRig(t, sandboxed("local", more))
		if r.refused(sandbox.CodeDenyTool, "checkpoint", obj{"action": "list"}); slices.ContainsFunc(r.Tools(), func(t schema.Tool) bool { return t.Name == "checkpoint" }) {
			t.Errorf("%s: it is listed", name)
		}
	}
	r, m := newCheckpointRig(t, sandboxed("local", `, "scope": "agent"`))
	r.call("checkpoint", obj{"action": "create", "name": "built"})
	if e := r.refused(sandbox.CodePermissionDeny, "checkpoint", obj{"action": "rollback", "checkpoint": "built"}); e.Field != "scope" || len(m.back) > 0 {
		t.Errorf("%v, gone back to %v", e, m.back)
	}
}
