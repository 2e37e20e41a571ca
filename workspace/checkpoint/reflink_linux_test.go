package checkpoint

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// xfs returns a file system that can share blocks.
func xfs(t *testing.T) string {
	t.Helper()
	testenv.Require(t, "root")
	image, dir := filepath.Join(t.TempDir(), "image"), t.TempDir()
	must(t, os.WriteFile(image, nil, 0o600))
	must(t, os.Truncate(image, 512<<20))
	for _, args := range [][]string{{"mkfs.xfs", "-q", "-m", "reflink=1", image}, {"mount", "-t", "xfs", "-o", "loop", image, dir}} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			testenv.Lack(t, "xfs", string(out)+err.Error())
		}
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	return dir
}

// TestReflink holds that files share blocks where the file system can.
func TestReflink(t *testing.T) {
	s := storeAt(t, xfs(t), Options{Means: Reflink})
	plain(t, s, ws, someFiles())
	dir := s.Path(ws)
	f, err := os.Create(filepath.Join(dir, "large"))
	must(t, err)
	block := make([]byte, 1<<20)
	for i := range block {
		block[i] = byte(i * 31)
	}
	for range 64 {
		_, err := f.Write(block)
		must(t, err)
	}
	must(t, f.Sync())
	must(t, f.Close())
	own(t, filepath.Join(dir, "large"), user())
	first := snapshot(t, dir)
	before := free(t, s.root)
	r := create(t, s, ws, CreateOptions{})
	must(t, s.Fork(t.Context(), r.ID, "sbx-b", otherUser()))
	if m, _, err := s.MeansOf(t.Context(), ws); err != nil || m != Reflink {
		t.Errorf("the means are %s, %v", m, err)
	}
	if took := before - free(t, s.root); took > 16<<20 {
		t.Errorf("a checkpoint and a fork take %d bytes", took)
	}
	write(t, dir, map[string]string{"a.txt": "changed"}, user())
	must(t, os.Remove(filepath.Join(dir, "large")))
	rollback(t, s, ws, r.ID)
	same(t, "rolled back", snapshot(t, dir), first)
	same(t, "the fork", withoutOwners(t, s.Path("sbx-b")), withoutOwners(t, dir))
}

func free(t *testing.T, dir string) int64 {
	t.Helper()
	must(t, exec.CommandContext(t.Context(), "sync", "-f", dir).Run())
	var st unix.Statfs_t
	must(t, unix.Statfs(dir, &st))
	return int64(st.Bfree) * st.Bsize
}
