package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestBehindOurBack does to the sandbox and its record what others do.
func TestBehindOurBack(t *testing.T) {
	t.Parallel()
	ctx := context.Background()
	recordFile := func(r *rig, name string) string { return filepath.Join(r.state.Registry(), "containers", name+".json") }
	tests := map[string]struct {
		do     func(r *rig, name string) error
		status sandbox.Status
		keeps  bool // what is in /tmp
	}{
		"removed":           {func(r *rig, name string) error { return r.engine.Remove(ctx, name) }, sandbox.StatusMissing, false},
		"killed":            {func(r *rig, name string) error { return r.engine.Kill(ctx, name) }, sandbox.StatusStopped, false},
		"paused":            {func(r *rig, name string) error { return r.engine.Pause(ctx, name) }, sandbox.StatusPaused, true},
		"record deleted":    {func(r *rig, name string) error { return os.Remove(recordFile(r, name)) }, sandbox.StatusOrphan, true},
		"record emptied":    {func(r *rig, name string) error { return os.Truncate(recordFile(r, name), 0) }, sandbox.StatusRunning, true},
		"record is garbage": {func(r *rig, name string) error { return os.WriteFile(recordFile(r, name), []byte("{\"name\":"), 0o600) }, sandbox.StatusRunning, true},
		"all records gone":  {func(r *rig, name string) error { return os.RemoveAll(filepath.Join(r.state.Registry(), "containers")) }, sandbox.StatusOrphan, true},
		"socket gone":       {func(r *rig, name string) error { return os.RemoveAll(r.state.SocketPath(name) + "/guest.sock") }, sandbox.StatusRunning, true},
	}
	for what, tt := range tests {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			m := r.manager("")
			_, o := mustRun(t, m, "s", "touch /tmp/mark /workspace/mark")
			must(t, tt.do(r, o.Name))
			l, err := m.List(ctx, manager.ListOptions{})
			must(t, err)
			if len(l.Containers) != 1 || l.Containers[0].Name != o.Name || l.Containers[0].Status != tt.status {
				t.Errorf("list shows %+v, want status %s", l.Containers, tt.status)
			}
			out, _ := mustRun(t, m, "s", "ls /workspace/mark /tmp/mark 2>/dev/null | tr '\\n' ' '; true")
			want := "/workspace/mark"
			if tt.keeps {
				want = "/tmp/mark /workspace/mark"
			}
			if out != want {
				t.Errorf("afterwards there is %q, want %q", out, want)
			}
			if l, err = m.List(ctx, manager.ListOptions{}); err != nil || l.Containers[0].Status != sandbox.StatusRunning {
				t.Errorf("list shows %+v, %v", l.Containers, err)
			}
		})
	}
}

func TestManyScopes(t *testing.T) {
	t.Parallel()
	scopes := testenv.Rounds(8, 12, 50)
	r := newRig(t)
	m := r.manager("")
	var wg sync.WaitGroup
	for i := range scopes {
		wg.Go(func() {
			key := fmt.Sprintf("s%d", i)
			if out, _, err := run(m, key, "echo "+key); err != nil || out != key {
				t.Errorf("%s: %q, %v", key, out, err)
			}
		})
	}
	wg.Wait()
	live, err := r.engine.List(context.Background(), sandbox.Filter{Instance: r.state.Instance()})
	if err != nil || len(live) != scopes {
		t.Errorf("%d containers, %v", len(live), err)
	}
	uids := map[string]bool{}
	for i := range scopes {
		out, _ := mustRun(t, m, fmt.Sprintf("s%d", i), "id -u")
		uids[out] = true
	}
	if len(uids) != scopes {
		t.Errorf("%d scopes share %d user ids", scopes, len(uids))
	}
}

// TestStateFolderTrouble takes the state folder away in ways that happen.
func TestStateFolderTrouble(t *testing.T) {
	t.Parallel()
	tests := map[string]func(t *testing.T, dir string){
		"read-only": func(t *testing.T, dir string) {
			must(t, unix.Mount(dir, dir, "", unix.MS_BIND, ""))
			t.Cleanup(func() { unix.Unmount(dir, unix.MNT_DETACH) })
			must(t, unix.Mount("", dir, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""))
		},
		"full": func(t *testing.T, dir string) {
			reg := filepath.Join(dir, "registry")
			must(t, unix.Mount("tmpfs", reg, "tmpfs", 0, "size=64k,mode=700"))
			t.Cleanup(func() { unix.Unmount(reg, unix.MNT_DETACH) })
			must(t, os.MkdirAll(filepath.Join(reg, "containers"), 0o700))
			f, err := os.Create(filepath.Join(reg, "filler"))
			must(t, err)
			defer f.Close()
			for err == nil {
				_, err = f.Write(make([]byte, 4096))
			}
		},
	}
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			mustRun(t, r.manager(""), "old", "true")
			spoil(t, r.dir)
			m := r.manager("")
			_, _, err := run(m, "new", "true")
			if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), r.dir) {
				t.Errorf("run says %v", err)
			}
			live, err := r.engine.List(context.Background(), sandbox.Filter{Instance: r.state.Instance()})
			if err != nil || len(live) != 1 {
				t.Errorf("%d containers are left, want the one from before (%v)", len(live), err)
			}
		})
	}
}

// TestTimeLimit proves from inside that nothing runs on after a timeout, a
// cancelled call, and a client that is killed.
func TestTimeLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	const escape = `trap '' TERM; setsid sh -c 'sleep 7531 & sleep 7532' & (sleep 7533 &) ; exec sleep 7534`
	left := func(t *testing.T) {
		t.Helper()
		if out, _ := mustRun(t, m, "s", `for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; echo; done 2>/dev/null | grep '^sleep 753' || true`); out != "" {
			t.Errorf("still running inside: %s", out)
		}
	}
	t.Run("timeout", func(t *testing.T) {
		start := time.Now()
		_, o, err := run(m, "s", escape, func(q *manager.Request) { q.Timeout = 300 * time.Millisecond })
		if err != nil || !o.TimedOut || time.Since(start) > time.Minute {
			t.Errorf("%+v, %v after %s", o, err, time.Since(start))
		}
		left(t)
	})
	t.Run("cancel", func(t *testing.T) {
		ctx, cancel := context.WithCancel(context.Background())
		time.AfterFunc(300*time.Millisecond, cancel)
		_, err := m.Run(ctx, manager.Request{Who: who("s"), Command: sandbox.Command{Args: []string{"sh", "-c", escape}}})
		if err == nil {
			t.Error("no error")
		}
		left(t)
	})
	t.Run("killed client", func(t *testing.T) {
		cmd := childCmd(r, childLine+"="+escape)
		must(t, cmd.Start())
		waitFor(t, func() *string {
			out, _ := mustRun(t, m, "s", `grep -l 7534 /proc/[0-9]*/cmdline 2>/dev/null | grep -v self || true`)
			if out == "" {
				return nil
			}
			return &out
		})
		must(t, cmd.Process.Kill())
		cmd.Wait()
		waitFor(t, func() *bool {
			out, _ := mustRun(t, m, "s", `for p in /proc/[0-9]*; do tr '\0' ' ' < $p/cmdline; echo; done 2>/dev/null | grep '^sleep 753' || true`)
			gone := out == ""
			if !gone {
				return nil
			}
			return &gone
		})
	})
}

func TestRemoveAfterwards(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	_, o, err := run(m, "s", "touch x", func(q *manager.Request) { q.Remove = true })
	must(t, err)
	live, err := r.engine.List(context.Background(), sandbox.Filter{Instance: r.state.Instance()})
	if err != nil || len(live) != 0 {
		t.Errorf("left %+v, %v", live, err)
	}
	if _, err := os.Stat(filepath.Join(r.state.Workspaces(), o.Name)); !os.IsNotExist(err) {
		t.Errorf("the workspace is still there: %v", err)
	}
}

// TestLeased holds that nothing in use is removed.
func TestLeased(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager("")
	started := make(chan struct{})
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, err := m.Run(ctx, manager.Request{Who: who("s"), Command: sandbox.Command{Args: []string{"sleep", "60"}}, Started: func(sandbox.Process) { close(started) }})
		done <- err
	}()
	<-started
	rows, err := m.Select(ctx, "", manager.Selector{Session: "s"}, false)
	must(t, err)
	if got := m.Recreate(ctx, rows); len(got.Removed) != 0 || len(got.Failed) != 1 || got.Failed[0].Code != sandbox.CodeBusy {
		t.Errorf("recreate did %+v", got)
	}
	r.clock.advance(48 * time.Hour)
	if got, err := m.Prune(ctx, manager.PruneOptions{}); err != nil || len(got.Removed) != 0 {
		t.Errorf("prune did %+v, %v", got, err)
	}
	cancel()
	<-done
	if got, err := m.Prune(context.Background(), manager.PruneOptions{}); err != nil || len(got.Removed) != 0 {
		t.Errorf("prune just after use did %+v, %v", got, err)
	}
	r.clock.advance(25 * time.Hour)
	if got, err := m.Prune(context.Background(), manager.PruneOptions{Workspaces: true}); err != nil || len(got.Removed) != 1 {
		t.Errorf("prune a day later did %+v, %v", got, err)
	}
}
