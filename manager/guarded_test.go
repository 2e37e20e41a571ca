package manager_test

import (
	"bytes"
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/violation"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// A guarded machine has one sandbox whose rules can be opened, and a person who
// answers.
type guarded struct {
	t     *testing.T
	state *statedir.Dir
	wall  sandbox.Provider
	log   *logBuffer
	host  string // a folder outside, with files that may be permitted

	mu      sync.Mutex
	answers []sandbox.Permission // given in turn; then the last one again
	fails   error                // of the person
	asked   []sandbox.PermissionRequest
	kept    []string // agent and path of permanent ones
	keepErr error
	runs    int // of the program

	recorder violation.Recorder // or nil

	reload func() (*config.Settings, error) // or nil
	change func(*manager.Options)           // or nil
}

const guardedSettings = `{"agents": {"defaults": {"sandbox": {"provider": "local"}}}}`

func newGuarded(t *testing.T, answers ...sandbox.Permission) *guarded {
	t.Helper()
	state, err := statedir.Open(t.TempDir() + "/state")
	must(t, err)
	g := &guarded{t: t, state: state, answers: answers, log: &logBuffer{}, host: t.TempDir()}
	for _, name := range strings.Fields("x a b c 1 2 3 4 5 6 7 8 9 10") {
		must(t, os.WriteFile(g.host+"/"+name, nil, 0o600))
	}
	g.wall = fake.New(fake.Options{Name: "local", Rules: rulesOf, Programs: map[string]fake.Program{"reach": g.reach, "linger": func(p *fake.Proc) int { p.Sleep(time.Hour); return 1 }}})
	return g
}

// rulesOf opens the workspace, what the settings allow and what is granted;
// /secret is denied.
func rulesOf(s sandbox.Spec, op sandbox.Operation, p string) sandbox.Verdict {
	below := func(dir string) bool { return p == dir || strings.HasPrefix(p, dir+"/") }
	if below("/secret") {
		return sandbox.Verdict{Rule: "denyRead /secret", Builtin: true, HostPath: p}
	}
	if below("/workspace") || slices.ContainsFunc(s.Filesystem.AllowWrite, below) || op == sandbox.OpRead && slices.ContainsFunc(s.Filesystem.AllowRead, below) {
		return sandbox.Verdict{Allowed: true}
	}
	for _, g := range s.Grants {
		if below(g.Path) && (g.Operation == op || g.Operation == sandbox.OpWrite) {
			return sandbox.Verdict{Allowed: true, Rule: "granted"}
		}
	}
	v := sandbox.Verdict{Rule: "allowWrite", HostPath: p}
	if below("/nowhere") {
		v.HostPath = ""
	}
	return v
}

// reach is a program that reads its input and writes the paths of its
// arguments, until it is stopped.
func (g *guarded) reach(p *fake.Proc) int {
	g.mu.Lock()
	g.runs++
	g.mu.Unlock()
	in, err := io.ReadAll(p.Stdin)
	if err != nil {
		return 3
	}
	for _, path := range p.Args[1:] {
		path = strings.Replace(path, "HOST", g.host, 1)
		path, seen := strings.CutPrefix(path, "seen:")
		v := p.Judge(sandbox.OpWrite, path)
		if v.Allowed {
			continue
		}
		if seen {
			p.ReportViolation(sandbox.Violation{Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: path, Rule: v.Rule, HostPath: v.HostPath, Builtin: v.Builtin})
			return 1
		}
		io.WriteString(p.Stderr, "touch: cannot touch '"+path+"': Permission denied\n")
		return 1
	}
	io.WriteString(p.Stdout, "done"+string(in))
	return 0
}

// Approve implements sandbox.Approver.
func (g *guarded) Approve(_ context.Context, r sandbox.PermissionRequest) (sandbox.Permission, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.asked = append(g.asked, r)
	return g.answers[min(len(g.asked), len(g.answers))-1], g.fails
}

func (g *guarded) manager(settings string) *manager.Manager {
	g.t.Helper()
	parsed, err := config.Parse("test", []byte(settings))
	must(g.t, err)
	set, err := provider.New(g.wall)
	must(g.t, err)
	log := logrus.New()
	log.SetOutput(g.log)
	o := manager.Options{
		Settings: parsed, Reload: g.reload, State: g.state, Providers: set, Images: nowhere{}, Log: log,
		Host: manager.Host{CPUs: 2, Memory: 8 << 30, Guest: func() (sandbox.GuestRef, error) {
			return sandbox.GuestRef{Dir: "/guest", Digest: strings.Repeat("0", 64)}, nil
		}},
		Permanent: func(agent string, gr sandbox.Grant) error {
			g.kept = append(g.kept, agent+" "+gr.Path)
			return g.keepErr
		},
	}
	if g.answers != nil {
		o.Approver = g
	}
	o.Violations = g.recorder
	if g.change != nil {
		g.change(&o)
	}
	m, err := manager.New(o)
	must(g.t, err)
	g.t.Cleanup(func() { m.Close() })
	return m
}

// try runs reach with args for a session and returns its outputs.
func (g *guarded) try(m *manager.Manager, who config.Who, args []string, change ...func(*manager.Request)) (string, manager.Outcome) {
	g.t.Helper()
	var out bytes.Buffer
	req := manager.Request{Who: who, Ask: true, Command: sandbox.Command{Args: append([]string{"reach"}, args...), Stdout: &out, Stderr: io.Discard}}
	for _, c := range change {
		c(&req)
	}
	o, err := m.Run(context.Background(), req)
	must(g.t, err)
	return out.String(), o
}

var someone = config.Who{Agent: "main", Session: "s"}
