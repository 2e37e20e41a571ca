package workspace

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// mappedRig is a folder of root, mounted for another user.
func mappedRig(t *testing.T) (place, folder string, o Owner) {
	t.Helper()
	testenv.Require(t, "root")
	dir, err := os.MkdirTemp("", "sandbox-mapped-") // which others may enter
	if err != nil {
		t.Fatal(err)
	}
	place, folder, o = filepath.Join(dir, "mapped/sbx-a"), filepath.Join(dir, "folder"), Owner{UID: 0x70001234, GID: 0x70001234}
	t.Cleanup(func() {
		if err := errors.Join(Unmap(place), os.RemoveAll(dir)); err != nil {
			t.Error(err)
		}
	})
	if err := errors.Join(os.Chmod(dir, 0o755), os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "ours"), []byte("root\n"), 0o600),
		os.WriteFile(filepath.Join(folder, "other"), nil, 0o600), os.Chown(filepath.Join(folder, "other"), 1234, 1234)); err != nil {
		t.Fatal(err)
	}
	if err := CanMap(folder, o); err != nil {
		testenv.Lack(t, "idmap", err)
	}
	if err := Map(place, folder, o); err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(filepath.Dir(place), 0o755); err != nil { // no other user passes the state folder; here one has to
		t.Fatal(err)
	}
	return place, folder, o
}

// as runs a line of sh as o in dir.
func as(o Owner, dir, line string) (string, error) {
	cmd := exec.Command("/bin/sh", "-c", line)
	cmd.Dir = dir
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uint32(o.UID), Gid: uint32(o.GID)}}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func ownerAt(t *testing.T, path string) Owner {
	t.Helper()
	fi, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	uid, gid := ownerOf(fi)
	return Owner{uid, gid}
}

func TestMap(t *testing.T) {
	place, folder, o := mappedRig(t)
	if got := ownerAt(t, filepath.Join(place, "ours")); got != o {
		t.Errorf("root's file is %v's at the place, want %v", got, o)
	}
	if got := ownerAt(t, filepath.Join(place, "other")); got != (Owner{1234, 1234}) {
		t.Errorf("another user's file is %v's at the place", got)
	}
	out, err := as(o, place, "cat ours; echo changed >>ours; mkdir -p new/deep; echo x >new/deep/file; mv ours renamed; cat other")
	if !strings.HasPrefix(out, "root\n") || err == nil || !strings.Contains(out, "other: Permission denied") {
		t.Errorf("%q, %v", out, err)
	}
	for _, name := range []string{"renamed", "new", "new/deep/file"} {
		if got := ownerAt(t, filepath.Join(folder, name)); got != (Owner{}) {
			t.Errorf("%s is %v's in the folder, want root's", name, got)
		}
	}
	if b, err := os.ReadFile(filepath.Join(folder, "renamed")); string(b) != "root\nchanged\n" {
		t.Errorf("%q, %v", b, err)
	}
	if out, err := as(Owner{4321, 4321}, place, "echo x >stranger"); err == nil {
		t.Errorf("a third user wrote to the folder: %q", out)
	}
}

// TestMapGivesNoPrivileges tries to run a program as root through the mount.
func TestMapGivesNoPrivileges(t *testing.T) {
	place, folder, o := mappedRig(t)
	id, err := os.ReadFile("/usr/bin/id")
	if err == nil {
		err = errors.Join(os.WriteFile(filepath.Join(folder, "id"), id, 0o755), os.Chmod(filepath.Join(folder, "id"), os.ModeSetuid|0o755), unix.Mknod(filepath.Join(folder, "null"), unix.S_IFCHR|0o666, int(unix.Mkdev(1, 3))))
	}
	if err != nil {
		t.Fatal(err)
	}
	if out, err := as(o, place, "./id -u"); err != nil || strings.TrimSpace(out) == "0" {
		t.Errorf("a set-user-ID program of root ran as %q, %v", out, err)
	}
	if out, err := as(o, place, ": <null"); err == nil {
		t.Errorf("a device was opened: %q", out)
	}
}

func TestMapAgain(t *testing.T) {
	place, folder, o := mappedRig(t)
	number := func() uint64 {
		var st unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, place, 0, unix.STATX_MNT_ID, &st); err != nil {
			t.Fatal(err)
		}
		return st.Mnt_id
	}
	first := number()
	if err := Map(place, folder, o); err != nil || number() != first {
		t.Errorf("the mount was made anew: %v", err)
	}
	// Another folder takes the place of the first one, on the host.
	if err := errors.Join(os.Rename(folder, folder+".old"), os.Mkdir(folder, 0o755), os.WriteFile(filepath.Join(folder, "second"), nil, 0o644)); err != nil {
		t.Fatal(err)
	}
	if err := Map(place, folder, o); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(place, "second")); err != nil {
		t.Error(err)
	}
	if err := Map(place, folder, Owner{UID: 5, GID: 5}); err != nil || ownerAt(t, place) != (Owner{5, 5}) {
		t.Errorf("the mount is still the first user's: %v", err)
	}
}

// TestUnmapRemovesNoFile holds that files below a place survive whatever happens.
func TestUnmapRemovesNoFile(t *testing.T) {
	place, folder, _ := mappedRig(t)
	if err := errors.Join(Unmap(place), Unmap(place)); err != nil {
		t.Errorf("unmap twice: %v", err)
	}
	if _, err := os.Stat(filepath.Join(folder, "ours")); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.Mkdir(place, 0o700), os.WriteFile(filepath.Join(place, "kept"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := Unmap(place); err == nil {
		t.Error("a place with files in it was removed")
	}
	if err := os.Remove(filepath.Join(place, "kept")); err != nil {
		t.Error(err)
	}
}

func TestMapRefuses(t *testing.T) {
	place, folder, o := mappedRig(t)
	link := folder + ".link"
	if err := os.Symlink(folder, link); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"a link":    Map(place+"-2", link, o),
		"a file":    Map(place+"-2", filepath.Join(folder, "ours"), o),
		"root":      Map(place+"-2", folder, Owner{}),
		"no folder": Map(place+"-2", folder+".none", o),
	} {
		if err == nil {
			t.Errorf("%s was mounted", name)
		}
	}
	if _, err := os.Lstat(place + "-2"); err == nil {
		t.Error("a place is left of mounts that were refused")
	}
}
