// Package served serves resources of the daemon to tests, over a real socket,
// on a manager whose providers are real or in memory.
package served

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/tenant/token"
)

// people returns the known callers: an admin, two tenants, and two sessions of
// one.
func people() map[string]token.Claims {
	soon := time.Now().Add(time.Hour)
	return map[string]token.Claims{
		"root":    {Role: token.Admin},
		"acme":    {Role: token.Tenant, Tenant: "acme"},
		"acme-s1": {Role: token.Session, Tenant: "acme", Session: "s1", Expires: soon},
		"acme-s2": {Role: token.Session, Tenant: "acme", Session: "s2", Expires: soon},
		"evil":    {Role: token.Tenant, Tenant: "evil"},
	}
}

// Options say what is served.
type Options struct {
	Wall      string // docker or local; one in memory without
	Settings  string // of the file; empty is what the provider needs. The fake is called local
	Change    func(*manager.Options)
	Programs  map[string]fake.Program // of the fake
	Resources func(*Rig) []resource.Resource
	Daemon    func(*server.Options)
}

// A Rig is a daemon that serves.
type Rig struct {
	T       testing.TB
	Manager *manager.Manager
	Engine  *fake.Engine // nil where the provider is real
	State   *statedir.Dir
	Log     logrus.FieldLogger
	Server  *server.Server
	Socket  string
	Tokens  *token.Store
	IDs     map[string]string // of the tokens of people, by name

	secrets map[string]string // of the tokens of people, by name
	client  *http.Client
}

// New serves until the test ends.
func New(t testing.TB, o Options) *Rig {
	t.Helper()
	r := &Rig{T: t}
	log := logrus.New()
	log.SetOutput(io.Discard)
	r.Log = log
	usual := "{}"
	if o.Wall != "docker" {
		usual = `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`
	}
	settings, err := config.Parse("test", []byte(cmp.Or(o.Settings, usual)))
	r.must(err)
	mo := manager.Options{Settings: settings, Log: log}
	r.wall(o, &mo)
	if o.Change != nil {
		o.Change(&mo)
	}
	r.Manager, err = manager.New(mo)
	r.must(err)
	t.Cleanup(func() { r.Manager.Close() })
	r.people()
	do := server.Options{Log: log, Private: []string{r.State.Path()},
		Identify: func(q *http.Request) (auth.Caller, error) { return auth.Identify(r.Tokens, q) }}
	if o.Resources != nil {
		do.Resources = o.Resources(r)
	}
	if o.Daemon != nil {
		o.Daemon(&do)
	}
	r.Server, err = server.New(do)
	r.must(err)
	r.serve()
	return r
}

func (r *Rig) must(err error) {
	r.T.Helper()
	if err != nil {
		r.T.Fatal(err)
	}
}

// serve listens on a unix socket of its own.
func (r *Rig) serve() {
	r.Socket = filepath.Join(r.T.TempDir(), "s")
	l, err := net.Listen("unix", r.Socket)
	r.must(err)
	srv := r.Server.HTTP()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = srv.Serve(server.Heads(l)) // it always ends with an error
	}()
	transport := &http.Transport{DialContext: r.Dial}
	document, err := resource.Document(r.Server.Routes())
	r.must(err)
	r.client = &http.Client{Transport: NewAPICheck(r.T, document).Wrap(transport), CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r.T.Cleanup(func() {
		transport.CloseIdleConnections()
		ctx, done := context.WithTimeout(context.Background(), waitAtMost)
		defer done()
		if err := r.Server.Drain(ctx, time.Millisecond); err != nil {
			r.T.Error(err)
		}
		<-ended
	})
}

// Dial connects to the daemon, whatever the address is.
func (r *Rig) Dial(ctx context.Context, _, _ string) (net.Conn, error) {
	var d net.Dialer
	return d.DialContext(ctx, "unix", r.Socket)
}

// Client speaks to the daemon, whatever the host is, and follows nothing.
func (r *Rig) Client() *http.Client { return r.client }

// people gives everybody a token.
func (r *Rig) people() {
	var err error
	r.Tokens, err = token.Open(filepath.Join(r.T.TempDir(), "tokens"))
	r.must(err)
	r.IDs, r.secrets = map[string]string{}, map[string]string{}
	for name, c := range people() {
		r.secrets[name], r.IDs[name], err = r.Tokens.Create(c)
		r.must(err)
	}
}

// Secret is the token of one of the people.
func (r *Rig) Secret(name string) string { return r.secrets[name] }

// Ready brings the sandbox of a session of a tenant up and returns its name.
func (r *Rig) Ready(tenant, session string) string {
	r.T.Helper()
	ctx, done := context.WithTimeout(context.Background(), waitAtMost)
	defer done()
	p, err := r.Manager.Ready(ctx, manager.Request{Who: config.Who{Tenant: tenant, Agent: config.DefaultAgent, Session: session}})
	r.must(err)
	return p.Name
}

// Run runs a line in the sandbox of a session, which has to succeed.
func (r *Rig) Run(tenant, session, line string) string {
	r.T.Helper()
	ctx, done := context.WithTimeout(context.Background(), waitAtMost)
	defer done()
	res, err := r.Manager.Capture(ctx, manager.Request{
		Who: config.Who{Tenant: tenant, Agent: config.DefaultAgent, Session: session}, Command: sandbox.Command{Args: []string{"sh", "-c", line}},
	})
	r.must(err)
	if res.ExitCode != 0 {
		r.T.Fatalf("%s: exit %d: %s", line, res.ExitCode, res.Stderr)
	}
	return string(res.Stdout)
}

// Send makes a request as one of the people, with a secret, or with neither
// as the user that we are; the path is sent as it is written. The
// headers are names and values by turns.
func (r *Rig) Send(ctx context.Context, as, method, path string, body io.Reader, header ...string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://daemon", body)
	if err != nil {
		return nil, err
	}
	raw, query, _ := strings.Cut(path, "?")
	plain, err := url.PathUnescape(raw)
	if err != nil {
		return nil, err
	}
	req.URL.Path, req.URL.RawPath, req.URL.RawQuery = plain, raw, query
	if as != "" {
		req.Header.Set("Authorization", "Bearer "+cmp.Or(r.secrets[as], as))
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Add(header[i], header[i+1])
	}
	return r.client.Do(req)
}

// An Answer is a whole one.
type Answer struct {
	Status int
	Header http.Header
	Body   string
}

// Ask is Send for answers that end, with a text as body. A body of a POST is
// JSON unless a header says otherwise.
func (r *Rig) Ask(as, method, path, body string, header ...string) Answer {
	r.T.Helper()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
		if method == http.MethodPost && !slices.Contains(header, "Content-Type") {
			header = append([]string{"Content-Type", api.ContentJSON}, header...)
		}
	}
	ctx, done := context.WithTimeout(context.Background(), waitAtMost)
	defer done()
	res, err := r.Send(ctx, as, method, path, in, header...)
	r.must(err)
	defer res.Body.Close()
	data, err := io.ReadAll(res.Body)
	r.must(err)
	return Answer{res.StatusCode, res.Header, string(data)}
}

// Want is Ask that fails the test unless the status is the one that is wanted.
func (r *Rig) Want(status int, as, method, path, body string, header ...string) Answer {
	r.T.Helper()
	a := r.Ask(as, method, path, body, header...)
	if a.Status != status {
		r.T.Fatalf("%s %s as %s: %d instead of %d: %s", method, path, as, a.Status, status, a.Body)
	}
	if status >= 400 && method != http.MethodHead {
		a.Problem(r.T)
	}
	return a
}

// Problem is the answer as one.
func (a Answer) Problem(t testing.TB) api.Problem {
	t.Helper()
	var p api.Problem
	if err := json.Unmarshal([]byte(a.Body), &p); err != nil || a.Header.Get("Content-Type") != api.ContentProblem || p.Status != a.Status || p.Code == "" {
		t.Fatalf("%d is no problem: %v %s", a.Status, err, a.Body)
	}
	return p
}

// JSON reads the answer.
func JSON[T any](t testing.TB, a Answer) T {
	t.Helper()
	var v T
	if err := json.Unmarshal([]byte(a.Body), &v); err != nil {
		t.Fatalf("%d %s: %v", a.Status, a.Body, err)
	}
	return v
}
