package manager_test

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// maxWarmFileCalls bounds the system calls with a path, and those on locks, that one
// request for a sandbox which is there makes.
const maxWarmFileCalls = 10

// warmed makes a sandbox by m and repeats calls until nothing of them is new.
func warmed(t *testing.T, m *manager.Manager, calls map[string]func(context.Context) error) {
	t.Helper()
	for range 20 {
		for what, call := range calls {
			if err := call(t.Context()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
	}
}

// TestWarmFileCalls counts the system calls on files that warm requests make, with
// settings and with none.
func TestWarmFileCalls(t *testing.T) {
	strace, err := exec.LookPath("strace")
	if err != nil {
		testenv.Lack(t, "strace", err)
	}
	t.Run("settings", func(t *testing.T) { warmFileCalls(t, strace, func(*manager.Options) {}) })
	t.Run("none", func(t *testing.T) { warmFileCalls(t, strace, func(o *manager.Options) { o.Settings = nil }) })
}

func warmFileCalls(t *testing.T, strace string, change func(*manager.Options)) {
	r := newRig(t)
	var n atomic.Int64
	r.watched(&n)
	watched := r.change
	r.change = func(o *manager.Options) {
		watched(o)
		change(o)
	}
	m := r.manager("")
	mustRun(t, m, "warm", "head -c 4096 /dev/zero > /workspace/f")
	calls := warmCalls(m)
	warmed(t, m, calls)
	resume := r.clock.stop() // or the last use is written once a second
	defer resume()
	for what, call := range calls {
		const times = 10
		// The least of several short turns: what another program mounts has the
		// manager look again, and other tests mount all the time.
		least := -1
		for turn := 0; turn < 100 && (least < 0 || least > times*maxWarmFileCalls); turn++ {
			if err := call(t.Context()); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
			got := traced(t, strace, func() {
				for range times {
					if err := call(t.Context()); err != nil {
						t.Errorf("%s: %v", what, err)
					}
				}
			})
			if least < 0 || got < least {
				least = got
			}
		}
		t.Logf("%s: %d calls in %d requests", what, least, times)
		if least > times*maxWarmFileCalls {
			t.Errorf("%s makes %d calls in %d requests, more than %d each", what, least, times, maxWarmFileCalls)
		}
	}
}

// traced returns how many calls on files this process makes while do runs.
func traced(t *testing.T, strace string, do func()) int {
	t.Helper()
	out := filepath.Join(t.TempDir(), "trace")
	c := exec.Command(strace, "-f", "-q", "-o", out, "-e", "trace=%file,flock,fsync,fdatasync,getdents64", "-p", strconv.Itoa(os.Getpid()))
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	marker := filepath.Join(t.TempDir(), "marker")
	text := func() string {
		os.Lstat(marker)
		b, _ := os.ReadFile(out)
		return string(b)
	}
	testenv.Until(t, "strace traces this process", func() bool { return strings.Contains(text(), marker) })
	os.Lstat(marker + "-begin")
	do()
	os.Lstat(marker + "-end")
	c.Process.Signal(os.Interrupt)
	c.Wait()
	b, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	_, rest, ok := strings.Cut(string(b), marker+"-begin")
	between, _, ok2 := strings.Cut(rest, marker+"-end")
	if !ok || !ok2 {
		t.Fatal("strace has not traced to the end")
	}
	return len(regexp.MustCompile(`(?m)^\d+ +\w+\(`).FindAllString(between, -1)) - 1 // the last is the marker
}

// TestWarmLooksAgain warms a session, changes something on the host that its sandbox
// follows from, and holds that the next request meets what a new program would: a
// refusal, or the file as it must be; and that requests pass again when the change
// is undone.
func TestWarmLooksAgain(t *testing.T) {
	r := newRig(t)
	var n atomic.Int64
	r.watched(&n)
	bound := filepath.Join(tempDir(t, 0o755), "a", "bound")
	above := filepath.Dir(bound)
	must(t, os.MkdirAll(bound, 0o755))
	m := r.manager(`{"agents":{"defaults":{"sandbox":{"docker":{"binds":["` + bound + `:/bound:ro"]}}}}}`)
	mustRun(t, m, "warm", "head -c 4096 /dev/zero > /workspace/f")
	calls := warmCalls(m)
	delete(calls, "name")
	for _, tt := range []struct {
		name   string
		change func(t *testing.T)
		code   sandbox.Code // of the next request; empty where it succeeds
		check  func(t *testing.T)
		undo   func(t *testing.T)
	}{
		{name: "the user's files are changed in place",
			change: func(t *testing.T) {
				for _, path := range userFiles(t, r) {
					must(t, os.WriteFile(path, []byte("root:x:0:0::/:/bin/sh\n"), 0o644))
				}
			},
			check: func(t *testing.T) {
				for _, path := range userFiles(t, r) {
					if text, err := os.ReadFile(path); err != nil || !strings.Contains(string(text), "sandbox:") {
						t.Errorf("%s is %q, %v", path, text, err)
					}
				}
			},
		},
		{name: "the user's files are removed",
			change: func(t *testing.T) {
				for _, path := range userFiles(t, r) {
					must(t, os.Remove(path))
				}
			},
			check: func(t *testing.T) {
				if len(userFiles(t, r)) == 0 {
					t.Error("they are not made again")
				}
			},
		},
		{name: "anyone may write above the state folder", code: sandbox.CodePermissionDeny,
			change: func(t *testing.T) { must(t, os.Chmod(filepath.Dir(r.state.Path()), 0o777)) },
			undo:   func(t *testing.T) { must(t, os.Chmod(filepath.Dir(r.state.Path()), 0o755)) },
		},
		{name: "a bound folder becomes a link to the state folder", code: sandbox.CodeCapabilityBlocked,
			change: func(t *testing.T) {
				must(t, os.Rename(bound, bound+".old"))
				must(t, os.Symlink(r.state.Path(), bound))
			},
			undo: func(t *testing.T) {
				must(t, os.Remove(bound))
				must(t, os.Rename(bound+".old", bound))
			},
		},
		{name: "a folder above it becomes a link", code: sandbox.CodeCapabilityBlocked,
			change: func(t *testing.T) {
				must(t, os.Rename(above, above+".old"))
				must(t, os.Mkdir(above+".new", 0o755))
				must(t, os.Symlink(r.state.Path(), filepath.Join(above+".new", filepath.Base(bound))))
				must(t, os.Symlink(above+".new", above))
			},
			undo: func(t *testing.T) {
				must(t, os.Remove(above))
				must(t, os.Rename(above+".old", above))
			},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			warmed(t, m, calls)
			tt.change(t)
			if tt.undo != nil {
				defer tt.undo(t)
			}
			for _, what := range []string{"stat", "exec", "read"} {
				if err := calls[what](t.Context()); sandbox.CodeOf(err) != tt.code {
					t.Errorf("%s: %v, want code %q", what, err, tt.code)
				}
			}
			if tt.check != nil {
				tt.check(t)
			}
		})
	}
	warmed(t, m, calls)
}

// userFiles are the user databases of the rig's sandboxes.
func userFiles(t *testing.T, r *rig) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(r.state.Path(), "identity", "*-*", "passwd"))
	must(t, err)
	return files
}
