package page

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// A chromium is a container with a browser, as tests of this package need it.
type chromium struct {
	name string
	pid  string
	user int // whose the workspace is
}

// startChromium starts a browser without network in a container of its own.
func startChromium() (*chromium, error) {
	name := fmt.Sprintf("sandbox-page-test-%d", os.Getpid())
	seccomp := os.Getenv("SANDBOX_PAGE_SECCOMP")
	if seccomp == "" {
		seccomp = "/tmp/brow.json"
	}
	args := []string{
		"run", "-d", "--name", name, "--label", "sandbox.test=page", "--network", "none", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--security-opt", "seccomp=" + seccomp, "--read-only",
		"--tmpfs", "/tmp", "--tmpfs", "/run", "--tmpfs", "/home/sandbox:mode=1777", "--memory", "2g", "--pids-limit", "1024", "--shm-size", "256m",
		"-u", "1000:1000", "-e", "HOME=/home/sandbox", "--init", "zz-chr:1",
		"chromium", "--headless=new", "--disable-gpu", "--remote-debugging-port=9222", "--user-data-dir=/home/sandbox/p",
		"--no-first-run", "--disable-dev-shm-usage", "--proxy-server=http://127.0.0.1:3128", "--proxy-bypass-list=<-loopback>", "about:blank",
	}
	if out, err := exec.Command("docker", args...).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("docker run: %w: %s", err, out)
	}
	c := &chromium{name: name, user: 1000}
	out, err := exec.Command("docker", "inspect", "-f", "{{.State.Pid}}", name).Output()
	if err != nil {
		c.stop()
		return nil, err
	}
	c.pid = strings.TrimSpace(string(out))
	for end := time.Now().Add(20 * time.Second); ; {
		conn, err := c.dial("tcp", "127.0.0.1:9222")
		if err == nil {
			conn.Close()
			return c, nil
		}
		if time.Now().After(end) {
			c.stop()
			return nil, errors.New("the browser does not come up")
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func (c *chromium) stop() { _ = exec.Command("docker", "rm", "-f", c.name).Run() }

// within does something in the network of the container.
func (c *chromium) within(do func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		fd, err := unix.Open("/proc/"+c.pid+"/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err == nil {
			err = unix.Setns(fd, unix.CLONE_NEWNET)
			unix.Close(fd)
		}
		if err == nil {
			err = do()
		}
		done <- err
	}()
	return <-done
}

func (c *chromium) dial(network, address string) (conn net.Conn, err error) {
	err = c.within(func() error {
		conn, err = net.DialTimeout(network, address, 5*time.Second)
		return err
	})
	return conn, err
}

// A place is a browser.Container over a chromium, with settings, a workspace
// and a web of its own.
type place struct {
	*chromium
	settings browser.Settings
	dir      string
	web      http.Handler // nil: no way out
	ways     atomic.Int64 // that are open

	mu    sync.Mutex
	asked []string // of the web: "METHOD URL"
}

func (p *place) Name() string               { return p.name }
func (p *place) Settings() browser.Settings { return p.settings }
func (p *place) Close() error               { return nil }

func (p *place) Workspace(context.Context) (browser.Workspace, error) {
	return browser.Workspace{Dir: p.dir, UID: p.user, GID: p.user}, nil
}

func (p *place) Dial(_ context.Context, network, address string) (net.Conn, error) {
	return p.dial(network, address)
}

// Way serves the web of the test by a proxy inside.
func (p *place) Way(context.Context, int) (netip.AddrPort, func(), bool, error) {
	if p.web == nil {
		return netip.AddrPort{}, nil, false, nil
	}
	var l net.Listener
	err := p.within(func() (err error) {
		l, err = net.Listen("tcp", "127.0.0.1:0")
		return err
	})
	if err != nil {
		return netip.AddrPort{}, nil, false, err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.asked = append(p.asked, r.Method+" "+r.URL.String())
		p.mu.Unlock()
		if r.Method == http.MethodConnect {
			w.WriteHeader(http.StatusForbidden)
			return
		}
		p.web.ServeHTTP(w, r)
	}))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	p.ways.Add(1)
	var once sync.Once
	end := func() {
		once.Do(func() {
			server.CloseClientConnections()
			server.Close()
			p.ways.Add(-1)
		})
	}
	return netip.MustParseAddrPort(l.Addr().String()), end, true, nil
}

// requests returns what the web was asked for at that host.
func (p *place) requests(host string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, a := range p.asked {
		if strings.Contains(a, host) {
			out = append(out, a)
		}
	}
	return out
}

// A program is a command inside.
type program struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error
}

func (p *place) Start(ctx context.Context, c sandbox.Command) (sandbox.Process, error) {
	cmd := exec.CommandContext(ctx, "docker", append([]string{"exec", "-i", p.name}, c.Args...)...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = c.Stdin, c.Stdout, c.Stderr
	if cmd.Stdin == nil {
		cmd.Stdin = strings.NewReader("")
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	out := &program{cmd: cmd, done: make(chan struct{})}
	go func() {
		out.err = cmd.Wait()
		close(out.done)
	}()
	return out, nil
}

func (p *program) Wait() (sandbox.Exit, error) {
	<-p.done
	if exit := (*exec.ExitError)(nil); errors.As(p.err, &exit) {
		return sandbox.Exit{Code: exit.ExitCode()}, nil
	}
	return sandbox.Exit{}, p.err
}
func (p *program) Signal(context.Context, string) error      { return nil }
func (p *program) Resize(context.Context, sandbox.TTY) error { return nil }
func (p *program) Kill(context.Context) error                { return p.cmd.Process.Kill() }

// inside runs a command in the container and returns what it says.
func (p *place) inside(t testing.TB, args ...string) string {
	t.Helper()
	out, err := exec.Command("docker", append([]string{"exec", p.name}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
	return string(out)
}

var _ io.Closer = (*place)(nil)
