package display_test

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
)

func TestMain(m *testing.M) {
	testenv.AtOnce(3)
	testenv.Main(m)
}

// A rig is a Display on the real engine, whose browsers may reach the hosts of
// the test as far as settings allow.
type rig struct {
	*display.Display
	t     testing.TB
	m     *manager.Manager
	net   *testenv.Internet
	state string
}

// on returns a rig with the settings of a browser and others of a sandbox, as
// JSON without braces; either may be empty.
func on(t testing.TB, browser, rest string) *rig {
	t.Helper()
	testenv.Require(t, "browser")
	r := &rig{t: t, net: testenv.NewInternet(t)}
	w := dockertest.New(t)
	r.state = w.State.Path()
	r.m = newManager(t, w, r.net, settings(browser, rest))
	r.Display = newDisplays(t, r.m)
	return r
}

func newDisplays(t testing.TB, m *manager.Manager) *display.Display {
	log := logrus.New()
	log.SetOutput(io.Discard)
	d := display.New(manager.BrowserBackend(m), log)
	t.Cleanup(func() { d.Close() })
	return d
}

func settings(browser, rest string) string {
	if browser != "" {
		browser = "," + browser
	}
	if rest != "" {
		rest = "," + rest
	}
	return `{"agents":{"defaults":{"sandbox":{"browser":{"enabled":true,"autoStartTimeout":"60s"` + browser + `}` + rest + `}}}}`
}

func newManager(t testing.TB, w *dockertest.Rig, n *testenv.Internet, text string) *manager.Manager {
	t.Helper()
	parsed, err := config.Parse("test", []byte(text))
	must(t, err)
	set, err := provider.New(w.P)
	must(t, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	ev, err := evidence.Open(w.State.Evidence(), evidence.Options{})
	must(t, err)
	vi, err := violation.Open(w.State.Violations(), violation.Options{})
	must(t, err)
	rec, err := egress.NewRecorder(egress.RecorderOptions{Evidence: ev, Violations: vi, Log: log})
	must(t, err)
	plane := egress.New(egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{Resolver: n.Names}), Record: rec.Record, Decide: rec.Decide, Roots: n.Authority.Pool})
	api, err := container.Dial()
	must(t, err)
	m, err := manager.New(manager.Options{
		Settings: parsed, State: w.State, Providers: set, Violations: vi,
		Images: images.Source{Store: images.New(api, images.Config{LockDir: filepath.Join(w.State.Locks(), "images")})},
		Host: manager.Host{CPUs: runtime.NumCPU(), Memory: 8 << 30, Sensitive: []string{w.State.Path(), "/run/docker.sock"},
			Guest: sync.OnceValues(func() (sandbox.GuestRef, error) { return w.State.InstallGuest(testenv.Guest(t)) })},
		Log: log,
		Out: func() (proxy.Server, error) {
			return &egress.Server{Plane: plane, Recorder: rec, LookupEnv: os.LookupEnv, Authority: func() (*egress.Authority, error) { return egress.Open(w.State.Egress()) }}, nil
		},
	})
	must(t, err)
	t.Cleanup(func() {
		m.Close()
		plane.Close()
		rec.Close()
		ev.Close()
		vi.Close()
		api.Close()
	})
	return m
}

func of(session string) display.Request {
	return display.Request{Who: config.Who{Agent: "main", Session: session}}
}

// patient bounds a whole test with several browsers, of which each takes a
// minute where many tests run at once.
func patient(t testing.TB) context.Context {
	ctx, done := context.WithTimeout(context.Background(), 5*time.Minute)
	t.Cleanup(done)
	return ctx
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
