package manager_test

import (
	"context"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/manager"
)

// A gate stands between us and the real engine, and can be shut: new
// connections are then refused, or accepted and never answered.
type gate struct {
	path string
	mode atomic.Int32
}

const (
	open int32 = iota
	refusing
	hanging
)

func newGate(t *testing.T) *gate {
	t.Helper()
	g := &gate{path: filepath.Join(t.TempDir(), "engine.sock")}
	l, err := net.Listen("unix", g.path)
	must(t, err)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			switch g.mode.Load() {
			case refusing:
				c.Close()
			case hanging:
				go func() { io.Copy(io.Discard, c); c.Close() }()
			default:
				go pass(c)
			}
		}
	}()
	return g
}

func pass(c net.Conn) {
	defer c.Close()
	up, err := net.Dial("unix", "/var/run/docker.sock")
	if err != nil {
		return
	}
	defer up.Close()
	go func() { io.Copy(up, c); up.(*net.UnixConn).CloseWrite() }()
	io.Copy(c, up)
}

// TestEngineTrouble holds that engine trouble is an error of its own: never
// the command's exit code, never "no such sandbox", never for ever.
func TestEngineTrouble(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		mode   int32
		within time.Duration // the engine is to answer
		code   sandbox.Code
	}{
		"down":  {refusing, time.Minute, sandbox.CodeUnavailable},
		"hangs": {hanging, 5 * time.Second, sandbox.CodeTimeout},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			_, o := mustRun(t, r.manager(""), "s", "true")
			g := newGate(t)
			r.host = "unix://" + g.path
			r.limits.Query = tt.within
			g.mode.Store(tt.mode)
			m := r.manager("")
			start := time.Now()
			out, got, err := run(m, "s", "echo ran")
			if sandbox.CodeOf(err) != tt.code || out != "" || got.Exit.Code != 0 {
				t.Errorf("run says %q, %+v, %v", out, got, err)
			}
			l, err := m.List(context.Background(), manager.ListOptions{})
			if sandbox.CodeOf(err) != tt.code {
				t.Errorf("list says %v", err)
			}
			if len(l.Containers) != 1 || l.Containers[0].Name != o.Name || l.Containers[0].Status != sandbox.StatusUnknown || l.Containers[0].ConfigMatch != nil || l.Containers[0].ImageMatch != nil {
				t.Errorf("list shows %+v", l.Containers)
			}
			if p, err := m.Prune(context.Background(), manager.PruneOptions{}); sandbox.CodeOf(err) != tt.code || len(p.Removed) != 0 {
				t.Errorf("prune did %+v, %v", p, err)
			}
			if took := time.Since(start); took > 2*time.Minute {
				t.Errorf("it took %s", took)
			}
			g.mode.Store(open)
			out, _, err = run(m, "s", "echo back")
			for end := time.Now().Add(time.Minute); sandbox.CodeOf(err) == sandbox.CodeTimeout && time.Now().Before(end); {
				out, _, err = run(m, "s", "echo back") // the engine works, and is slow today
			}
			if err != nil || out != "back" {
				t.Errorf("afterwards: %q, %v", out, err)
			}
		})
	}
}

// TestEngineRestart stops and starts an engine of its own in the middle. After it,
// a sandbox has its workspace; so has a session that claimed a slot of a pool, and
// slots without a claim are made anew: code that is not on record may have run in
// them.
func TestEngineRestart(t *testing.T) {
	t.Parallel()
	r, p := newRig(t), newRig(t)
	d := newEngine(t)
	r.host, p.host = "unix://"+d.socket, "unix://"+d.socket
	m, keeper := r.manager(""), p.manager(pooled(1))
	fillPool(t, keeper)
	if _, o := mustRun(t, keeper, "s", "echo kept > file"); !o.Claimed {
		t.Errorf("no slot was claimed: %+v", o)
	}
	fillPool(t, keeper)
	mustRun(t, m, "s", "touch /workspace/mark")
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		_, err := m.Run(context.Background(), manager.Request{Who: who("s"), Command: sandbox.Command{Args: []string{"sleep", "600"}}, Started: func(sandbox.Process) { close(started) }})
		done <- err
	}()
	<-started
	d.stop()
	select {
	case err := <-done:
		if sandbox.CodeOf(err) != sandbox.CodeUnavailable {
			t.Errorf("the running command ends with %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the running command hangs")
	}
	l, err := m.List(context.Background(), manager.ListOptions{})
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || len(l.Containers) != 1 || l.Containers[0].Status != sandbox.StatusUnknown {
		t.Errorf("list shows %+v, %v", l.Containers, err)
	}
	d.start()
	if out, _ := mustRun(t, m, "s", "ls"); out != "mark" {
		t.Errorf("after the restart: %q", out)
	}
	next := p.manager(pooled(1))
	if out, o := mustRun(t, next, "s", "cat file"); out != "kept" || o.Created {
		t.Errorf("what was claimed, after the restart: %q, %+v", out, o)
	}
	if _, o := mustRun(t, next, "t", "true"); o.Claimed {
		t.Errorf("a slot that had stopped was claimed: %+v", o)
	}
	if n := fillPool(t, next); n != 1 {
		t.Errorf("%d slots were made anew", n)
	}
}

// An engine of the test's own, with its own data.
type testEngine struct {
	t      *testing.T
	dir    string
	socket string
	cmd    *exec.Cmd
}

func newEngine(t *testing.T) *testEngine {
	t.Helper()
	// The path of containerd's socket below it must stay short.
	dir, err := os.MkdirTemp("", "eng")
	must(t, err)
	d := &testEngine{t: t, dir: dir, socket: filepath.Join(dir, "d.sock")}
	d.start()
	t.Cleanup(func() {
		exec.Command("sh", "-c", "docker -H unix://"+d.socket+" ps -aq | xargs -r docker -H unix://"+d.socket+" rm -f").Run()
		d.stop()
		os.RemoveAll(dir)
	})
	load := exec.Command("sh", "-c", "docker save sandbox:bookworm-slim | docker -H unix://"+d.socket+" load")
	if out, err := load.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return d
}

func (d *testEngine) start() {
	d.t.Helper()
	log, err := os.OpenFile(filepath.Join(d.dir, "log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	must(d.t, err)
	defer log.Close()
	empty := filepath.Join(d.dir, "daemon.json")
	must(d.t, os.WriteFile(empty, []byte("{}"), 0o600))
	d.cmd = exec.Command("dockerd", "--config-file", empty, "--host", "unix://"+d.socket, "--data-root", filepath.Join(d.dir, "data"),
		"--exec-root", filepath.Join(d.dir, "run"), "--pidfile", filepath.Join(d.dir, "pid"), "--bridge", "none", "--iptables=false", "--ip6tables=false")
	d.cmd.Stdout, d.cmd.Stderr = log, log
	// An engine without a bridge removes docker0, which is that of another engine.
	d.cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	must(d.t, d.cmd.Start())
	waitFor(d.t, func() *bool {
		c, err := net.Dial("unix", d.socket)
		if err != nil {
			return nil
		}
		c.Close()
		ok := exec.Command("docker", "-H", "unix://"+d.socket, "version").Run() == nil
		if !ok {
			return nil
		}
		return &ok
	})
}

func (d *testEngine) stop() {
	d.cmd.Process.Signal(os.Interrupt)
	done := make(chan struct{})
	go func() { d.cmd.Wait(); close(done) }()
	select {
	case <-done:
	case <-time.After(40 * time.Second):
		b, _ := os.ReadFile(filepath.Join(d.dir, "log"))
		lines := strings.Split(strings.TrimSpace(string(b)), "\n")
		d.t.Errorf("the test's engine does not stop: %s", strings.Join(lines[max(0, len(lines)-5):], "\n"))
		d.cmd.Process.Kill()
		<-done
	}
}
