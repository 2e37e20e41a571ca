//go:build linux

package server

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/wire"
)

// TestShort holds what of the counters of both versions of cgroups is taken for
// a limit that a command has reached.
func TestShort(t *testing.T) {
	for version, files := range map[string][4]string{
		"1": {"memory/memory.oom_control", "memory/memory.limit_in_bytes", "pids/pids.events", "pids/pids.max"},
		"2": {"memory.events", "memory.max", "pids.events", "pids.max"},
	} {
		t.Run(version, func(t *testing.T) {
			root := t.TempDir()
			write := func(i int, text string) {
				path := filepath.Join(root, files[i])
				if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			write(0, "oom_kill_disable 0\noom 0\noom_kill 3\n")
			write(1, "2048\n")
			write(2, "max 5\n")
			write(3, "30\n")
			s := &Server{cgroup: openCgroup(root)}
			before := s.scarcity()
			check := func(e wire.Exit, want wire.LimitKind, bound uint64) {
				t.Helper()
				h := s.short(before, e, nil, "")
				if want == 0 && h != nil && h.Kind != wire.LimitDisk || want != 0 && (h == nil || h.Kind != want || h.Bound != bound) {
					t.Errorf("%+v: %+v, want %d", e, h, want)
				}
			}
			check(wire.Exit{Signal: 9}, 0, 0)
			check(wire.Exit{Code: 1}, 0, 0)
			write(2, "max 6\n")
			check(wire.Exit{Code: 1}, wire.LimitSandboxProcesses, 30)
			check(wire.Exit{}, 0, 0)
			write(0, "oom_kill_disable 0\noom 1\noom_kill 4\n")
			check(wire.Exit{Signal: 9}, wire.LimitSandboxMemory, 2048)
			check(wire.Exit{Code: 137}, wire.LimitSandboxMemory, 2048)
			check(wire.Exit{}, wire.LimitSandboxMemory, 2048) // a process of it was ended
			s.running.Store(2)
			check(wire.Exit{Code: 1}, 0, 0) // it may have been another command's
			check(wire.Exit{Code: 137}, wire.LimitSandboxMemory, 2048)
		})
	}
}
