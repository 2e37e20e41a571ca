package operation_test

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"testing"
	"time"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// canary is a part of every name, address and content that these tests hand in.
// The public view of an error must not have it.
const canary = "kanarienvogel"

// secret is the content of bodies, headers, queries and arguments, which no view
// of an error may have.
const secret = "geheimnis"

// A rig has an executor for each domain, over an in-memory sandbox and an
// internet on loopback.
type rig struct {
	t      *testing.T
	sb     sandbox.Sandbox
	net    *testenv.Internet
	inside *operation.Inside
	do     map[grant.Domain]operation.Executor
	ledger *ledger.Ledger

	// Of the next operation:
	budget budget.Amount
	policy func(*grant.Policy)
	ctx    context.Context
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{t: t, net: testenv.NewInternet(t), inside: new(operation.Inside)}
	var err error
	r.ledger, err = ledger.Open(t.TempDir(), ledger.Options{})
	must(t, err)
	r.wall()
	r.do = map[grant.Domain]operation.Executor{
		grant.DomainProc: operation.NewProgramExecutor(r.sb, map[string]string{"PATH": "/bin", "HOME": "/" + canary}),
		grant.DomainNet:  operation.NewFetchExecutor(r.session(), r.inside, operation.Options{Roots: r.net.Authority.Pool}),
	}
	spec := r.spec()
	all, err := fsbridge.Open(t.Context(), r.sb, spec.Mounts, spec.Tmpfs)
	must(t, err)
	held, err := all.WithoutLinks()
	must(t, err)
	r.do[grant.DomainFS] = operation.NewFilesExecutor(held)
	r.seed(all)
	return r
}

// sandbox makes the in-memory sandbox.
func (r *rig) wall() {
	r.t.Helper()
	p := fake.New(fake.Options{Programs: map[string]fake.Program{"burn": func(p *fake.Proc) int {
		for {
			p.Sleep(time.Millisecond)
		}
	}}})
	_, err := p.Create(r.t.Context(), r.spec())
	must(r.t, err)
	r.sb, err = p.Open(r.t.Context(), r.spec())
	must(r.t, err)
	r.t.Cleanup(func() { r.sb.Close() })
}

func (r *rig) spec() sandbox.Spec {
	return sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-a", Kind: sandbox.KindSandbox, Provider: "fake", UID: 1000, GID: 1000, Network: "none",
		Owner: sandbox.Owner{Instance: "0123456789abcdef", Tenant: canary, Agent: "main", Session: "a", Scope: sandbox.ScopeSession, ScopeKey: "a"},
		Image: "sandbox:test", ImageID: "sha256:0", Workdir: "/tmp",
		Mounts:   []sandbox.Mount{{Source: "/host/work/" + canary, Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		Tmpfs:    []sandbox.Tmpfs{{Target: "/tmp", Size: 64 << 20, Exec: true, Mode: 0o1777}},
		Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
	}
}

// session opens the egress session: to the hosts of the internet except "no.…".
func (r *rig) session() proxy.Session {
	r.t.Helper()
	kept, err := evidence.Open(r.t.TempDir(), evidence.Options{})
	must(r.t, err)
	quiet := logrus.New()
	quiet.SetOutput(io.Discard)
	recorder, err := egress.NewRecorder(egress.RecorderOptions{Evidence: kept, Log: quiet, Wait: time.Minute, Within: time.Minute})
	must(r.t, err)
	plane := egress.New(egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{Resolver: r.net.Names}), Record: recorder.Record, Decide: recorder.Decide})
	session, err := (&egress.Server{Plane: plane, Recorder: recorder}).Open(r.t.Context(), r.inside, proxy.Options{
		Sandbox: "sbx-a", Owner: sandbox.Owner{Tenant: canary},
		Rules: sandbox.EgressRules{AllowedDomains: []string{"*.test", "127.0.0.1"}, DeniedDomains: []string{host("no")}},
	})
	must(r.t, err)
	r.t.Cleanup(func() {
		session.Close()
		plane.Close()
		recorder.Close()
		kept.Close()
	})
	return session
}

// host is a host with the canary in its name.
func host(name string) string { return name + "." + canary + ".test" }

// at is an address of it, with the canary in path and query.
func (r *rig) at(name string) string {
	return r.net.URL("https", host(name), "/"+canary+"?token="+secret)
}

// inWorkspace is a path with the canary in its name.
func inWorkspace(name string) string { return sandbox.WorkspaceDir + "/" + canary + "/" + name }

// seed makes what operations meet.
func (r *rig) seed(b *fsbridge.Bridge) {
	r.t.Helper()
	ctx := r.t.Context()
	for _, name := range []string{"there", "large"} { // parents are made
		must(r.t, b.Write(ctx, inWorkspace(name), zeros(2000), sandbox.WriteOptions{}))
	}
	must(r.t, b.Symlink(ctx, "there", inWorkspace("link")))
	r.net.Handle(host("page"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/"+canary)
		io.WriteString(w, canary)
	}))
	r.net.Handle(host("away"), http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		http.Redirect(w, q, "https://"+canary+".example/", http.StatusFound)
	}))
	r.net.Handle(host("stall"), http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	r.net.Handle(host("junk"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if c, _, err := http.NewResponseController(w).Hijack(); err == nil {
			io.WriteString(c, secret+"\r\n\r\n")
			c.Close()
		}
	}))
}

// grant of everything that the rig has, with the canary in all its words.
func aGrant(b budget.Amount) grant.Grant {
	now := time.Now()
	return grant.Grant{
		ID: "g-" + canary, Tenant: canary, Subject: canary, Agent: "main", Session: canary, Tool: canary, Call: canary, DecisionKey: canary,
		Capabilities: capabilities(), Budget: b, Issued: now.Add(-time.Minute), Expires: now.Add(time.Hour),
		Consent: &grant.Consent{By: canary, At: now.Add(-time.Minute), Expires: now.Add(time.Hour)},
	}
}

func capabilities() []grant.Capability {
	out := []grant.Capability{
		{Kind: grant.FSRead, Path: sandbox.WorkspaceDir}, {Kind: grant.FSList, Path: sandbox.WorkspaceDir}, {Kind: grant.FSWrite, Path: sandbox.WorkspaceDir},
		{Kind: grant.NetHTTP, Host: "*.test", Methods: []string{"*"}},
	}
	for _, tool := range []string{"burn", "echo", "missing-" + canary} {
		out = append(out, grant.Capability{Kind: grant.Process, Tool: tool})
	}
	return out
}

func aManifest() grant.Manifest {
	return grant.Manifest{
		Tool: canary, Version: "1.0.0", Safety: grant.SafetyLow, Capabilities: capabilities(),
		Commands: []grant.Template{{Tool: "echo", Rest: &grant.Argument{Pattern: `[a-z]{1,5}`}}},
	}
}

func aPolicy() grant.Policy {
	return grant.Policy{
		Version: "1", Capabilities: capabilities(), Mappings: grant.Mappings{Root: sandbox.WorkspaceDir, Tmp: "/tmp"},
		Limits: grant.Limits{MaxBytesIn: 1000, MaxBytesOut: 1000, MaxConcurrency: 2},
		Denied: grant.Denied{Paths: []string{inWorkspace("denied")}},
		Lists:  grant.Lists{Methods: []string{"GET", "POST"}},
	}
}

// guard compiles the profile.
func (r *rig) guard() *grant.Guard {
	r.t.Helper()
	p := aPolicy()
	if r.policy != nil {
		r.policy(&p)
	}
	profile, err := grant.Build(aGrant(r.budget), aManifest(), p, time.Now())
	must(r.t, err)
	g, err := grant.Compile(profile)
	must(r.t, err)
	return g
}

// run carries an operation out, as the manager does.
func (r *rig) run(op grant.Operation) error {
	g, state := r.guard(), func() grant.State { return grant.State{Now: time.Now()} }
	v, err := g.Check(op, state())
	if err != nil {
		return err
	}
	account, err := r.ledger.Account(r.ctx, ledger.Limit{ID: "grant:" + canary + strconv.FormatInt(time.Now().UnixNano(), 10), Bound: r.budget})
	must(r.t, err)
	m, ctx, err := budget.Start(r.ctx, account, budget.One(budget.Calls, 1))
	if err != nil {
		return err
	}
	defer m.End()
	_, err = r.do[v.Domain].Execute(ctx, &operation.Call{Guard: g, Meter: m, State: state, Keep: 100}, v)
	return err
}

// vetted is an operation that the guard lets pass, and call what it is carried
// out in without a meter, for what ends before anything is counted.
func (r *rig) vetted(op grant.Operation) grant.Vetted {
	r.t.Helper()
	v, err := r.guard().Check(op, grant.State{Now: time.Now()})
	must(r.t, err)
	return v
}

func (r *rig) call() *operation.Call { return &operation.Call{Guard: r.guard()} }

// zeros reads so many bytes.
func zeros(n int64) io.Reader { return io.LimitReader(nothing{}, n) }

type nothing struct{}

func (nothing) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
