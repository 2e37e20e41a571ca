//go:build linux

package local_test

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/local"
	"github.com/bulkhead-dev/sandbox/provider/local/launch"
	"github.com/bulkhead-dev/sandbox/provider/providertest"
)

// TestConformance runs the suite of all instances.
func TestConformance(t *testing.T) {
	if testing.Short() {
		t.Skip("long")
	}
	providertest.Run(t, newRig(t).harness())
}

// harness is the local provider as the suite sees it.
func (r *rig) harness() providertest.Harness {
	return providertest.Harness{
		New:  func(t testing.TB) sandbox.Provider { return r.provider(t) },
		Spec: func(_ testing.TB, key string) sandbox.Spec { return r.spec(key) },
		Behind: providertest.Behind{
			Stop: func(t testing.TB, p sandbox.Provider, name string) { r.kill(t, p, name) },
			// Another program on the same state folder.
			Restart: func(t testing.TB, p sandbox.Provider, name string) {
				r.kill(t, p, name)
				r.reopenBy(t, r.provider(t), name)
			},
			Pause: func(t testing.TB, _ sandbox.Provider, name string) {
				must(t, r.provider(t).Pause(context.Background(), name))
			},
			Destroy: func(t testing.TB, _ sandbox.Provider, name string) {
				must(t, r.provider(t).Remove(context.Background(), name))
			},
		},
		Folder: func(t testing.TB, _ sandbox.Provider) string {
			dir := t.TempDir()
			must(t, os.WriteFile(filepath.Join(dir, "file"), []byte(providertest.FolderContent), 0o600))
			must(t, os.Chmod(dir, 0o777))
			must(t, os.Chmod(filepath.Join(dir, "file"), 0o666))
			return dir
		},
		Exchange: func(t testing.TB, s sandbox.Spec, content string) *os.File {
			if os.Geteuid() != 0 {
				return nil
			}
			return another(t, s, "file", content)
		},
		Down: func(t testing.TB) sandbox.Provider {
			state := filepath.Join(t.TempDir(), "state")
			must(t, os.WriteFile(state, nil, 0o600))
			return local.New(local.Options{State: state, World: r.world})
		},
		Leaks: r.leaks,
		Without: map[string]string{
			"an engine that hangs times out": "only Create and Open ask a program, see TestHangingBwrap; the other calls read our own files",
		},
	}
}

// kill ends the instance of the sandbox name as the kernel's OOM killer might.
func (r *rig) kill(t testing.TB, p sandbox.Provider, name string) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	info, err := p.Inspect(ctx, name)
	must(t, err)
	id, err := launch.Of(info.PID)
	must(t, err)
	must(t, id.Kill(ctx))
}

func (r *rig) reopenBy(t testing.TB, p *local.Provider, name string) {
	t.Helper()
	r.mu.Lock()
	s := r.specs[name]
	r.mu.Unlock()
	sb, err := p.Open(context.Background(), s)
	must(t, err)
	t.Cleanup(func() { sb.Close() })
}

// leaks holds that no process, mount or file of the rig's sandboxes is left.
func (r *rig) leaks(t testing.TB) {
	t.Helper()
	left, err := os.ReadDir(filepath.Join(r.state.Path(), "local", "sandboxes"))
	must(t, err)
	if len(left) > 0 {
		t.Errorf("definitions are left: %v", left)
	}
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	must(t, err)
	if bytes.Contains(mounts, []byte(r.state.Path())) {
		t.Errorf("mounts are left:\n%s", mounts)
	}
	testenv.Success(t, func() error {
		if of := r.processes(t); len(of) > 0 {
			return fmt.Errorf("processes are left: %q", of)
		}
		return nil
	})
}

// processes returns the command lines of bubblewrap and guests below this test.
func (r *rig) processes(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir("/proc")
	must(t, err)
	parents, lines := map[int]int{}, map[int]string{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		stat, err := os.ReadFile("/proc/" + e.Name() + "/stat")
		if err != nil {
			continue
		}
		fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
		line, _ := os.ReadFile("/proc/" + e.Name() + "/cmdline")
		if fields[0] != "Z" {
			lines[pid] = strings.ReplaceAll(string(line), "\x00", " ")
		}
	}
	var found []string
	for pid, line := range lines {
		if parents[pid] == os.Getpid() && (strings.Contains(line, "bwrap") || strings.Contains(line, "sandbox-guest")) {
			found = append(found, line)
		}
	}
	return found
}
