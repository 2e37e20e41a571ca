package sdk

import (
	"context"
	"math"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"go.opentelemetry.io/otel"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// drainWithin is how long what a client of this process has running may take to
// end when the client is closed.
const drainWithin = 20 * time.Second

// Open returns a client whose sandboxes this process runs. Settings and state
// are those of the command line unless options say otherwise; the guest is found
// beside the program's binary, by $SANDBOX_GUEST, or in $PATH. Open connects to
// no engine, so an engine that does not answer fails the calls that need it.
func Open(ctx context.Context, list ...Option) (*Client, error) {
	o, err := gather("open", func(o Option) bool { return o.opens }, list)
	if err != nil {
		return nil, err
	}
	if o.settings != nil {
		if o.open.Settings, err = o.settings.Build(); err != nil {
			return nil, err
		}
	}
	o.open.Log = o.log
	p := &process{listener: newMemory()}
	if err := p.start(o); err != nil {
		p.close()
		return nil, err
	}
	o.api.dial = p.listener.dial
	a, err := NewAPI("http://localhost", o.api)
	if err != nil {
		p.close()
		return nil, err
	}
	c := &Client{api: a, local: true, o: o, close: p.close}
	if err := c.begin(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// A process serves the HTTP API to itself.
type process struct {
	listener *memory
	ends     []func() // of what was made, in that order
}

func (p *process) close() {
	for i := len(p.ends) - 1; i >= 0; i-- {
		p.ends[i]()
	}
	p.ends = nil
}

// end has fn called by close, with a context that bounds it.
func (p *process) end(o options, fn func(context.Context) error) {
	p.ends = append(p.ends, func() {
		ctx, done := context.WithTimeout(context.Background(), drainWithin)
		defer done()
		if err := fn(ctx); err != nil {
			o.log.WithError(err).Warn("a part of the client has not ended in order")
		}
	})
}

// start makes the parts and serves them.
func (p *process) start(o options) error {
	orch, err := orchestrator.Open(o.open)
	if err != nil {
		return err
	}
	p.ends = append(p.ends, orch.Close)
	m, err := orch.Manager()
	if err != nil {
		return err
	}
	answers, err := resource.Open(filepath.Join(orch.State().Path(), "answers"))
	if err != nil {
		return err
	}
	supervisor := running.New(running.Options{Manager: running.Managed(m), Log: o.log})
	kit := tools.New(tools.Options{Manager: m, Running: supervisor, Log: o.log, Browser: func(ctx context.Context, who config.Who) (browser.Session, error) {
		d, err := orch.Browsers()
		if err != nil {
			return nil, err
		}
		return d.Session(ctx, display.Request{Who: who}, browser.Rights{Write: true})
	}})
	p.end(o, supervisor.Close)
	p.end(o, kit.Close)
	boxes := resource.NewSandboxes(resource.Options{Manager: m, Answers: answers, Log: o.log})
	p.ends = append(p.ends, boxes.Close)
	s, err := server.New(server.Options{
		Log: o.log,
		// Only this process can connect, and it may do everything that it could do
		// with the orchestrator.
		Identify: func(*http.Request) (auth.Caller, error) { return auth.Caller{Role: token.Admin, Local: true}, nil },
		Bounds:   func() server.Bounds { return server.Bounds{Timeout: longest} },
		Tracer:   server.NewTracer(otel.GetTracerProvider()), // of the program, also where it sets one later
		Resources: []resource.Resource{
			boxes, resource.NewCommands(m), resource.NewToolCalls(m, kit), resource.NewShells(m, supervisor, stream.Options{}),
			resource.NewFilesResource(m, resource.Limits{}), resource.NewWatchResource(m, resource.WatchOptions{}),
			resource.NewPorts(m, resource.PortOptions{}), resource.NewCode(m, supervisor), resource.NewMedia(m), resource.NewApprovals(orch.Approvals()),
			resource.NewCheckpoints(resource.CheckpointOptions{Manager: m, MaxImport: func() int64 { return math.MaxInt64 }}),
			resource.NewChanges(m),
		},
	})
	if err != nil {
		return err
	}
	srv := s.HTTP()
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = srv.Serve(server.Heads(p.listener)) // ends with Drain
	}()
	p.end(o, func(ctx context.Context) error {
		err := s.Drain(ctx, 0)
		p.listener.Close()
		<-served
		return err
	})
	return nil
}

// A memory listens for connections of this process.
type memory struct {
	accepts chan net.Conn
	closed  chan struct{}
	once    sync.Once
}

func newMemory() *memory {
	return &memory{accepts: make(chan net.Conn), closed: make(chan struct{})}
}

// dial connects to the listener.
func (m *memory) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case m.accepts <- far:
		return near, nil
	case <-m.closed:
		return nil, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "dial", Message: "the client is closed"}
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (m *memory) Accept() (net.Conn, error) {
	select {
	case c := <-m.accepts:
		return c, nil
	case <-m.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (m *memory) Close() error {
	m.once.Do(func() { close(m.closed) })
	return nil
}

// Addr implements net.Listener.
func (m *memory) Addr() net.Addr { return inner("memory") }
