package server

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// settings have an agent whose commands need approval, a command that is never
// run, a tenant with low limits, and a remote orchestrator.
const settings = `{
  "agents": {
    "defaults": {"sandbox": {"provider": "docker", "commands": {"block": ["forbidden:*"]}, "docker": {"memory": "256m", "cpus": 0.5}, "tools": {"alsoAllow": ["reporter"]}}},
    "list": [{"id": "asker", "sandbox": {"commands": {"autoAllowIfSandboxed": false, "strictness": "strict"}}}]
  },
  "tenants": {"list": [
    {"id": "small", "sandboxes": 1, "commands": 1, "requestsPerSecond": 200, "tokens": 3},
    {"id": "slow", "requestsPerSecond": 2, "requestBurst": 2}
  ]},
  "daemon": {"drainTimeout": "5s"}
}`

// alone is the settings of a daemon with local sandboxes, with an agent whose
// commands need approval.
const alone = `{
  "agents": {
    "defaults": {"sandbox": {"provider": "local"}},
    "list": [{"id": "asker", "sandbox": {"commands": {"autoAllowIfSandboxed": false, "strictness": "strict"}}}]
  },
  "daemon": {"drainTimeout": "5s"}
}`

// A house is `sandbox serve`, with a client of its admin on a unix socket, and a
// TCP client for callers with a token.
type fixture struct {
	t     *testing.T
	state string
	addr  string
	sock  string // of the admin
	pid   int
	mine  string // the token of the caller that sends frames
	admin *http.Client
	tcp   *http.Client
}

func TestMain(m *testing.M) {
	testenv.AtOnce(4)
	testenv.MainAfter(m, func() {
		if built.dir != "" {
			os.RemoveAll(built.dir)
		}
	})
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// built is the program, which the first test that needs it builds for all tests.
var built struct {
	once sync.Once
	dir  string
	err  error
}

// build returns the path of the program, which it builds as "make build" does.
func build(t *testing.T) string {
	t.Helper()
	built.once.Do(func() {
		if built.dir, built.err = os.MkdirTemp("", "daemon-attack-"); built.err != nil {
			return
		}
		if built.err = os.Chmod(built.dir, 0o755); built.err != nil {
			return
		}
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w", "-tags", "urfave_cli_no_docs", "-o", filepath.Join(built.dir, "sandbox"), "github.com/bulkhead-dev/sandbox/cmd/sandbox")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
		if out, err := cmd.CombinedOutput(); err != nil {
			built.err = fmt.Errorf("%w\n%s", err, out)
		}
	})
	must(t, built.err)
	return filepath.Join(built.dir, "sandbox")
}

// open starts the daemon with those settings and the docker provider. It removes
// at the end what the daemon has made.
func openAttack(t *testing.T, settings string) *fixture {
	t.Helper()
	testenv.Require(t, "docker")
	return startAttack(t, settings, filepath.Join(t.TempDir(), "state-of-the-host"))
}

// start starts the daemon with that state folder, by means of the command before
// where it is set.
func startAttack(t *testing.T, settings, state string, before ...string) *fixture {
	t.Helper()
	dir := t.TempDir()
	h := &fixture{t: t, state: state}
	file := filepath.Join(dir, "settings.json")
	must(t, os.WriteFile(file, []byte(settings), 0o600))
	program, socket := build(t), filepath.Join(dir, "d.sock")
	env := append(os.Environ(), "SANDBOX_GUEST="+testenv.Guest(t), "SANDBOX_STATE_DIR="+h.state, "SANDBOX_CONFIG="+file)
	command := func(args ...string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = env
		return cmd
	}
	t.Cleanup(func() {
		for _, what := range [][]string{{"recreate", "--all", "--force"}, {"recreate", "--all", "--force", "--browser"}} {
			if out, err := command(what...).CombinedOutput(); err != nil {
				t.Errorf("clean up: %v\n%s", err, out)
			}
		}
	})
	cmd := command("serve", "--listen", "unix:"+socket, "--listen", "tcp:127.0.0.1:0")
	if len(before) > 0 {
		args := slices.Concat(before, cmd.Args)
		cmd = exec.Command(args[0], args[1:]...)
		cmd.Env = env
	}
	out, err := cmd.StderrPipe()
	must(t, err)
	must(t, cmd.Start())
	h.pid = cmd.Process.Pid
	log := bufio.NewScanner(out)
	for h.addr == "" && log.Scan() {
		if _, at, ok := strings.Cut(log.Text(), "listening at tcp:"); ok {
			h.addr = at
		}
	}
	if h.addr == "" {
		t.Fatal("it does not listen")
	}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for log.Scan() {
			if line := log.Text(); strings.Contains(line, "panicked") || strings.Contains(line, "unexpected reason") {
				t.Errorf("the daemon says %s", line)
			}
		}
	}()
	h.sock = socket
	h.admin, h.tcp = clientOf(t, "unix", socket), clientOf(t, "tcp", h.addr)
	t.Cleanup(func() {
		must(t, cmd.Process.Signal(syscall.SIGTERM))
		<-read
		if err := cmd.Wait(); err != nil {
			t.Errorf("the daemon ends with %v", err)
		}
	})
	return h
}

func clientOf(t *testing.T, network, address string) *http.Client {
	inner := &http.Transport{DisableCompression: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, address)
	}}
	t.Cleanup(inner.CloseIdleConnections)
	return &http.Client{Transport: inner, Timeout: 3 * time.Minute}
}

// patient returns a house whose answers may take as long as the test, for
// requests that run while many others do.
func (h *fixture) patient() *fixture {
	out := *h
	out.tcp = &http.Client{Transport: h.tcp.Transport}
	return &out
}

// A said is an answer.
type said struct {
	status int
	header http.Header
	body   string
}

// request returns a request without sending it. The path is sent as it is
// written.
func (h *fixture) request(secret, method, path, body string, header ...string) *http.Request {
	h.t.Helper()
	host := "sandbox"
	if secret != "" {
		host = h.addr
	}
	r, err := http.NewRequestWithContext(h.t.Context(), method, "http://"+host+"/", bytes.NewReader([]byte(body)))
	must(h.t, err)
	r.URL.Opaque = path
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if secret != "" && secret != "none" {
		r.Header.Set("Authorization", "Bearer "+secret)
	}
	for i := 0; i < len(header); i += 2 {
		switch name := header[i]; {
		case name == "Host":
			r.Host = header[i+1]
		case header[i+1] == "":
			r.Header.Del(name)
		case name == "Content-Type" || name == "Authorization":
			r.Header.Set(name, header[i+1])
		default:
			r.Header.Add(name, header[i+1])
		}
	}
	return r
}

// start sends a request, as the admin where secret is empty.
func (h *fixture) start(secret, method, path, body string, header ...string) *http.Response {
	h.t.Helper()
	client := h.tcp
	if secret == "" {
		client = h.admin
	}
	res, err := client.Do(h.request(secret, method, path, body, header...))
	must(h.t, err)
	h.t.Cleanup(func() { res.Body.Close() })
	return res
}

// send sends a request and reads the answer; it ends a stream soon.
func (h *fixture) send(secret, method, path, body string, header ...string) said {
	h.t.Helper()
	res := h.start(secret, method, path, body, header...)
	if strings.HasPrefix(res.Header.Get("Content-Type"), api.ContentEvents) || res.StatusCode == http.StatusSwitchingProtocols {
		return said{status: res.StatusCode, header: res.Header}
	}
	data, err := io.ReadAll(res.Body)
	must(h.t, err)
	return said{res.StatusCode, res.Header, string(data)}
}

// raw sends bytes over a connection of their own and reads the first answer.
func (h *fixture) raw(text string) said {
	h.t.Helper()
	conn, err := net.Dial("tcp", h.addr)
	must(h.t, err)
	defer conn.Close()
	must(h.t, conn.SetDeadline(time.Now().Add(time.Minute)))
	if _, err := io.WriteString(conn, text); err != nil {
		h.t.Logf("it does not take all: %v", err)
	}
	res, err := http.ReadResponse(bufio.NewReader(conn), nil)
	must(h.t, err)
	defer res.Body.Close()
	data, _ := io.ReadAll(res.Body) // the connection may be cut off; the part that was received is checked
	return said{res.StatusCode, res.Header, string(data)}
}

// is reads an answer of one of the statuses.
func is[T any](t *testing.T, s said, status ...int) T {
	t.Helper()
	var v T
	for _, want := range status {
		if s.status == want {
			if s.body != "" {
				must(t, json.Unmarshal([]byte(s.body), &v))
			}
			return v
		}
	}
	t.Fatalf("%d, want %v: %s", s.status, status, s.body)
	return v
}

func text(t *testing.T, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	must(t, err)
	return string(data)
}

// mint makes a token, as the admin where by is empty.
func (h *fixture) mint(by string, in api.CreateToken) api.NewToken {
	h.t.Helper()
	return is[api.NewToken](h.t, h.send(by, "POST", "/v1/tokens", text(h.t, in)), 201)
}

func (h *fixture) exec(secret, box, line string) api.ExecResult {
	h.t.Helper()
	return is[api.ExecResult](h.t, h.send(secret, "POST", "/v1/sandboxes/"+box+"/exec", text(h.t, api.Exec{Line: line})), 200)
}
