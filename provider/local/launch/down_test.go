//go:build linux

package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

func TestDownIsChecked(t *testing.T) {
	good := func() *Down {
		return &Down{UID: 1000, GID: 1000, Sources: []string{"/usr", "/home/a b", "/a\xff", "/a\nb\""}}
	}
	if err := good().check(); err != nil {
		t.Errorf("a good one: %v", err)
	}
	for name, change := range map[string]func(*Down){
		"root":             func(d *Down) { d.UID = 0 },
		"root's group":     func(d *Down) { d.GID = 0 },
		"no id":            func(d *Down) { d.UID = 1<<32 - 1 },
		"negative":         func(d *Down) { d.UID = -1 },
		"relative source":  func(d *Down) { d.Sources[0] = "usr" },
		"climbing source":  func(d *Down) { d.Sources[0] = "/a/../usr" },
		"trailing slash":   func(d *Down) { d.Sources[0] = "/usr/" },
		"NUL":              func(d *Down) { d.Sources[0] = "/u\x00sr" },
		"too many sources": func(d *Down) { d.Sources = make([]string, maxSources+1) },
	} {
		d := good()
		change(d)
		if err := d.check(); err == nil {
			t.Errorf("%s is taken", name)
		}
		done := make(chan error, 1)
		onThread(func() { done <- d.prepare("/usr/bin/bwrap") })
		if err := <-done; err == nil {
			t.Errorf("%s leads down", name)
		}
	}
}

// TestStageIsTheThreadsOwn holds that sources are shown to the thread that
// starts the sandbox and to no other of the process, that a link is not
// followed, and that nothing is left when the thread has ended.
func TestStageIsTheThreadsOwn(t *testing.T) {
	testenv.Require(t, "root")
	dir := t.TempDir()
	file, link := filepath.Join(dir, "file"), filepath.Join(dir, "link")
	if err := errors.Join(os.WriteFile(file, []byte("content"), 0o600), os.Symlink("file", link)); err != nil {
		t.Fatal(err)
	}
	type seen struct {
		err     error
		content string
		leader  bool
	}
	const program = "/usr/bin/bwrap"
	on := func(sources ...string) seen {
		out := make(chan seen)
		onThread(func() {
			s := seen{leader: unix.Gettid() == unix.Getpid()}
			if s.err = (&Down{UID: 1000, GID: 1000, Sources: sources}).prepare(program); s.err == nil {
				b, _ := os.ReadFile(Staged(1))
				s.content = string(b)
			}
			out <- s
		})
		return <-out
	}
	if got := on(dir, file); got.err != nil || got.content != "content" || got.leader {
		t.Errorf("got %+v", got)
	}
	var unreachable *Unreachable
	for _, missing := range []string{link, filepath.Join(dir, "missing")} {
		if got := on(dir, missing); !errors.As(got.err, &unreachable) || unreachable.Path != missing {
			t.Errorf("%s: %+v", missing, got)
		}
	}
	mounts := func() string {
		text, err := os.ReadFile("/proc/self/mountinfo")
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	// Others mount on this machine too, so that one try may see their mounts
	// come and go.
	const tries = 100
	for range tries {
		before := mounts()
		on(dir, file)
		after := mounts()
		for _, point := range mountPoints([]byte(after)) {
			if point == Staged(0) || point == Staged(1) {
				t.Fatalf("the process sees %s", point)
			}
		}
		if after == before {
			return
		}
	}
	t.Errorf("the process sees other mounts than before each of %d times:\n%s", tries, mounts())
}

// TestDownLeavesNoRights holds that what a program of an ordinary user gets
// capabilities and keys from is empty.
func TestDownLeavesNoRights(t *testing.T) {
	testenv.Require(t, "root")
	type result struct {
		status        string
		before, after int
		err           error
	}
	out := make(chan result)
	onThread(func() {
		var r result
		r.before, _ = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, true)
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		r.err = unix.Capget(&header, &caps[0])
		caps[0].Inheritable = caps[0].Permitted
		r.err = errors.Join(r.err, unix.Capset(&header, &caps[0]))
		r.err = errors.Join(r.err, unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_RAISE, unix.CAP_CHOWN, 0, 0))
		r.err = errors.Join(r.err, (&Down{UID: 1000, GID: 1000}).prepare("/usr/bin/bwrap"))
		b, err := os.ReadFile("/proc/thread-self/status")
		r.status, r.err = string(b), errors.Join(r.err, err)
		r.after, _ = unix.KeyctlGetKeyringID(unix.KEY_SPEC_SESSION_KEYRING, false)
		out <- r
	})
	r := <-out
	if r.err != nil || r.before != 0 && r.before == r.after {
		t.Errorf("keys %d and %d, %v", r.before, r.after, r.err)
	}
	for _, set := range []string{"CapInh:", "CapAmb:"} {
		for line := range strings.Lines(r.status) {
			if bits, ok := strings.CutPrefix(line, set); ok && strings.Trim(bits, "0\t\n") != "" {
				t.Errorf("left over: %s", line)
			}
		}
	}
}

// TestSourceIsPrivate holds that what is mounted in a source of an instance is not
// mounted on the host, whose mounts are shared wherever systemd runs.
func TestSourceIsPrivate(t *testing.T) {
	testenv.Require(t, "root")
	from, to := t.TempDir(), t.TempDir()
	out := make(chan error)
	onThread(func() {
		out <- func() error {
			if err := errors.Join(unix.Unshare(unix.CLONE_NEWNS), unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""),
				unix.Mount("tmpfs", from, "tmpfs", 0, ""), unix.Mount("", from, "", unix.MS_SHARED, ""), os.Mkdir(filepath.Join(from, "below"), 0o755)); err != nil {
				return err
			}
			tree, err := openSource(from)
			if err != nil {
				return err
			}
			defer unix.Close(tree)
			var host, below unix.Stat_t
			if err := errors.Join(unix.MoveMount(tree, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH),
				unix.Mount("tmpfs", filepath.Join(to, "below"), "tmpfs", 0, ""), unix.Stat(from, &host), unix.Stat(filepath.Join(from, "below"), &below)); err != nil {
				return err
			}
			if host.Dev != below.Dev {
				return errors.New("a mount of the instance has appeared on the host")
			}
			return nil
		}()
	})
	if err := <-out; err != nil {
		t.Error(err)
	}
}
