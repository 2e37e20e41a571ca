//go:build linux

package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server/api"
)

// e2bProgram is what Node runs: it takes samples with E2B's own client.
//
//go:embed e2b.mjs
var e2bProgram string

// e2bCreates is how many creations are timed one after the other.
const e2bCreates = 40

// withE2B lists what is measured by E2B's client for JavaScript: beside the same
// calls to a server that answers them at once, which is the floor. It shows what
// the client itself takes.
func (s *Session) withE2B() []prepared {
	if s.Program == "" {
		return nil
	}
	return []prepared{{OpE2BBurst, s.e2bBurst}, {OpE2BCreate, s.e2bCreate}, {OpE2BRun, s.e2bCall("run")}, {OpE2BRead, s.e2bCall("read")}}
}

// e2bBurst creates many sandboxes at one moment, from which each is timed.
func (s *Session) e2bBurst(ctx context.Context) (operation, error) {
	e, why, err := s.e2b(ctx)
	if err != nil || why != "" {
		return operation{ways: []way{{name: WayPool, lacks: why}}}, err
	}
	took, ids, err := e.ask(ctx, e2bQuestion{Call: "create", At: e.daemon, Times: s.Effort.Burst})
	if err != nil {
		return operation{}, named(OpE2BBurst, WayPool, err)
	}
	for _, id := range ids {
		if _, _, err := e.ask(ctx, e2bQuestion{Call: "kill", At: e.daemon, ID: id}); err != nil {
			return operation{}, err
		}
	}
	return operation{ways: []way{{name: WayPool, reported: took}}}, nil
}

// e2bCreate creates sandboxes out of the pool, one after the other.
func (s *Session) e2bCreate(ctx context.Context) (operation, error) {
	e, why, err := s.e2b(ctx)
	if err != nil || why != "" {
		return operation{ways: []way{{name: WayFloor, lacks: why}, {name: WayPool, lacks: why}}}, err
	}
	at := func(base string) sample {
		return func(ctx context.Context) ([]time.Duration, error) {
			if err := e.full(ctx); err != nil {
				return nil, err
			}
			took, ids, err := e.ask(ctx, e2bQuestion{Call: "create", At: base})
			if err == nil {
				_, _, err = e.ask(ctx, e2bQuestion{Call: "kill", At: base, ID: ids[0]})
			}
			return took, err
		}
	}
	return operation{rounds: e2bCreates, ways: []way{
		{name: WayFloor, turn: 1, take: at(e.floor)},
		{name: WayPool, turn: 1, take: at(e.daemon)},
	}}, nil
}

// e2bCall makes a call for one sandbox that runs.
func (s *Session) e2bCall(call string) func(context.Context) (operation, error) {
	return func(ctx context.Context) (operation, error) {
		e, why, err := s.e2b(ctx)
		if err != nil || why != "" {
			return operation{ways: []way{{name: WayFloor, lacks: why}, {name: WayHTTP, lacks: why}}}, err
		}
		_, ids, err := e.ask(ctx, e2bQuestion{Call: "create", At: e.daemon})
		if err != nil {
			return operation{}, err
		}
		_, _, err = e.ask(ctx, e2bQuestion{Call: "write", At: e.daemon})
		if err == nil {
			_, _, err = e.ask(ctx, e2bQuestion{Call: "connect", At: e.floor, ID: ids[0]})
		}
		if err != nil {
			return operation{}, err
		}
		at := func(base string) sample {
			return func(ctx context.Context) ([]time.Duration, error) {
				took, _, err := e.ask(ctx, e2bQuestion{Call: call, At: base})
				return took, err
			}
		}
		done := func() error {
			_, _, err := e.ask(context.Background(), e2bQuestion{Call: "kill", At: e.daemon, ID: ids[0]})
			return err
		}
		return operation{rounds: 40, done: done, ways: []way{
			{name: WayFloor, turn: 10, take: at(e.floor)},
			{name: WayHTTP, turn: 10, take: at(e.daemon)},
		}}, nil
	}
}

// An e2bRig is a daemon with a pool, a server that answers at once, and a program
// in Node that calls both.
type e2bRig struct {
	daemon, floor string // addresses
	api           *rigDaemon
	in            io.Writer
	out           *bufio.Reader
}

// e2bQuestion is what the program in Node is asked.
type e2bQuestion struct {
	Call  string `json:"call"`
	At    string `json:"at"`
	ID    string `json:"id,omitempty"`
	Times int    `json:"times,omitempty"` // at once; 0 is one
}

// ask returns how long each call took, and the sandboxes that it returned.
func (e *e2bRig) ask(ctx context.Context, q e2bQuestion) (took []time.Duration, ids []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	line, err := json.Marshal(q)
	if err == nil {
		_, err = e.in.Write(append(line, '\n'))
	}
	if err != nil {
		return nil, nil, err
	}
	line, err = e.out.ReadBytes('\n')
	if err != nil {
		return nil, nil, errors.Join(wrong("E2B's client has ended"), err)
	}
	var a struct {
		Error   string
		Answers []struct {
			Took float64 // milliseconds
			ID   string
			Exit *int
			Size *int // bytes
		}
	}
	if err := json.Unmarshal(line, &a); err != nil || a.Error != "" {
		return nil, nil, errors.Join(err, wrong("E2B's client says of %s: %s", q.Call, a.Error))
	}
	for _, one := range a.Answers {
		switch {
		case q.Call == "run" && (one.Exit == nil || *one.Exit != 0), q.Call == "read" && (one.Size == nil || *one.Size != 4096), q.Call == "create" && one.ID == "":
			return nil, nil, wrong("the answer to %s is %s", q.Call, line)
		}
		took, ids = append(took, time.Duration(one.Took*float64(time.Millisecond))), append(ids, one.ID)
	}
	return took, ids, nil
}

// full waits until the pool has a sandbox, so that none is made for the next
// creation.
func (e *e2bRig) full(ctx context.Context) error {
	for {
		body, err := e.api.ask(ctx, http.MethodGet, api.Prefix+"/pool", "")
		if err != nil {
			return err
		}
		var pool manager.PoolStatus
		if err := json.Unmarshal(body, &pool); err != nil || len(pool.Kinds) != 1 {
			return errors.Join(err, wrong("the pool is %s", body))
		}
		if k := pool.Kinds[0]; k.Ready >= k.Wanted {
			return nil
		}
		if err := wait(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// e2b starts everything once. why says what is not installed.
func (s *Session) e2b(ctx context.Context) (e *e2bRig, why string, err error) {
	if s.e2bRig != nil {
		return s.e2bRig, "", nil
	}
	modules := filepath.Join(filepath.Dir(s.Program), "e2b", "node_modules")
	machine := map[string]string{"amd64": "x64"}[runtime.GOARCH]
	if machine == "" {
		machine = runtime.GOARCH
	}
	node := filepath.Join(modules, "node-linux-"+machine, "bin", "node")
	if _, err := os.Stat(node); err != nil {
		return nil, "E2B's client is not installed, which make e2b does", nil
	}
	d, base, secret, err := s.Rig.startDaemon(ctx, s.Program, s.Guest, "e2b", s.Effort.Burst)
	if err != nil {
		return nil, "", err
	}
	e = &e2bRig{daemon: "http://" + strings.TrimPrefix(base, "tcp:"), api: d}
	if err := e.full(ctx); err != nil {
		return nil, "", err
	}
	if e.floor, err = s.Rig.floor(e.daemon); err != nil {
		return nil, "", err
	}
	script := filepath.Join(filepath.Dir(s.Rig.StateDir()), "e2b.mjs")
	if err := os.WriteFile(script, []byte(e2bProgram), 0o600); err != nil {
		return nil, "", err
	}
	c := exec.Command(node, script, modules)
	c.Env = append(os.Environ(), "E2B_API_KEY="+secret)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	if err := c.Start(); err != nil {
		return nil, "", err
	}
	s.Rig.later(func(context.Context) error {
		in.Close()
		return c.Wait()
	})
	e.in, e.out = in, bufio.NewReader(out)
	s.e2bRig = e
	return e, "", nil
}

// floor starts a server that answers each request as the daemon has answered the
// first one of the same method and address, but at once.
func (r *rig) floor(daemon string) (string, error) {
	target, err := url.Parse(daemon)
	if err != nil {
		return "", err
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	f := &floorServer{known: map[string]floorAnswer{}}
	f.proxy = &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(target) }, ModifyResponse: f.keep}
	s := &http.Server{Handler: f}
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(l) }()
	r.later(func(context.Context) error {
		err := s.Close()
		if end := <-ended; !errors.Is(end, http.ErrServerClosed) {
			err = errors.Join(err, end)
		}
		return err
	})
	return "http://" + l.Addr().String(), nil
}

// floorAnswer is a whole answer.
type floorAnswer struct {
	status int
	header http.Header
	body   []byte
}

// A floorServer keeps answers of a daemon by method and address.
type floorServer struct {
	proxy *httputil.ReverseProxy
	mu    sync.Mutex
	known map[string]floorAnswer
}

func floorKey(r *http.Request) string { return r.Method + " " + r.URL.RequestURI() }

func (f *floorServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	a, ok := f.known[floorKey(r)]
	f.mu.Unlock()
	if !ok {
		f.proxy.ServeHTTP(w, r)
		return
	}
	_, _ = io.Copy(io.Discard, r.Body)
	for name, values := range a.header {
		w.Header()[name] = values
	}
	w.WriteHeader(a.status)
	_, _ = w.Write(a.body)
}

// keep keeps the answer of the daemon.
func (f *floorServer) keep(r *http.Response) error {
	body, err := io.ReadAll(r.Body)
	if err := errors.Join(err, r.Body.Close()); err != nil {
		return err
	}
	r.Body = io.NopCloser(strings.NewReader(string(body)))
	if r.StatusCode < 300 {
		f.mu.Lock()
		defer f.mu.Unlock()
		f.known[floorKey(r.Request)] = floorAnswer{r.StatusCode, r.Header.Clone(), body}
	}
	return nil
}
