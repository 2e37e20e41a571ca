package resource_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A shellsRig has the sandbox of the session s1 of acme at base.
type shellsRig struct {
	*served.Rig
	base string
}

func shellsOnProviders(t *testing.T, test func(*testing.T, shellsRig)) {
	served.OnBoth(t, newShellsRig, func(r shellsRig) { test(r.T.(*testing.T), r) })
}

// shellsInMemory is for what code inside and the provider have no part in.
func shellsInMemory(t *testing.T, test func(*testing.T, shellsRig)) {
	served.OnMemory(t, newShellsRig, func(r shellsRig) { test(r.T.(*testing.T), r) })
}

func newShellsRig(t *testing.T, wall string) shellsRig {
	r := shellsRig{Rig: served.New(t, served.Options{Wall: wall, Resources: func(r *served.Rig) []resource.Resource {
		supervisor := running.New(running.Options{Manager: running.Managed(r.Manager), Log: r.Log})
		t.Cleanup(func() {
			ctx, done := context.WithTimeout(context.Background(), time.Minute)
			defer done()
			if err := supervisor.Close(ctx); err != nil {
				t.Error(err)
			}
		})
		return []resource.Resource{resource.NewShells(r.Manager, supervisor, stream.Options{})}
	}})}
	r.base = "/v1/sandboxes/" + r.Ready("acme", "s1")
	return r
}

func TestShellsKeepState(t *testing.T) {
	t.Parallel()
	shellsOnProviders(t, func(t *testing.T, r shellsRig) {
		run := func(id, line string) api.ExecResult {
			t.Helper()
			return served.JSON[api.ExecResult](t, r.Want(200, "acme", "POST", r.base+"/shells/"+id+"/run", line))
		}
		sh := served.JSON[api.Shell](t, r.Want(201, "acme", "POST", r.base+"/shells", `{"env":{"WORD":"said"}}`))
		if sh.ID == "" || sh.Sandbox == "" || sh.Program == "" {
			t.Errorf("%+v", sh)
		}
		run(sh.ID, `{"line":"mkdir -p d; cd d; x=7; export y=8"}`)
		if got := run(sh.ID, `{"line":"pwd; echo $x $y $WORD"}`); got.Stdout != "/workspace/d\n7 8 said\n" || got.ExitCode != 0 {
			t.Errorf("%+v", got)
		}
		if got := run("main", `{"line":"pwd; echo [$x]; cat; exit 3","stdin":"typed"}`); got.Stdout != "/workspace\n[]\ntyped" || got.ExitCode != 3 || !got.Restarted {
			t.Errorf("%+v", got)
		}
		if got := run("main", `{"line":"echo again"}`); got.Stdout != "again\n" {
			t.Errorf("%+v", got)
		}
		if list := served.JSON[api.ShellList](t, r.Want(200, "acme-s1", "GET", r.base+"/shells", "")); len(list.Items) != 2 {
			t.Errorf("%+v", list)
		}
		streamed := r.Want(200, "acme", "POST", r.base+"/shells/"+sh.ID+"/run", `{"line":"echo $x; exit 5"}`, "Accept", "text/event-stream")
		if !strings.Contains(streamed.Body, "event: stdout\ndata: {\"text\":\"7") || !strings.Contains(streamed.Body, "event: exit\n") || !strings.Contains(streamed.Body, `"exitCode":5`) {
			t.Error(streamed.Body)
		}
		r.Want(204, "acme", "DELETE", r.base+"/shells/"+sh.ID, "")
		r.Want(404, "acme", "DELETE", r.base+"/shells/"+sh.ID, "")
		r.Want(404, "acme", "POST", r.base+"/shells/"+sh.ID+"/run", `{"line":"true"}`)
		r.Want(422, "acme", "POST", r.base+"/shells/main/run", `{}`)
		r.Want(422, "acme", "POST", r.base+"/shells/main/run", `{"line":"x","stdin":"a","stdinBase64":"YQ=="}`)
		for _, env := range []string{`"a=b":"c"`, `"a\nb":"c"`, `"":"c"`, `"a\u0000":"c"`, `"a":"\u0000"`} {
			if res := r.Want(422, "acme", "POST", r.base+"/shells", `{"env":{`+env+`}}`); !strings.Contains(res.Body, `"field":"env"`) {
				t.Errorf("%s: %s", env, res.Body)
			}
		}
	})
}

func TestOthersHaveNoShells(t *testing.T) {
	t.Parallel()
	shellsInMemory(t, func(t *testing.T, r shellsRig) {
		sh := served.JSON[api.Shell](t, r.Want(201, "acme", "POST", r.base+"/shells", "{}"))
		r.Ready("evil", "s1")
		for _, as := range []string{"evil", "acme-s2"} {
			for _, q := range []struct{ method, path, body string }{
				{"GET", "/shells", ""}, {"POST", "/shells", "{}"}, {"DELETE", "/shells/" + sh.ID, ""}, {"POST", "/shells/" + sh.ID + "/run", `{"line":"id"}`},
				{"GET", "/pty", ""}, {"GET", "/pty?keep", ""}, {"GET", "/attach", ""}, {"GET", "/terminals", ""}, {"DELETE", "/terminals/x", ""},
			} {
				r.Want(404, as, q.method, r.base+q.path, q.body)
			}
		}
		// Nor by the path of another sandbox of the caller.
		own := "/v1/sandboxes/" + r.Ready("acme", "s2")
		r.Want(404, "acme-s2", "POST", own+"/shells/"+sh.ID+"/run", `{"line":"id"}`)
		r.Want(404, "acme-s2", "GET", own+"/pty?id="+sh.ID, "")
		r.Want(401, "nobody", "GET", r.base+"/pty", "")
	})
}

// dial opens a WebSocket as the caller of that name.
func (r shellsRig) dial(as, path string) (*websocket.Conn, http.Header) {
	r.T.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	conn, res, err := websocket.Dial(ctx, "http://daemon"+r.base+path, &websocket.DialOptions{
		HTTPClient: r.Client(), HTTPHeader: http.Header{"Authorization": {"Bearer " + r.Secret(as)}},
	})
	if err != nil {
		r.T.Fatalf("%s: %v", path, err)
	}
	return conn, res.Header
}

// open starts the command of q over a WebSocket.
func (r shellsRig) open(path string, q stream.Request, c sandbox.Command) (*stream.Process, http.Header) {
	r.T.Helper()
	conn, header := r.dial("acme", path)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	r.T.Cleanup(done)
	p, err := stream.Open(ctx, conn, stream.Options{}, q, c)
	if err != nil {
		r.T.Fatal(err)
	}
	return p, header
}

func TestAttach(t *testing.T) {
	t.Parallel()
	shellsInMemory(t, func(t *testing.T, r shellsRig) {
		var out, errs bytes.Buffer
		p, _ := r.open("/attach", stream.Request{Line: "cat; echo oops >&2; exit 4"}, sandbox.Command{Stdin: strings.NewReader("through"), Stdout: &out, Stderr: &errs})
		exit, err := p.Wait()
		if err != nil || exit.Code != 4 || out.String() != "through" || errs.String() != "oops\n" {
			t.Errorf("%+v %v %q %q", exit, err, out.String(), errs.String())
		}
		if !strings.Contains(string(p.Outcome()), `"exitCode":4`) {
			t.Errorf("%s", p.Outcome())
		}
		p, _ = r.open("/attach", stream.Request{Args: stream.Texts([]string{"sleep", "600"})}, sandbox.Command{})
		if err := p.Signal(t.Context(), "TERM"); err != nil {
			t.Error(err)
		}
		if exit, err := p.Wait(); err != nil || exit.Signal != "TERM" {
			t.Errorf("%+v %v", exit, err)
		}
	})
}

func TestAttachRefuses(t *testing.T) {
	t.Parallel()
	shellsInMemory(t, func(t *testing.T, r shellsRig) {
		for name, q := range map[string]stream.Request{
			"nothing":       {},
			"both":          {Args: stream.Texts([]string{"id"}), Line: "id"},
			"limits":        {Line: "id", Limits: &sandbox.Limits{}},
			"detached":      {Line: "id", Detach: true},
			"bare":          {Line: "id", Bare: true},
			"unknown extra": {Line: "id", Extra: []byte(`{"sudo":true}`)},
		} {
			conn, _ := r.dial("acme", "/attach")
			_, err := stream.Open(t.Context(), conn, stream.Options{}, q, sandbox.Command{})
			if sandbox.CodeOf(err) != sandbox.CodeValidation {
				t.Errorf("%s: %v", name, err)
			}
		}
		conn, _ := r.dial("acme", "/attach")
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"args":`)); err != nil {
			t.Fatal(err)
		}
		if _, b, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(b), "VALIDATION") {
			t.Errorf("%s %v", b, err)
		}
		conn.CloseNow()
	})
}

// A screen is the output of a terminal.
type screen struct {
	mu   sync.Mutex
	text []byte
	more chan struct{}
}

func newScreen() *screen { return &screen{more: make(chan struct{}, 1)} }

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	s.text = append(s.text, p...)
	s.mu.Unlock()
	select {
	case s.more <- struct{}{}:
	default:
	}
	return len(p), nil
}

// await waits until the terminal has written text.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	late := time.After(time.Minute)
	for {
		s.mu.Lock()
		shown := string(s.text)
		s.mu.Unlock()
		if strings.Contains(shown, text) {
			return
		}
		select {
		case <-s.more:
		case <-late:
			t.Fatalf("the screen shows %q and not %q", shown, text)
		}
	}
}

// TestTerminal holds that the size of a terminal can change, and that it ends
// with its socket.
func TestTerminal(t *testing.T) {
	t.Parallel()
	shellsOnProviders(t, func(t *testing.T, r shellsRig) {
		if r.Engine != nil {
			t.Log("the sandbox in memory has no shell that reads from a terminal")
			return
		}
		keys, typed := io.Pipe()
		shown := newScreen()
		p, _ := r.open("/pty", stream.Request{TTY: &stream.Size{Rows: 30, Cols: 100}}, sandbox.Command{Stdin: keys, Stdout: shown})
		typeIn(t, typed, "stty size; sleep 4321 & echo be''gun\n")
		shown.await(t, "30 100")
		shown.await(t, "begun")
		if err := p.Resize(t.Context(), sandbox.TTY{Rows: 11, Cols: 22}); err != nil {
			t.Fatal(err)
		}
		typeIn(t, typed, "stty size\n")
		shown.await(t, "11 22")
		typeIn(t, typed, "exit 7\n")
		if exit, err := p.Wait(); err != nil || exit.Code != 7 {
			t.Errorf("%+v %v", exit, err)
		}
		typed.Close()
		r.gone("4321")

		conn, _ := r.dial("acme", "/pty")
		if err := conn.Write(t.Context(), websocket.MessageText, []byte(`{"args":["sleep","4322"]}`)); err != nil {
			t.Fatal(err)
		}
		if _, b, err := conn.Read(t.Context()); err != nil || !strings.Contains(string(b), "started") {
			t.Fatalf("%s %v", b, err)
		}
		conn.CloseNow()
		r.gone("4322")
	})
}

func typeIn(t *testing.T, w io.Writer, keys string) {
	t.Helper()
	if _, err := io.WriteString(w, keys); err != nil {
		t.Fatal(err)
	}
}

// gone waits until no process inside sleeps for so many seconds.
func (r shellsRig) gone(seconds string) {
	r.T.Helper()
	testenv.Success(r.T, func() error {
		out := r.Run("acme", "s1", "cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' '; true")
		if strings.Contains(out, "sleep "+seconds) {
			return fmt.Errorf("it still runs: %q", out)
		}
		return nil
	})
}

// TestTerminalStays holds that a kept terminal outlives its socket, is found
// again, and ends when a request ends it.
func TestTerminalStays(t *testing.T) {
	t.Parallel()
	shellsInMemory(t, func(t *testing.T, r shellsRig) {
		if r.Engine != nil {
			t.Log("the sandbox in memory has no shell that reads from a terminal")
			return
		}
		keys, typed := io.Pipe()
		shown := newScreen()
		ctx, leave := context.WithCancel(t.Context())
		conn, header := r.dial("acme", "/pty?keep&rows=20&cols=50")
		id := header.Get(api.HeaderTerminal)
		p, err := stream.Open(ctx, conn, stream.Options{}, stream.Request{}, sandbox.Command{Stdin: keys, Stdout: shown})
		if err != nil || id == "" {
			t.Fatal(err, id)
		}
		typeIn(t, typed, "stty size; word=kept; sleep 5432 &\n")
		shown.await(t, "20 50")
		leave()
		if _, err := p.Wait(); err == nil {
			t.Error("who leaves cannot know how it ends")
		}
		typed.Close()
		if list := served.JSON[api.TerminalList](t, r.Want(200, "acme", "GET", r.base+"/terminals", "")); len(list.Items) != 1 || list.Items[0].ID != id || list.Items[0].State != "running" {
			t.Fatalf("%+v", list)
		}
		r.Want(404, "acme-s2", "DELETE", r.base+"/terminals/"+id, "")
		keys, typed = io.Pipe()
		shown = newScreen()
		p, _ = r.open("/pty?id="+id, stream.Request{TTY: &stream.Size{Rows: 5, Cols: 33}}, sandbox.Command{Stdin: keys, Stdout: shown})
		shown.await(t, "20 50") // what was kept
		typeIn(t, typed, "stty size; echo $word\n")
		shown.await(t, "5 33")
		shown.await(t, "kept")
		r.Want(204, "acme", "DELETE", r.base+"/terminals/"+id, "")
		var failed *sandbox.Error
		if exit, err := p.Wait(); err == nil && exit.Signal == "" && exit.Code == 0 || err != nil && !errors.As(err, &failed) {
			t.Errorf("%+v %v", exit, err)
		}
		typed.Close()
		r.gone("5432")
		r.Want(404, "acme", "GET", r.base+"/pty?id=none", "")
		r.Want(422, "acme", "GET", r.base+"/pty?keep&id="+id, "")
		r.Want(422, "acme", "GET", r.base+"/pty?keep&rows=70000", "")
	})
}
