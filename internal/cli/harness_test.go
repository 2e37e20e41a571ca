package cli

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/images/about"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/workspace"
)

var update = flag.Bool("update", false, "write golden files")

func TestMain(m *testing.M) {
	testenv.HearSignals()
	testenv.Main(m)
}

// golden compares got with testdata/NAME.golden.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s differs (-want +got):\n%s", path, d)
	}
}

// A fake is a backend and a manager client whose answers a test sets.
type fake struct {
	options Options // of the last call
	err     error   // of making anything

	run       func(context.Context, manager.Request) (manager.Outcome, error)
	request   manager.Request
	shell     bool           // the request was one for a shell
	share     *manager.Share // of Files
	refs      []string       // of StageFor
	staged    []workspace.Staged
	stageErr  error
	listing   manager.Listing
	listErr   error
	listed    manager.ListOptions
	rows      []manager.Row
	selected  manager.Selector
	browsers  bool // were selected
	tenant    string
	recreated manager.Recreated
	pruned    manager.Pruned
	prune     manager.PruneOptions
	explained manager.Explanation
	who       config.Who
	flags     *config.SandboxSettings
	questions manager.Questions
	stats     []manager.Stat
	pool      manager.PoolStatus
	caches    []manager.Cache
	project   about.Project
	image     about.Image
	settings  *config.Settings
	diagnosis Diagnosis

	display    fakeDisplay
	violations fakeViolations
	evidence   fakeEvidence
	tokens     fakeTokens
	portStore  fakePorts

	checkpoints fakeCheckpoints

	top     TopView
	served  MCPSession
	serving Serving
}

func (f *fake) Manager(o Options) (Manager, func(), error) {
	f.options = o
	return f, func() {}, f.err
}

func (f *fake) Images(o Options) (ImageStore, func(), error) {
	f.options = o
	return fakeImages{f}, func() {}, f.err
}

func (f *fake) Browsers(o Options) (BrowserDisplay, func(), error) {
	f.options = o
	return &f.display, func() { f.display.released = true }, f.err
}

func (f *fake) Violations(o Options) (ViolationStore, func(), error) {
	f.options = o
	return &f.violations, func() { f.violations.released = true }, f.err
}

func (f *fake) Evidence(o Options) (EvidenceStore, func(), error) {
	f.options = o
	return &f.evidence, func() { f.evidence.released = true }, f.err
}

func (f *fake) Tokens(o Options) (TokenStore, func(), error) {
	f.options = o
	return &f.tokens, func() { f.tokens.released = true }, f.err
}

func (f *fake) Ports(o Options) (PortStore, func(), error) {
	f.options = o
	return &f.portStore, func() { f.portStore.released = true }, f.err
}

func (f *fake) Top(_ context.Context, o Options, v TopView) error {
	f.options, f.top = o, v
	return f.err
}

func (f *fake) Serve(_ context.Context, o Options, s Serving) error {
	f.options, f.serving = o, s
	s.Ready(s.Listen)
	return f.err
}

func (f *fake) MCP(_ context.Context, o Options, s MCPSession) error {
	f.options, f.served = o, s
	return f.err
}

func (f *fake) Settings(o Options) (*config.Settings, error) {
	f.options = o
	return f.settings, f.err
}

func (f *fake) Inside(config.Resolved) (config.Inside, error) {
	return config.Inside{Home: "/home/me", Env: map[string]string{"PLACE": "/srv/place"}}, f.err
}

func (f *fake) Doctor(_ context.Context, o Options, who config.Who, flags *config.SandboxSettings, attack bool) (Diagnosis, error) {
	f.options, f.who, f.flags = o, who, flags
	d := f.diagnosis
	if !attack {
		d.Attempts = nil
	}
	return d, f.err
}

func (f *fake) Guest() (string, string, error) { return "/opt/sandbox-guest", "0123abcd", f.err }

func (f *fake) Run(ctx context.Context, r manager.Request) (manager.Outcome, error) {
	f.request = r
	if f.run == nil {
		return manager.Outcome{}, nil
	}
	return f.run(ctx, r)
}

func (f *fake) Shell(ctx context.Context, r manager.Request) (manager.Outcome, error) {
	f.shell = true
	return f.Run(ctx, r)
}

func (f *fake) Files(_ context.Context, r manager.Request, fn func(manager.Share) error) error {
	f.request = r
	if f.share == nil {
		return errTest
	}
	return fn(*f.share)
}

func (f *fake) StageFor(_ context.Context, r manager.Request, refs []string) ([]workspace.Staged, error) {
	f.request, f.refs = r, refs
	return f.staged, f.stageErr
}

func (f *fake) List(_ context.Context, o manager.ListOptions) (manager.Listing, error) {
	f.listed = o
	return f.listing, f.listErr
}

func (f *fake) Select(_ context.Context, tenant string, s manager.Selector, browsers bool) ([]manager.Row, error) {
	f.tenant, f.selected, f.browsers = tenant, s, browsers
	return f.rows, nil
}

func (f *fake) Recreate(context.Context, []manager.Row) manager.Recreated { return f.recreated }

func (f *fake) Prune(_ context.Context, o manager.PruneOptions) (manager.Pruned, error) {
	f.prune = o
	return f.pruned, nil
}

func (f *fake) Explain(_ context.Context, who config.Who, flags *config.SandboxSettings, q manager.Questions) (manager.Explanation, error) {
	f.who, f.flags, f.questions = who, flags, q
	return f.explained, nil
}

func (f *fake) Stats(context.Context, string) ([]manager.Stat, error) { return f.stats, nil }

func (f *fake) Caches(_ context.Context, tenant string) ([]manager.Cache, error) {
	f.tenant = tenant
	return f.caches, nil
}

func (f *fake) PoolStatus(context.Context) (manager.PoolStatus, error) { return f.pool, nil }

type fakeImages struct{ f *fake }

func (i fakeImages) List(context.Context) ([]about.Image, error) {
	return []about.Image{i.f.image}, nil
}

func (i fakeImages) Build(context.Context, about.Options) (about.Image, error) {
	return i.f.image, nil
}

func (i fakeImages) Pull(_ context.Context, ref string, _ about.Options) (about.Image, error) {
	img := i.f.image
	img.Ref = ref
	return img, nil
}

func (i fakeImages) Bootstrap(context.Context, about.Options) (about.Image, error) {
	return about.Image{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "bootstrap", Message: "no tool", Hint: "install one"}
}

func (i fakeImages) BuildProject(_ context.Context, p about.Project, _ about.Options) (about.Image, error) {
	i.f.project = p
	return about.Image{Ref: "sandbox-project:x"}, nil
}

func (i fakeImages) Prune(context.Context) ([]about.Image, error) {
	return []about.Image{i.f.image}, nil
}

// A result is what one call of the program left.
type result struct {
	status         int
	stdout, stderr string
}

// call runs the program with an empty standard input.
func call(t *testing.T, b Backend, args ...string) result {
	t.Helper()
	in, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	return callWith(t, b, in, args...)
}

// callWith runs the program with in as its standard input.
func callWith(t *testing.T, b Backend, in *os.File, args ...string) result {
	t.Helper()
	out, outDone := collect(t)
	errs, errsDone := collect(t)
	p := Program{Args: append([]string{"sandbox"}, args...), Stdin: in, Stdout: out, Stderr: errs, Backend: b, Exit: func(int) { t.Error("ended at once") }}
	r := result{status: p.Run(context.Background())}
	r.stdout, r.stderr = outDone(), errsDone()
	return r
}

// collect returns a file and a function that closes it and returns what was
// written to it.
func collect(t *testing.T) (*os.File, func() string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	done := make(chan struct{})
	go func() {
		defer close(done)
		io.Copy(&b, r)
		r.Close()
	}()
	return w, func() string {
		w.Close()
		<-done
		return b.String()
	}
}

var errTest = errors.New("it broke")

// unavailable is an error of an engine that does not answer.
func unavailable() error {
	return &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "ask", Message: "no engine", Hint: "start it"}
}
