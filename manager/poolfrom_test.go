//go:build linux

package manager_test

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestPoolFromCheckpoint holds that slots hold the checkpoint that pool.from names
// before they are claimed; that new sandboxes and forks become such slots, also by
// way of another program; that they are made anew when the name is given to another
// checkpoint, and removed with it; and that no other tenant gets one.
func TestPoolFromCheckpoint(t *testing.T) {
	testenv.UnmountBelow(t, filepath.Dir(t.TempDir()))
	r := newRig(t)
	text := settings(`"pool":{"size":2,"from":"template"}`)
	k := &keeper{t: t, kind: "docker", Manager: r.manager(text)}
	const look = "cat deep/file ~/at-home; stat -c %a deep/file"
	kind := func() manager.PoolKind {
		t.Helper()
		s, err := k.PoolStatus(k.context())
		must(t, err)
		if len(s.Kinds) != 1 {
			t.Fatalf("kinds: %+v", s.Kinds)
		}
		return s.Kinds[0]
	}
	slot := func(session string, is bool) {
		t.Helper()
		if at := row(t, k.Manager, session); strings.Contains(at.Workspace, "pool-") != is {
			t.Errorf("that the sandbox of %s is a slot is %v: %+v", session, !is, at)
		}
	}

	k.run("s", "mkdir deep; echo one >deep/file; echo h >~/at-home; chmod 640 deep/file") // there is no checkpoint yet
	if n := fillPool(t, k.Manager); n != 0 {
		t.Errorf("%d slots are made of no checkpoint", n)
	}
	if s := kind(); s.Wanted != 0 || !strings.Contains(s.Failed, `no checkpoint "template"`) {
		t.Errorf("without a checkpoint: %+v", s)
	}
	first := k.checkpoint("s", "template")
	if n := fillPool(t, k.Manager); n != 2 {
		t.Fatalf("filled with %d", n)
	}
	if s := kind(); s.Ready != 2 || s.From != first || s.Failed != "" {
		t.Errorf("with a checkpoint: %+v", s)
	}
	if e, err := k.Explain(k.context(), who("a"), nil, manager.Questions{}); err != nil || !e.Pool.Claims || e.Pool.From != first || !strings.Contains(e.Next, first) {
		t.Errorf("explain says %q, %+v, %v", e.Next, e.Pool, err)
	}

	if got := k.run("a", look+"; echo a >deep/file"); got != "one\nh\n640" {
		t.Errorf("a new sandbox has %q", got)
	}
	slot("a", true)
	forks, err := k.Fork(k.context(), manager.Request{Who: who("s")}, manager.ForkOptions{From: "template", Sessions: []string{"f"}})
	must(t, err)
	must(t, forks[0].Err)
	if got := k.run("f", look); got != "one\nh\n640" {
		t.Errorf("a fork has %q", got)
	}
	slot("f", true)
	if got := k.run("cold", look); got != "one\nh\n640" { // none is ready
		t.Errorf("a sandbox that was made has %q", got)
	}
	slot("cold", false)

	fillPool(t, k.Manager)
	other := r.manager(text) // keeps no pool
	made, err := other.Capture(k.context(), manager.Request{Who: who("b"), From: first, Command: sandbox.Command{Args: []string{"sh", "-c", look}}})
	must(t, err)
	if got := strings.TrimSpace(string(made.Stdout)); got != "one\nh\n640" {
		t.Errorf("a sandbox of another program has %q", got)
	}
	slot("b", true)
	foreign, err := k.Capture(k.context(), manager.Request{Who: config.Who{Tenant: "acme", Agent: config.DefaultAgent, Session: "c"}, Command: sandbox.Command{Args: []string{"ls", "-A", "/workspace", "/home/sandbox"}}})
	must(t, err)
	if strings.Contains(string(foreign.Stdout), "deep") || strings.Contains(string(foreign.Stdout), "at-home") {
		t.Errorf("a sandbox of another tenant has %s", foreign.Stdout)
	}

	k.run("s", "echo two >deep/file")
	must(t, k.RemoveCheckpoint(k.context(), "", "template"))
	if n := slotsOf(t, k.Manager); n != 0 {
		t.Errorf("%d slots are left of a checkpoint that is removed", n)
	}
	second := k.checkpoint("s", "template")
	if n := fillPool(t, k.Manager); n == 0 || kind().From != second {
		t.Errorf("of the new checkpoint %d slots are made: %+v", n, kind())
	}
	if got := k.run("d", look); got != "two\nh\n640" {
		t.Errorf("a sandbox of the new checkpoint has %q", got)
	}
	slot("d", true)
	if got := k.run("a", "cat deep/file"); got != "a" {
		t.Errorf("a sandbox that was made before has %q", got)
	}
	must(t, k.RemoveCheckpoint(context.Background(), "", "template"))
}

// TestPoolFromKeepsCheckpoint holds that a checkpoint which slots begin with is not
// among those that checkpoint.keep lets go.
func TestPoolFromKeepsCheckpoint(t *testing.T) {
	testenv.UnmountBelow(t, filepath.Dir(t.TempDir()))
	r := newRig(t)
	k := &keeper{t: t, kind: "docker", Manager: r.manager(settings(`"checkpoint":{"auto":"command","keep":1}`))}
	k.run("s", "echo one >file")
	k.run("s", "echo two >file")
	list, err := k.Checkpoints(k.context(), manager.CheckpointFilter{})
	must(t, err)
	if len(list) != 1 {
		t.Fatalf("%d checkpoints", len(list))
	}
	k.Manager = r.manager(settings(`"checkpoint":{"auto":"command","keep":1},"pool":{"size":1,"from":"` + list[0].ID + `"}`))
	fillPool(t, k.Manager)
	k.run("s", "echo three >file")
	k.run("s", "echo four >file")
	if _, err := k.FindCheckpoint(k.context(), "", list[0].ID); err != nil {
		t.Errorf("the checkpoint of the pool: %v", err)
	}
	if got := k.run("a", "cat file"); got != "one" {
		t.Errorf("a sandbox of it has %q", got)
	}
}
