//go:build linux

package hostpath

import (
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func mount(p string) error { return unix.Mount("tmpfs", p, "tmpfs", 0, "size=64k") }

func unmount(p string) error { return unix.Unmount(p, unix.MNT_DETACH) }

func bind(from, to string) error { return unix.Mount(from, to, "", unix.MS_BIND, "") }

// mountable returns a folder in which the test can mount, with a subfolder
// "away" without a watch. The mounts are removed after the test.
func mountable(t *testing.T) string {
	t.Helper()
	dir := dirwatchPlace(t)
	must(t, os.Mkdir(dir+"/away", 0o755))
	if err := mount(dir + "/away"); err != nil {
		testenv.Lack(t, "mount", err)
	}
	must(t, unmount(dir+"/away"))
	t.Cleanup(func() {
		for _, p := range []string{dir + "/away", dir + "/sub/file", dir + "/sub/name", dir + "/sub", dir} {
			for unmount(p) == nil {
			}
		}
	})
	return dir
}

// TestMounts verifies that a mount counts only at a watched place: a container
// engine on the machine mounts for each command in its containers.
func TestMounts(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(dir string) error
		want dirwatchState
	}{
		"elsewhere":             {func(d string) error { return mount(d + "/away") }, Quiet},
		"elsewhere, and gone":   {func(d string) error { return errors.Join(mount(d+"/away"), unmount(d+"/away")) }, Quiet},
		"on a watched folder":   {func(d string) error { return mount(d + "/sub") }, Lost},
		"on a folder above":     {func(d string) error { return mount(d) }, Lost},
		"on a file in a folder": {func(d string) error { return bind("/etc/hosts", d+"/sub/file") }, Lost},
		"of the same folder":    {func(d string) error { return bind(d+"/sub", d+"/sub") }, Lost},
		"one after the other":   {func(d string) error { return errors.Join(mount(d+"/away"), mount(d+"/sub")) }, Lost},
		"on a folder, and gone": {func(d string) error { return errors.Join(mount(d+"/sub"), unmount(d+"/sub")) }, Quiet},
		"gone, and a file is new": {func(d string) error {
			return errors.Join(mount(d+"/sub"), unmount(d+"/sub"), os.WriteFile(d+"/sub/new", nil, 0o600))
		}, dirwatchStirs},
	} {
		t.Run(name, func(t *testing.T) {
			dir := mountable(t)
			w := settled(t, func(w *DirWatch) {
				_, err := w.Folder(dir + "/sub")
				must(t, err)
			})
			must(t, c.do(dir))
			if got := w.Now(); got != c.want {
				t.Fatalf("state %d, want %d", got, c.want)
			}
			if got := w.Now(); c.want != Lost && got != Quiet {
				t.Fatalf("told twice: %d", got)
			}
		})
	}
}

// TestMountOnName verifies that in a folder with single watched names a mount
// on one of them counts, even if the name was added later.
func TestMountOnName(t *testing.T) {
	dir := mountable(t)
	w := settled(t, func(w *DirWatch) {
		_, err := w.Path(dir + "/sub")
		must(t, err)
	})
	must(t, mount(dir+"/away"))
	if got := w.Now(); got != Quiet {
		t.Fatalf("state %d after a mount on another name", got)
	}
	w = settled(t, func(w *DirWatch) {
		_, err := w.Path(dir + "/sub")
		must(t, err)
		w.Now()
		if fresh, err := w.Path(dir + "/away"); err != nil || !fresh {
			t.Fatal(fresh, err)
		}
	})
	must(t, unmount(dir+"/away"))
	if got := w.Now(); got != Lost {
		t.Fatalf("state %d after the mount on that name is gone", got)
	}
}

// TestMountWhileWatchesAreMade verifies that folders count as unknown if they
// may have been watched under a mount.
func TestMountWhileWatchesAreMade(t *testing.T) {
	for name, do := range map[string]func(dir string) error{
		"that stays": func(d string) error { return mount(d + "/away") },
		"that goes":  func(d string) error { return errors.Join(mount(d+"/away"), unmount(d+"/away")) },
	} {
		t.Run(name, func(t *testing.T) {
			dir, w := mountable(t), open(t)
			must(t, do(dir))
			_, err := w.Folder(dir + "/sub")
			must(t, err)
			if got := w.Now(); got != Lost {
				t.Fatalf("state %d", got)
			}
		})
	}
}

// TestOtherMountInItsPlace verifies that the watch detects the end of a file
// system, whatever numbers the next one has.
func TestOtherMountInItsPlace(t *testing.T) {
	dir := mountable(t)
	must(t, mount(dir+"/sub"))
	w := settled(t, func(w *DirWatch) {
		_, err := w.Folder(dir + "/sub")
		must(t, err)
	})
	must(t, unmount(dir+"/sub"))
	must(t, mount(dir+"/sub"))
	if got := w.Now(); got != Lost {
		t.Fatalf("state %d", got)
	}
}
