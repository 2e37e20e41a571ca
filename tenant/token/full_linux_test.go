package token

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestFullDisk checks that no secret is given out that is not kept, and that
// tokens are good and can be revoked where nothing can be written.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "mounting needs it")
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64k"); err != nil {
		testenv.Lack(t, "mount", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	s := open(t, filepath.Join(disk, "tokens"))
	secret, id := make1(t, s, acme())
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk did not fill up")
	}
	got, _, err := s.Create(acme())
	wantCode(t, err, sandbox.CodeUnavailable, "")
	if got != "" || !strings.Contains(err.Error(), "is full") {
		t.Errorf("a secret was given out: %v", err)
	}
	wantGood(t, s, secret)
	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	wantGood(t, s, secret)
	_, err = s.Revoke(id)
	wantCode(t, err, sandbox.CodeUnavailable, "")
	wantRefused(t, s, secret, unknown)
	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT, ""))
	if _, err = s.Revoke(id); err != nil {
		t.Error(err)
	}
	wantRefused(t, open(t, s.dir), secret, unknown)
}
