//go:build linux

package launch_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
)

const name = "sbx-a"

func open(t *testing.T) (*launch.Records, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "sandboxes")
	d, err := launch.OpenRecords(path)
	if err != nil {
		t.Fatal(err)
	}
	return d, path
}

func definition() launch.Definition {
	return launch.Definition{
		Format: "1", ID: launch.NewID(), Name: name, Kind: sandbox.KindSandbox, ConfigHash: "h",
		Owner: sandbox.Owner{Instance: "i", Tenant: "t", ScopeKey: "k"}, CreatedAt: time.Now().UTC().Round(0),
	}
}

func alive(t *testing.T, id launch.ID) bool {
	t.Helper()
	up, err := id.Alive()
	must(t, err)
	return up
}

// sleeper is a process that stands for the first one of an instance.
func sleeper(t *testing.T) launch.ID {
	t.Helper()
	cmd := exec.Command("sleep", "1000")
	must(t, cmd.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = cmd.Wait() }()
	id, err := launch.Of(cmd.Process.Pid)
	must(t, err)
	t.Cleanup(func() {
		_ = id.Kill(context.Background())
		<-ended // and nothing of it holds a descriptor any more
	})
	return id
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestLifeOfADefinition(t *testing.T) {
	d, path := open(t)
	ctx := context.Background()
	s, err := d.Claim(ctx, name)
	must(t, err)
	if _, _, err := d.Get(name); !sandbox.IsNotFound(err) {
		t.Errorf("while it is made: %v", err)
	}
	if _, err := d.Claim(ctx, name); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a second claim: %v", err)
	}
	def, first := definition(), sleeper(t)
	must(t, s.Started(launch.Record{Process: first, StartedAt: def.CreatedAt}))
	must(t, d.Commit(ctx, s, def))
	got, instances, err := d.Get(name)
	if err != nil || got != def || len(instances) != 1 || instances[0].Process != first {
		t.Errorf("got %+v, %+v, %v", got, instances, err)
	}
	if _, err := d.Slot(ctx, name, "another"); !sandbox.IsNotFound(err) {
		t.Errorf("a slot for another ID: %v", err)
	}
	must(t, d.Remove(ctx, name))
	if alive(t, first) {
		t.Error("its sandbox lives on")
	}
	if !s.Gone() {
		t.Error("its slot is still there")
	}
	s.Release()
	must(t, d.Remove(ctx, name))
	if left, _ := os.ReadDir(path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestASandboxThatFellIsNotUp(t *testing.T) {
	d, _ := open(t)
	ctx := context.Background()
	s, err := d.Claim(ctx, name)
	must(t, err)
	first := sleeper(t)
	must(t, s.Started(launch.Record{Process: first}))
	must(t, d.Commit(ctx, s, definition()))
	must(t, first.Kill(ctx))
	if _, instances, err := d.Get(name); err != nil || len(instances) > 0 {
		t.Errorf("%+v, %v", instances, err)
	}
	s.Release()
	if _, err := d.Claim(ctx, name); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("a claim over a sandbox that is stopped: %v", err)
	}
}

func TestRemoveDuringCreate(t *testing.T) {
	d, path := open(t)
	ctx := context.Background()
	s, err := d.Claim(ctx, name)
	must(t, err)
	must(t, d.Remove(ctx, name))
	if err := d.Commit(ctx, s, definition()); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
		t.Errorf("Commit: %v", err)
	}
	must(t, d.Abandon(name, s))
	if left, _ := os.ReadDir(path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestLeftOfACrash is a folder without a definition that no process holds.
func TestLeftOfACrash(t *testing.T) {
	d, path := open(t)
	ctx := context.Background()
	folder := filepath.Join(path, name, "walls")
	must(t, os.MkdirAll(folder, 0o700))
	must(t, os.WriteFile(filepath.Join(folder, "x"), []byte("{"), 0o600))
	must(t, os.MkdirAll(filepath.Join(path, ".going-x", "walls"), 0o700))
	must(t, d.Sweep(ctx))
	if _, err := os.Stat(filepath.Join(path, ".going-x")); err == nil {
		t.Error("what was going is still there")
	}
	if _, err := os.Stat(folder); err != nil {
		t.Error("a young folder was swept")
	}
	old := time.Now().Add(-time.Hour)
	must(t, os.Chtimes(filepath.Join(path, name), old, old))
	must(t, d.Sweep(ctx))
	if left, _ := os.ReadDir(path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
	must(t, os.MkdirAll(folder, 0o700))
	s, err := d.Claim(ctx, name) // what a crash left is no obstacle
	must(t, err)
	must(t, d.Abandon(name, s))
}

func TestManyClaims(t *testing.T) {
	d, path := open(t)
	var wg sync.WaitGroup
	won := make(chan *launch.Slot, 16)
	for range 16 {
		wg.Go(func() {
			s, err := d.Claim(context.Background(), name)
			switch {
			case err == nil:
				won <- s
			case sandbox.CodeOf(err) != sandbox.CodeBusy:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if len(won) != 1 {
		t.Fatalf("%d claims succeeded", len(won))
	}
	must(t, d.Abandon(name, <-won))
	if left, _ := os.ReadDir(path); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

func TestBadDefinitions(t *testing.T) {
	d, path := open(t)
	must(t, os.MkdirAll(filepath.Join(path, name), 0o700))
	for what, content := range map[string]string{"garbage": "{", "another name": `{"name":"sbx-b","id":"x"}`, "no id": `{"name":"sbx-a"}`} {
		must(t, os.WriteFile(filepath.Join(path, name, "definition.json"), []byte(content), 0o600))
		if _, _, err := d.Get(name); sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("%s: %v", what, err)
		}
	}
	must(t, d.Remove(context.Background(), name))
	for _, bad := range []string{"", "../x", "A", "a/b", ".going-x"} {
		if _, _, err := d.Get(bad); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("the name %q: %v", bad, err)
		}
	}
}
