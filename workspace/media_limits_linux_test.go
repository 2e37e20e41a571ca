package workspace

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// memory mounts a file system in memory of so many bytes.
func memory(t *testing.T, bytes int) string {
	t.Helper()
	testenv.Require(t, "root")
	dir, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	if err := unix.Mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
		testenv.Lack(t, "root", err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return dir
}

// TestSameNameManyTimes stages one name 2,000 times. How often a name is tried does
// not depend on how many there are; trying one number after the other it would be
// two million tries, and fifty million for the 10,000 of "make test-all".
func TestSameNameManyTimes(t *testing.T) {
	many := testenv.Rounds(2_000, 2_000, 10_000)
	base, err := filepath.EvalSymlinks(t.TempDir())
	must(t, err)
	r := rigIn(t, base, memory(t, 256<<20), func(o *Options) { o.MaxFiles = many })
	ref := r.put(t, "photo.jpg", "x")
	refs := make([]string, many)
	for i := range refs {
		refs[i] = ref
	}
	got, err := r.stage(t, refs...)
	must(t, err)
	seen := map[string]bool{}
	for _, s := range got {
		if !strings.HasPrefix(s.Path, InboundDir+"/photo") || !strings.HasSuffix(s.Path, ".jpg") {
			t.Fatalf("named %q", s.Path)
		}
		seen[s.Path] = true
	}
	if names := r.inbound(t); len(seen) != many || len(names) != many {
		t.Errorf("%d names were told and %d are there", len(seen), len(names))
	}
}

// TestFullDisk fills a workspace that is a file system of its own, as one with a
// quota is, and the disk that a workspace shares with others.
func TestFullDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		below string // the disk
		code  sandbox.Code
	}{"quota": {"", sandbox.CodeBudgetExceeded}, "machine": {"work", sandbox.CodeUnavailable}} {
		t.Run(name, func(t *testing.T) {
			base, err := filepath.EvalSymlinks(t.TempDir())
			must(t, err)
			r := rigIn(t, base, filepath.Join(memory(t, 1<<20), tt.below))
			small := r.put(t, "small", "x")
			_, err = r.stage(t, small, r.put(t, "large", strings.Repeat("x", 2<<20)))
			wantCode(t, "full", err, tt.code)
			if names := r.inbound(t); len(names) != 0 {
				t.Errorf("left behind: %q", names)
			}
			if _, err := r.stage(t, small); err != nil {
				t.Errorf("there is room again: %v", err)
			}
		})
	}
}

// asProgram, set in the environment, makes TestKilled the program that is
// killed: it stages a file that never ends.
const asProgram = "MEDIA_TEST_WORKSPACE"

func TestKilled(t *testing.T) {
	if work := os.Getenv(asProgram); work != "" {
		stageForever(work)
		return
	}
	r := newRig(t)
	cmd := exec.Command(os.Args[0], "-test.run=^TestKilled$")
	cmd.Env = append(os.Environ(), asProgram+"="+r.work)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "copying\n" {
		t.Errorf("the program said %q, %v", line, err)
	}
	must(t, cmd.Process.Kill())
	_ = cmd.Wait() // that it was killed

	names := r.inbound(t)
	if len(names) != 1 || !strings.HasPrefix(names[0], ".sandbox-media-") {
		t.Fatalf("left behind: %q", names)
	}
	theirs := []string{".sandbox-media-", ".sandbox-media-x", "x", names[0] + "x"}
	for _, name := range theirs {
		must(t, os.WriteFile(filepath.Join(r.work, "media/inbound", name), nil, 0o644))
	}
	now := time.Now()
	if n, err := r.stager.Sweep(t.Context(), now); n != 0 || err != nil {
		t.Errorf("what may still be written was removed: %d, %v", n, err)
	}
	if n, err := r.stager.Sweep(t.Context(), now.Add(time.Hour)); n != 1 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	if names := r.inbound(t); len(names) != len(theirs) {
		t.Errorf("left after the sweep: %q", names)
	}
}

func stageForever(work string) {
	s, err := New(Options{Workspace: work, Owner: owner()})
	if err == nil {
		src := source(func(context.Context, string) (io.ReadCloser, Info, error) {
			return &telling{}, Info{Name: "x", Size: 1 << 20}, nil
		})
		_, err = s.Stage(context.Background(), src, []string{"x"})
	}
	fmt.Println(err)
}

// telling says after its first bytes that it was read, and never ends.
type telling struct{ reads int }

func (r *telling) Read(p []byte) (int, error) {
	r.reads++
	if r.reads == 1 {
		return copy(p, "begin"), nil
	}
	fmt.Println("copying")
	select {}
}

func (r *telling) Close() error { return nil }

func TestSweepOfNothing(t *testing.T) {
	r := newRig(t)
	if n, err := r.stager.Sweep(t.Context(), time.Now()); n != 0 || err != nil {
		t.Errorf("Sweep = %d, %v", n, err)
	}
	must(t, os.Symlink("/tmp", filepath.Join(r.work, "media")))
	_, err := r.stager.Sweep(t.Context(), time.Now())
	wantCode(t, "through a link", err, sandbox.CodeCapabilityBlocked)
}
