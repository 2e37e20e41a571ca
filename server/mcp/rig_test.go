package mcp_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	servermcp "github.com/bulkhead-dev/sandbox/server/mcp"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

func TestMain(m *testing.M) { testenv.Main(m) }

// A rig is a server over an in-memory provider.
type rig struct {
	*servermcp.Server
	t       *testing.T
	manager *manager.Manager
	engine  *fake.Engine
	host    string          // a folder of the host, which no rule opens
	lost    context.Context // ends when the caller "lost" loses its rights

	mu       sync.Mutex
	settings *config.Settings
}

// settingsWith returns the settings of a machine with that provider, with more
// for the sandboxes.
func settingsWith(more string) string {
	if more != "" {
		more = ", " + more
	}
	return `{"agents": {"defaults": {"sandbox": {"provider": "local"` + more + `}}}}`
}

type nowhere struct{}

func (nowhere) Volumes(context.Context, string) ([]string, error) { return nil, nil }
func (nowhere) Current(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}
func (nowhere) Ensure(context.Context, string, []string) (string, error) {
	return "", errors.New("no images")
}

// answering is a provider whose handles are kept, as those of real providers
// are.
type answering struct{ *fake.Provider }

type answerer struct{ sandbox.Sandbox }

func (answerer) Ping(context.Context) error { return nil }

func (a answerer) Files(ctx context.Context) (sandbox.Files, error) {
	return a.Sandbox.(sandbox.FileServer).Files(ctx)
}

func (a answerer) Judge(op sandbox.Operation, path string) sandbox.Verdict {
	return a.Sandbox.(sandbox.Judge).Judge(op, path)
}

func (a answering) Open(ctx context.Context, s sandbox.Spec) (sandbox.Sandbox, error) {
	box, err := a.Provider.Open(ctx, s)
	if err != nil {
		return nil, err
	}
	return answerer{box}, nil
}

func newRig(t *testing.T, settings string, change ...func(*servermcp.Options)) *rig {
	t.Helper()
	r := &rig{t: t, host: filepath.Join(t.TempDir(), "host")}
	must(t, os.MkdirAll(filepath.Join(r.host, "x"), 0o755))
	state, err := statedir.Open(filepath.Join(t.TempDir(), "state"))
	must(t, err)
	r.set(settings)
	r.engine = fake.NewEngine(fake.Options{Name: "local", Rules: rulesOf, Programs: map[string]fake.Program{"reach": reach}})
	set, err := provider.New(answering{r.engine.Provider()}, fake.New(fake.Options{}))
	must(t, err)
	log := logrus.New()
	log.SetOutput(io.Discard)
	asker := servermcp.NewAsker(false)
	r.manager, err = manager.New(manager.Options{
		Settings: r.settings, Reload: r.current, State: state, Providers: set, Images: nowhere{}, Log: log,
		Approver: manager.NewApprovalQueue(manager.ApprovalQueueOptions{Front: asker}),
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}},
	})
	must(t, err)
	supervisor := running.New(running.Options{Manager: running.Managed(r.manager), Log: log})
	kits := tools.New(tools.Options{Manager: r.manager, Running: supervisor, Log: log})
	o := servermcp.Options{Manager: r.manager, Tools: kits, Asker: asker, Version: "test", Log: log, Heartbeat: 20 * time.Millisecond, Refresh: 20 * time.Millisecond}
	for _, c := range change {
		c(&o)
	}
	r.Server = servermcp.New(o)
	t.Cleanup(func() {
		ctx, done := context.WithTimeout(context.Background(), time.Minute)
		defer done()
		if err := errors.Join(kits.Close(ctx), supervisor.Close(ctx), r.manager.Close()); err != nil {
			t.Error(err)
		}
	})
	return r
}

func (r *rig) set(settings string) {
	r.t.Helper()
	parsed, err := config.Parse("test", []byte(settings))
	must(r.t, err)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.settings = parsed
}

func (r *rig) current() (*config.Settings, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.settings, nil
}

// rulesOf allows paths in the workspace, and granted ones.
func rulesOf(s sandbox.Spec, op sandbox.Operation, p string) sandbox.Verdict {
	below := func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
	if below("/workspace") {
		return sandbox.Verdict{Allowed: true}
	}
	for _, g := range s.Grants {
		if below(g.Path) && (g.Operation == op || g.Operation == sandbox.OpWrite) {
			return sandbox.Verdict{Allowed: true, Rule: "granted"}
		}
	}
	return sandbox.Verdict{Rule: "allowWrite", HostPath: p}
}

// reach is a program that writes a path, unless it is stopped.
func reach(p *fake.Proc) int {
	if v := p.Judge(sandbox.OpWrite, p.Args[1]); !v.Allowed {
		io.WriteString(p.Stderr, "touch: cannot touch '"+p.Args[1]+"': Permission denied\n")
		return 1
	}
	io.WriteString(p.Stdout, "done\n")
	return 0
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func who(session string) config.Who {
	return config.Who{Tenant: "acme", Agent: "main", Session: session}
}

func bound(session string) servermcp.Binding {
	return servermcp.Binding{Session: tools.Session{Who: who(session), Ask: true}, Caller: "test", Answers: servermcp.AnswersForGood}
}

// connect connects a client of the SDK.
func (r *rig) connect(b servermcp.Binding, o *mcp.ClientOptions) *mcp.ClientSession {
	r.t.Helper()
	ours, theirs := mcp.NewInMemoryTransports()
	ctx, stop := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- r.Serve(ctx, ours, b) }()
	c, err := mcp.NewClient(&mcp.Implementation{Name: "test", Version: "1"}, o).Connect(ctx, theirs, nil)
	must(r.t, err)
	r.t.Cleanup(func() {
		c.Close()
		stop()
		<-served
	})
	return c
}

func deadline(t *testing.T) context.Context {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	t.Cleanup(done)
	return ctx
}

// call calls a tool with an input that is JSON.
func call(t *testing.T, c *mcp.ClientSession, name, input string) *mcp.CallToolResult {
	t.Helper()
	r, err := c.CallTool(deadline(t), &mcp.CallToolParams{Name: name, Arguments: json.RawMessage(input)})
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return r
}

// text returns the text of an answer.
func text(r *mcp.CallToolResult) string {
	var out strings.Builder
	for _, c := range r.Content {
		if t, ok := c.(*mcp.TextContent); ok {
			out.WriteString(t.Text)
		}
	}
	return out.String()
}

// structured returns the structured content of an answer.
func structured(t *testing.T, r *mcp.CallToolResult) map[string]any {
	t.Helper()
	m, ok := r.StructuredContent.(map[string]any)
	if !ok {
		t.Fatalf("the structured content is %T", r.StructuredContent)
	}
	return m
}

// codeOf returns the code of an error answer, or "".
func codeOf(t *testing.T, r *mcp.CallToolResult) string {
	t.Helper()
	e, _ := structured(t, r)["error"].(map[string]any)
	code, _ := e["code"].(string)
	return code
}

// names returns the names of the listed tools.
func names(t *testing.T, c *mcp.ClientSession) []string {
	t.Helper()
	l, err := c.ListTools(deadline(t), nil)
	must(t, err)
	var out []string
	for _, tool := range l.Tools {
		out = append(out, tool.Name)
	}
	return out
}
