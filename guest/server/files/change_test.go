//go:build linux

package files

import (
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

func noPause() error { return nil }

// chain makes folders in one another, deeper than a path can be long, and a
// file at the bottom.
func chain(t testing.TB, dir string, depth int) {
	t.Helper()
	fd, err := unix.Open(dir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	must(t, err)
	for range depth {
		must(t, unix.Mkdirat(fd, "folder", 0o755))
		next, err := openat(fd, "folder", unix.O_PATH|unix.O_DIRECTORY)
		must(t, err)
		unix.Close(fd)
		fd = next
	}
	bottom, err := unix.Openat(fd, "file", unix.O_CREAT|unix.O_WRONLY|unix.O_CLOEXEC, 0o644)
	must(t, err)
	unix.Close(bottom)
	unix.Close(fd)
}

func TestRemoveAllDeep(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		// Beyond what is kept open, a path's length, and what is remembered.
		for _, depth := range []int{1, openLevels - 1, openLevels, openLevels + 1, 1000, maxLevels + openLevels} {
			must(t, os.Mkdir(filepath.Join(dir, "top"), 0o755))
			chain(t, filepath.Join(dir, "top"), depth)
			must(t, r.RemoveAll("top", noPause))
			if _, err := os.Lstat(filepath.Join(dir, "top")); !os.IsNotExist(err) {
				t.Fatalf("depth %d: %v", depth, err)
			}
		}
	})
}

func TestRemoveAllWide(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		for i := range 300 {
			sub := filepath.Join(dir, "top", "a"+strconv.Itoa(i), "b")
			must(t, os.MkdirAll(sub, 0o755))
			for j := range 20 {
				must(t, os.WriteFile(filepath.Join(sub, strconv.Itoa(j)), nil, 0o644))
			}
			link(t, "../../..", filepath.Join(sub, "up"))
			link(t, filepath.Dir(dir)+"/outside", filepath.Join(sub, "out"))
		}
		pauses := 0
		must(t, r.RemoveAll("top", func() error { pauses++; return nil }))
		if pauses < 300*20/pauseEvery {
			t.Errorf("%d pauses", pauses)
		}
		if got := list(t, dir); got != "" {
			t.Errorf("left: %s", got)
		}
		if _, err := os.Stat(filepath.Dir(dir) + "/outside/secret"); err != nil {
			t.Error(err)
		}
	})
}

func list(t testing.TB, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return strings.Join(names, " ")
}

func TestRemoveAllIsCalledOff(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		must(t, os.MkdirAll(filepath.Join(dir, "top", "a"), 0o755))
		for i := range 5 * pauseEvery {
			must(t, os.WriteFile(filepath.Join(dir, "top", "a", strconv.Itoa(i)), nil, 0o644))
		}
		enough := errors.New("enough")
		calls := 0
		err := r.RemoveAll("top", func() error {
			if calls++; calls > 3 {
				return enough
			}
			return nil
		})
		if err != enough || calls != 4 {
			t.Errorf("%v after %d pauses", err, calls)
		}
		if got := list(t, dir); got != "top" {
			t.Errorf("left: %q", got)
		}
	})
}

// TestRemoveAllMovedBranch moves the branch that is being removed out of the
// tree, again and again. What lies beside it must stay.
func TestRemoveAllMovedBranch(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		base := filepath.Dir(dir)
		for range 20 {
			must(t, os.Mkdir(filepath.Join(dir, "top"), 0o755))
			chain(t, filepath.Join(dir, "top"), 3*openLevels)
			must(t, os.Mkdir(base+"/beside", 0o755))
			must(t, os.WriteFile(base+"/beside/keep", nil, 0o644))
			var wg sync.WaitGroup
			stop := make(chan struct{})
			wg.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						_ = os.Rename(dir+"/top/folder/folder", base+"/beside/moved")
						_ = os.Rename(base+"/beside/moved", dir+"/top/folder/folder")
					}
				}
			})
			// How it ends depends on where the branch is.
			_ = r.RemoveAll("top", noPause)
			close(stop)
			wg.Wait()
			if _, err := os.Stat(base + "/beside/keep"); err != nil {
				t.Fatal(err)
			}
			must(t, os.RemoveAll(base+"/beside"))
			must(t, os.RemoveAll(dir+"/top"))
		}
	})
}

// TestRemoveAllKeepsMounts holds that another mount in a tree is not emptied.
func TestRemoveAllKeepsMounts(t *testing.T) {
	testenv.Require(t, "root")
	both(t, func(t *testing.T, r *Root, dir string) {
		inner := filepath.Join(dir, "top", "inner")
		must(t, os.MkdirAll(inner, 0o755))
		must(t, unix.Mount("tmpfs", inner, "tmpfs", 0, "size=1m"))
		t.Cleanup(func() { must(t, unix.Unmount(inner, unix.MNT_DETACH)) })
		must(t, os.MkdirAll(inner+"/keep/this", 0o755))
		for _, rel := range []string{"top", "top/inner"} {
			if err := r.RemoveAll(rel, noPause); err != unix.EBUSY {
				t.Errorf("%s: %v", rel, err)
			}
		}
		if _, err := os.Stat(inner + "/keep/this"); err != nil {
			t.Error(err)
		}
	})
}

// TestStage holds what is to be seen of new content on its way: with files
// that have no name, and where there are none.
func TestStage(t *testing.T) {
	for name, named := range map[string]bool{"without a name": false, "named": true} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			r := open(t, Probe(), dir)
			r.named.Store(named)
			must(t, os.WriteFile(dir+"/f", []byte("old"), 0o604))
			s, err := r.Stage("f", 0o640, false)
			must(t, err)
			if !named && r.named.Load() {
				testenv.Lack(t, "O_TMPFILE", "the file system does not know it")
			}
			_, err = s.Write([]byte("new"))
			must(t, err)
			if got := list(t, dir); (got == "f") == named || named && !strings.HasPrefix(got, ".sbx-") {
				t.Errorf("while it is written: %s", got)
			}
			if got, err := read(r, "f"); got != "old" || err != nil {
				t.Errorf("while it is written: %q, %v", got, err)
			}
			must(t, s.Commit(noPause))
			s.Close()
			if got, err := read(r, "f"); got != "new" || err != nil {
				t.Errorf("then: %q, %v", got, err)
			}
			if m, err := r.Stat("f"); err != nil || m.Mode&0o777 != 0o604 {
				t.Errorf("then: %o, %v", m.Mode, err)
			}
			stageEnds(t, r, dir)
		})
	}
}

func stageEnds(t *testing.T, r *Root, dir string) {
	off := errors.New("called off")
	for _, exclusive := range []bool{false, true} {
		rel := map[bool]string{false: "f", true: "g"}[exclusive]
		s, err := r.Stage(rel, 0o640, exclusive)
		must(t, err)
		if err := s.Commit(func() error { return off }); err != off {
			t.Errorf("called off: %v", err)
		}
		s.Close()
	}
	if got := list(t, dir); got != "f" {
		t.Errorf("left: %s", got)
	}
	must(t, put(r, "g", "x", true))
	if err := put(r, "g", "y", true); err != unix.EEXIST {
		t.Errorf("made twice: %v", err)
	}
	late, err := r.Stage("h", 0o640, true) // another writer is faster
	must(t, err)
	must(t, os.WriteFile(dir+"/h", []byte("other"), 0o644))
	if err := late.Commit(noPause); err != unix.EEXIST {
		t.Errorf("overtaken: %v", err)
	}
	late.Close()
	if got, err := read(r, "h"); got != "other" || err != nil {
		t.Errorf("overtaken: %q, %v", got, err)
	}
	if got := list(t, dir); got != "f g h" {
		t.Errorf("left: %s", got)
	}
}

// TestStageSwapped puts a link in the place of the named file.
func TestStageSwapped(t *testing.T) {
	dir := t.TempDir()
	r := open(t, Probe(), dir)
	r.named.Store(true)
	s, err := r.Stage("f", 0o640, false)
	must(t, err)
	must(t, os.Remove(dir+"/"+s.temp))
	link(t, "/etc/passwd", dir+"/"+s.temp)
	if err := s.Commit(noPause); !errors.Is(err, ErrSwapped) {
		t.Errorf("got %v", err)
	}
	s.Close()
	if _, err := os.Lstat(dir + "/f"); !os.IsNotExist(err) {
		t.Errorf("the link has the name now: %v", err)
	}
}

// TestMkdirMode holds that the umask takes nothing.
func TestMkdirMode(t *testing.T) {
	both(t, func(t *testing.T, r *Root, dir string) {
		for _, perm := range []uint32{0o700, 0o755, 0o777, 0o070} {
			name := strconv.FormatUint(uint64(perm), 8)
			must(t, r.Mkdir(name, perm))
			if m, err := r.Lstat(name); err != nil || m.Mode != unix.S_IFDIR|perm {
				t.Errorf("%s: %o, %v", name, m.Mode, err)
			}
		}
	})
}
