package manager_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/workspace"
	"golang.org/x/sys/unix"
)

// homeRig is a rig whose sandboxes have homes on the disk, which it unmounts at
// the end whatever is left.
func homeRig(t *testing.T) *rig {
	t.Helper()
	if err := workspace.CanBound(); err != nil {
		testenv.Lack(t, "quota", err)
	}
	r := newRig(t)
	r.change = func(o *manager.Options) { o.Host.CanBound = workspace.CanBound }
	t.Cleanup(func() {
		r.clean() // a home is in use as long as its container is there
		for _, at := range mountsBelow(t, r.state.Path()) {
			if err := unix.Unmount(at, unix.UMOUNT_NOFOLLOW); err != nil {
				t.Errorf("unmount %s: %v", at, err)
			}
		}
	})
	return r
}

// mountsBelow are the places below dir at which something is mounted.
func mountsBelow(t testing.TB, dir string) []string {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	var out []string
	for sc := bufio.NewScanner(bytes.NewReader(data)); sc.Scan(); {
		if fields := strings.Fields(sc.Text()); len(fields) > 4 && strings.HasPrefix(fields[4], dir+"/") {
			out = append(out, fields[4])
		}
	}
	return out
}

// homes are the places and images of homes that there are.
func (r *rig) homes() []string {
	r.t.Helper()
	dir := filepath.Join(r.state.Workspaces(), hardening.HomesDir)
	images, err := filepath.Glob(filepath.Join(dir, ".quota", "*.img"))
	must(r.t, err)
	return append(mountsBelow(r.t, dir), images...)
}

func onDisk(size string) string {
	return `{"agents":{"defaults":{"sandbox":{"docker":{"memory":"128m","home":"disk","homeSize":"` + size + `"}}}}}`
}

func TestHomeOnDisk(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	r := homeRig(t)
	ctx := context.Background()
	m := r.manager(onDisk("96m"))
	// In memory the home had an eighth of 128 MiB.
	mustRun(t, m, "s", `head -c 60M /dev/zero >~/big && printf '#!/bin/sh\necho ran' >~/tool && chmod 755 ~/tool && test "$(~/tool)" = ran`)
	if out, o, err := run(m, "s", "head -c 60M /dev/zero >~/more"); err != nil || o.Exit.Code == 0 || o.Exit.Limit == nil || o.Exit.Limit.Path != sandbox.HomeDir || !strings.Contains(o.Exit.Limit.Hint(), "docker.homeSize") {
		t.Errorf("a home that is full: %q, %+v, %v", out, o.Exit, err)
	}
	mustRun(t, m, "s", `rm ~/big ~/more; echo kept >~/kept; echo mine >~/.bashrc`)
	home := r.homes()
	if len(home) != 2 {
		t.Fatalf("homes: %q", home)
	}

	// A stop leaves it; so does a restart of the machine, which unmounts it.
	for _, reboot := range []bool{false, true} {
		must(t, r.engine.Kill(ctx, row(t, m, "s").Name))
		if reboot {
			must(t, unix.Unmount(home[0], unix.UMOUNT_NOFOLLOW))
		}
		if out, _ := mustRun(t, r.manager(onDisk("96m")), "s", "cat ~/kept ~/.bashrc"); out != "kept\nmine" {
			t.Errorf("after a stop, reboot %v: %q", reboot, out)
		}
	}

	// Nothing of the home is within reach of another sandbox or of the file tools.
	if out, o, _ := run(m, "other", "ls ~/kept"); o.Exit.Code == 0 {
		t.Errorf("another sandbox sees the home: %q", out)
	}
	err := m.Files(ctx, manager.Request{Who: who("s")}, func(s manager.Share) error {
		_, err := s.Stat(ctx, sandbox.HomeDir+"/kept")
		return err
	})
	if err == nil {
		t.Error("file operations reach the home")
	}

	// Another size is another sandbox, with a home of its own.
	done := m.Recreate(ctx, []manager.Row{row(t, m, "s"), row(t, m, "other")})
	if len(done.Failed) > 0 || len(r.homes()) != 0 {
		t.Fatalf("after recreate: %+v, homes %q", done, r.homes())
	}
	if out, _ := mustRun(t, r.manager(onDisk("32m")), "s", "ls ~/kept 2>/dev/null; df --output=size -BM ~ | tail -1"); strings.Contains(out, "kept") || len(strings.TrimSpace(out)) > len("32M") {
		t.Errorf("after recreate: %q", out)
	}

	// What a killed process leaves of a sandbox that it was making goes with
	// the next sweep, and nothing else.
	store, err := workspace.Open(filepath.Dir(home[0]))
	must(t, err)
	_, err = store.Ensure(ctx, "sbx-killed-0123456789abcdef", workspace.Owner{UID: 1000, GID: 1000}, 16<<20)
	must(t, err)
	swept, err := m.Prune(ctx, manager.PruneOptions{})
	must(t, err)
	if len(swept.Removed) != 1 || swept.Removed[0].Name != "sbx-killed-0123456789abcdef" || len(swept.Failed) != 0 || len(r.homes()) != 2 {
		t.Errorf("swept %+v, homes %q", swept, r.homes())
	}

	// So does the home of a container that was removed by hand.
	must(t, r.engine.Remove(ctx, row(t, m, "s").Name))
	swept, err = m.Prune(ctx, manager.PruneOptions{})
	if must(t, err); len(swept.Failed) != 0 || len(r.homes()) != 0 {
		t.Errorf("swept %+v, homes %q", swept, r.homes())
	}

	// One-shot calls leave none.
	if _, _, err := run(m, "once", "echo x >~/x", func(q *manager.Request) { q.Remove = true }); err != nil || len(r.homes()) != 0 {
		t.Errorf("%v, homes %q", err, r.homes())
	}
}

// TestHomeOfPoolSlot holds that a sandbox from the pool has the home of its
// slot, and that this goes with it.
func TestHomeOfPoolSlot(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	r := homeRig(t)
	ctx := context.Background()
	m := r.manager(strings.Replace(onDisk("32m"), `{"sandbox":{`, `{"sandbox":{"pool":{"size":1},`, 1))
	_, _, err := m.Refill(ctx)
	must(t, err)
	if n := len(r.homes()); n != 2 {
		t.Fatalf("homes of the slot: %q", r.homes())
	}
	if _, o := mustRun(t, m, "s", "echo x >~/x"); !o.Claimed {
		t.Fatal("no slot was claimed")
	}
	if done := m.Recreate(ctx, []manager.Row{row(t, m, "s")}); len(done.Failed) > 0 || len(r.homes()) != 0 {
		t.Errorf("%+v, homes %q", done, r.homes())
	}
}

func TestWhereTheHomeLies(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "docker")
	cannot := errors.New("no loop devices today")
	for _, tt := range []struct {
		name, docker string
		can          error
		place, why   string
		code         sandbox.Code
	}{
		{"auto", `{}`, nil, "disk", "docker.home is auto", ""},
		{"auto where it cannot be bounded", `{}`, cannot, "memory", "no loop devices today", ""},
		{"auto with a folder in memory", `{"tmpfs":["/tmp:size=8m","/home/sandbox:size=8m"]}`, nil, "memory", "docker.tmpfs names it", ""},
		{"memory", `{"home":"memory"}`, nil, "memory", "set by", ""},
		{"disk", `{"home":"disk"}`, nil, "disk", "set by", ""},
		{"disk where it cannot be bounded", `{"home":"disk"}`, cannot, "", "", sandbox.CodeUnavailable},
		{"disk and memory", `{"home":"disk","tmpfs":["/tmp:size=8m","/home/sandbox:size=8m"]}`, nil, "", "", sandbox.CodeValidation},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t)
			r.change = func(o *manager.Options) { o.Host.CanBound = func() error { return tt.can } }
			m := r.manager(`{"agents":{"defaults":{"sandbox":{"docker":` + tt.docker + `}}}}`)
			e, err := m.Explain(context.Background(), who("s"), nil, manager.Questions{})
			if tt.code == "" {
				must(t, err)
				if e.Home.Place != tt.place || !strings.Contains(e.Home.Reason, tt.why) || e.Home.Size == 0 {
					t.Errorf("%+v", e.Home)
				}
				return
			}
			_, _, err = run(m, "s", "true")
			var refused *sandbox.Error
			if !errors.As(err, &refused) || refused.Code != tt.code || !strings.HasSuffix(refused.Field, "docker.home") || refused.Hint == "" {
				t.Errorf("%v", err)
			}
		})
	}
}
