package workspace

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

const testQuota = 16 << 20

// needQuota is for tests of quotas, which take loop devices.
func needQuota(t *testing.T) {
	t.Helper()
	needRoot(t)
	if err := quotaPossible(); err != nil {
		testenv.Lack(t, "quota", err)
	}
}

// quotaStore is a store whose mounts are undone after the test.
func quotaStore(t *testing.T) *Store {
	t.Helper()
	needQuota(t)
	s := open(t)
	t.Cleanup(func() {
		mounts, _ := filepath.Glob(filepath.Join(s.Root(), "*"))
		for _, m := range mounts {
			_ = unix.Unmount(m, unix.MNT_DETACH)
		}
	})
	return s
}

func ensureQuota(t *testing.T, s *Store, quota int64) string {
	t.Helper()
	p, err := s.Ensure(t.Context(), "sbx-a", someone(), quota)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// remove removes a workspace that is not in use. A process that starts a
// container has a copy of every mount for a moment and counts as a user as
// long; the store's error then says that the caller may try again.
func remove(t *testing.T, s *Store, path string) {
	t.Helper()
	testenv.Success(t, func() error {
		err := s.Remove(t.Context(), path)
		var e *sandbox.Error
		if err != nil && !(errors.As(err, &e) && e.Code == sandbox.CodeBusy && e.Retryable) {
			t.Fatal(err)
		}
		return err
	})
}

// capacity is the size of the file system at path in bytes.
func capacity(t *testing.T, path string) int64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		t.Fatal(err)
	}
	return int64(st.Blocks) * st.Bsize
}

// fill writes until there is no room and returns how much went in.
func fill(t *testing.T, path string) int64 {
	t.Helper()
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	block := make([]byte, 1<<20)
	for total := int64(0); total < 1<<30; {
		n, err := f.Write(block)
		total += int64(n)
		if errors.Is(err, unix.ENOSPC) {
			return total
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	t.Fatal("1 GiB went in: there is no bound")
	return 0
}

func TestQuota(t *testing.T) {
	s := quotaStore(t)
	p := ensureQuota(t, s, testQuota)
	o := someone()
	if st := stat(t, p); int(st.Uid) != o.UID || int(st.Gid) != o.GID || st.Mode&0o7777 != 0o700 {
		t.Errorf("uid %d gid %d mode %o", st.Uid, st.Gid, st.Mode&0o7777)
	}
	if entries, _ := os.ReadDir(p); len(entries) != 0 {
		t.Errorf("a new workspace holds %v", entries)
	}
	if c := capacity(t, p); c > testQuota || c < testQuota/2 {
		t.Errorf("capacity %d of %d", c, testQuota)
	}
	var fs unix.Statfs_t
	if err := unix.Statfs(p, &fs); err != nil || fs.Flags&unix.ST_NOSUID == 0 || fs.Flags&unix.ST_NODEV == 0 {
		t.Errorf("mount flags %x, %v; want nosuid and nodev", fs.Flags, err)
	}
	if OnSharedDisk(p) || !OnSharedDisk(t.TempDir()) {
		t.Error("a workspace with a quota is not told from a folder of the machine's disk")
	}
	write(t, filepath.Join(p, "keep"), "x")
	if n := fill(t, filepath.Join(p, "big")); n > testQuota {
		t.Errorf("%d bytes went into a quota of %d", n, testQuota)
	}

	t.Run("again", func(t *testing.T) {
		ensureQuota(t, s, testQuota)
		content(t, filepath.Join(p, "keep"), "x")
		if n := mounts(t, p); n != 1 {
			t.Errorf("%d mounts, want 1", n)
		}
	})
	t.Run("seeding a full workspace", func(t *testing.T) {
		agent := t.TempDir()
		write(t, filepath.Join(agent, "AGENTS.md"), strings.Repeat("x", 4<<20))
		r := seed(t, s, agent)
		if len(r.Skipped) != 1 || !strings.Contains(r.Skipped[0].Reason, "no room") {
			t.Errorf("%+v", r)
		}
	})
	t.Run("after a reboot", func(t *testing.T) {
		if err := unix.Unmount(p, 0); err != nil {
			t.Fatal(err)
		}
		if st := stat(t, p); st.Uid != 0 || st.Mode&0o7777 != 0 {
			t.Errorf("unmounted, the folder has uid %d and mode %o: the sandbox could write without bound", st.Uid, st.Mode&0o7777)
		}
		ensureQuota(t, s, testQuota)
		content(t, filepath.Join(p, "keep"), "x")
	})
	t.Run("grows", func(t *testing.T) {
		f, err := os.Open(filepath.Join(p, "keep"))
		if err != nil {
			t.Fatal(err)
		}
		// In use it grows where the kernel lets us, and is busy elsewhere.
		if _, err := s.Ensure(t.Context(), "sbx-a", o, 2*testQuota); err != nil {
			wantError(t, err, sandbox.CodeBusy, "in use")
		}
		f.Close()
		ensureQuota(t, s, 2*testQuota)
		if c := capacity(t, p); c <= testQuota {
			t.Errorf("capacity %d after growing to %d", c, 2*testQuota)
		}
		content(t, filepath.Join(p, "keep"), "x")
	})
	t.Run("does not shrink", func(t *testing.T) {
		_, err := s.Ensure(t.Context(), "sbx-a", o, testQuota)
		wantError(t, err, sandbox.CodeValidation, "cannot shrink")
	})
	t.Run("stays when the setting is gone", func(t *testing.T) {
		ensureQuota(t, s, 0)
		if capacity(t, p) > 2*testQuota {
			t.Error("the bound is gone")
		}
		content(t, filepath.Join(p, "keep"), "x")
	})
	t.Run("goes to another uid", func(t *testing.T) {
		if _, err := s.Ensure(t.Context(), "sbx-a", Owner{4321, 4321}, 0); err != nil {
			t.Fatal(err)
		}
		if st := stat(t, filepath.Join(p, "keep")); st.Uid != 4321 {
			t.Errorf("uid %d", st.Uid)
		}
	})
	t.Run("busy", func(t *testing.T) {
		f, err := os.Open(filepath.Join(p, "keep"))
		if err != nil {
			t.Fatal(err)
		}
		wantError(t, s.Remove(t.Context(), p), sandbox.CodeBusy, "in use")
		f.Close()
		content(t, filepath.Join(p, "keep"), "x")
	})
	t.Run("removed", func(t *testing.T) {
		image := s.imagePath("sbx-a")
		for range 2 {
			remove(t, s, p)
		}
		for _, gone := range []string{p, image} {
			if _, err := os.Lstat(gone); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %v", gone, err)
			}
		}
		if d := loopOf(image); d != "" {
			t.Errorf("%s is still attached", d)
		}
	})
}

// mounts counts the mounts at path.
func mounts(t *testing.T, path string) int {
	t.Helper()
	data, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	return strings.Count(string(data), " "+path+" ")
}

func TestQuotaBySeveral(t *testing.T) {
	s := quotaStore(t)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if _, err := s.Ensure(t.Context(), "sbx-a", someone(), testQuota); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := mounts(t, filepath.Join(s.Root(), "sbx-a")); n != 1 {
		t.Errorf("%d mounts, want 1", n)
	}
	remove(t, s, filepath.Join(s.Root(), "sbx-a"))
}

func TestQuotaRefuses(t *testing.T) {
	s := quotaStore(t)
	for _, q := range []int64{-1, 1, MinQuota - 1} {
		_, err := s.Ensure(t.Context(), "sbx-a", someone(), q)
		wantError(t, err, sandbox.CodeValidation, "too small")
	}
	write(t, filepath.Join(ensure(t, s, "sbx-a"), "file"), "x")
	_, err := s.Ensure(t.Context(), "sbx-a", someone(), testQuota)
	wantError(t, err, sandbox.CodeValidation, "holds files already")
	content(t, filepath.Join(s.Root(), "sbx-a", "file"), "x")

	// A file that is no image: an error, and nothing unbounded.
	write(t, s.imagePath("sbx-b"), "garbage")
	_, err = s.Ensure(t.Context(), "sbx-b", someone(), testQuota)
	wantError(t, err, sandbox.CodeUnavailable, "cannot be given a quota")
	if st := stat(t, filepath.Join(s.Root(), "sbx-b")); st.Uid != 0 || st.Mode&0o7777 != 0 {
		t.Errorf("uid %d mode %o: the sandbox could write without bound", st.Uid, st.Mode&0o7777)
	}
	_, err = s.Ensure(t.Context(), "sbx-b", someone(), 0)
	wantError(t, err, sandbox.CodeUnavailable, "cannot be given a quota")
}

func TestQuotaOutlivesAKilledMake(t *testing.T) {
	s := quotaStore(t)
	write(t, s.imagePath("sbx-a")+".new", "half an image")
	if c := capacity(t, ensureQuota(t, s, testQuota)); c > testQuota {
		t.Errorf("capacity %d", c)
	}
	remove(t, s, filepath.Join(s.Root(), "sbx-a"))
}

// TestQuotaCopiedByANamespace has another mount namespace keep a copy of the
// mount that it knows nothing of: it does not stop the removal.
func TestQuotaCopiedByANamespace(t *testing.T) {
	s := quotaStore(t)
	p := ensureQuota(t, s, testQuota)
	image := s.imagePath("sbx-a")
	cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c", "echo ready; exec cat >/dev/null")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		testenv.Lack(t, "quota", err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	if line, _ := bufio.NewReader(out).ReadString('\n'); line != "ready\n" {
		t.Fatalf("unshare said %q", line)
	}
	if err := s.Remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if left := loops(image); left != "" {
		t.Errorf("%s still has the image", left)
	}
}

// TestQuotaUsedByAContainer has another mount namespace keep the file system
// at a path of its own, as a running container does.
func TestQuotaUsedByAContainer(t *testing.T) {
	s := quotaStore(t)
	p := ensureQuota(t, s, testQuota)
	write(t, filepath.Join(p, "keep"), "x")
	inside := t.TempDir()
	cmd := exec.Command("unshare", "-m", "--propagation", "private", "sh", "-c",
		`mount --bind "$0" "$1" && umount "$0" && echo ready; cat >/dev/null; cat "$1/keep"`, p, inside)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		testenv.Lack(t, "quota", err)
	}
	t.Cleanup(func() { in.Close(); _ = cmd.Process.Kill(); _ = cmd.Wait() })
	r := bufio.NewReader(out)
	if line, _ := r.ReadString('\n'); line != "ready\n" {
		t.Fatalf("unshare said %q", line)
	}
	// Mounting the image a second time through another device would destroy
	// it: after a lost mount the same device is taken again.
	if err := unix.Unmount(p, 0); err != nil {
		t.Fatal(err)
	}
	ensureQuota(t, s, testQuota)
	content(t, filepath.Join(p, "keep"), "x")
	if n := strings.Count(loops(s.imagePath("sbx-a")), "loop"); n != 1 {
		t.Errorf("%d loop devices have the image", n)
	}
	if _, err := s.Ensure(t.Context(), "sbx-a", someone(), 2*testQuota); err != nil {
		wantError(t, err, sandbox.CodeBusy, "in use")
	}
	content(t, filepath.Join(p, "keep"), "x")
	wantError(t, s.Remove(t.Context(), p), sandbox.CodeBusy, "in use")
	in.Close()
	if line, _ := r.ReadString('\n'); line != "x" {
		t.Errorf("the other side reads %q", line)
	}
	_ = cmd.Wait()
	remove(t, s, p)
}

// loops names the devices that have the image.
func loops(image string) string {
	var names []string
	files, _ := filepath.Glob("/sys/block/loop*/loop/backing_file")
	for _, f := range files {
		if data, _ := os.ReadFile(f); string(data) == image+"\n" {
			names = append(names, filepath.Base(filepath.Dir(filepath.Dir(f))))
		}
	}
	return strings.Join(names, " ")
}

func TestQuotaHostileContent(t *testing.T) {
	s := quotaStore(t)
	p := ensureQuota(t, s, testQuota)
	outside := t.TempDir()
	write(t, filepath.Join(outside, "file"), "x")
	if err := errors.Join(os.Symlink(outside, filepath.Join(p, "lost+found")), unix.Unmount(p, 0)); err != nil {
		t.Fatal(err)
	}
	ensureQuota(t, s, testQuota) // takes the link away and follows it nowhere
	content(t, filepath.Join(outside, "file"), "x")
	remove(t, s, p)
	content(t, filepath.Join(outside, "file"), "x")
}

func TestUnescape(t *testing.T) {
	if got := unescape(`/a\040b\134c\011d\012`); got != "/a b\\c\td\n" {
		t.Errorf("%q", got)
	}
}

func TestRunReportsTheTool(t *testing.T) {
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		testenv.Lack(t, "quota", err)
	}
	if err := run(t.Context(), "mkfs.ext4", "/nonexistent/x"); err == nil || !strings.Contains(err.Error(), "mkfs.ext4: ") || !strings.Contains(err.Error(), "nonexistent") {
		t.Error(err)
	}
	if err := run(t.Context(), "no-such-tool"); err == nil || !strings.Contains(err.Error(), "not installed") {
		t.Error(err)
	}
}
