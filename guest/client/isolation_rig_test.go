package client_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"

	"github.com/bulkhead-dev/sandbox/guest/client"
	"github.com/bulkhead-dev/sandbox/guest/wire"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
	"golang.org/x/sys/unix"
)

// A sandbox is a guest in a bubblewrap sandbox of an ordinary user, with a
// workspace of which a part is closed.
type fixture struct {
	*client.Client
	cmd  *exec.Cmd
	work string // folder of the host that is /workspace
}

// A sandboxPlan is what a test changes of a sandbox.
type sandboxPlan struct {
	config  wire.Config
	sockets bool // commands may make Unix sockets
	open    bool // no filter for the whole sandbox
	mute    bool // what the guest says on standard error is not shown
}

// observing returns the usual plan of a sandbox.
func observing() sandboxPlan {
	return sandboxPlan{config: wire.Config{
		Landlock: true, Observe: true, Processes: 512,
		Readable: []string{"/usr", "/etc", "/.sandbox", "/not-there"}, Writable: []string{"/workspace", "/tmp"},
	}}
}

// start starts the sandbox and waits until its guest answers.
func (p sandboxPlan) start(t testing.TB) *fixture {
	t.Helper()
	w, conn := p.launch(t)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	var err error
	w.Client, err = client.New(ctx, conn, client.Options{Dir: "/workspace"})
	must(t, err)
	t.Cleanup(func() { w.Client.Close() })
	return w
}

// launch starts bubblewrap and returns our end of the guest's connection.
func (p sandboxPlan) launch(t testing.TB) (*fixture, net.Conn) {
	t.Helper()
	bwrap, err := exec.LookPath("bwrap")
	if err != nil {
		testenv.Lack(t, "local", "bubblewrap is not installed")
	}
	if os.Geteuid() != 0 {
		testenv.Lack(t, "root", "the sandbox gets a user of its own")
	}
	w := &fixture{work: workspace(t)}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	must(t, err)
	arch, err := seccomp.ArchOf(runtime.GOARCH)
	must(t, err)
	p.config.Filter = seccomp.Command(arch, seccomp.Options{Observe: p.config.Observe, UnixSockets: p.sockets}).Bytes()
	files := []*os.File{os.NewFile(uintptr(pair[1]), "guest"), inMemory(t, p.config.Encode()), inMemory(t, seccomp.Filter(arch).Bytes())}
	w.cmd = exec.Command(bwrap, p.args(t, w.work)...)
	w.cmd.ExtraFiles = files
	w.cmd.Dir = "/"
	if !p.mute {
		w.cmd.Stderr = os.Stderr
	}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: guestUID, Gid: guestUID}}
	must(t, w.cmd.Start())
	t.Cleanup(func() {
		_ = w.cmd.Process.Kill()
		_ = w.cmd.Wait()
	})
	for _, f := range files {
		f.Close()
	}
	ours := os.NewFile(uintptr(pair[0]), "client")
	conn, err := net.FileConn(ours)
	must(t, err)
	ours.Close()
	return w, conn
}

// args is the command line of bubblewrap: descriptor 3 is the connection, 4 the
// configuration, 5 the filter of the sandbox.
func (p sandboxPlan) args(t testing.TB, work string) []string {
	args := []string{
		"--unshare-user", "--unshare-pid", "--unshare-net", "--unshare-ipc", "--unshare-uts", "--disable-userns",
		"--die-with-parent", "--new-session", "--as-pid-1", "--clearenv", "--setenv", "PATH", "/usr/bin:/bin",
		"--uid", "1000", "--gid", "1000", "--cap-drop", "ALL",
		"--ro-bind", "/usr", "/usr", "--symlink", "usr/bin", "/bin", "--symlink", "usr/lib", "/lib",
		"--symlink", "usr/lib64", "/lib64", "--ro-bind", "/etc/ld.so.cache", "/etc/ld.so.cache",
		"--dir", "/etc", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/tmp", "--tmpfs", "/private",
		"--ro-bind", filepath.Dir(binary.path(t)), "/.sandbox/bin", "--ro-bind", binary.probe(t), "/.sandbox/probe",
		"--bind", work, "/workspace", "--ro-bind", work + "/closed", "/workspace/closed", "--ro-bind", work + "/key", "/workspace/key",
		"--bind", work + "/pinned", "/workspace/pinned",
		"--perms", "0000", "--tmpfs", "/workspace/hidden", "--remount-ro", "/workspace/hidden", "--remount-ro", "/",
	}
	if !p.open {
		args = append(args, "--add-seccomp-fd", "5")
	}
	return append(args, "--", "/.sandbox/bin/sandbox-guest", "init", "--fd=3", "--config=4")
}

// workspace makes a folder of the host with what the tests try to change.
func workspace(t testing.TB) string {
	t.Helper()
	base, err := os.MkdirTemp("", "w")
	must(t, err)
	t.Cleanup(func() { os.RemoveAll(base) })
	must(t, os.Chmod(base, 0o755))
	work := filepath.Join(base, "work")
	for _, dir := range []string{"", "closed", "pinned", "sub", "hidden"} {
		must(t, os.Mkdir(filepath.Join(work, dir), 0o755))
	}
	for _, file := range []string{"closed/file", "key", "file", "pinned/file"} {
		must(t, os.WriteFile(filepath.Join(work, file), []byte("content"), 0o644))
	}
	for to, link := range map[string]string{"/usr": "tousr", "closed": "toclosed", "/usr/dangling": "toair", "sub": "tosub"} {
		must(t, os.Symlink(to, filepath.Join(work, link)))
	}
	must(t, filepath.WalkDir(work, func(path string, _ os.DirEntry, err error) error {
		must(t, err)
		return os.Lchown(path, guestUID, guestUID)
	}))
	return work
}

// inMemory returns a file without a name that holds b.
func inMemory(t testing.TB, b []byte) *os.File {
	t.Helper()
	fd, err := unix.MemfdCreate("test", unix.MFD_CLOEXEC)
	must(t, err)
	f := os.NewFile(uintptr(fd), "memory")
	_, err = f.WriteAt(b, 0)
	must(t, err)
	return f
}

// probeEnv makes the test binary a program inside a sandbox: one of probes().
const probeEnv = "GUEST_TEST_PROBE"

// A finding is what a probe tells, one line of JSON each.
type finding struct {
	What  string
	Errno int
}

func tell(what string, errno syscall.Errno) {
	b, _ := json.Marshal(finding{what, int(errno)})
	fmt.Println(string(b))
}
