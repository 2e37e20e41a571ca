package console

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A rig is a daemon with a console that listens at a port of the loopback interface.
type rig struct {
	*served.Rig
	console *Console
	ports   *resource.Ports
	live    *resource.Live
	base    string // http://127.0.0.1:PORT
	host    string
	hosts   []string
	http    *http.Client
	box     string // path of the sandbox of session s1 of acme

	mu       sync.Mutex
	ahead    time.Duration // of the console's clock
	recorded chan violation.Record
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{recorded: make(chan violation.Record, 16), hosts: []string{"sandbox.example"}}
	r.Rig = served.New(t, served.Options{
		Resources: func(s *served.Rig) []resource.Resource {
			supervisor := running.New(running.Options{Manager: running.Managed(s.Manager), Log: s.Log})
			t.Cleanup(func() {
				ctx, done := context.WithTimeout(context.Background(), time.Minute)
				defer done()
				if err := supervisor.Close(ctx); err != nil {
					t.Error(err)
				}
			})
			r.ports = resource.NewPorts(s.Manager, resource.PortOptions{File: filepath.Join(t.TempDir(), "ports.json"), Domain: "localhost", Tokens: s.Tokens})
			var err error
			r.console, err = New(Options{
				Tokens: s.Tokens, Log: s.Log, Version: "test", Hosts: func() []string { return r.hosts },
				Named:  func(host string) bool { _, _, ok := r.ports.Named(host); return ok },
				Record: func(v violation.Record) error { r.recorded <- v; return nil }, now: r.now,
			})
			if err != nil {
				t.Fatal(err)
			}
			r.live = resource.NewLive()
			t.Cleanup(r.live.Close)
			answers, err := resource.Open(filepath.Join(t.TempDir(), "answers"))
			if err != nil {
				t.Fatal(err)
			}
			boxes := resource.NewSandboxes(resource.Options{Manager: s.Manager, Answers: answers, Log: s.Log})
			t.Cleanup(boxes.Close)
			return []resource.Resource{
				boxes, resource.NewCommands(s.Manager), resource.NewShells(s.Manager, supervisor, stream.Options{}), resource.NewFilesResource(s.Manager, resource.Limits{}),
				resource.NewTokens(s.Tokens), resource.NewSessions(s.Manager, stream.Options{}), resource.NewChanges(s.Manager), resource.NewMedia(s.Manager), r.ports, r.console,
				r.live.Resource(resource.LiveOptions{Manager: s.Manager, Approvals: manager.NewApprovalQueue(manager.ApprovalQueueOptions{}), Log: s.Log}),
			}
		},
		Daemon: func(o *server.Options) {
			tokens := o.Identify
			o.Identify = func(q *http.Request) (auth.Caller, error) {
				if who, ok, err := r.console.Identify(q); ok || err != nil {
					return who, err
				}
				return tokens(q)
			}
			o.Translators, o.Hosts, o.Ports = []server.Translator{r.console}, func() []string { return r.hosts }, r.ports
			o.Mounts = []server.Mount{
				{Pattern: resource.PortsPattern, Handler: r.ports.Handler()},
				{Pattern: "/mcp", Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })},
			}
		},
	})
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := r.Server.HTTP()
	ended := make(chan struct{})
	go func() { defer close(ended); _ = srv.Serve(server.Heads(l)) }()
	t.Cleanup(func() { _ = srv.Close(); <-ended })
	r.host = l.Addr().String()
	r.base = "http://" + r.host
	transport := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", r.host)
	}}
	t.Cleanup(transport.CloseIdleConnections)
	r.http = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	r.box = "/v1/sandboxes/" + r.Ready("acme", "s1")
	return r
}

func (r *rig) now() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return time.Now().Add(r.ahead)
}

// wait moves the console's clock.
func (r *rig) wait(d time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ahead += d
}

// secret makes a link as one of the people and returns its secret.
func (r *rig) secret(as string, readOnly bool) string {
	r.T.Helper()
	a := r.Want(201, as, "POST", "/v1/console/links", fmt.Sprintf(`{"readOnly":%v}`, readOnly))
	_, secret, ok := strings.Cut(served.JSON[api.ConsoleLink](r.T, a).Path, "#login=")
	if !ok || len(secret) != 26 {
		r.T.Fatalf("the link is %s", a.Body)
	}
	return secret
}

// A browser is what has logged in.
type browser struct {
	cookie, key string // the cookie as it is sent
}

// open uses a link, as the page does.
func (r *rig) open(secret string) browser {
	r.T.Helper()
	res := r.send("POST", "/ui/login", `{"secret":"`+secret+`"}`, "Origin", r.base, "Content-Type", "application/json")
	if res.status != 200 || len(res.header.Values("Set-Cookie")) != 1 {
		r.T.Fatalf("the login is %d: %s", res.status, res.body)
	}
	var in loginAnswer
	if err := json.Unmarshal([]byte(res.body), &in); err != nil {
		r.T.Fatal(err)
	}
	cookie, _, _ := strings.Cut(res.header.Get("Set-Cookie"), ";")
	return browser{cookie, in.Key}
}

func (r *rig) login(as string, readOnly bool) browser {
	r.T.Helper()
	return r.open(r.secret(as, readOnly))
}

// A reply is a whole answer.
type reply struct {
	status int
	header http.Header
	body   string
}

// send sends a request over TCP; path is as it is written. The headers are names and
// values by turns; Host is that of the request.
func (r *rig) send(method, path, body string, header ...string) reply {
	r.T.Helper()
	ctx, done := context.WithTimeout(context.Background(), 20*time.Second)
	defer done()
	var in io.Reader
	if body != "" {
		in = strings.NewReader(body)
	}
	q, err := http.NewRequestWithContext(ctx, method, r.base, in)
	if err != nil {
		r.T.Fatal(err)
	}
	q.URL.Opaque = path
	for i := 0; i+1 < len(header); i += 2 {
		if header[i] == "Host" {
			q.Host = header[i+1]
			continue
		}
		q.Header.Add(header[i], header[i+1])
	}
	res, err := r.http.Do(q)
	if err != nil {
		r.T.Fatal(err)
	}
	defer res.Body.Close()
	data, err := io.ReadAll(io.LimitReader(res.Body, 64<<10))
	if err != nil && res.StatusCode != http.StatusSwitchingProtocols {
		r.T.Fatal(err)
	}
	return reply{res.StatusCode, res.Header, string(data)}
}

// by sends a request as the page of a login does.
func (r *rig) by(b browser, method, path, body string, header ...string) reply {
	r.T.Helper()
	h := append([]string{"Cookie", b.cookie, api.HeaderConsole, b.key, "Origin", r.base, "Sec-Fetch-Site", "same-origin"}, header...)
	if body != "" {
		h = append(h, "Content-Type", "application/json")
	}
	return r.send(method, path, body, h...)
}
