//go:build !sandbox_front && !sandbox_engine

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// A server is `sandbox serve`, and a client of its socket.
type server struct {
	*http.Client
	t      *testing.T
	cmd    *exec.Cmd
	socket string
	log    *reportedLines
}

// server starts the daemon at a socket and waits until it listens.
func (s *site) server(socket string, change ...func(*exec.Cmd)) *server {
	s.t.Helper()
	cmd := s.command("serve", "--listen", "unix:"+socket)
	cmd.Path = daemonProgram
	for _, c := range change {
		c(cmd)
	}
	log := newReportedLines()
	cmd.Stderr, cmd.WaitDelay = log, 10*time.Second
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	d := &server{t: s.t, cmd: cmd, socket: socket, log: log}
	d.says("listening at")
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", socket)
	}
	d.Client = &http.Client{Transport: &http.Transport{DialContext: dial}, Timeout: 2 * time.Minute}
	return d
}

// says waits until the log goes on with a line that has that text, and returns
// that line.
func (d *server) says(text string) string {
	d.t.Helper()
	line, ok := d.log.next(text, 2*time.Minute)
	if !ok {
		d.t.Fatalf("the log never has %q:\n%s", text, d.log.all())
	}
	return line
}

func (d *server) post(path, body string, header ...string) *http.Response {
	d.t.Helper()
	r, err := http.NewRequest("POST", "http://sandbox"+path, strings.NewReader(body))
	if err != nil {
		d.t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	res, err := d.Do(r)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { res.Body.Close() })
	return res
}

// answer reads a body of that status.
func answer[T any](d *server, res *http.Response, status int) T {
	d.t.Helper()
	data, err := io.ReadAll(res.Body)
	var v T
	if err != nil || res.StatusCode != status || json.Unmarshal(data, &v) != nil {
		d.t.Fatalf("%d, %v: %s", res.StatusCode, err, data)
	}
	return v
}

func (d *server) made(session string) api.Sandbox {
	d.t.Helper()
	res := d.post("/v1/sandboxes", `{"session":"`+session+`"}`)
	return answer[api.Sandbox](d, res, res.StatusCode)
}

func (d *server) run(name, line string) api.ExecResult {
	d.t.Helper()
	body, _ := json.Marshal(api.Exec{Line: line})
	return answer[api.ExecResult](d, d.post("/v1/sandboxes/"+name+"/exec", string(body)), 200)
}

func (d *server) stream(name, line string, header ...string) *bufio.Reader {
	d.t.Helper()
	body, _ := json.Marshal(api.Exec{Line: line})
	res := d.post("/v1/sandboxes/"+name+"/exec", string(body), append(header, "Accept", api.ContentEvents)...)
	if res.StatusCode != 200 {
		d.t.Fatalf("no stream: %d", res.StatusCode)
	}
	return bufio.NewReader(res.Body)
}

// until reads a stream until it has the text, and reports whether it did.
func until(in *bufio.Reader, text string) bool {
	for {
		line, err := in.ReadString('\n')
		if strings.Contains(line, text) {
			return true
		}
		if err != nil {
			return false
		}
	}
}

func (d *server) ended() error {
	done := make(chan error, 1)
	go func() { done <- d.cmd.Wait() }()
	select {
	case err := <-done:
		return err
	case <-time.After(time.Minute):
		d.t.Fatal("the daemon does not end")
		return nil
	}
}

// The daemon serves, lets what runs come to its end when it is asked to go, and
// is the only one of its folder.
func TestServe(t *testing.T) {
	t.Parallel()
	providers(t, func(t *testing.T, wall string, s *site) {
		s.env = append(s.env, "SANDBOX_CONFIG="+settingsFile(t, wall))
		socket := filepath.Join(t.TempDir(), "d.sock")
		d := s.server(socket)
		box := d.made("a")
		if got := d.run(box.Name, "echo one; exit 3"); got.Stdout != "one\n" || got.ExitCode != 3 {
			t.Errorf("got %+v", got)
		}
		if got := d.run(box.Name, `sleep 4321 & until [ "$(cat /proc/$!/comm)" = sleep ]; do :; done`); got.Left == nil || got.Left.Count != 1 || !strings.HasPrefix(got.Left.Names[0], "sleep (") {
			t.Errorf("of what was ended with the command it says %+v", got.Left)
		}
		if fi, err := os.Stat(socket); err != nil || fi.Mode().Perm() != 0o600 {
			t.Errorf("the socket is %v, %v", fi, err)
		}
		if out, err := s.command("serve", "--listen", "unix:"+socket+"2").CombinedOutput(); err == nil || !strings.Contains(string(out), "SANDBOX.BUSY") {
			t.Errorf("a second daemon: %v\n%s", err, out)
		}
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
		d.says("the settings are in force")
		running := d.stream(box.Name, "echo begun; sleep 1; echo end")
		if !until(running, "begun") {
			t.Fatal("the command does not begin")
		}
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if !until(running, "end") || !until(running, `"exitCode":0`) {
			t.Error("a drain has cut off what runs")
		}
		if err := d.ended(); err != nil {
			t.Errorf("the daemon has ended with %v", err)
		}
		if _, err := os.Stat(socket); !os.IsNotExist(err) {
			t.Errorf("the socket is still there: %v", err)
		}
	})
}

// TestServeTakesBoundsOver holds that what bounds requests and commands follows
// the settings file while the daemon runs, and that a broken file changes nothing.
func TestServeTakesBoundsOver(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "local")
	s := newSite(t)
	file := settingsFile(t, "local")
	s.env = append(s.env, "SANDBOX_CONFIG="+file)
	d := s.server(filepath.Join(t.TempDir(), "d.sock"))
	box := d.made("a")
	say := func(daemon string) {
		t.Helper()
		text := `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}, "daemon": ` + daemon + `}`
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := d.cmd.Process.Signal(syscall.SIGHUP); err != nil {
			t.Fatal(err)
		}
	}
	body := `{"path":"` + strings.Repeat("x", 1500) + `"}`
	post := func(path, body string) int {
		t.Helper()
		res, err := d.Post("http://sandbox/v1/sandboxes/"+box.Name+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer res.Body.Close()
		return res.StatusCode
	}
	posts := func(want int) {
		t.Helper()
		eventually(t, fmt.Sprintf("it is never answered %d", want), func() bool { return post("/files:mkdir", body) == want })
	}
	before := post("/files:mkdir", body) // a name that is too long, which is another matter
	if before == 413 {
		t.Fatal("the body is too large from the start")
	}
	say(`{"maxBody": 1024}`)
	posts(413)
	say(`{"maxBody": 1024, "fair": {"slots": "many"}}`)
	posts(413)
	say(`{"fair": {"slots": 1, "waiting": 0, "hold": "1m"}}`)
	posts(before)
	running := d.stream(box.Name, "echo begun; sleep 600")
	if !until(running, "begun") {
		t.Fatal("the command does not begin")
	}
	runs := func() int { return post("/exec", `{"line":"true"}`) }
	if got := runs(); got != 429 {
		t.Errorf("with the only slot held a command is answered %d", got)
	}
	say(`{"fair": {"slots": 2, "waiting": 0, "hold": "1m"}}`)
	eventually(t, "a second slot is never there", func() bool { return runs() == 200 })
}

func settingsFile(t *testing.T, wall string) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "settings.json")
	text := `{"agents": {"defaults": {"sandbox": {"provider": "` + wall + `"}}}, "daemon": {"drainTimeout": "20s"}}`
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// A daemon that is killed under load leaves sandboxes that the next one takes
// over, and has reported no unfinished command as a success.
func TestServeKilled(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	socket := filepath.Join(t.TempDir(), "d.sock")
	d := s.server(socket)
	names := []string{"a", "b", "c"}
	before := map[string]api.Sandbox{}
	var streams []*bufio.Reader
	for _, n := range names {
		before[n] = d.made(n)
		d.run(before[n].Name, "echo kept > /workspace/kept.txt")
		for range 3 {
			in := d.stream(before[n].Name, "echo begun; sleep 300")
			if !until(in, "begun") {
				t.Fatal("a command does not begin")
			}
			streams = append(streams, in)
		}
	}
	if err := d.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for _, in := range streams {
		if until(in, "event: exit") {
			t.Error("a command that nobody saw end has an exit status")
		}
	}
	_ = d.cmd.Wait() // killed
	next := s.server(socket)
	for _, n := range names {
		got := next.made(n)
		if got.ID != before[n].ID || got.Created {
			t.Errorf("%s was made anew: %+v", n, got)
		}
		var r api.ExecResult
		eventually(t, n+" has what ran when the daemon was killed", func() bool {
			r = next.run(got.Name, "cat /workspace/kept.txt; pgrep -c sleep")
			return strings.HasSuffix(r.Stdout, "\n0\n")
		})
		if r.Stdout != "kept\n0\n" {
			t.Errorf("%s has %+v", n, r)
		}
	}
}

// A daemon that systemd starts takes its socket over and tells how it is.
func TestServeUnderSystemd(t *testing.T) {
	t.Parallel()
	s := newSite(t)
	dir := t.TempDir()
	socket := filepath.Join(dir, "d.sock")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.UnixListener).File()
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	reported, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: filepath.Join(dir, "notify"), Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer reported.Close()
	d := s.server(socket, func(cmd *exec.Cmd) {
		cmd.Path, cmd.Args = "/bin/sh", []string{"sh", "-c", `LISTEN_PID=$$ exec "$0" serve`, daemonProgram}
		cmd.Env = append(cmd.Env, "LISTEN_FDS=1", "NOTIFY_SOCKET="+filepath.Join(dir, "notify"), "WATCHDOG_USEC=200000")
		cmd.ExtraFiles = []*os.File{file}
	})
	hears := func(want string) {
		t.Helper()
		reported.SetReadDeadline(time.Now().Add(time.Minute))
		buf := make([]byte, 4096)
		for {
			n, err := reported.Read(buf)
			if err != nil {
				t.Fatalf("systemd never hears %s: %v", want, err)
			}
			if strings.Contains(string(buf[:n]), want) {
				return
			}
		}
	}
	hears("READY=1")
	if got := answer[api.Health](d, d.get("/healthz"), 200); got.Status != "ok" {
		t.Errorf("health %+v", got)
	}
	hears("WATCHDOG=1")
	d.cmd.Process.Signal(syscall.SIGHUP)
	hears("RELOADING=1")
	hears("READY=1")
	d.cmd.Process.Signal(syscall.SIGTERM)
	hears("STOPPING=1")
	if err := d.ended(); err != nil {
		t.Errorf("the daemon has ended with %v", err)
	}
}

func (d *server) get(path string) *http.Response {
	d.t.Helper()
	res, err := d.Get("http://sandbox" + path)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { res.Body.Close() })
	return res
}

// TestServeListensOutsideOfSandboxes holds that no sandbox gets the folder in which
// the daemon listens, and that the daemon does not listen in a folder of a sandbox.
func TestServeListensOutsideOfSandboxes(t *testing.T) {
	t.Parallel()
	providers(t, func(t *testing.T, wall string, s *site) {
		s.env = append(s.env, "SANDBOX_CONFIG="+settingsFile(t, wall))
		dir := openDir(t)
		d := s.server(filepath.Join(dir, "x.sock"))
		run := func(folder string) (string, error) {
			out, err := s.command("run", "--session", "w", "--workspace", folder, "--", "true").CombinedOutput()
			return string(out), err
		}
		if out, err := run(dir); err == nil || !strings.Contains(out, "SANDBOX.CAPABILITY_BLOCKED") || !strings.Contains(out, "daemon listens") {
			t.Errorf("a workspace with the daemon's socket in it: %v\n%s", err, out)
		}
		if err := d.cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		if err := d.ended(); err != nil {
			t.Errorf("the daemon has ended with %v", err)
		}
		if out, err := run(dir); err != nil {
			t.Fatalf("when the daemon has ended: %v\n%s", err, out)
		}
		out, err := s.command("serve", "--listen", "unix:"+filepath.Join(dir, "x.sock")).CombinedOutput()
		if err == nil || !strings.Contains(string(out), "SANDBOX.CAPABILITY_BLOCKED") {
			t.Errorf("a daemon listens in the workspace of a sandbox: %v\n%s", err, out)
		}
	})
}

// openDir is a folder that other users may enter, on whatever way leads to it.
func openDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for d := dir; d != os.TempDir() && len(d) > len(os.TempDir()); d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chown(dir, 1234, 1234); err != nil {
		t.Fatal(err)
	}
	return dir
}
