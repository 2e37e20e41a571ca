package manager_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/docker/docker/client"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/hostpath"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/policy/hardening"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/docker"
)

// A rig is a manager on the real engine with a state folder of its own.
type rig struct {
	t      testing.TB
	dir    string
	state  *statedir.Dir
	engine *container.Engine
	log    *logBuffer
	idle   []func() // close idle connections to the engine
	clock  *clock
	wrap   func(docker.Engine) docker.Engine // faults, or nil
	host   string                            // of the engine; empty is the usual one
	limits container.Deadlines               // of what a manager asks the engine
	socket time.Duration                     // how long a guest may take to listen; zero is the usual time
	change func(*manager.Options)            // of what a manager is made of, or nil
}

func newRig(t testing.TB) *rig {
	t.Helper()
	testenv.Require(t, "docker")
	testenv.Require(t, "root")
	r := &rig{t: t, dir: filepath.Join(t.TempDir(), "state"), log: &logBuffer{}, clock: &clock{}, limits: testenv.Patient()}
	r.connect()
	t.Cleanup(r.clean)
	return r
}

func (r *rig) connect() {
	st, err := statedir.Open(r.dir)
	must(r.t, err)
	r.state, r.engine = st, container.New(r.dial(), testenv.Patient())
}

func (r *rig) dial() *client.Client {
	opts := []client.Opt{client.FromEnv, client.WithAPIVersionNegotiation()}
	if r.host != "" {
		opts = append(opts, client.WithHost(r.host))
	}
	api, err := client.NewClientWithOpts(opts...)
	must(r.t, err)
	r.t.Cleanup(func() { api.Close() })
	r.idle = append(r.idle, func() { api.Close() }) // closes idle connections alone
	return api
}

func (r *rig) clean() {
	ctx, done := context.WithTimeout(context.Background(), 10*time.Minute)
	defer done()
	if r.host != "" {
		// A gate or an engine of the test's own; the usual one is asked too.
		r.engine.Close()
		r.host = ""
		r.engine = container.New(r.dial(), testenv.Patient())
	}
	infos, err := r.engine.List(ctx, sandbox.Filter{Instance: r.state.Instance()})
	if err != nil {
		r.t.Error(err)
	}
	for _, info := range infos {
		if err := r.engine.Remove(ctx, info.ID); err != nil {
			r.t.Error(err)
		}
	}
	r.engine.Close()
}

// manager returns a manager for settings, a file's content. Each call
// stands for a new start of the program.
func (r *rig) manager(settings string) *manager.Manager {
	r.t.Helper()
	if settings == "" {
		settings = "{}"
	}
	parsed, err := config.Parse("test", []byte(settings))
	must(r.t, err)
	api := r.dial()
	var e docker.Engine = container.New(api, r.limits)
	if r.wrap != nil {
		e = r.wrap(e)
	}
	sensitive := []string{r.state.Path(), "/run/docker.sock"}
	p := docker.New(e, docker.Options{Sockets: r.state, Instance: r.state.Instance(), Ready: 5 * time.Minute, SocketPatience: r.socket, Protection: filepath.Join(r.state.Path(), "docker"), Images: testenv.Images(), World: func() hardening.World {
		return hardening.World{Canonical: hostpath.Canonical, Sensitive: sensitive, Workspaces: []string{r.state.Workspaces()}}
	}})
	set, err := provider.New(p)
	must(r.t, err)
	log := logrus.New()
	log.SetOutput(io.MultiWriter(r.log))
	o := manager.Options{
		Settings: parsed, State: r.state, Providers: set,
		Images: images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(r.state.Locks(), "images")})},
		Host: manager.Host{CPUs: runtime.NumCPU(), Memory: 8 << 30, Sensitive: sensitive,
			Guest: sync.OnceValues(func() (sandbox.GuestRef, error) { return r.state.InstallGuest(testenv.Guest(r.t)) })},
		Log: log, Now: r.clock.now,
	}
	if r.change != nil {
		r.change(&o)
	}
	m, err := manager.New(o)
	must(r.t, err)
	r.t.Cleanup(func() { m.Close() })
	return m
}

func who(session string) config.Who { return config.Who{Agent: "main", Session: session} }

// run runs a shell line and returns its output and outcome.
func run(m *manager.Manager, session, line string, change ...func(*manager.Request)) (string, manager.Outcome, error) {
	var out bytes.Buffer
	req := manager.Request{Who: who(session), Command: sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out}}
	for _, c := range change {
		c(&req)
	}
	ctx, done := context.WithTimeout(context.Background(), 10*time.Minute)
	defer done()
	o, err := m.Run(ctx, req)
	return strings.TrimSpace(out.String()), o, err
}

// mustRun is run for lines that have to succeed.
func mustRun(t testing.TB, m *manager.Manager, session, line string) (string, manager.Outcome) {
	t.Helper()
	out, o, err := run(m, session, line)
	if err != nil || o.Exit.Code != 0 {
		t.Fatalf("%s: %q, exit %d, %v", line, out, o.Exit.Code, err)
	}
	return out, o
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A clock can be set ahead, and stopped so that nothing but that moves it.
type clock struct {
	mu      sync.Mutex
	ahead   time.Duration
	stopped time.Time // what it shows without ahead; zero is the time of day
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.stopped.IsZero() {
		return c.stopped.Add(c.ahead)
	}
	return time.Now().Add(c.ahead)
}

// stop stops the clock until the function that it returns is called.
func (c *clock) stop() (resume func()) {
	set := func(at time.Time) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.stopped = at
	}
	set(time.Now())
	return func() { set(time.Time{}) }
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}

type logBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.buf.String()
}

func tempDir(t testing.TB, mode os.FileMode) string {
	t.Helper()
	d := t.TempDir()
	must(t, os.Chmod(d, mode))
	return d
}
