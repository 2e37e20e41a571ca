package fsbridge_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// unprivileged is the user that runs the commands of a local sandbox when the
// test runs as root.
const unprivileged = 54321

// A local is a sandbox without isolation for testing scripts: it runs commands
// as an unprivileged user straight on this machine, with a PATH of its own.
// Like an engine that carries JSON it passes arguments as valid UTF-8 only.
type local struct {
	bin string // folder in which commands are looked up
}

var _ sandbox.Sandbox = (*local)(nil)

func (l *local) Info() sandbox.Info {
	return sandbox.Info{Name: "local", Status: sandbox.StatusRunning}
}
func (l *local) Close() error { return nil }

func (l *local) OpenShell(context.Context, sandbox.ShellOptions) (sandbox.Shell, error) {
	return nil, &sandbox.Error{Code: sandbox.CodeUnsupported, Message: "no shells"}
}

func (l *local) Usage(context.Context) (sandbox.Usage, error) {
	return sandbox.Usage{}, &sandbox.Error{Code: sandbox.CodeUnsupported, Message: "no usage"}
}

func (l *local) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	for i, a := range c.Args {
		c.Args[i] = strings.ToValidUTF8(a, "\uFFFD") // as engines do, which carry JSON
	}
	cmd := exec.CommandContext(ctx, c.Args[0], c.Args[1:]...)
	cmd.Path, cmd.Err = filepath.Join(l.bin, c.Args[0]), nil
	cmd.Env = []string{"PATH=" + l.bin}
	for k, v := range c.Env {
		cmd.Env = append(cmd.Env, k+"="+v)
	}
	cmd.Dir, cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Dir, c.Stdin, c.Stdout, c.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr.Credential = &syscall.Credential{Uid: unprivileged, Gid: unprivileged}
	}
	p := &localProcess{cmd: cmd, done: make(chan struct{})}
	cmd.Cancel = func() error {
		if c.Grace == 0 {
			return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL)
		}
		return syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM)
	}
	// It begins when the process has ended, too, and cuts off what is read late.
	cmd.WaitDelay = c.Grace + time.Minute
	if err := cmd.Start(); err != nil {
		return nil, &sandbox.Error{Code: sandbox.CodeExecution, Op: "start", Message: "cannot start", Err: err}
	}
	go p.wait()
	return p, nil
}

type localProcess struct {
	cmd  *exec.Cmd
	done chan struct{}
	exit sandbox.Exit
	err  error
}

func (p *localProcess) wait() {
	defer close(p.done)
	err := p.cmd.Wait()
	syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL) // what is left of the group
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) && p.cmd.ProcessState == nil {
		p.err = err
		return
	}
	status := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if status.Signaled() {
		p.exit = sandbox.Exit{Code: 128 + int(status.Signal()), Signal: status.Signal().String()}
		return
	}
	p.exit = sandbox.Exit{Code: status.ExitStatus()}
}

func (p *localProcess) Wait() (sandbox.Exit, error) {
	<-p.done
	return p.exit, p.err
}

func (p *localProcess) Signal(context.Context, string) error      { return errors.ErrUnsupported }
func (p *localProcess) Resize(context.Context, sandbox.TTY) error { return errors.ErrUnsupported }
func (p *localProcess) Kill(context.Context) error {
	return syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
}

// openFolder returns a new folder that everybody can reach and use.
func openFolder(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fsbridge-")
	must(t, err)
	t.Cleanup(func() {
		// What the tests locked is unlocked first; a failure shows in RemoveAll.
		filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				os.Chmod(path, 0o700)
			}
			return nil
		})
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	must(t, os.Chmod(dir, 0o755))
	return dir
}

// toolbox returns a folder with a shell and its utilities: those of the
// machine for "dash" and "bash", the applets for "busybox". The utilities in
// without are left out.
func toolbox(t testing.TB, shell string, without ...string) string {
	t.Helper()
	sh, err := exec.LookPath(shell)
	if err != nil {
		testenv.Lack(t, shell, "it is not installed")
	}
	bin := filepath.Join(openFolder(t), "bin")
	must(t, os.Mkdir(bin, 0o755))
	must(t, os.Symlink(sh, filepath.Join(bin, "sh")))
	for _, name := range utilities() {
		if name == "sh" || slices.Contains(without, name) {
			continue
		}
		path := sh
		if shell != "busybox" {
			if path, err = exec.LookPath(name); err != nil {
				testenv.Lack(t, name, "it is not installed")
			}
		}
		must(t, os.Symlink(path, filepath.Join(bin, name)))
	}
	return bin
}

// utilities are what the scripts need, and what the suite needs beyond that.
func utilities() []string {
	return strings.Fields(`cat chmod dd find head link ln mkdir mv readlink rm rmdir stat sync tail wc
		ls mkfifo sleep touch seq xargs cmp sha256sum`)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
