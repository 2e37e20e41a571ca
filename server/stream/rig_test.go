package stream_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/server/stream"
)

const patience = time.Minute

// A rig is an in-memory sandbox behind a server of streams.
type rig struct {
	*testing.T
	ctx    context.Context
	url    string
	engine *fake.Engine
	name   string
	sb     sandbox.Sandbox
	served chan error // what Serve has returned
	start  stream.Start
	o      stream.Options

	mu   sync.Mutex
	seen []stream.Request
}

func newRig(t *testing.T) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	p := fake.New(fake.Options{})
	s := sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-a", Kind: sandbox.KindSandbox, Provider: "fake",
		Owner: sandbox.Owner{Instance: "0123456789abcdef", Agent: "main", Session: "a", Scope: sandbox.ScopeSession, ScopeKey: "a"},
		Image: "sandbox:test", ImageID: "sha256:0", Workdir: sandbox.WorkspaceDir, UID: 1000, GID: 1000, Network: "none",
		Mounts:    []sandbox.Mount{{Source: "/host/work", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		Security:  sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Resources: sandbox.Resources{Memory: 1 << 30, MemorySwap: 1 << 30, NanoCPUs: 1e9, PIDs: 512},
	}
	if _, err := p.Create(ctx, s); err != nil {
		t.Fatal(err)
	}
	sb, err := p.Open(ctx, s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		sb.Close()
		if err := p.Remove(context.Background(), s.Name); err != nil { // detached commands go with it
			t.Error(err)
		}
	})
	r := &rig{T: t, ctx: ctx, engine: p.Engine(), name: s.Name, sb: sb, served: make(chan error, 16)}
	r.start = func(ctx context.Context, _ stream.Request, c sandbox.Command) (sandbox.Process, error) {
		return r.sb.Start(ctx, c)
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		conn, err := websocket.Accept(w, q, nil)
		if err != nil {
			return
		}
		r.served <- stream.Serve(ctx, conn, r.o, func(ctx context.Context, q stream.Request, c sandbox.Command) (sandbox.Process, error) {
			r.mu.Lock()
			r.seen = append(r.seen, q)
			r.mu.Unlock()
			return r.start(ctx, q, c)
		})
	}))
	t.Cleanup(server.Close)
	r.url = strings.Replace(server.URL, "http://", "ws://", 1)
	return r
}

func (r *rig) dial() *websocket.Conn {
	r.Helper()
	conn, _, err := websocket.Dial(r.ctx, r.url, nil)
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(func() { conn.CloseNow() })
	return conn
}

// open starts c through the socket.
func (r *rig) open(ctx context.Context, c sandbox.Command) *stream.Process {
	r.Helper()
	q, err := stream.RequestOf(c)
	if err != nil {
		r.Fatal(err)
	}
	p, err := stream.Open(ctx, r.dial(), r.o, q, c)
	if err != nil {
		r.Fatalf("Open(%q): %v", c.Args, err)
	}
	return p
}

func (r *rig) wait(p sandbox.Process) (sandbox.Exit, error) {
	r.Helper()
	type end struct {
		exit sandbox.Exit
		err  error
	}
	done := make(chan end, 1)
	go func() {
		exit, err := p.Wait()
		done <- end{exit, err}
	}()
	select {
	case e := <-done:
		return e.exit, e.err
	case <-time.After(patience):
		r.Fatal("Wait did not return")
		return sandbox.Exit{}, nil
	}
}

// awaitServed waits until Serve has returned.
func (r *rig) awaitServed() error {
	r.Helper()
	select {
	case err := <-r.served:
		return err
	case <-time.After(patience):
		r.Fatal("Serve did not return")
		return nil
	}
}

// awaitRunning watches until exactly n processes run inside.
func (r *rig) awaitRunning(n int) {
	r.Helper()
	testenv.Success(r, func() error {
		if got := len(r.engine.Processes(r.name)); got != n {
			return fmt.Errorf("%d processes run, want %d", got, n)
		}
		return nil
	})
}

func sh(line string) sandbox.Command { return sandbox.Command{Args: []string{"sh", "-c", line}} }
