package container_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/docker/docker/client"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/container"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// engineAt returns an Engine that talks to h.
func engineAt(t *testing.T, h http.HandlerFunc, d container.Deadlines) *container.Engine {
	t.Helper()
	srv := httptest.NewServer(h)
	api, err := client.NewClientWithOpts(client.WithHost("tcp://"+srv.Listener.Addr().String()), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	e := container.New(api, d)
	t.Cleanup(func() {
		e.Close()
		srv.CloseClientConnections()
		srv.Close()
		testenv.None(t)
	})
	return e
}

func TestInspectFailures(t *testing.T) {
	stop := make(chan struct{})
	defer close(stop)
	tests := map[string]struct {
		answer    http.HandlerFunc
		code      sandbox.Code
		retryable bool
	}{
		"engine says there is none": {reply(404, `{"message":"No such container: x"}`), sandbox.CodeNotFound, false},
		"engine error":              {reply(500, `{"message":"boom"}`), sandbox.CodeUnavailable, false},
		"garbage":                   {reply(200, `<html>`), sandbox.CodeUnavailable, false},
		"half an answer":            {reply(200, `{"Id":"x"}`), sandbox.CodeUnavailable, false},
		"empty object":              {reply(200, `{}`), sandbox.CodeUnavailable, false},
		"connection cut":            {func(w http.ResponseWriter, _ *http.Request) { panic(http.ErrAbortHandler) }, sandbox.CodeUnavailable, true},
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-stop:
			}
		}, sandbox.CodeTimeout, true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			within := time.Minute
			if tt.code == sandbox.CodeTimeout { // no other case has to wait for it
				within = 200 * time.Millisecond
			}
			e := engineAt(t, tt.answer, container.Deadlines{Query: within})
			start := time.Now()
			_, err := e.Inspect(context.Background(), "x")
			if got := sandbox.CodeOf(err); got != tt.code {
				t.Errorf("code %s, want %s (%v)", got, tt.code, err)
			}
			var se *sandbox.Error
			if errors.As(err, &se) && se.Retryable != tt.retryable {
				t.Errorf("retryable %v, want %v (%v)", se.Retryable, tt.retryable, err)
			}
			if took := time.Since(start); took > 30*time.Second {
				t.Errorf("took %s", took)
			}
		})
	}
}

func TestEngineDown(t *testing.T) {
	api, err := client.NewClientWithOpts(client.WithHost("unix:///nonexistent/engine.sock"), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	e := container.New(api, container.Deadlines{})
	ctx := context.Background()
	calls := map[string]func() error{
		"ping":    func() error { return e.Ping(ctx) },
		"inspect": func() error { _, err := e.Inspect(ctx, "x"); return err },
		"list":    func() error { _, err := e.List(ctx, sandbox.Filter{}); return err },
		"start":   func() error { return e.Start(ctx, "x") },
		"remove":  func() error { return e.Remove(ctx, "x") },
		"exec":    func() error { _, err := e.Exec(ctx, "x", []string{"true"}); return err },
		"usage":   func() error { _, err := e.Usage(ctx, "x"); return err },
	}
	for name, call := range calls {
		t.Run(name, func(t *testing.T) {
			err := call()
			if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "cannot reach the engine") {
				t.Errorf("got %v", err)
			}
		})
	}
}

func TestCallerGivesUp(t *testing.T) {
	e := engineAt(t, func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, container.Deadlines{})
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(20*time.Millisecond, cancel)
	if err := e.Start(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want one that wraps context.Canceled", err)
	}
}

// TestPauseOfTheRestless holds that an engine whose runtime could not freeze is
// asked again, but not for ever, and only then.
func TestPauseOfTheRestless(t *testing.T) {
	const restless = `{"message":"Cannot pause container x: OCI runtime pause failed: unable to freeze: unknown"}`
	tests := map[string]struct {
		answers   []http.HandlerFunc // the last one stays
		asked     int
		code      sandbox.Code
		retryable bool
	}{
		"holds still later": {[]http.HandlerFunc{reply(500, restless), reply(500, restless), reply(204, "")}, 3, "", false},
		"never holds still": {[]http.HandlerFunc{reply(500, restless)}, 5, sandbox.CodeUnavailable, true},
		"fails otherwise":   {[]http.HandlerFunc{reply(500, `{"message":"broken"}`)}, 1, sandbox.CodeUnavailable, false},
		"gone meanwhile":    {[]http.HandlerFunc{reply(500, restless), reply(404, `{"message":"No such container: x"}`)}, 2, sandbox.CodeNotFound, false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var asked atomic.Int32
			e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
				tt.answers[min(int(asked.Add(1)), len(tt.answers))-1](w, r)
			}, container.Deadlines{})
			err := e.Pause(context.Background(), "x")
			if n := int(asked.Load()); sandbox.CodeOf(err) != tt.code || n != tt.asked {
				t.Errorf("asked %d times, want %d: %v", n, tt.asked, err)
			}
			var se *sandbox.Error
			if errors.As(err, &se) && se.Retryable != tt.retryable {
				t.Errorf("retryable %v, want %v (%v)", se.Retryable, tt.retryable, err)
			}
		})
	}
}

func TestCallerGivesUpToFreeze(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
		reply(500, `{"message":"unable to freeze"}`)(w, r)
		cancel()
	}, container.Deadlines{})
	if err := e.Pause(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want one that wraps context.Canceled", err)
	}
}

func TestRemoveGoneIsNoError(t *testing.T) {
	e := engineAt(t, reply(404, `{"message":"No such container"}`), container.Deadlines{})
	if err := e.Remove(context.Background(), "x"); err != nil {
		t.Error(err)
	}
}

func TestListReadsLabels(t *testing.T) {
	var query string
	e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
		query = r.URL.Query().Get("filters")
		reply(200, `[{"Id":"1","Names":["/sbx-a"],"Image":"i","ImageID":"sha256:1","State":"paused","Created":5,"Labels":{
			"dev.bulkhead.sandbox.format":"1","dev.bulkhead.sandbox.instance":"0123456789abcdef","dev.bulkhead.sandbox.tenant":"t","dev.bulkhead.sandbox.kind":"sandbox",
			"dev.bulkhead.sandbox.scope":"session","dev.bulkhead.sandbox.scope-key":"k","dev.bulkhead.sandbox.config-hash":"h","dev.bulkhead.sandbox.created-at":"2026-11-21T00:00:00Z"}},
			{"Id":"2","Names":["/sbx-b"],"State":"exited","Labels":{"dev.bulkhead.sandbox.format":"1","dev.bulkhead.sandbox.tenant":"forged by an image"}}]`)(w, r)
	}, container.Deadlines{})
	infos, err := e.List(context.Background(), sandbox.Filter{Instance: "0123456789abcdef"})
	if err != nil || len(infos) != 1 {
		t.Fatalf("%v, %v", infos, err)
	}
	a := infos[0]
	if a.Name != "sbx-a" || a.Status != sandbox.StatusPaused || a.Owner.Instance != "0123456789abcdef" || a.ConfigHash != "h" || a.CreatedAt.Day() != 21 {
		t.Errorf("got %+v", a)
	}
	if !strings.Contains(query, "dev.bulkhead.sandbox.instance=0123456789abcdef") {
		t.Errorf("filter %s does not name the instance", query)
	}
}

func TestUsageSubtractsCache(t *testing.T) {
	for name, key := range map[string]string{"cgroup v1": "total_inactive_file", "cgroup v2": "inactive_file"} {
		t.Run(name, func(t *testing.T) {
			e := engineAt(t, reply(200, fmt.Sprintf(`{"cpu_stats":{"cpu_usage":{"total_usage":7000}},"pids_stats":{"current":3,"limit":512},
				"memory_stats":{"usage":1000,"limit":5000,"stats":{%q:400}},"networks":{"eth0":{"rx_bytes":1,"tx_bytes":2}},
				"blkio_stats":{"io_service_bytes_recursive":[{"op":"Read","value":10},{"op":"write","value":20}]}}`, key)), container.Deadlines{})
			u, err := e.Usage(context.Background(), "x")
			want := sandbox.Usage{CPU: 7 * time.Microsecond, Memory: 600, MemoryLimit: 5000, PIDs: 3, PIDsLimit: 512, DiskRead: 10, DiskWritten: 20, NetReceived: 1, NetSent: 2}
			if err != nil || u != want {
				t.Errorf("got %+v, %v", u, err)
			}
		})
	}
}

func reply(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		io.WriteString(w, body)
	}
}

// TestProfilesNeedAppArmor holds that a container which is to have a profile is
// made only where something holds it to that: engines pass over what their
// kernel lacks.
func TestProfilesNeedAppArmor(t *testing.T) {
	for _, tt := range []struct {
		name, profile, options string
		want                   sandbox.Code
	}{
		{"a profile and AppArmor", "mine", `"name=apparmor","name=seccomp,profile=builtin"`, ""},
		{"a profile and none", "mine", `"name=seccomp,profile=builtin"`, sandbox.CodeCapabilityBlocked},
		{"no profile and none", "", `"name=seccomp,profile=builtin"`, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			created := false
			e := engineAt(t, func(w http.ResponseWriter, r *http.Request) {
				switch {
				case strings.HasSuffix(r.URL.Path, "/info"):
					reply(200, `{"MemoryLimit":true,"SwapLimit":true,"PidsLimit":true,"CpuCfsQuota":true,"SecurityOptions":[`+tt.options+`]}`)(w, r)
				case strings.HasSuffix(r.URL.Path, "/create"):
					created = true
					reply(201, `{"Id":"c1"}`)(w, r)
				default:
					reply(200, `{"Id":"c1"}`)(w, r)
				}
			}, container.Deadlines{})
			s := fullSpec()
			s.Network, s.Security.AppArmor = "none", tt.profile
			p, err := container.NewPlan(s, "h", time.Now())
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := e.Create(context.Background(), p); sandbox.CodeOf(err) != tt.want || created != (tt.want == "") {
				t.Errorf("%v, asked the engine: %v", err, created)
			}
		})
	}
}

// TestAnEngineThatDoesNotLetUsIn connects to a socket of the engine that our
// user may not open: no start of the engine would help.
func TestAnEngineThatDoesNotLetUsIn(t *testing.T) {
	refused := roundTripper(func(*http.Request) (*http.Response, error) {
		return nil, &net.OpError{Op: "dial", Net: "unix", Err: os.NewSyscallError("connect", syscall.EACCES)}
	})
	api, err := client.NewClientWithOpts(client.WithHTTPClient(&http.Client{Transport: refused}), client.WithVersion("1.41"))
	if err != nil {
		t.Fatal(err)
	}
	_, err = container.New(api, container.Deadlines{}).Inspect(t.Context(), "x")
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodeUnavailable || e.Retryable || !strings.Contains(e.Message, "may not speak to the engine") || !strings.Contains(e.Hint, "group docker") {
		t.Errorf("got %v", err)
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// TestNoPasswords holds that no password of an address comes into a message.
func TestNoPasswords(t *testing.T) {
	for address, refused := range map[string]bool{
		"ssh://me:hidden@127.0.0.1:1": true, "tcp://me:hidden@127.0.0.1:1/%zz": true, "tcp://:hidden@h": true, "me:hidden@h": true,
		"tcp://me@127.0.0.1:1": false, "unix:///var/run/docker.sock": false, "unix:///run/a:b@c": false, "": false,
	} {
		t.Setenv("DOCKER_HOST", address)
		_, err := container.Dial()
		if got := sandbox.CodeOf(err) == sandbox.CodeValidation; got != refused || err != nil && strings.Contains(err.Error(), "hidden") {
			t.Errorf("%q: %v", address, err)
		}
	}
}
