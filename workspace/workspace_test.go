package workspace

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func open(t testing.TB) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "workspaces"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// someone is an owner that we can give files to.
func someone() Owner {
	if os.Geteuid() == 0 {
		return Owner{firstUID + 7, firstUID + 7}
	}
	return Owner{os.Geteuid(), os.Getegid()}
}

func needRoot(t testing.TB) {
	t.Helper()
	testenv.Require(t, "root")
}

func ensure(t testing.TB, s *Store, name string) string {
	t.Helper()
	p, err := s.Ensure(t.Context(), name, someone(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func write(t testing.TB, path, content string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(content), 0o644)); err != nil {
		t.Fatal(err)
	}
}

func stat(t testing.TB, path string) unix.Stat_t {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		t.Fatal(path, err)
	}
	return st
}

func wantError(t *testing.T, err error, code sandbox.Code, text string) {
	t.Helper()
	if sandbox.CodeOf(err) != code || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %s with %q", err, code, text)
	}
}

func TestEnsure(t *testing.T) {
	defer unix.Umask(unix.Umask(0))
	s, err := Open(filepath.Join(mkdir(t), "workspaces"))
	if err != nil {
		t.Fatal(err)
	}
	o := someone()
	for range 2 {
		p := ensure(t, s, "sbx-a")
		if st := stat(t, p); p != filepath.Join(s.Root(), "sbx-a") || int(st.Uid) != o.UID || int(st.Gid) != o.GID || st.Mode&0o7777 != 0o700 {
			t.Errorf("%s: uid %d gid %d mode %o", p, st.Uid, st.Gid, st.Mode)
		}
	}
	for _, name := range []string{"", "..", "../x", "a/b", ".meta", "A"} {
		_, err := s.Ensure(t.Context(), name, o, 0)
		wantError(t, err, sandbox.CodeValidation, "not a sandbox name")
	}
	for _, bad := range []Owner{{0, 1}, {1, 0}, {-1, 1}} {
		_, err := s.Ensure(t.Context(), "sbx-b", bad, 0)
		wantError(t, err, sandbox.CodeValidation, "never run as root")
	}
}

// mkdir is a private folder whatever the umask is.
func mkdir(t *testing.T) string {
	t.Helper()
	d, err := os.MkdirTemp("", "workspace")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d) })
	return d
}

func TestEnsureRefusesALink(t *testing.T) {
	s := open(t)
	if err := os.Symlink(t.TempDir(), filepath.Join(s.Root(), "sbx-a")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ensure(t.Context(), "sbx-a", someone(), 0); err == nil {
		t.Error("a link was taken for a workspace")
	}
}

func TestEnsureGivesTheWorkspaceToANewUID(t *testing.T) {
	needRoot(t)
	s := open(t)
	p := ensure(t, s, "sbx-a")
	outside := filepath.Join(t.TempDir(), "outside")
	write(t, outside, "x")
	write(t, filepath.Join(p, "a/b/c"), "x")
	if err := os.Symlink(outside, filepath.Join(p, "link")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ensure(t.Context(), "sbx-a", Owner{4321, 4322}, 0); err != nil {
		t.Fatal(err)
	}
	for _, rel := range []string{".", "a", "a/b", "a/b/c", "link"} {
		if st := stat(t, filepath.Join(p, rel)); st.Uid != 4321 || st.Gid != 4322 {
			t.Errorf("%s belongs to %d:%d", rel, st.Uid, st.Gid)
		}
	}
	if st := stat(t, outside); st.Uid == 4321 {
		t.Error("a link was followed")
	}
}

func TestOwners(t *testing.T) {
	scope := func(key string) sandbox.Owner {
		return sandbox.Owner{Instance: "i", Tenant: "t", Scope: sandbox.ScopeSession, ScopeKey: key}
	}
	t.Run("not root", func(t *testing.T) {
		w := &Owners{dir: t.TempDir(), euid: 1000, egid: 1001}
		if got, err := w.Claim("sbx-a", scope("a")); err != nil || got != (Owner{1000, 1001}) {
			t.Errorf("%v, %v", got, err)
		}
		w.egid = 0
		if got, err := w.Claim("sbx-a", scope("a")); err != nil || got != (Owner{1000, 1000}) {
			t.Errorf("group root: %v, %v", got, err)
		}
	})
	t.Run("stable and read-only lookup", func(t *testing.T) {
		w := &Owners{dir: t.TempDir()}
		before, err := w.Lookup("sbx-a", scope("a"))
		if err != nil {
			t.Fatal(err)
		}
		if left, _ := os.ReadDir(w.dir); len(left) != 0 {
			t.Errorf("Lookup claimed %v", left)
		}
		for range 2 {
			got, err := w.Claim("sbx-a", scope("a"))
			if err != nil || got != before || got.UID != got.GID || got.UID < firstUID || got.UID >= firstUID+uidCount {
				t.Errorf("%v, %v; want %v", got, err, before)
			}
		}
		if got, err := w.Lookup("sbx-a", scope("a")); err != nil || got != before {
			t.Errorf("afterwards %v, %v", got, err)
		}
	})
	t.Run("each part of the scope counts", func(t *testing.T) {
		seen := map[int]string{}
		for name, o := range map[string]sandbox.Owner{
			"base": scope("a"), "key": scope("b"),
			"tenant":   {Instance: "i", Tenant: "u", Scope: sandbox.ScopeSession, ScopeKey: "a"},
			"instance": {Instance: "j", Tenant: "t", Scope: sandbox.ScopeSession, ScopeKey: "a"},
			"scope":    {Instance: "i", Tenant: "t", Scope: sandbox.ScopeAgent, ScopeKey: "a"},
			"shifted":  {Instance: "it", Tenant: "", Scope: sandbox.ScopeSession, ScopeKey: "a"},
		} {
			slot := scopeSlot(o)
			if other := seen[slot]; other != "" {
				t.Errorf("%s and %s share a uid", name, other)
			}
			seen[slot] = name
		}
	})
	t.Run("collision", func(t *testing.T) {
		w := &Owners{dir: t.TempDir()}
		first, err := w.Claim("sbx-a", scope("a"))
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			got, err := w.Claim("sbx-b", scope("a")) // the same slot for another name
			if err != nil || got.UID != first.UID+1 {
				t.Errorf("%v, %v; want the next one", got, err)
			}
		}
		write(t, filepath.Join(w.dir, fmt.Sprint(first.UID+2)), "") // not a claim of ours
		if got, err := w.Claim("sbx-c", scope("a")); err != nil || got.UID != first.UID+3 {
			t.Errorf("%v, %v; want the one after the damaged claim", got, err)
		}
		if got, err := w.Claim("sbx-a", scope("a")); err != nil || got != first {
			t.Errorf("the first one moved: %v, %v", got, err)
		}
	})
	t.Run("full", func(t *testing.T) {
		w := &Owners{dir: t.TempDir()}
		for i := range maxProbes {
			if _, err := w.Claim(fmt.Sprint("sbx-", i), scope("a")); err != nil {
				t.Fatal(err)
			}
		}
		_, err := w.Claim("sbx-more", scope("a"))
		wantError(t, err, sandbox.CodeUnavailable, "all taken")
	})
	t.Run("many at once", func(t *testing.T) {
		w := &Owners{dir: t.TempDir()}
		var wg sync.WaitGroup
		var mu sync.Mutex
		got := map[string]map[Owner]bool{}
		for i := range 32 {
			wg.Go(func() {
				name := fmt.Sprint("sbx-", i%8)
				o, err := w.Claim(name, scope("a"))
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				defer mu.Unlock()
				if got[name] == nil {
					got[name] = map[Owner]bool{}
				}
				got[name][o] = true
			})
		}
		wg.Wait()
		all := map[Owner]bool{}
		for name, owners := range got {
			if len(owners) != 1 {
				t.Errorf("%s has %v", name, owners)
			}
			for o := range owners {
				all[o] = true
			}
		}
		if len(all) != 8 {
			t.Errorf("%d uids for 8 names", len(all))
		}
	})
	t.Run("missing folder", func(t *testing.T) {
		_, err := (&Owners{dir: "/nonexistent"}).Claim("sbx-a", scope("a"))
		wantError(t, err, sandbox.CodeUnavailable, "/nonexistent")
	})
}

func TestEnsureAgent(t *testing.T) {
	o := someone()
	dir := func() string { return filepath.Join(t.TempDir(), "agents", "main") }
	t.Run("made when missing", func(t *testing.T) {
		d := dir()
		for _, access := range []sandbox.Access{sandbox.AccessNone, sandbox.AccessRO} {
			got, owner, err := EnsureAllowedAgent(d, access, o, nil)
			if want, _ := filepath.EvalSymlinks(d); err != nil || got != want || owner != o {
				t.Errorf("%s: %s, %v, %v", access, got, owner, err)
			}
		}
	})
	t.Run("made for writing", func(t *testing.T) {
		d := dir()
		for range 2 {
			_, owner, err := EnsureAllowedAgent(d, sandbox.AccessRW, o, nil)
			if st := stat(t, d); err != nil || owner != o || int(st.Uid) != o.UID || int(st.Gid) != o.GID {
				t.Errorf("%v, %v, uid %d", owner, err, st.Uid)
			}
		}
	})
	t.Run("seen privately", func(t *testing.T) {
		d := t.TempDir()
		for _, owner := range []Owner{{0, 0}, {1234, 1235}, {1234, 0}} {
			if os.Geteuid() == 0 {
				if err := os.Chown(d, owner.UID, owner.GID); err != nil {
					t.Fatal(err)
				}
			}
			before := stat(t, d)
			want := owner
			switch {
			case owner.UID == 0 || os.Geteuid() != 0:
				want = o
			case owner.GID == 0:
				want.GID = owner.UID
			}
			_, got, err := EnsureAllowedAgent(d, sandbox.AccessPrivate, o, nil)
			if after := stat(t, d); err != nil || got != want || after.Uid != before.Uid || after.Ctim != before.Ctim {
				t.Errorf("of %v: %v, %v; want %v", owner, got, err, want)
			}
		}
	})
	t.Run("through a link", func(t *testing.T) {
		d := t.TempDir()
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(d, link); err != nil {
			t.Fatal(err)
		}
		got, _, err := EnsureAllowedAgent(link, sandbox.AccessRO, o, nil)
		if want, _ := filepath.EvalSymlinks(d); err != nil || got != want {
			t.Errorf("%s, %v; want %s", got, err, want)
		}
	})
	t.Run("a file", func(t *testing.T) {
		f := filepath.Join(t.TempDir(), "file")
		write(t, f, "")
		_, _, err := EnsureAllowedAgent(f, sandbox.AccessRO, o, nil)
		wantError(t, err, sandbox.CodeValidation, "not a folder")
	})
	t.Run("relative", func(t *testing.T) {
		_, _, err := EnsureAllowedAgent("agents", sandbox.AccessRO, o, nil)
		wantError(t, err, sandbox.CodeValidation, "not an absolute path")
	})
	t.Run("existing folder of root", func(t *testing.T) {
		needRoot(t)
		d := t.TempDir()
		if _, own, err := EnsureAllowedAgent(d, sandbox.AccessRW, o, nil); err != nil || own != o {
			t.Errorf("%v, %v; want %v, to whom the folder is mounted", own, err, o)
		}
		if st := stat(t, d); st.Uid != 0 {
			t.Error("it was taken away from root")
		}
	})
	owners := []struct {
		name           string
		uid, gid, euid int
		want           Owner
		refused        string
	}{
		{name: "a person's, we are root", uid: 1000, gid: 1000, euid: 0, want: Owner{1000, 1000}},
		{name: "a person's with group root", uid: 1000, gid: 0, euid: 0, want: Owner{1000, 1000}},
		{name: "our own", uid: 1000, gid: 100, euid: 1000, want: Owner{1000, 100}},
		{name: "root's, we are root", uid: 0, gid: 0, euid: 0, want: o},
		{name: "another person's, we are not root", uid: 1001, gid: 1001, euid: 1000, refused: "only root can"},
		{name: "root's, we are not root", uid: 0, gid: 0, euid: 1000, refused: "belongs to root"},
	}
	for _, tt := range owners {
		t.Run(tt.name, func(t *testing.T) {
			needRoot(t)
			d := t.TempDir()
			if err := os.Chown(d, tt.uid, tt.gid); err != nil {
				t.Fatal(err)
			}
			fi, err := os.Stat(d)
			if err != nil {
				t.Fatal(err)
			}
			got, err := agentOwner(d, fi, o, tt.euid)
			if tt.refused != "" {
				wantError(t, err, sandbox.CodeValidation, tt.refused)
			} else if err != nil || got != tt.want {
				t.Errorf("%v, %v; want %v", got, err, tt.want)
			}
		})
	}
}

func TestChownCommand(t *testing.T) {
	for path, want := range map[string]string{
		"/home/u/agent": "sudo chown -R 7:8 /home/u/agent",
		"/home/u/my a'": `sudo chown -R 7:8 '/home/u/my a'\'''`,
		"/srv/$(id)":    "sudo chown -R 7:8 '/srv/$(id)'",
	} {
		if got := chownCommand(Owner{7, 8}, path); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

func TestDiskUsage(t *testing.T) {
	s := open(t)
	p := ensure(t, s, "sbx-a")
	write(t, filepath.Join(p, "a/file"), strings.Repeat("x", 100_000))
	outside := filepath.Join(t.TempDir(), "big")
	write(t, outside, strings.Repeat("x", 1_000_000))
	if err := errors.Join(os.Link(filepath.Join(p, "a/file"), filepath.Join(p, "again")),
		os.Symlink(outside, filepath.Join(p, "link")), os.Symlink(filepath.Dir(outside), filepath.Join(p, "dirlink"))); err != nil {
		t.Fatal(err)
	}
	u, err := DiskUsage(t.Context(), p)
	if err != nil || !u.Complete || u.Files != 5 || u.Bytes < 100_000 || u.Bytes > 150_000 {
		t.Errorf("%+v, %v; want 5 entries and the file once", u, err)
	}
	if _, err := DiskUsage(t.Context(), p+"-gone"); !sandbox.IsNotFound(err) {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := DiskUsage(ctx, p); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	deep := filepath.Join(p, strings.Repeat("d/", maxDepth+5))
	if err := os.MkdirAll(deep, 0o755); err != nil {
		t.Fatal(err)
	}
	if u, err := DiskUsage(t.Context(), p); err != nil || u.Complete {
		t.Errorf("too deep: %+v, %v; want it to say so", u, err)
	}
}

func TestRemove(t *testing.T) {
	s := open(t)
	p := ensure(t, s, "sbx-a")
	keep := ensure(t, s, "sbx-b")
	outside := t.TempDir()
	write(t, filepath.Join(outside, "file"), "x")
	write(t, filepath.Join(p, "a/b/c"), "x")
	if err := errors.Join(
		os.Symlink(outside, filepath.Join(p, "link")), os.Symlink(outside, filepath.Join(p, "a/link")),
		os.Link(filepath.Join(outside, "file"), filepath.Join(p, "hard")),
		unix.Mkfifo(filepath.Join(p, "fifo"), 0o600),
		os.Mkdir(filepath.Join(p, "locked"), 0o700), os.WriteFile(filepath.Join(p, "locked/x"), nil, 0o600),
		os.Mkdir(filepath.Join(p, "locked/sub"), 0), os.Chmod(filepath.Join(p, "locked"), 0)); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Remove(t.Context(), p); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := os.Lstat(p); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
	if data, err := os.ReadFile(filepath.Join(outside, "file")); err != nil || string(data) != "x" {
		t.Error("removal followed a link")
	}
	if _, err := os.Stat(keep); err != nil {
		t.Error("the neighbour is gone")
	}
	if left, _ := filepath.Glob(filepath.Join(s.Root(), ".trash*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestRemoveDeepAndWide(t *testing.T) {
	s := open(t)
	p := ensure(t, s, "sbx-a")
	// Deeper than a path may be long: built from the inside out.
	fd, err := unix.Open(p, unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 5000 {
		if err := unix.Mkdirat(fd, "d", 0o755); err != nil {
			t.Fatal(err)
		}
		next, err := unix.Openat(fd, "d", unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		unix.Close(fd)
		fd = next
	}
	unix.Close(fd)
	for i := range 3000 {
		write(t, filepath.Join(p, "wide", fmt.Sprint(i)), "")
	}
	if err := s.Remove(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	if left, _ := filepath.Glob(filepath.Join(s.Root(), ".trash*")); len(left) != 0 {
		t.Errorf("left over: %v", left)
	}
}

func TestRemoveFinishesWhatWasKilled(t *testing.T) {
	s := open(t)
	old := filepath.Join(s.Root(), ".trash-1000000000-X")
	write(t, filepath.Join(old, "0/a/b"), "x")
	write(t, filepath.Join(old, "7/c"), "x")
	if err := s.Remove(t.Context(), ensure(t, s, "sbx-a")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Lstat(old); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

func TestLookingPutsNothingIntoAFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "agent", "SOUL.md"), "x")
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantError(t, s.Remove(t.Context(), filepath.Join(s.Root(), "agent")), sandbox.CodeCapabilityBlocked, "not made by this program")
	if err := s.Remove(t.Context(), filepath.Join(s.Root(), "gone")); err != nil {
		t.Error(err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("the folder holds %v", entries)
	}
}

func TestRemoveRefuses(t *testing.T) {
	s := open(t)
	p := ensure(t, s, "sbx-a")
	foreign := filepath.Join(s.Root(), "agent-folder")
	write(t, filepath.Join(foreign, "SOUL.md"), "x")
	link := filepath.Join(s.Root(), "sbx-link")
	if err := os.Symlink(p, link); err != nil {
		t.Fatal(err)
	}
	elsewhere := t.TempDir()
	for _, path := range []string{"", "/", ".", s.Root(), filepath.Dir(s.Root()), p + "/", p + "/..", p + "/sub", s.Root() + "/../x",
		filepath.Join(s.Root(), ".meta"), filepath.Join(s.Root(), ".quota"), elsewhere, foreign, link, "sbx-a"} {
		t.Run(path, func(t *testing.T) {
			wantError(t, s.Remove(t.Context(), path), sandbox.CodeCapabilityBlocked, "")
		})
	}
	for _, path := range []string{p, foreign + "/SOUL.md", elsewhere, link} {
		if _, err := os.Lstat(path); err != nil {
			t.Errorf("%s is gone", path)
		}
	}
}
