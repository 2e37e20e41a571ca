package store

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestOtherProcesses checks that what one process revokes ends in another within
// the promised time. A machine that is busy with other tests may be late now
// and then, so the quickest of some rounds is what is measured.
func TestOtherProcesses(t *testing.T) {
	f := open(t, t.TempDir())
	best := time.Hour
	for n := range 6 {
		id := fmt.Sprint("g", n)
		must(t, f.Derived("child "+id, id, time.Time{}))
		ctx, cancel := Context(context.Background(), f, forever("child "+id))
		done := make(chan time.Time, 1)
		context.AfterFunc(ctx, func() { done <- time.Now() })
		at := revokeElsewhere(t, f.dir, id)
		wantEnd(t, ctx, sandbox.CodePermissionDeny, "revoked")
		best = min(best, (<-done).Sub(at))
		cancel()
		wantRevoked(t, open(t, f.dir), id, true) // as after a restart
	}
	t.Logf("the quickest of all ended %v after the revocation was on disk", best)
	if best > Delay {
		t.Errorf("ended after %v", best)
	}
}

// TestChangesOfOneMoment makes many revocations within the resolution of a
// folder's modification time.
func TestChangesOfOneMoment(t *testing.T) {
	dir := t.TempDir()
	watcher, revoker := open(t, dir), open(t, dir)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var signals []<-chan struct{}
	for n := range 200 {
		signals = append(signals, watcher.Watch(ctx, fmt.Sprint("g", n)))
	}
	for n := range signals {
		must(t, revoker.Revoke(fmt.Sprint("g", n), time.Time{}))
		if n%50 == 0 {
			wantSignal(t, fmt.Sprint("g", n), signals[n])
		}
	}
	for n, c := range signals {
		wantSignal(t, fmt.Sprint("g", n), c)
	}
}

// TestAnyMarkCounts checks that a revocation counts whatever its file contains,
// and that a sweep keeps unreadable files.
func TestAnyMarkCounts(t *testing.T) {
	for name, make := range map[string]func(path string) error{
		"empty":     func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"garbage":   func(p string) error { return os.WriteFile(p, []byte(`{"id":"g","until":1`), 0o600) },
		"another's": func(p string) error { return os.WriteFile(p, []byte(`{"id":"h","until":1}`+"\n"), 0o600) },
		"large":     func(p string) error { return os.WriteFile(p, bytes.Repeat([]byte("x"), 1<<20), 0o600) },
		"link":      func(p string) error { return os.Symlink("nowhere", p) },
		"pipe":      func(p string) error { return unix.Mkfifo(p, 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, t.TempDir())
			ctx, cancel := Context(context.Background(), f, forever("g"))
			defer cancel()
			must(t, make(f.mark("g")))
			wantEnd(t, ctx, sandbox.CodePermissionDeny, "revoked")
			s, err := f.Sweep()
			if err != nil || len(s.Damaged) != 1 || s.Removed != 0 {
				t.Errorf("swept %+v, %v", s, err)
			}
			must(t, f.Revoke("g", time.Now().Add(time.Hour))) // makes it whole
			if s, err := f.Sweep(); err != nil || s.Kept != 1 || len(s.Damaged) != 0 {
				t.Errorf("afterwards swept %+v, %v", s, err)
			}
		})
	}
}

// TestDamagedLink checks that a grant whose origin cannot be read is not used.
func TestDamagedLink(t *testing.T) {
	for name, data := range map[string]string{
		"empty": "", "garbage": "{", "another's": `{"id":"h","parent":"p","until":0}` + "\n",
		"more": `{"id":"g","parent":"p","until":0}` + "\n{}", "its own": `{"id":"g","parent":"g","until":0}` + "\n",
	} {
		t.Run(name, func(t *testing.T) {
			f := open(t, t.TempDir())
			must(t, os.WriteFile(f.link("g"), []byte(data), 0o600))
			gone, err := f.Revoked("g")
			if !gone {
				t.Error("it can be used")
			}
			wantCode(t, err, sandbox.CodeUnavailable, "cannot be read")
			wantCode(t, f.Derived("g", "p", time.Time{}), sandbox.CodeUnavailable, "cannot be read")
			wantSignal(t, name, f.Watch(context.Background(), "g"))
		})
	}
}

// TestFolderGoesAway checks that everything ends when revocations cannot be
// determined.
func TestFolderGoesAway(t *testing.T) {
	for _, gone := range []string{"", linksDir} {
		f := open(t, filepath.Join(t.TempDir(), "revoked"))
		ctx, cancel := Context(context.Background(), f, forever("g"))
		defer cancel()
		must(t, os.RemoveAll(filepath.Join(f.dir, gone)))
		if revoked, err := f.Revoked("g"); !revoked || sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("revoked %v, %v", revoked, err)
		}
		if gone == "" {
			wantEnd(t, ctx, sandbox.CodeUnavailable, "is not known")
		}
	}
}

func TestSweepFolder(t *testing.T) {
	dir := t.TempDir()
	m := machine(t, dir)
	f, now := openAt(t, dir, m), m.Now()
	f.swept = time.Now() // it does not sweep by itself meanwhile
	for id, until := range map[string]time.Time{
		"for ever": {}, "lives": now.Add(time.Hour), "has just expired": now.Add(-time.Minute), "over": now.Add(-grace - time.Minute),
	} {
		must(t, f.Revoke(id, until))
		must(t, f.Derived("child of "+id, id, until))
	}
	left := filepath.Join(f.dir, ".left")
	must(t, os.WriteFile(left, nil, 0o600))
	must(t, os.Chtimes(left, now, now.Add(-2*time.Hour)))
	again := openAt(t, dir, m) // without what the process itself remembers
	again.swept = time.Now()
	if s, err := again.Sweep(); err != nil || s.Removed != 3 || s.Kept != 6 || len(s.Damaged) != 0 {
		t.Errorf("swept %+v, %v", s, err)
	}
	for _, id := range []string{"for ever", "lives", "has just expired"} {
		wantRevoked(t, again, "child of "+id, true)
	}
	wantRevoked(t, again, "over", false)

	must(t, again.Revoke("lives", now.Add(-time.Minute))) // does not shorten
	must(t, again.Revoke("has just expired", time.Time{}))
	for id, want := range map[string]int64{"lives": now.Add(time.Hour).UnixMilli(), "has just expired": 0} {
		if n, err := get(f.mark(id), id); err != nil || n.Until != want {
			t.Errorf("%s: %+v, %v", id, n, err)
		}
	}
}

// TestNewFoldersAreTidied checks that a process sweeps without a call of Sweep.
func TestNewFoldersAreTidied(t *testing.T) {
	dir := t.TempDir()
	m := machine(t, dir)
	f := openAt(t, dir, m)
	must(t, f.Revoke("one", time.Now().Add(-time.Hour)))
	must(t, openAt(t, dir, m).Revoke("two", time.Now().Add(time.Hour)))
	if _, err := os.Lstat(f.mark("one")); !os.IsNotExist(err) {
		t.Errorf("what has expired is still there: %v", err)
	}
}

// TestFullDisk checks that a grant can be revoked where nothing else can be
// written.
func TestFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "mounting needs it")
	}
	disk := t.TempDir()
	if err := unix.Mount("tmpfs", disk, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0700,size=64k"); err != nil {
		testenv.Lack(t, "mount", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(disk, unix.MNT_DETACH) })
	f := open(t, filepath.Join(disk, "revoked"))
	if err := os.WriteFile(filepath.Join(disk, "filler"), make([]byte, 1<<20), 0o600); err == nil {
		t.Fatal("the disk did not fill up")
	}
	wantCode(t, f.Derived("c", "p", time.Time{}), sandbox.CodeUnavailable, "is full")
	wantCode(t, f.Revoke("g", time.Time{}), sandbox.CodeUnavailable, "is full")
	wantRevoked(t, f, "g", true)
	wantRevoked(t, open(t, f.dir), "g", true)
	wantRevoked(t, f, "c", false)
	must(t, os.Remove(filepath.Join(disk, "filler")))
	must(t, f.Derived("c", "g", time.Time{}))
	must(t, f.Revoke("g", time.Time{}))
	wantRevoked(t, open(t, f.dir), "c", true)

	must(t, unix.Mount("", disk, "", unix.MS_REMOUNT|unix.MS_RDONLY, ""))
	wantCode(t, f.Revoke("h", time.Time{}), sandbox.CodeUnavailable, "read-only")
	wantRevoked(t, f, "h", true) // here, at least
}

func FuzzDecode(f *testing.F) {
	f.Add([]byte(`{"id":"g","parent":"p","until":7}` + "\n"))
	f.Add([]byte(`{"id":"g","until":0}` + "\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		n, ok := decode(data)
		if !ok {
			return
		}
		if again, err := encode(n); err != nil || !bytes.Equal(again, data) || checkID(n.ID) != nil || n.Until < 0 {
			t.Fatalf("believed %q as %+v", data, n)
		}
	})
}

func BenchmarkRevoked(b *testing.B) {
	f := open(b, b.TempDir())
	must(b, f.Derived("child", "parent", time.Time{}))
	for b.Loop() {
		if gone, err := f.Revoked("child"); gone || err != nil {
			b.Fatal(gone, err)
		}
	}
}

func BenchmarkContext(b *testing.B) {
	f := open(b, b.TempDir())
	g := forever("g")
	for b.Loop() {
		_, cancel := Context(context.Background(), f, g)
		cancel()
	}
}

// TestClockJumps checks that a revocation is not forgotten because the clock is
// wrong for a while, and that a grant is not good again because the clock is set
// back after its revocation is forgotten.
func TestClockJumps(t *testing.T) {
	const year = 365 * 24 * time.Hour
	dir := t.TempDir()
	machines := map[string]*testenv.Machine{"folder": machine(t, dir), "memory": testenv.New(time.Now())}
	memory := Memory{passed: statedir.Clock{Source: machines["memory"].Source()}}
	others := 0
	type sweeper struct {
		store
		sweep func()
	}
	for name, s := range map[string]sweeper{
		"folder": {openAt(t, dir, machines["folder"]), func() {
			_, err := openAt(t, dir, machines["folder"]).Sweep()
			must(t, err)
		}},
		"memory": {&memory, func() {
			for range 16384 { // until it looks
				others++
				must(t, memory.Revoke(fmt.Sprint("other", others), machines["memory"].Now().Add(-time.Hour)))
			}
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m := machines[name]
			g := grant.Grant{ID: "child", Parent: "g", Expires: m.Now().Add(48 * time.Hour)}
			must(t, s.Revoke("g", g.Expires))
			must(t, s.Derived("child", "g", g.Expires))
			s.sweep()
			m.Pass(2 * time.Hour)
			s.sweep()
			m.Set(year)
			s.sweep()
			m.Set(-year)
			wantRevoked(t, s, "g", true)
			wantRevoked(t, s, "child", true)
			wantCode(t, Check(s, g, m.Now()), sandbox.CodePermissionDeny, "revoked")

			s.sweep()
			m.Pass(72 * time.Hour)
			s.sweep()
			if name == "folder" {
				s.store = openAt(t, dir, m) // without what the process itself remembers
			}
			wantRevoked(t, s, "g", false)
			m.Set(-60 * time.Hour)
			wantCode(t, Check(s, g, m.Now()), sandbox.CodePermissionDeny, "expired")
		})
	}
}

// TestForgottenUnknown checks that no grant is valid when it cannot be
// determined what was forgotten.
func TestForgottenUnknown(t *testing.T) {
	f := open(t, t.TempDir())
	must(t, os.WriteFile(f.passed.Path, []byte("garbage"), 0o600))
	wantCode(t, Check(f, forever("g"), time.Now()), sandbox.CodeUnavailable, "is not known")
}
