package page

import (
	"context"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// A keeper is the testing.TB of a browser that many tests share: it ends with
// all of them.
type keeper struct {
	testing.TB
	ends []func()
}

func (k *keeper) Helper()                  {}
func (k *keeper) Cleanup(f func())         { k.ends = append(k.ends, f) }
func (k *keeper) Context() context.Context { return context.Background() }

func (k *keeper) TempDir() string {
	dir, err := os.MkdirTemp("", "page-")
	if err != nil {
		k.Fatal(err)
	}
	k.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}

func (k *keeper) end() {
	for i := len(k.ends) - 1; i >= 0; i-- {
		k.ends[i]()
	}
}

// A house is the shared browser.
type fixture struct {
	once   sync.Once
	keeper *keeper
	c      *dockertest.Browser
}

// shared is opened by the first test that needs it.
var shared fixture

func (h *fixture) open(t testing.TB) *dockertest.Browser {
	t.Helper()
	testenv.Require(t, "browser")
	h.once.Do(func() {
		h.keeper = &keeper{TB: t}
		h.c = dockertest.OpenBrowser(h.keeper, dockertest.BrowserOptions{})
	})
	if h.c == nil {
		t.Fatal("there is no browser")
	}
	return h.c
}

func TestMain(m *testing.M) {
	status := m.Run()
	if shared.keeper != nil {
		shared.keeper.end()
	}
	os.Exit(status)
}

// A place is a browser with settings, a workspace and a web of its own.
type place struct {
	*dockertest.Browser
	settings browser.Settings
	dir      string
	refusal  error        // of changes of dir
	web      http.Handler // nil: no egress
	egress   atomic.Int64 // open egress listeners

	mu    sync.Mutex
	asked []string // of the web: "METHOD URL"
}

func (p *place) Settings() browser.Settings { return p.settings }

func (p *place) Workspace(context.Context) (browser.Workspace, error) {
	return browser.Workspace{Dir: p.dir, UID: p.Spec.UID, GID: p.Spec.GID, Refusal: p.refusal}, nil
}

// OpenEgress serves the web of the test by a proxy inside.
func (p *place) OpenEgress(ctx context.Context, _ int) (netip.AddrPort, func(), bool, error) {
	if p.web == nil {
		return netip.AddrPort{}, nil, false, nil
	}
	l, err := p.Sandbox.(sandbox.Listener).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return netip.AddrPort{}, nil, false, err
	}
	server := httptest.NewUnstartedServer(http.HandlerFunc(p.answer))
	server.Listener.Close()
	server.Listener = l
	server.Start()
	p.egress.Add(1)
	end := sync.OnceFunc(func() {
		server.CloseClientConnections()
		server.Close()
		p.egress.Add(-1)
	})
	return netip.MustParseAddrPort(l.Addr().(*net.TCPAddr).String()), end, true, nil
}

// answer is the proxy: it records requests before any rule is applied.
func (p *place) answer(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, r.Method+" "+r.URL.String())
	p.mu.Unlock()
	if r.Method == http.MethodConnect {
		w.WriteHeader(http.StatusForbidden)
		return
	}
	p.web.ServeHTTP(w, r)
}

// requests returns the recorded requests that contain part.
func (p *place) requests(part string) []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var out []string
	for _, a := range p.asked {
		if strings.Contains(a, part) {
			out = append(out, a)
		}
	}
	return out
}

// inside runs a command in the container and returns its output.
func (p *place) inside(t testing.TB, args ...string) string {
	t.Helper()
	var out strings.Builder
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	run, err := p.Start(ctx, sandbox.Command{Args: args, Stdout: &out, Stderr: &out})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := run.Wait(); err != nil {
		t.Fatal(err)
	}
	return out.String()
}
