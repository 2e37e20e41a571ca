package operation_test

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// spaceSandboxes runs a check that executes code inside the sandbox over each rig.
func spaceSandboxes(t *testing.T, check func(t *testing.T, r *spaceRig)) {
	t.Helper()
	t.Run("memory", func(t *testing.T) { check(t, inMemory(t)) })
	t.Run("docker", func(t *testing.T) { check(t, inDocker(t)) })
	t.Run("local", func(t *testing.T) { check(t, inLocal(t)) })
}

// TestWatchEnds fills a folder in every way that is seen by looking.
func TestWatchEnds(t *testing.T) {
	spaceSandboxes(t, func(t *testing.T, r *spaceRig) {
		for _, tt := range []struct{ name, line string }{
			{"one large file", `head -c 2000000 /dev/zero >"$1/f"`},
			{"many empty files", `cd "$1"; i=0; while [ $i -lt 1100 ]; do : >e$i; i=$((i+1)); done`},
			{"deep in folders", `cd "$1"; i=0; while [ $i -lt 20 ]; do mkdir d; cd d; head -c 100000 /dev/zero >f; i=$((i+1)); done`},
			{"in a folder that is closed", `cd "$1"; mkdir d; printf x >d/f; chmod 000 d`},
			{"in a folder that cannot be searched", `cd "$1"; mkdir d d/e; printf x >d/e/f; chmod 600 d`},
			{"the folder is a link now", `mkdir "$1.other"; mv "$1" "$1.moved"; ln -s "$1.other" "$1"`},
			{"the folder is a file now", `mv "$1" "$1.gone"; : >"$1"`},
		} {
			t.Run(tt.name, func(t *testing.T) {
				mine := *r
				mine.TB = t
				s := operation.NewSpaceExecutor(r.files, "/tmp")
				dir := mine.allot(s, 1<<20)
				ctx, stop := s.Watch(t.Context())
				defer stop()
				mine.sh(tt.line, dir)
				mine.ends(ctx, dir)
				mine.sh(`chmod 700 "$1/d" 2>/dev/null || :`, dir)
				mine.sh(`rm -rf "$1.other" "$1.moved" "$1.gone"`, dir)
				spaceMust(t, s.Release(t.Context()))
				if left := mine.sh("ls -A /tmp"); left != "" {
					t.Errorf("left: %q", left)
				}
			})
		}
	})
}

// TestWatchStopsWriter runs a command that would fill the disk, with the
// context of the watch.
func TestWatchStopsWriter(t *testing.T) {
	spaceSandboxes(t, func(t *testing.T, r *spaceRig) {
		s := operation.NewSpaceExecutor(r.files, "/tmp")
		dir := r.allot(s, 1<<20)
		ctx, stop := s.Watch(t.Context())
		defer stop()
		p, err := r.sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", `cd "$1"; i=0; while :; do head -c 65536 /dev/zero >f$i; i=$((i+1)); done`, "sh", dir}, Dir: "/tmp"})
		spaceMust(t, err)
		p.Wait() // returns only because it was killed
		r.ends(ctx, dir)
		spaceMust(t, s.Release(t.Context()))
		if left := r.sh("ls -A /tmp"); left != "" {
			t.Errorf("left: %q", left)
		}
	})
}

// TestWatchLeaves checks that operations within the bounds run on, and that a
// watch ends with its caller.
func TestWatchLeaves(t *testing.T) {
	r := inMemory(t)
	counted := &counting{Files: r.files}
	s := operation.NewSpaceExecutor(counted, "/tmp")
	first, stopFirst := s.Watch(t.Context())
	dir := r.allot(s, 1<<20) // while something runs
	second, stopSecond := s.Watch(t.Context())
	r.sh(`cd "$1"; mkdir d; ln -s / link; ln -s nowhere gone; head -c 500000 /dev/zero >d/f`, dir)
	counted.wait(t, 5)
	stopFirst()
	if !errors.Is(first.Err(), context.Canceled) || second.Err() != nil {
		t.Errorf("the first ended with %v, the second with %v", first.Err(), second.Err())
	}
	counted.wait(t, 3)
	if second.Err() != nil {
		t.Errorf("ended: %v", context.Cause(second))
	}
	stopSecond()
	stopSecond()
	third, stopThird := s.Watch(t.Context())
	defer stopThird()
	r.sh(`head -c 2000000 /dev/zero >"$1/f"`, dir)
	r.ends(third, dir)
	if cause := context.Cause(second); cause != context.Canceled {
		t.Errorf("one that had ended got the cause %v", cause)
	}
	if before := counted.n.Load(); before == 0 {
		t.Error("nobody looked")
	}
}

// TestWatchBlind checks that nothing runs for long while looking fails, and
// that a single failure ends nothing.
func TestWatchBlind(t *testing.T) {
	r := inMemory(t)
	counted := &counting{Files: r.files}
	s := operation.NewSpaceExecutor(counted, "/tmp")
	r.allot(s, 1<<20)
	ctx, stop := s.Watch(t.Context())
	defer stop()
	counted.fail.Store(1)
	counted.wait(t, 5)
	if ctx.Err() != nil {
		t.Fatalf("one look that failed ended it: %v", context.Cause(ctx))
	}
	begin := time.Now()
	counted.fail.Store(1 << 30)
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		t.Fatal("what runs is not ended")
	}
	if err := context.Cause(ctx); sandbox.CodeOf(err) != sandbox.CodeExecution {
		t.Errorf("the cause is %v", err)
	}
	if took := time.Since(begin); took < time.Second {
		t.Errorf("it was ended after %v", took)
	}
}

// TestSwapsAreNoEnd checks that a folder that is removed or exchanged while it
// is looked at is none that hides something.
func TestSwapsAreNoEnd(t *testing.T) {
	for name, err := range map[string]error{
		"gone": fsbridge.NewError("readdir", "d", syscall.ENOENT), "a file": fsbridge.NewError("readdir", "d", syscall.ENOTDIR), "a link": fsbridge.Link("readdir", "d"),
	} {
		r := inMemory(t)
		swapping := &counting{Files: r.files, below: err}
		s := operation.NewSpaceExecutor(swapping, "/tmp")
		dir := r.allot(s, 1<<20)
		r.sh(`mkdir -p "$1/d/e"; head -c 5000 /dev/zero >"$1/f"`, dir)
		if room, _, err := s.Room(t.Context(), dir+"/g"); err != nil || room >= 1<<20-9<<10 || room < 1<<20-20<<10 {
			t.Errorf("%s: room for %d, %v", name, room, err)
		}
	}
}

// counting are files whose listings are counted, and fail when asked to.
type counting struct {
	sandbox.Files
	n     atomic.Int64
	fail  atomic.Int64 // how many of the next fail
	below error        // of folders in folders
}

func (c *counting) ReadDir(ctx context.Context, path string) ([]fs.DirEntry, error) {
	c.n.Add(1)
	if c.below != nil && strings.HasSuffix(path, "/d") {
		return nil, c.below
	}
	if c.fail.Add(-1) >= 0 {
		return nil, fsbridge.NewError("readdir", path, syscall.EMFILE)
	}
	return c.Files.ReadDir(ctx, path)
}

// wait waits until n more listings were asked for.
func (c *counting) wait(t *testing.T, n int64) {
	t.Helper()
	want := c.n.Load() + n
	testenv.Until(t, "somebody looks", func() bool { return c.n.Load() >= want })
}
