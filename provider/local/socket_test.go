//go:build linux

package local_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider"
)

// A service listens at a Unix socket of the host and echoes what it hears.
type service struct {
	path string
	l    net.Listener

	mu    sync.Mutex
	calls int
	open  int
}

func serveAt(t testing.TB, path string) *service {
	t.Helper()
	dir, err := os.Open(filepath.Dir(path)) // a socket's path is short
	must(t, err)
	defer dir.Close()
	l, err := net.Listen("unix", fmt.Sprintf("/proc/self/fd/%d/%s", dir.Fd(), filepath.Base(path)))
	must(t, err)
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	must(t, os.Chmod(path, 0o777))
	s := &service{path: path, l: l}
	t.Cleanup(func() { l.Close(); os.Remove(path) })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			s.count(1, 1)
			go func() {
				defer s.count(0, -1)
				defer c.Close()
				_, _ = io.Copy(c, c)
			}()
		}
	}()
	return s
}

func (s *service) count(calls, open int) (int, int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.calls += calls
	s.open += open
	return s.calls, s.open
}

// shortDir is a folder whose path leaves room for a socket's name, canonical.
func shortDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("/var/tmp", "sbx-t-")
	must(t, err)
	must(t, os.Chmod(dir, 0o755))
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

// say has a command inside talk to a socket; the answer is what it prints.
const say = `perl -MSocket -e '
	socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
	connect($s, sockaddr_un($ARGV[0])) or die "connect: $!\n";
	syswrite $s, $ARGV[1] or die "write: $!\n"; shutdown $s, 1;
	local $/; my $a = <$s>; length $a or die "no answer\n"; print $a;' `

func TestListedSocketIsReachedThroughTheGuest(t *testing.T) {
	r := newRig(t)
	dir := shortDir(t)
	wanted := serveAt(t, filepath.Join(dir, "a.sock"))
	neighbour := serveAt(t, filepath.Join(dir, "b.sock"))
	s := r.spec("a")
	inWorkspace := serveAt(t, filepath.Join(workspaceOf(s), "w.sock"))
	s.Filesystem.AllowUnixSockets = []string{wanted.path}
	sb := r.open(r.provider(t), s)
	if out, code := sh(t, sb, say+wanted.path+" hello"); code != 0 || out != "hello" {
		t.Errorf("the listed socket: status %d, %q", code, out)
	}
	for _, line := range []string{
		say + neighbour.path + " x", say + "/workspace/w.sock x", say + "/proc/1/root" + neighbour.path + " x",
		say + filepath.Dir(wanted.path) + "/../" + filepath.Base(dir) + "/b.sock x",
		"ln -s " + neighbour.path + " /tmp/l; " + say + "/tmp/l x", "rm /workspace/w.sock", "mv /workspace/w.sock /workspace/v.sock",
		"test $(stat -c %d:%i " + wanted.path + ") = " + inodeOf(t, wanted.path),
	} {
		if out, code := sh(t, sb, line); code == 0 {
			t.Errorf("%s succeeded: %q", line, out)
		}
	}
	if calls, _ := neighbour.count(0, 0); calls != 0 {
		t.Errorf("the neighbour was called %d times", calls)
	}
	if calls, _ := inWorkspace.count(0, 0); calls != 0 {
		t.Errorf("the socket in the workspace was called %d times", calls)
	}
	sb.Close()
	if _, err := os.Lstat(wanted.path); err != nil {
		t.Error(err)
	}
}

// inodeOf is what names the file at path to the kernel.
func inodeOf(t testing.TB, path string) string {
	t.Helper()
	fi, err := os.Lstat(path)
	must(t, err)
	st := fi.Sys().(*syscall.Stat_t)
	return fmt.Sprintf("%d:%d", st.Dev, st.Ino)
}

func TestWithoutListedSocketsThereAreNone(t *testing.T) {
	r := newRig(t)
	there := serveAt(t, filepath.Join(shortDir(t), "a.sock"))
	s := r.spec("a")
	s.Filesystem.AllowUnixSockets = []string{there.path + "-missing"}
	sb := r.open(r.provider(t), s)
	if out, code := sh(t, sb, say+there.path+" x"); code == 0 || !strings.Contains(out, "socket: ") {
		t.Errorf("status %d, %q", code, out)
	}
}

func TestSocketThatAppearsIsReachedByTheNextCommand(t *testing.T) {
	r := newRig(t)
	path := filepath.Join(shortDir(t), "a.sock")
	s := r.spec("a")
	s.Filesystem.AllowUnixSockets = []string{path}
	sb := r.open(r.provider(t), s)
	if out, code := sh(t, sb, say+path+" x"); code == 0 {
		t.Errorf("nobody is there: %q", out)
	}
	first := serveAt(t, path)
	if out, code := sh(t, sb, say+path+" x"); code != 0 || out != "x" {
		t.Errorf("status %d, %q", code, out)
	}
	must(t, first.l.Close())
	must(t, os.Remove(path))
	serveAt(t, path) // a service that was started again has another socket
	if out, code := sh(t, sb, say+path+" y"); code != 0 || out != "y" {
		t.Errorf("started again: status %d, %q", code, out)
	}
}

func TestSocketInMemoryOfTheSandbox(t *testing.T) {
	r := newRig(t)
	dir, err := os.MkdirTemp("/tmp", "sbx-t-")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(dir) })
	must(t, os.Chmod(dir, 0o755))
	at := serveAt(t, filepath.Join(dir, "a.sock"))
	s := r.spec("a")
	s.Filesystem.AllowUnixSockets = []string{at.path}
	sb := r.open(r.provider(t), s)
	if out, code := sh(t, sb, say+at.path+" x"); code != 0 || out != "x" {
		t.Errorf("status %d, %q", code, out)
	}
}

func TestConnectionsToSocketsEndWithTheSandbox(t *testing.T) {
	r := newRig(t)
	at := serveAt(t, filepath.Join(shortDir(t), "a.sock"))
	s := r.spec("a")
	s.Filesystem.AllowUnixSockets = []string{at.path}
	p := r.provider(t)
	sb := r.open(p, s)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	// More than an instance may have at once: the others wait.
	line := `perl -MSocket -e 'my @s; for (1..100) { socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; connect($s, sockaddr_un($ARGV[0])) or die; push @s, $s } sleep 1000' ` + at.path
	command, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: io.Discard})
	must(t, err)
	testenv.Until(t, "all connections come", func() bool { _, open := at.count(0, 0); return open == 64 })
	if calls, _ := at.count(0, 0); calls != 64 {
		t.Errorf("%d connections were made at once", calls)
	}
	must(t, p.Close())
	_, _ = command.Wait()
	testenv.Until(t, "the connections go", func() bool { _, open := at.count(0, 0); return open == 0 })
}

func TestManyBytesThroughASocket(t *testing.T) {
	r := newRig(t)
	at := serveAt(t, filepath.Join(shortDir(t), "a.sock"))
	s := r.spec("a")
	s.Filesystem.AllowUnixSockets = []string{at.path}
	sb := r.open(r.provider(t), s)
	var out bytes.Buffer
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	line := `perl -MSocket -e 'socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die; connect($s, sockaddr_un($ARGV[0])) or die $!;
		if (!fork) { for (1..64) { my $b = "x" x 65536; while (length $b) { my $n = syswrite($s, $b) or die; substr($b, 0, $n) = "" } } shutdown $s, 1; exit }
		my $all = 0; while (my $n = sysread $s, my $b, 65536) { $all += $n } print $all' ` + at.path
	p, err := sb.Start(ctx, sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	must(t, err)
	if exit, err := p.Wait(); err != nil || exit.Code != 0 || out.String() != "4194304" {
		t.Errorf("%+v, %v, %q", exit, err, out.String())
	}
}

func TestRefusedSockets(t *testing.T) {
	r := newRig(t)
	p := r.provider(t)
	dir := shortDir(t)
	at := serveAt(t, filepath.Join(dir, "a.sock"))
	must(t, os.Symlink("a.sock", filepath.Join(dir, "link")))
	must(t, os.Symlink(dir, dir+"-l"))
	t.Cleanup(func() { os.Remove(dir + "-l") })
	must(t, os.WriteFile(filepath.Join(dir, "file"), nil, 0o600))
	for name, change := range map[string]func(*sandbox.Spec) string{
		"a link":                func(*sandbox.Spec) string { return filepath.Join(dir, "link") },
		"by a link":             func(*sandbox.Spec) string { return dir + "-l/a.sock" },
		"a file":                func(*sandbox.Spec) string { return filepath.Join(dir, "file") },
		"an engine's":           func(*sandbox.Spec) string { return filepath.Join(dir, "docker.sock") },
		"our own state":         func(*sandbox.Spec) string { return filepath.Join(r.state.Path(), "x.sock") },
		"below a denied folder": func(s *sandbox.Spec) string { s.Filesystem.DenyRead = []string{dir}; return at.path },
		"relative":              func(*sandbox.Spec) string { return "a.sock" },
		"not clean":             func(*sandbox.Spec) string { return dir + "//a.sock" },
		"too long":              func(*sandbox.Spec) string { return dir + "/" + strings.Repeat("x", 120) },
	} {
		s := r.spec(name)
		s.Filesystem.AllowUnixSockets = []string{change(&s)}
		if _, err := p.Create(context.Background(), s); err == nil || !strings.Contains(err.Error(), "socket") && !strings.Contains(err.Error(), "link") && !strings.Contains(err.Error(), "absolute") && !strings.Contains(err.Error(), "runs the sandboxes") {
			t.Errorf("%s: %v", name, err)
		}
	}
	r.leaks(t)
}

func TestPlanTellsOfSockets(t *testing.T) {
	r := newRig(t)
	dir := shortDir(t)
	at := serveAt(t, filepath.Join(dir, "a.sock"))
	s := r.spec("a")
	s.Filesystem.AllowUnixSockets = []string{at.path, filepath.Join(dir, "none")}
	var planner provider.Planner = r.provider(t)
	plan, err := planner.Plan(context.Background(), s)
	must(t, err)
	for _, want := range []string{at.path + `" is reached through the guest`, dir + `/none" is not there`, "commands may make Unix sockets"} {
		if !strings.Contains(strings.Join(plan.Notes, "\n"), want) {
			t.Errorf("no note says %q: %q", want, plan.Notes)
		}
	}
}
