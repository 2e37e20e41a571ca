package sdk_test

import (
	"context"
	"io"
	"net"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/audit/recorder"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/orchestrator"
	"github.com/bulkhead-dev/sandbox/sdk"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

const patience = time.Minute

// A rig is a daemon on a real socket with everything that a client can ask for,
// a client of the tenant acme, and the sandbox of its session s1.
type rig struct {
	*testing.T
	*served.Rig
	ctx         context.Context
	c           *sdk.API
	box         string
	fakeManager *fakeManager
	evidence    *evidence.Store
	violations  *violation.Store
}

// onBoth runs a test with sandboxes in memory and with real ones.
func onBoth(t *testing.T, do func(*rig)) { served.OnBoth(t, newRig, do) }

// onMemory runs a test of what is the same over both.
func onMemory(t *testing.T, do func(*rig)) { served.OnMemory(t, newRig, do) }

func newRig(t *testing.T, wall string) *rig {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*patience)
	t.Cleanup(cancel)
	r := &rig{T: t, ctx: ctx, fakeManager: &fakeManager{}}
	var c *orchestrator.Control
	provider := "local"
	if wall == "docker" {
		provider = wall
	}
	r.Rig = served.New(t, served.Options{
		Wall:     wall,
		Settings: `{"agents": {"defaults": {"sandbox": {"provider": "` + provider + `", "tools": {"alsoAllow": ["reporter"]}}}}}`,
		Change: func(o *manager.Options) {
			var err error
			r.evidence, err = evidence.Open(filepath.Join(t.TempDir(), "evidence"), evidence.Options{KeyFile: filepath.Join(t.TempDir(), "key")})
			r.ok(err)
			r.violations, err = violation.Open(filepath.Join(t.TempDir(), "violations"), violation.Options{})
			r.ok(err)
			c, err = orchestrator.OpenOperations(orchestrator.OperationsOptions{State: o.State, Log: o.Log, Sinks: []recorder.Sink{recorder.NewFile("file", r.evidence)}})
			r.ok(err)
			t.Cleanup(func() { c.Close(); r.evidence.Close(); r.violations.Close() })
			o.Control = func() (*manager.Control, error) { return &c.Control, nil }
		},
		Resources: func(s *served.Rig) []resource.Resource { return r.resources(s, c) },
	})
	r.c = r.as("acme")
	r.box = r.Ready("acme", "s1")
	return r
}

func (r *rig) resources(s *served.Rig, c *orchestrator.Control) []resource.Resource {
	m := s.Manager
	answers, err := resource.Open(r.TempDir())
	r.ok(err)
	boxes := resource.NewSandboxes(resource.Options{Manager: m, Answers: answers, Log: s.Log})
	supervisor := running.New(running.Options{Manager: running.Managed(m), Log: s.Log})
	kits := tools.New(tools.Options{Manager: m, Running: supervisor, Log: s.Log})
	pages := resource.NewBrowsers(r.fakeManager, m, s.Log)
	r.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), patience)
		defer done()
		if err := pages.Close(ctx); err != nil {
			r.Error(err)
		}
		boxes.Close()
		if err := kits.Close(ctx); err != nil {
			r.Error(err)
		}
		if err := supervisor.Close(ctx); err != nil {
			r.Error(err)
		}
	})
	return []resource.Resource{
		boxes, resource.NewCommands(m), resource.NewToolCalls(m, kits), resource.NewShells(m, supervisor, stream.Options{}),
		resource.NewFilesResource(m, resource.Limits{}), resource.NewWatchResource(m, resource.WatchOptions{Interval: 20 * time.Millisecond}),
		resource.NewApprovals(manager.NewApprovalQueue(manager.ApprovalQueueOptions{})), resource.NewViolations(r.violations), resource.NewEvidence(r.evidence),
		resource.NewGrants(m, func() (resource.Registrar, error) { return c, nil }), resource.NewTokens(s.Tokens), resource.NewCode(m, supervisor), pages,
	}
}

// ok ends the test where there is an error.
func (r *rig) ok(err error) {
	r.T.Helper()
	if err != nil {
		r.Fatal(err)
	}
}

func (r *rig) code(what string, err error, want sandbox.Code) {
	r.T.Helper()
	if sandbox.CodeOf(err) != want {
		r.Errorf("%s: %v, want %s", what, err, want)
	}
}

// as is the client of one of the people; empty is the user that we are.
func (r *rig) as(name string) *sdk.API {
	r.T.Helper()
	o := sdk.APIOptions{}
	if name != "" {
		o.Token = r.Secret(name)
	}
	c, err := sdk.NewAPI("unix:"+r.Socket, o)
	r.ok(err)
	r.Cleanup(func() { c.Close() })
	return c
}

// A desk has a browser in memory, of which it notes what is done.
type fakeManager struct {
	mu     sync.Mutex
	done   []any
	closed int
}

func (d *fakeManager) note(what ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.done = append(d.done, what...)
}

func (d *fakeManager) Start(context.Context, display.Request) (display.Started, error) {
	return display.Started{Name: "sbx-browser-x"}, nil
}

func (d *fakeManager) Serve(context.Context, display.Request) (display.Served, error) {
	return display.Served{Life: life{}, WebSocketDebuggerURL: "ws://127.0.0.1:1/secret"}, nil
}

func (d *fakeManager) Watch(context.Context, display.Request, bool) (display.Watched, error) {
	return display.Watched{Life: life{}, URL: "http://127.0.0.1:1/once", Expires: time.Now().Add(time.Hour)}, nil
}

func (d *fakeManager) View(context.Context, display.Request) (display.Viewed, error) {
	near, far := net.Pipe()
	go func() {
		io.WriteString(far, "RFB 003.008\n")
		far.Close()
	}()
	return display.Viewed{Life: &shown{done: make(chan struct{})}, Conn: near, Password: "p4ssw0rd"}, nil
}

func (d *fakeManager) Session(context.Context, display.Request, browser.Rights) (browser.Session, error) {
	return &session{d}, nil
}

func (d *fakeManager) Stop(_ context.Context, _ display.Request, force bool) (bool, string, error) {
	d.note("stop", force)
	return true, "sbx-browser-x", nil
}

// A shown goes on until it is closed.
type shown struct {
	once sync.Once
	done chan struct{}
}

func (s *shown) Done() <-chan struct{} { return s.done }
func (s *shown) Err() error            { return nil }
func (s *shown) Close() error          { s.once.Do(func() { close(s.done) }); return nil }

// A life has ended.
type life struct{}

func (life) Done() <-chan struct{} { c := make(chan struct{}); close(c); return c }
func (life) Err() error            { return nil }
func (life) Close() error          { return nil }

// A session tells its desk what is asked of it.
type session struct{ d *fakeManager }

func (s *session) Navigate(_ context.Context, address string) (browser.Page, error) {
	s.d.note(address)
	return browser.Page{URL: address, Status: 200, Title: "\x1b[2J"}, nil
}

func (s *session) Screenshot(_ context.Context, o browser.Shot) (browser.Picture, error) {
	s.d.note(o)
	return browser.Picture{Data: []byte("picture"), MIME: "image/jpeg", Width: 3, Height: 2}, nil
}

func (s *session) Extract(_ context.Context, o browser.Extraction) (browser.Content, error) {
	s.d.note(o)
	return browser.Content{Text: "text", Links: []browser.Link{{URL: "u"}}, Truncated: true}, nil
}

func (s *session) PDF(context.Context) ([]byte, error) { return []byte("%PDF"), nil }

func (s *session) Wait(_ context.Context, c browser.Condition) error {
	s.d.note(c)
	if c.Text == "never" {
		return &sandbox.Error{Code: sandbox.CodeTimeout, Op: "wait", Message: "it was not so in time"}
	}
	return nil
}

func (s *session) Click(_ context.Context, selector string) error {
	s.d.note(selector)
	return nil
}

func (s *session) Type(_ context.Context, selector, text string) error {
	s.d.note(selector, text)
	return nil
}

func (s *session) Upload(_ context.Context, selector string, files []string) error {
	s.d.note(selector, len(files))
	return nil
}

func (s *session) Download(_ context.Context, selector, folder string) (browser.Download, error) {
	s.d.note(selector, folder)
	return browser.Download{Path: folder + "/f", Size: 4, Sum: []byte{1, 2}}, nil
}

func (s *session) Close() error {
	s.d.mu.Lock()
	defer s.d.mu.Unlock()
	s.d.closed++
	return nil
}
