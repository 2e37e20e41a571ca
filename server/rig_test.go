package server_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A house is a daemon with an in-memory provider, which listens at two real
// sockets.
type fixture struct {
	t       *testing.T
	state   *statedir.Dir
	engine  *fake.Engine
	manager *manager.Manager
	tokens  *token.Store
	server  *server.Server
	unix    *http.Client // of an admin
	tcp     *http.Client // for callers with a token
	addr    string
	check   *served.Checker
}

// A plan changes the options of a house.
type plan struct {
	settings string
	programs map[string]fake.Program
	manager  func(*manager.Options)
	daemon   func(*server.Options, *fixture)
	provider func(sandbox.Provider) sandbox.Provider
	dir      string // of the state
}

const usual = `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`

// nowhere has no images; the in-memory provider needs none.
type nowhere struct{}

func (nowhere) Volumes(context.Context, string) ([]string, error) { return nil, nil }
func (nowhere) Current(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}
func (nowhere) Ensure(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}

// answering is a provider whose sandboxes report whether they run, as those with
// a guest do, so that their handles are kept.
type answering struct{ *fake.Provider }

func (p answering) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	sb, err := p.Provider.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	return standing{sb}, nil
}

type standing struct{ sandbox.Sandbox }

func (standing) Ping(context.Context) error { return nil }

func (s standing) Files(ctx context.Context) (sandbox.Files, error) {
	return s.Sandbox.(sandbox.FileServer).Files(ctx)
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func open(t *testing.T, p plan) *fixture {
	t.Helper()
	if p.settings == "" {
		p.settings = usual
	}
	if p.dir == "" {
		p.dir = filepath.Join(t.TempDir(), "state")
	}
	h := &fixture{t: t, engine: fake.NewEngine(fake.Options{Name: "local", Programs: p.programs})}
	var err error
	h.state, err = statedir.Open(p.dir)
	must(t, err)
	settings, err := config.Parse("test", []byte(p.settings))
	must(t, err)
	var wall sandbox.Provider = answering{h.engine.Provider()}
	if p.provider != nil {
		wall = p.provider(wall)
	}
	set, err := provider.New(wall)
	must(t, err)
	mo := manager.Options{
		Settings: settings, State: h.state, Providers: set, Images: nowhere{}, Log: quiet(),
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}},
	}
	if p.manager != nil {
		p.manager(&mo)
	}
	h.manager, err = manager.New(mo)
	must(t, err)
	h.tokens, err = token.Open(h.state.Tokens())
	must(t, err)
	h.serve(p)
	return h
}

func (h *fixture) serve(p plan) {
	t := h.t
	running := running.New(running.Options{Manager: running.Managed(h.manager)})
	kits := tools.New(tools.Options{Manager: h.manager, Running: running, Log: quiet()})
	answers, err := resource.Open(filepath.Join(h.state.Path(), "answers"))
	must(t, err)
	boxes := resource.NewSandboxes(resource.Options{Manager: h.manager, Answers: answers, Log: quiet()})
	o := server.Options{
		Log: quiet(), Resources: []resource.Resource{boxes, resource.NewCommands(h.manager), resource.NewToolCalls(h.manager, kits)},
		Identify: func(r *http.Request) (auth.Caller, error) { return auth.Identify(h.tokens, r) },
		Private:  []string{h.state.Path()},
	}
	if p.daemon != nil {
		p.daemon(&o, h)
	}
	h.server, err = server.New(o)
	must(t, err)
	document, err := h.server.Document()
	must(t, err)
	h.check = served.NewAPICheck(t, document)
	h.unix = h.listen("unix", filepath.Join(t.TempDir(), "d.sock"))
	h.tcp = h.listen("tcp", "127.0.0.1:0")
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		must(t, h.server.Drain(ctx, 0))
		boxes.Close()
		must(t, kits.Close(ctx))
		must(t, running.Close(ctx))
		must(t, h.manager.Close())
	})
}

// listen serves at an address and returns a client for it.
func (h *fixture) listen(network, address string) *http.Client {
	l, err := net.Listen(network, address)
	must(h.t, err)
	srv := h.server.HTTP()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		srv.Serve(server.Heads(l))
	}()
	inner := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, l.Addr().String())
	}}
	if network == "tcp" {
		h.addr = l.Addr().String()
	}
	h.t.Cleanup(func() {
		inner.CloseIdleConnections()
		srv.Close()
		<-ended
	})
	return &http.Client{Transport: h.check.Wrap(inner)}
}

// mint makes a token.
func (h *fixture) mint(c token.Claims) string {
	h.t.Helper()
	secret, _, err := h.tokens.Create(c)
	must(h.t, err)
	return secret
}

// A said is an answer.
type said struct {
	*http.Response
	t    *testing.T
	body []byte
}

// send makes one request: as an admin over the unix socket, or with a token over
// TCP. A body that is no string is sent as JSON.
func (h *fixture) send(secret, method, path string, body any, header ...string) said {
	h.t.Helper()
	client, host := h.unix, "http://sandbox"
	if secret != "" {
		client, host = h.tcp, "http://"+h.addr
	}
	var data []byte
	switch b := body.(type) {
	case nil:
	case string:
		data = []byte(b)
	default:
		var err error
		data, err = json.Marshal(b)
		must(h.t, err)
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, host+path, bytes.NewReader(data))
	must(h.t, err)
	if len(data) > 0 {
		r.Header.Set("Content-Type", "application/json")
	}
	if secret != "" && secret != "-" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] == "" {
			r.Header.Del(header[i])
			continue
		}
		r.Header.Add(header[i], header[i+1])
	}
	res, err := client.Do(r)
	must(h.t, err)
	defer res.Body.Close()
	got, err := io.ReadAll(res.Body)
	must(h.t, err)
	return said{res, h.t, got}
}

// is reads an answer of that status as JSON.
func is[T any](s said, status int) T {
	s.t.Helper()
	var v T
	if s.StatusCode != status {
		s.t.Fatalf("%s %s: %d, want %d\n%s", s.Request.Method, s.Request.URL.Path, s.StatusCode, status, s.body)
	}
	if len(s.body) > 0 {
		must(s.t, json.Unmarshal(s.body, &v))
	}
	return v
}

// fails reads an answer as a problem of that status and code.
func (s said) fails(status int, code sandbox.Code) api.Problem {
	s.t.Helper()
	p := is[api.Problem](s, status)
	if p.Code != code || s.Header.Get("Content-Type") != api.ContentProblem {
		s.t.Errorf("%s %s: %+v, want code %s", s.Request.Method, s.Request.URL.Path, p, code)
	}
	return p
}

// made makes the sandbox of a session.
func (h *fixture) made(secret, session string, header ...string) api.Sandbox {
	h.t.Helper()
	return is[api.Sandbox](h.send(secret, "POST", "/v1/sandboxes", map[string]any{"session": session}, header...), 201)
}

// slow returns a plan that cuts off clients that have not read for d.
func slow(d time.Duration) func(*server.Options, *fixture) {
	return func(o *server.Options, _ *fixture) { o.SlowWrite, o.SlowRead = d, d }
}
