package cli

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// fakeCheckpoints returns what a test sets and notes what it is asked.
type fakeCheckpoints struct {
	one      api.Checkpoint // of every reference
	list     []api.Checkpoint
	back     api.RolledBack
	forks    []api.Forked
	archive  string // of every export
	err      error  // of an export after the archive, of an import, and of the second removal
	request  manager.Request
	name     string
	filter   manager.CheckpointFilter
	who      config.Who
	removed  []string
	imported string
	to       string // of the rollback; empty is none
	fork     api.Fork
	released bool
	copying  func(progress func(entries, bytes int64)) // while one is made; or nil
}

func (f *fakeCheckpoints) Create(_ context.Context, r manager.Request, name string, progress func(entries, bytes int64)) (api.Checkpoint, error) {
	if f.copying != nil {
		f.copying(progress)
	}
	f.request, f.name = r, name
	return f.one, nil
}

func (f *fakeCheckpoints) List(_ context.Context, by manager.CheckpointFilter) ([]api.Checkpoint, error) {
	f.filter = by
	return f.list, nil
}

func (f *fakeCheckpoints) Get(_ context.Context, who config.Who, _ string) (api.Checkpoint, error) {
	f.who = who
	return f.one, nil
}

func (f *fakeCheckpoints) Remove(_ context.Context, who config.Who, ref string) error {
	f.who = who
	if len(f.removed) > 0 && f.err != nil {
		return f.err
	}
	f.removed = append(f.removed, ref)
	return nil
}

func (f *fakeCheckpoints) Export(_ context.Context, who config.Who, _ string, w io.Writer) error {
	f.who = who
	if _, err := io.WriteString(w, f.archive); err != nil {
		return err
	}
	return f.err
}

func (f *fakeCheckpoints) Import(_ context.Context, who config.Who, name string, r io.Reader) (api.Checkpoint, error) {
	f.who, f.name = who, name
	b, err := io.ReadAll(r)
	if err != nil {
		return api.Checkpoint{}, err
	}
	f.imported = string(b)
	return f.one, f.err
}

func (f *fakeCheckpoints) Rollback(_ context.Context, r manager.Request, ref string) (api.RolledBack, error) {
	f.request, f.to = r, ref
	return f.back, nil
}

func (f *fakeCheckpoints) Fork(_ context.Context, r manager.Request, fork api.Fork) ([]api.Forked, error) {
	f.request, f.fork = r, fork
	return f.forks, nil
}

func (f *fake) Console(Options) (ConsoleStore, func(), error) {
	return nil, nil, errTest
}

func (f *fake) Checkpoints(o Options) (CheckpointStore, func(), error) {
	f.options = o
	return &f.checkpoints, func() { f.checkpoints.released = true }, f.err
}

func withCheckpoints() *fake {
	at := time.Date(2026, 11, 29, 3, 0, 0, 0, time.Local)
	f := &fake{}
	f.checkpoints.one = api.Checkpoint{
		ID: "cp-0002", Name: "built", Sandbox: "sbx-a", Agent: "main", Session: "chat-42", Parent: "cp-0001", CreatedAt: at, Busy: true, Means: "overlay",
		Folders: []api.CheckpointFolder{{Name: "workspace", Target: "/workspace"}, {Name: "home", Target: "/home/sandbox"}},
		Shells:  []api.CheckpointShell{{ID: "s1", Program: "/bin/bash", Cwd: "/workspace/" + hostile}},
		Running: []api.CheckpointProgram{{PID: 17, Args: []string{"sleep", hostile}}}, Files: 12, Bytes: 3 << 20, Image: "sandbox:bookworm-slim",
		LeftOut: &api.CheckpointLeftOut{Special: 1, Unreadable: 2, Changed: 1, Paths: []string{"a/" + hostile}},
	}
	f.checkpoints.list = []api.Checkpoint{
		{ID: "cp-0001", Agent: "main", Session: "chat-42", CreatedAt: at.Add(-time.Hour), Means: "overlay", Files: 50000, Bytes: 1 << 30, Folders: []api.CheckpointFolder{}},
		f.checkpoints.one,
	}
	f.checkpoints.back = api.RolledBack{Checkpoint: f.checkpoints.one, Ended: f.checkpoints.one.Running, Recreated: true}
	f.checkpoints.forks = []api.Forked{
		{Session: "chat-42-fork-1", Name: "sbx-b", Checkpoint: "cp-0002"},
		{Session: "chat-42-fork-2", Checkpoint: "cp-0002", Problem: &api.Problem{Code: sandbox.CodeBusy, Detail: "it has a sandbox" + hostile, Hint: "take another"}},
	}
	f.checkpoints.archive = "the archive"
	return f
}

// TestCheckpointOutput holds what people and programs see of checkpoints, and
// that nothing of it acts on a terminal.
func TestCheckpointOutput(t *testing.T) {
	for _, tt := range []struct {
		name, args string
		status     int
		keys       string // of the JSON
	}{
		{"checkpoint_create", "checkpoint create --name built", 0, "id name sandbox tenant agent session parent createdAt busy means folders shells running files bytes leftOut image"},
		{"checkpoint_list", "checkpoint list", 0, "checkpoints"},
		{"checkpoint_show", "checkpoint show built", 0, "id name sandbox tenant agent session parent createdAt busy means folders shells running files bytes leftOut image"},
		{"checkpoint_rm", "checkpoint rm built cp-0001", 0, "removed"},
		{"rollback", "rollback built --force", 0, "checkpoint ended recreated"},
		{"fork", "fork --count 2", 1, "forks"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := withCheckpoints()
			r := call(t, f, strings.Fields(tt.args)...)
			if r.status != tt.status || !f.checkpoints.released {
				t.Errorf("status %d, released %v", r.status, f.checkpoints.released)
			}
			if strings.ContainsAny(r.stdout+r.stderr, "\x1b\u009b\u202e") {
				t.Errorf("a terminal acts on %q", r.stdout+r.stderr)
			}
			golden(t, tt.name, r.stdout+"---\n"+r.stderr)
			r = call(t, withCheckpoints(), append(strings.Fields(tt.args), "--format", "json")...)
			var got map[string]json.RawMessage
			if err := json.Unmarshal([]byte(r.stdout), &got); err != nil || r.status != tt.status {
				t.Fatalf("status %d, %v: %s", r.status, err, r.stdout)
			}
			var keys []string
			for k := range got {
				keys = append(keys, k)
			}
			want := strings.Fields(tt.keys)
			slices.Sort(keys)
			slices.Sort(want)
			if d := cmp.Diff(want, keys); d != "" {
				t.Errorf("the keys differ (-want +got):\n%s", d)
			}
		})
	}
}

// TestCheckpointAsks holds what each command asks of the store.
func TestCheckpointAsks(t *testing.T) {
	own := config.Who{Tenant: "acme", Agent: "a", Session: "s"}
	at := strings.Fields("--tenant acme --agent a --session s --provider local")
	f := withCheckpoints()
	call(t, f, append(at, "checkpoint", "create")...)
	if r := f.checkpoints.request; r.Who != own || !r.MustExist || r.Flags == nil || f.checkpoints.name != "" {
		t.Errorf("create asks for %+v", r)
	}
	call(t, f, append(at, "rollback", "built", "--force")...)
	if r := f.checkpoints.request; r.Who != own || !r.MustExist || f.checkpoints.to != "built" {
		t.Errorf("rollback to %q asks for %+v", f.checkpoints.to, r)
	}
	call(t, f, append(at, "checkpoint", "rm", "built")...)
	if f.checkpoints.who != own || !slices.Equal(f.checkpoints.removed, []string{"built"}) {
		t.Errorf("rm of %v for %+v", f.checkpoints.removed, f.checkpoints.who)
	}
	for _, tt := range []struct {
		args string
		want manager.CheckpointFilter
	}{
		{"checkpoint list", manager.CheckpointFilter{Agent: "main", Session: "default"}},
		{"checkpoint list --agent a --session s --tenant t", manager.CheckpointFilter{Tenant: "t", Agent: "a", Session: "s"}},
		{"checkpoint list --all --tenant t", manager.CheckpointFilter{Tenant: "t"}},
		{"checkpoint list --all --agent a", manager.CheckpointFilter{Agent: "a"}},
	} {
		if call(t, f, strings.Fields(tt.args)...); f.checkpoints.filter != tt.want {
			t.Errorf("%s asks for %+v", tt.args, f.checkpoints.filter)
		}
	}
	for _, tt := range []struct {
		args string
		want api.Fork
	}{
		{"fork", api.Fork{Count: 1}}, {"fork --count 10 --from built", api.Fork{Count: 10, From: "built"}},
		{"fork --to x --to y,z", api.Fork{Sessions: []string{"x", "y,z"}}},
	} {
		call(t, f, strings.Fields(tt.args)...)
		if d := cmp.Diff(tt.want, f.checkpoints.fork); d != "" {
			t.Errorf("%s (-want +got):\n%s", tt.args, d)
		}
	}
	if call(t, f, "run", "--from", "built", "--", "true"); f.request.From != "built" {
		t.Errorf("run begins with %q", f.request.From)
	}
	if call(t, f, "run", "--", "true"); f.request.From != "" {
		t.Errorf("run begins with %q", f.request.From)
	}
}

// TestCheckpointRemovalStops holds that what was removed is named also where the
// next one fails.
func TestCheckpointRemovalStops(t *testing.T) {
	f := withCheckpoints()
	f.checkpoints.err = &sandbox.Error{Code: sandbox.CodeNotFound, Op: "find", Message: "there is no such checkpoint"}
	r := call(t, f, "checkpoint", "rm", "a", "b", "c")
	if r.status != statusSandbox || r.stdout != "removed a\n" || !strings.Contains(r.stderr, "no such checkpoint") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
}

// TestCheckpointFiles holds that an exported file is there whole or not at all,
// and that an import reads files and standard input.
func TestCheckpointFiles(t *testing.T) {
	dir := t.TempDir()
	at := filepath.Join(dir, "c.tar.zst")
	f := withCheckpoints()
	if r := call(t, f, "checkpoint", "export", "built"); r.status != 0 || r.stdout != "the archive" {
		t.Errorf("status %d: %q", r.status, r.stdout)
	}
	if r := call(t, f, "checkpoint", "export", "built", "-o", at, "--format", "json"); r.status != 0 || !strings.Contains(r.stdout, `"bytes": 11`) {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if b, err := os.ReadFile(at); string(b) != "the archive" {
		t.Errorf("%q, %v", b, err)
	}
	f.checkpoints.err = unavailable()
	if r := call(t, f, "checkpoint", "export", "built", "-o", filepath.Join(dir, "cut")); r.status != statusSandbox {
		t.Errorf("status %d of an export that was cut", r.status)
	}
	if r := call(t, f, "checkpoint", "export", "built", "-o", filepath.Join(dir, "none", "x")); r.status != statusSandbox || !strings.Contains(r.stderr, "cannot be written") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("%v is left, %v", left, err)
	}
	f = withCheckpoints()
	if r := call(t, f, "checkpoint", "import", "--name", "n", "--session", "s", at); r.status != 0 || !strings.HasPrefix(r.stdout, "cp-0002\n") {
		t.Errorf("status %d: %s%s", r.status, r.stdout, r.stderr)
	}
	if c := f.checkpoints; c.imported != "the archive" || c.name != "n" || c.who.Session != "s" {
		t.Errorf("imported %q as %q for %+v", c.imported, c.name, c.who)
	}
	for _, args := range [][]string{{"checkpoint", "import"}, {"checkpoint", "import", "-"}} {
		in, err := os.Open(at)
		if err != nil {
			t.Fatal(err)
		}
		f = withCheckpoints()
		if r := callWith(t, f, in, args...); r.status != 0 || f.checkpoints.imported != "the archive" {
			t.Errorf("status %d, imported %q: %s", r.status, f.checkpoints.imported, r.stderr)
		}
		in.Close()
	}
	if r := call(t, f, "checkpoint", "import", filepath.Join(dir, "none")); r.status != statusSandbox || !strings.Contains(r.stderr, "SANDBOX.NOT_FOUND") {
		t.Errorf("status %d: %s", r.status, r.stderr)
	}
}

// Changes implements Backend. Scripts of cmd/sandbox test the commands.
func (f *fake) Changes(o Options) (ChangeStore, func(), error) {
	f.options = o
	return nil, func() {}, f.err
}
