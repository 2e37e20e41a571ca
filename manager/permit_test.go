package manager_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
	"github.com/bulkhead-dev/sandbox/provider/fake"
	"github.com/bulkhead-dev/sandbox/statedir"
)

// A guarded machine has one wall whose rules can be opened, and a person who
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
	g.wall = fake.New(fake.Options{Name: "local", Rules: rulesOf, Programs: map[string]fake.Program{"reach": g.reach}})
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
			p.Witness(sandbox.Violation{Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite, Resource: path, Rule: v.Rule, HostPath: v.HostPath, Builtin: v.Builtin})
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
		Settings: parsed, State: g.state, Providers: set, Images: nowhere{}, Log: log,
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

// TestAnswersAreCarriedOut holds what each answer opens, and for how long.
func TestAnswersAreCarriedOut(t *testing.T) {
	other := config.Who{Agent: "main", Session: "other"}
	tests := []struct {
		answer              sandbox.Permission
		first, again, else_ bool // whether a run succeeds: this, the next without asking, another session's
		kept                int
	}{
		{sandbox.AllowOnce, true, false, false, 0},
		{sandbox.AllowSession, true, true, false, 0},
		{sandbox.AllowPermanent, true, true, true, 1},
		{sandbox.Deny, false, false, false, 0},
		{"perhaps", false, false, false, 0},
	}
	for _, tt := range tests {
		t.Run(string(tt.answer), func(t *testing.T) {
			g := newGuarded(t, tt.answer)
			m := g.manager(guardedSettings)
			mute := func(r *manager.Request) { r.Ask = false }
			out, o := g.try(m, someone, []string{"HOST/x"})
			if (o.Exit.Code == 0) != tt.first || (out == "done") != tt.first || o.Blocked == tt.first || len(g.asked) != 1 || len(o.Answers) != 1 {
				t.Errorf("%q, %+v; asked %+v", out, o, g.asked)
			}
			for who, want := range map[config.Who]bool{someone: tt.again, other: tt.else_, {Tenant: "t", Agent: "main", Session: "s"}: tt.else_} {
				if out, o := g.try(m, who, []string{"HOST/x"}, mute); (o.Exit.Code == 0) != want {
					t.Errorf("later, %+v: %q, %+v", who, out, o)
				}
			}
			if len(g.kept) != tt.kept {
				t.Errorf("kept %q", g.kept)
			}
		})
	}
}

// TestRequestSaysWhatIsAsked holds every part of a request.
func TestRequestSaysWhatIsAsked(t *testing.T) {
	g := newGuarded(t, sandbox.Deny)
	_, o := g.try(g.manager(guardedSettings), config.Who{Tenant: "acme", Agent: "a", Session: "s"}, []string{"seen:HOST/x"})
	r := g.asked[0]
	if len(r.ID) != 32 || r.Expires.IsZero() || r.Sandbox != o.Name {
		t.Errorf("%+v", r)
	}
	want := sandbox.PermissionRequest{
		ID: r.ID, Expires: r.Expires, Sandbox: r.Sandbox, Tenant: "acme", Agent: "a", Session: "s", Kind: sandbox.ResourcePath, Operation: sandbox.OpWrite,
		Resource: g.host + "/x", Inside: g.host + "/x", Command: []string{"reach", "seen:HOST/x"}, Reason: "write " + g.host + "/x: denied: allowWrite (seen by the wall)",
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Errorf("request (-want +got):\n%s", d)
	}
	if !o.Blocked || o.BlockedResource != g.host+"/x" || !strings.Contains(o.BlockedReason, "asked for and denied") || len(o.Violations) != 1 || o.Violations[0].PID == 0 {
		t.Errorf("%+v", o)
	}
}

// TestNobodyIsAskedInVain holds when there is no question.
func TestNobodyIsAskedInVain(t *testing.T) {
	endless, w, err := os.Pipe()
	must(t, err)
	defer w.Close()
	tests := []struct {
		name   string
		args   []string
		change func(*manager.Request)
		reason string
	}{
		{"on a list of denials", []string{"/secret/x"}, nil, "SANDBOX.CAPABILITY_BLOCKED"},
		{"seen, on a list of denials", []string{"seen:/secret/x"}, nil, "SANDBOX.CAPABILITY_BLOCKED"},
		{"nothing of the host", []string{"/nowhere/x"}, nil, "no path of the host"},
		{"not wanted", []string{"HOST/x"}, func(r *manager.Request) { r.Ask = false }, "denied: allowWrite"},
		{"input too long", []string{"HOST/x"}, func(r *manager.Request) { r.Command.Stdin = io.LimitReader(zeros{}, 1<<20+1) }, "input cannot be given again"},
		{"input without end", []string{"HOST/x"}, func(r *manager.Request) {
			r.Command.Stdin, r.Command.Args = endless, []string{"sh", "-c", "reach HOST/x </dev/null"}
		}, "input cannot be given again"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t, sandbox.AllowSession)
			if tt.change == nil {
				tt.change = func(*manager.Request) {}
			}
			_, o := g.try(g.manager(guardedSettings), someone, tt.args, tt.change)
			if len(g.asked) != 0 || g.runs != 1 || !o.Blocked || o.Exit.Code != 1 || !strings.Contains(o.BlockedReason, tt.reason) {
				t.Errorf("asked %d times, %d runs, %+v", len(g.asked), g.runs, o)
			}
		})
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestTroubleIsADenial holds that no error of the approver opens anything.
func TestTroubleIsADenial(t *testing.T) {
	g := newGuarded(t, sandbox.AllowSession)
	g.fails = errors.New("the terminal burned down")
	_, o := g.try(g.manager(guardedSettings), someone, []string{"HOST/x"})
	if o.Exit.Code == 0 || !strings.Contains(o.BlockedReason, "burned down") || o.Answers[0].Permission != sandbox.Deny {
		t.Errorf("%+v", o)
	}
	g = newGuarded(t)
	_, o = g.try(g.manager(guardedSettings), someone, []string{"HOST/x"})
	if o.Exit.Code == 0 || !strings.Contains(o.BlockedReason, "nobody to ask") {
		t.Errorf("%+v", o)
	}
}

// TestInputIsGivenAgain holds that every run gets the whole input.
func TestInputIsGivenAgain(t *testing.T) {
	file, err := os.Create(t.TempDir() + "/in")
	must(t, err)
	defer file.Close()
	_, err = file.WriteString("skipped, then read")
	must(t, err)
	_, err = file.Seek(7, io.SeekStart)
	must(t, err)
	for name, in := range map[string]io.Reader{
		"none": nil, "a buffer": strings.NewReader(", then read"), "a stream": io.LimitReader(strings.NewReader(", then read"), 99), "a file": file,
	} {
		t.Run(name, func(t *testing.T) {
			g := newGuarded(t, sandbox.AllowOnce)
			again := 0
			out, o := g.try(g.manager(guardedSettings), someone, []string{"HOST/a", "HOST/b", "HOST/c"}, func(r *manager.Request) {
				r.Command.Stdin = in
				r.Again = func() { again++ }
			})
			want := "done"
			if in != nil {
				want = "done, then read"
			}
			if out != want || g.runs != 4 || again != 3 || len(o.Answers) != 3 || o.Blocked {
				t.Errorf("%q after %d runs: %+v", out, g.runs, o)
			}
		})
	}
}

// TestRoundsAreBounded holds that one command asks eight questions at most,
// and never the same one twice.
func TestRoundsAreBounded(t *testing.T) {
	g := newGuarded(t, sandbox.AllowOnce)
	_, o := g.try(g.manager(guardedSettings), someone, strings.Fields("HOST/1 HOST/2 HOST/3 HOST/4 HOST/5 HOST/6 HOST/7 HOST/8 HOST/9 HOST/10"))
	if len(g.asked) != 8 || g.runs != 9 || !o.Blocked || o.BlockedResource != g.host+"/9" || !strings.Contains(o.BlockedReason, "8 questions") {
		t.Errorf("asked %d times, %d runs, %+v", len(g.asked), g.runs, o)
	}
	g = newGuarded(t, sandbox.AllowSession)
	g.wall = fake.New(fake.Options{Name: "local", Programs: map[string]fake.Program{"reach": g.reach}, Rules: func(s sandbox.Spec, op sandbox.Operation, p string) sandbox.Verdict {
		return rulesOf(sandbox.Spec{}, op, p) // grants do not work
	}})
	_, o = g.try(g.manager(guardedSettings), someone, []string{"HOST/x"})
	if len(g.asked) != 1 || g.runs != 2 || !strings.Contains(o.BlockedReason, "denied all the same") {
		t.Errorf("asked %d times, %d runs, %+v", len(g.asked), g.runs, o)
	}
}

// TestPermissionsOutlastWalls holds that a session's permissions are there
// after its sandbox was made anew, and end with the program.
func TestPermissionsOutlastWalls(t *testing.T) {
	g := newGuarded(t, sandbox.AllowSession)
	m := g.manager(guardedSettings)
	g.try(m, someone, []string{"HOST/x"})
	rows, err := m.Select(context.Background(), "", manager.Selector{Session: "s"}, false)
	must(t, err)
	if r := m.Recreate(context.Background(), rows); len(r.Removed) != 1 {
		t.Fatalf("%+v", r)
	}
	if _, o := g.try(m, someone, []string{"HOST/x"}); o.Exit.Code != 0 || len(g.asked) != 1 {
		t.Errorf("%+v", o)
	}
	next := g.manager(guardedSettings)
	if _, o := g.try(next, someone, []string{"HOST/x"}, func(r *manager.Request) { r.Ask = false }); o.Exit.Code == 0 {
		t.Errorf("in the next program: %+v", o)
	}
}

// TestPermanentPermissions holds what is written where, and that a tenant's
// permission opens nothing for others.
func TestPermanentPermissions(t *testing.T) {
	mute := func(r *manager.Request) { r.Ask = false }
	for _, tt := range []struct {
		name, tenant string
		err          error
		note         string
	}{
		{"kept", "", nil, ""},
		{"not to be kept", "", errors.New("the file has changed"), "the file has changed"},
		{"of a tenant", "acme", nil, "shared by all tenants"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t, sandbox.AllowPermanent)
			g.keepErr = tt.err
			m := g.manager(guardedSettings)
			who := config.Who{Tenant: tt.tenant, Agent: "main", Session: "s"}
			_, o := g.try(m, who, []string{"HOST/x"})
			if o.Exit.Code != 0 || len(o.Answers) != 1 || !strings.Contains(o.Answers[0].Note, tt.note) || (o.Answers[0].Note == "") != (tt.note == "") {
				t.Fatalf("%+v", o)
			}
			if tt.note != "" && !strings.Contains(g.log.String(), tt.note) {
				t.Errorf("the log says %q", g.log)
			}
			if _, o := g.try(m, who, []string{"HOST/x"}, mute); o.Exit.Code != 0 {
				t.Errorf("the session itself: %+v", o)
			}
			who.Session = "other"
			if _, o := g.try(m, who, []string{"HOST/x"}, mute); (o.Exit.Code == 0) != (tt.note == "") {
				t.Errorf("another session: %+v", o)
			}
		})
	}
}

// TestNewRulesNeedNoNewSandbox holds that settings which only open single
// paths take effect in a sandbox that is in use, whatever the drift policy.
func TestNewRulesNeedNoNewSandbox(t *testing.T) {
	g := newGuarded(t, sandbox.Deny)
	const refuse = `{"agents": {"defaults": {"sandbox": {"provider": "local", "driftPolicy": "refuse"%s}}}}`
	before := strings.Replace(refuse, "%s", "", 1)
	after := strings.Replace(refuse, "%s", `, "filesystem": {"allowWrite": ["`+g.host+`"]}`, 1)
	_, first := g.try(g.manager(before), someone, nil)
	m := g.manager(after)
	for range 2 {
		if _, o := g.try(m, someone, []string{"HOST/x"}); o.Exit.Code != 0 || o.Created || o.Name != first.Name {
			t.Errorf("%+v", o)
		}
	}
	e, err := m.Explain(context.Background(), someone, nil, manager.Questions{})
	must(t, err)
	if !strings.HasPrefix(e.Next, "use") {
		t.Errorf("next: %s", e.Next)
	}
	if g.log.String() != "" {
		t.Errorf("the log says %q", g.log)
	}
	// Taken back, it is a difference again that nothing overlooks.
	if _, o := g.try(g.manager(before), someone, []string{"HOST/x"}); o.Exit.Code == 0 {
		t.Errorf("%+v", o)
	}
}

// TestWhatIsPermitted holds what stands in the request when a path is not
// there yet, or is reached by a link.
func TestWhatIsPermitted(t *testing.T) {
	tests := []struct {
		name, path string
		want       string // below the folder of the host, or empty for no question
		reason     string
	}{
		{"there", "HOST/x", "/x", ""},
		{"to be made", "HOST/new", "/", ""},
		{"to be made deeper", "HOST/none/new", "", "nothing to permit"},
		{"below a file", "HOST/x/new", "", "to permit"},
		{"through a link", "HOST/link/x", "/x", ""},
		{"to be made at the root", "/askhasnosuchpath", "", "permit everything"},
		{"to be made beside a denial", "/secret", "", "list of denials"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			g := newGuarded(t, sandbox.Deny)
			must(t, os.Symlink(g.host, g.host+"/link"))
			_, o := g.try(g.manager(guardedSettings), someone, []string{tt.path})
			if tt.want == "" {
				if len(g.asked) != 0 || !strings.Contains(o.BlockedReason, tt.reason) {
					t.Errorf("asked %+v: %s", g.asked, o.BlockedReason)
				}
				return
			}
			if len(g.asked) != 1 || g.asked[0].Resource != filepath.Clean(g.host+tt.want) {
				t.Errorf("asked %+v: %s", g.asked, o.BlockedReason)
			}
		})
	}
}

// TestHiddenFiles holds that a command which finds no file where the host has
// one is asked about, and one that just names what is missing is not.
func TestHiddenFiles(t *testing.T) {
	for _, tt := range []struct {
		path   string
		answer sandbox.Permission
		asked  int
		code   int
	}{{"HOST/x", sandbox.AllowOnce, 1, 0}, {"HOST/x", sandbox.Deny, 1, 2}, {"HOST/none", sandbox.AllowOnce, 0, 2}, {"/secret/x", sandbox.AllowOnce, 0, 2}} {
		g := newGuarded(t, tt.answer)
		path := strings.Replace(tt.path, "HOST", g.host, 1)
		look := func(p *fake.Proc) int {
			if p.Judge(sandbox.OpRead, path).Allowed {
				return 0
			}
			io.WriteString(p.Stderr, "cat: "+path+": No such file or directory\n")
			return 2
		}
		g.wall = fake.New(fake.Options{Name: "local", Rules: rulesOf, Programs: map[string]fake.Program{"look": look}})
		_, o := g.try(g.manager(guardedSettings), someone, nil, func(r *manager.Request) { r.Command.Args = []string{"look"} })
		if len(g.asked) != tt.asked || o.Exit.Code != tt.code || o.Blocked != (tt.asked == 1 && tt.answer == sandbox.Deny) {
			t.Errorf("%s, %s: asked %+v, %+v", tt.path, tt.answer, g.asked, o)
		}
		if o.Blocked && (o.BlockedResource != path || !strings.Contains(o.BlockedReason, "asked for and denied")) {
			t.Errorf("%+v", o)
		}
	}
}
