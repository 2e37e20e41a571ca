package operation

import (
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// dockerRig returns a rig over a container, and the host's folder of its
// workspace.
func dockerRig(t *testing.T) (*rig, string) {
	t.Helper()
	w := dockertest.New(t)
	sb, s := w.Open("files")
	b, err := fsbridge.Open(t.Context(), sb, s.Mounts, s.Tmpfs)
	filesMust(t, err)
	return rigOver(t, sb, b), dockertest.Workspace(s)
}

// swap exchanges two names as fast as it can until stop is called, which
// returns the number of exchanges.
func swap(a, b string) (stop func() int) {
	end, ended := make(chan struct{}), make(chan int)
	go func() {
		for n := 0; ; {
			select {
			case <-end:
				ended <- n
				return
			default:
				if unix.Renameat2(unix.AT_FDCWD, a, unix.AT_FDCWD, b, unix.RENAME_EXCHANGE) == nil {
					n++
				}
			}
		}
	}()
	return func() int { close(end); return <-ended }
}

// TestDockerSwaps reads, writes and lists below a granted folder while a
// folder on the way is swapped for a link to what is not granted.
func TestDockerSwaps(t *testing.T) {
	r, workspace := dockerRig(t)
	r.sh(`mkdir -p granted/d secret; printf mine >granted/d/f; printf secret >secret/f; chmod 600 secret/f; ln -s ../secret granted/link`)
	before := r.sh(`cd secret; ls -la --time-style=full-iso . | tail -n +4; cat f`)
	ctx, c := r.call()
	stop := swap(filepath.Join(workspace, "granted/d"), filepath.Join(workspace, "granted/link"))
	const path = "/workspace/granted/d"
	done := map[grant.OpKind]int{}
	for i := range 2000 {
		op := []grant.Operation{
			reading(path+"/f", 0, 0), writing(path+"/f", "mine", true), writing(path+"/new", "mine", true), {Kind: grant.OpFsList, Path: path},
		}[i%4]
		out, err := r.x.Execute(ctx, c, grant.Vetted{Operation: op})
		if strings.Contains(string(out.Data), "secret") {
			t.Error("what is not granted was read")
		}
		if err == nil {
			done[op.Kind]++
		} else if code := sandbox.CodeOf(err); code != sandbox.CodeCapabilityBlocked && code != sandbox.CodeNotFound && code != sandbox.CodeValidation && code != sandbox.CodeExecution {
			t.Errorf("%s: %v", op.Kind, err)
		}
	}
	if n := stop(); n < 2000 {
		t.Errorf("the folder was swapped only %d times", n)
	}
	if after := r.sh(`cd secret; ls -la --time-style=full-iso . | tail -n +4; cat f`); after != before {
		t.Errorf("what is not granted was\n%s\nis now\n%s", before, after)
	}
	for _, kind := range []grant.OpKind{grant.OpFsRead, grant.OpFsWrite, grant.OpFsList} {
		if done[kind] == 0 {
			t.Errorf("no %s succeeded, so nothing was tried: %v", kind, done)
		}
	}
}

// TestDockerSpace writes into temporary space up to its bound.
func TestDockerSpace(t *testing.T) {
	r, _ := dockerRig(t)
	s := NewSpaceExecutor(r.files, "/tmp")
	r.space = s
	ctx, c := r.call()
	out, err := s.Execute(ctx, &Call{Guard: c.Guard}, grant.Vetted{Operation: grant.Operation{Kind: grant.OpTmpAlloc, Bytes: 100 << 10}})
	filesMust(t, err)
	wrote := 0
	for i := range 12 {
		_, err := r.x.Execute(ctx, c, grant.Vetted{Operation: writing(out.Path+"/f"+string(rune('a'+i)), strings.Repeat("x", 8<<10), false)})
		if err != nil {
			r.fails("beyond the bound", err, sandbox.CodeBudgetExceeded, "space")
			break
		}
		wrote++
	}
	if wrote != 11 { // each counts nine KiB
		t.Errorf("%d files of 8 KiB fit into 100 KiB", wrote)
	}
	_, err = r.x.Execute(ctx, c, grant.Vetted{Operation: writing("/tmp/sbx-0123456789abcdef/f", "x", false)})
	r.fails("the space of another call", err, sandbox.CodeCapabilityBlocked, "path")
	filesMust(t, s.Release(ctx))
	if left := r.sh("ls -A /tmp"); left != "" {
		t.Errorf("left: %q", left)
	}
}
