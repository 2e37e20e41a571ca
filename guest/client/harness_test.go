package client_test

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"golang.org/x/sys/unix"
)

// The tests run the real guest as process 1 of namespaces of its own, as
// an unprivileged user without new privileges, the way it lives in a
// container. shimEnv makes the test binary the program that sets that up.
const (
	shimEnv   = "GUEST_TEST_SHIM"   // the guest's command line, words separated by spaces
	cgroupEnv = "GUEST_TEST_CGROUP" // cgroup.procs files to join, with colons between
	guestUID  = 20001
)

func TestMain(m *testing.M) {
	if line := os.Getenv(shimEnv); line != "" {
		fmt.Fprintln(os.Stderr, "shim:", shim(strings.Fields(line)))
		os.Exit(1)
	}
	if dir, file, ok := strings.Cut(os.Getenv(writerEnv), ":"); ok {
		fmt.Fprintln(os.Stderr, "writer:", endlessWriter(dir, file))
		os.Exit(1)
	}
	if name := os.Getenv(probeEnv); name != "" {
		runProbe(name, os.Args[1:])
		os.Exit(0)
	}
	// A probe is this program. With the race detector it would wait a second when
	// it ends, for races that what is left of it may still have.
	if os.Getenv("GORACE") == "" {
		if err := os.Setenv("GORACE", "atexit_sleep_ms=0"); err != nil {
			panic(err)
		}
	}
	// The tests that run at the same time wait for bounds of ten seconds and
	// more, and do not compute.
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	code := m.Run()
	binary.clean()
	os.Exit(code)
}

// shim turns the process into the guest; it returns only on failure.
func shim(argv []string) error {
	for procs := range strings.SplitSeq(os.Getenv(cgroupEnv), ":") {
		if procs == "" {
			continue
		}
		if err := os.WriteFile(procs, []byte("0"), 0); err != nil {
			return err
		}
	}
	if err := unix.Mount("", "/", "", unix.MS_PRIVATE|unix.MS_REC, ""); err != nil {
		return err
	}
	if err := unix.Mount("proc", "/proc", "proc", 0, ""); err != nil {
		return err
	}
	if err := loopbackUp(); err != nil {
		return err
	}
	if err := syscall.Setgroups(nil); err != nil {
		return err
	}
	if err := syscall.Setgid(guestUID); err != nil {
		return err
	}
	if err := syscall.Setuid(guestUID); err != nil {
		return err
	}
	if names := os.Getenv(denyEnv); names != "" {
		runtime.LockOSThread()
		if err := deny(names); err != nil {
			return err
		}
	}
	env := []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/tmp", "LANG=C.UTF-8"}
	return syscall.Exec(argv[0], argv, env)
}

// loopbackUp does what an engine does for a container without a network.
func loopbackUp() error {
	fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return err
	}
	lo.SetUint16(unix.IFF_UP)
	return unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, lo)
}

// guestBinary makes the programs of guests once for all tests: the guest, and
// this test binary at a place that everybody may enter.
type guestBinary struct {
	once sync.Once
	dir  string
	err  error
}

var binary guestBinary

// path is where the guest is, alone in its folder.
func (b *guestBinary) path(t testing.TB) string {
	t.Helper()
	b.once.Do(func() { b.err = b.make() })
	must(t, b.err)
	return filepath.Join(b.dir, "bin", "sandbox-guest")
}

// probe is where the test binary is.
func (b *guestBinary) probe(t testing.TB) string {
	t.Helper()
	b.path(t)
	return filepath.Join(b.dir, "probe")
}

func (b *guestBinary) make() (err error) {
	if b.dir, err = os.MkdirTemp("", "guest"); err != nil {
		return err
	}
	if err := errors.Join(os.Chmod(b.dir, 0o755), os.Mkdir(filepath.Join(b.dir, "bin"), 0o755)); err != nil {
		return err
	}
	build := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-o", filepath.Join(b.dir, "bin", "sandbox-guest"),
		"github.com/bulkhead-dev/sandbox/cmd/sandbox-guest")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		return fmt.Errorf("%w: %s", err, out)
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	program, err := os.ReadFile(self)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.dir, "probe"), program, 0o755)
}

func (b *guestBinary) clean() {
	if b.dir != "" {
		os.RemoveAll(b.dir)
	}
}

// A guest is a running guest in namespaces of its own.
type guest struct {
	t   testing.TB
	cmd *exec.Cmd
	dir string // of the socket
}

type guestOption func(*exec.Cmd)

func withArg(arg string) guestOption {
	return func(c *exec.Cmd) { c.Env[0] += " " + arg }
}

func startGuest(t testing.TB, options ...guestOption) *guest {
	t.Helper()
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "namespaces need it")
	}
	base, err := os.MkdirTemp("", "g")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(base) })
	dir := filepath.Join(base, "run")
	must(t, os.Chmod(base, 0o755))
	must(t, os.Mkdir(dir, 0o700))
	must(t, os.Chown(dir, guestUID, guestUID))
	self, err := os.Executable()
	must(t, err)
	cmd := exec.Command(self)
	cmd.Env = []string{shimEnv + "=" + binary.path(t) + " init --dir=" + dir}
	cmd.Dir = "/"
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC,
		Pdeathsig:  syscall.SIGKILL,
	}
	for _, o := range options {
		o(cmd)
	}
	must(t, cmd.Start())
	g := &guest{t: t, cmd: cmd, dir: dir}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return g
}

func (g *guest) pid() int { return g.cmd.Process.Pid }

// connect dials the guest's socket, waiting until it is there.
func (g *guest) connect() net.Conn {
	g.t.Helper()
	deadline := time.Now().Add(patience)
	for {
		conn, pid, err := client.Dial(context.Background(), g.dir, "guest.sock")
		if err == nil {
			if pid != g.pid() {
				g.t.Fatalf("process %d listens, not the guest %d", pid, g.pid())
			}
			return conn
		}
		if time.Now().After(deadline) {
			g.t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
}

func (g *guest) client(o client.Options) *client.Client {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	c, err := client.New(ctx, g.connect(), o)
	must(g.t, err)
	g.t.Cleanup(func() { c.Close() })
	return c
}

// result is a finished command with its output.
type result struct {
	exit           sandbox.Exit
	stdout, stderr string
}

func run(t testing.TB, c *client.Client, cmd sandbox.Command) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*patience)
	defer cancel()
	return runContext(t, ctx, c, cmd)
}

func runContext(t testing.TB, ctx context.Context, c *client.Client, cmd sandbox.Command) result {
	t.Helper()
	var out, errOut bytes.Buffer
	if cmd.Stdout == nil {
		cmd.Stdout = &out
	}
	if cmd.Stderr == nil {
		cmd.Stderr = &errOut
	}
	p, err := c.Start(ctx, cmd)
	must(t, err)
	exit, err := p.Wait()
	must(t, err)
	return result{exit: exit, stdout: out.String(), stderr: errOut.String()}
}

func sh(script string) sandbox.Command {
	return sandbox.Command{Args: []string{"/bin/sh", "-c", script}}
}

// inside lists the processes of the guest's namespace that are neither the guest
// nor shims. The /proc that the guest sees has no others.
func (g *guest) inside() []string {
	g.t.Helper()
	proc := fmt.Sprintf("/proc/%d/root/proc", g.pid())
	entries, err := os.ReadDir(proc)
	must(g.t, err)
	var found []string
	for _, e := range entries {
		if pid, err := strconv.Atoi(e.Name()); err != nil || pid == 1 {
			continue
		}
		if _, err := os.Readlink(filepath.Join(proc, e.Name(), "ns/pid")); err != nil { // has ended
			continue
		}
		cmdline, err := os.ReadFile(filepath.Join(proc, e.Name(), "cmdline"))
		if err != nil || strings.HasPrefix(string(cmdline), "sandbox-guest\x00stage") {
			continue
		}
		if strings.HasPrefix(string(cmdline), "sandbox-guest\x00init") { // is about to be a shim
			continue
		}
		found = append(found, strings.ReplaceAll(string(cmdline), "\x00", " "))
	}
	return found
}

// openDir is a folder for the test that everybody may enter.
func openDir(t testing.TB) string {
	t.Helper()
	dir := t.TempDir()
	must(t, os.Chmod(filepath.Dir(dir), 0o755))
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// long skips a test that takes more than about a second if the flag -short is set.
func long(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("long")
	}
}

// patience is how long what takes milliseconds may take on a machine on which
// the tests of many packages run at the same time.
const patience = time.Minute

// eventually waits until ok is true, where within is not zero at least for
// patience, because tests check that the condition comes true, not how fast.
func eventually(t testing.TB, within time.Duration, what string, ok func() bool) {
	t.Helper()
	if within > 0 {
		within = max(within, patience)
	}
	for deadline := time.Now().Add(within); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("not within %v: %s", within, what)
		}
	}
}

func (g *guest) empty(within time.Duration) {
	g.t.Helper()
	var left []string
	defer func() {
		if g.t.Failed() {
			g.t.Logf("left: %q", left)
		}
	}()
	eventually(g.t, within, "nothing is left inside", func() bool {
		left = g.inside()
		return len(left) == 0
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func codeIs(t testing.TB, err error, code sandbox.Code) {
	t.Helper()
	if !errors.Is(err, &sandbox.Error{Code: code}) {
		t.Fatalf("got %v, want code %s", err, code)
	}
}
