package operation_test

import (
	"context"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// A programRig runs programs under one grant.
type programRig struct {
	sb     sandbox.Sandbox
	env    map[string]string
	budget budget.Amount
	limits grant.Limits
	keep   int64
	space  operation.Space
}

// programNewRig returns a rig without any bound, over programs of the in-memory
// sandbox.
func programNewRig(sb sandbox.Sandbox) *programRig {
	return &programRig{
		sb: sb, env: map[string]string{"PATH": "/usr/local/bin:/usr/bin:/bin", "HOME": "/tmp", "LANG": "C"},
		budget: budget.NoBound(), keep: 1 << 20,
	}
}

// A done is an operation that has ended.
type done struct {
	out     operation.Output
	err     error
	used    budget.Amount
	effects int
	code    *int // of the effect
	took    time.Duration
	at      time.Time     // of the return
	dying   time.Duration // from the end of the context to the return
}

// guard is for the tools that tests use, with any arguments.
func (r *programRig) guard(t testing.TB) *grant.Guard {
	t.Helper()
	now := time.Now()
	var can []grant.Capability
	var commands []grant.Template
	for _, tool := range []string{"sh", "perl", "env", "echo", "yes", "burn", "write", "sleep", "exit", "nothing", "nobody", "cat"} {
		can = append(can, grant.Capability{Kind: grant.Process, Tool: tool})
		commands = append(commands, grant.Template{Tool: tool, Rest: &grant.Argument{Pattern: `(?s).*`}})
	}
	profile, err := grant.Build(
		grant.Grant{
			ID: "g", Tenant: "acme", Subject: "alice", Tool: "t", Call: "c", DecisionKey: "d", Capabilities: can, Budget: r.budget,
			Issued: now, Expires: now.Add(time.Hour), Consent: &grant.Consent{By: "alice", At: now, Expires: now.Add(time.Hour)},
		},
		grant.Manifest{Tool: "t", Version: "1.0.0", Safety: grant.SafetyLow, Capabilities: can, Commands: commands, Limits: r.limits},
		grant.Policy{Version: "1", Capabilities: can, Mappings: grant.Mappings{Root: sandbox.WorkspaceDir, Tmp: "/tmp"}, Limits: r.limits}, now)
	programMust(t, err)
	g, err := grant.Compile(profile)
	programMust(t, err)
	return g
}

// do runs one operation to its end, as the manager does.
func (r *programRig) do(t testing.TB, ctx context.Context, op grant.Operation) done {
	t.Helper()
	op.Kind = grant.OpProcExec
	g := r.guard(t)
	v, err := g.Check(op, grant.State{Now: time.Now()})
	programMust(t, err)
	l, err := ledger.Open(filepath.Join(t.TempDir(), "ledger"), ledger.Options{})
	programMust(t, err)
	account, err := l.Account(ctx, ledger.Limit{ID: "grant:g", Bound: r.budget})
	programMust(t, err)
	m, ctx, err := budget.Start(ctx, account, budget.One(budget.Calls, 1))
	programMust(t, err)
	c := &operation.Call{Guard: g, Meter: m, Keep: r.keep, Space: r.space}
	var stopped atomic.Pointer[time.Time]
	context.AfterFunc(ctx, func() { now := time.Now(); stopped.CompareAndSwap(nil, &now) })
	begin := time.Now()
	out, err := operation.NewProgramExecutor(r.sb, r.env).Execute(ctx, c, v)
	d := done{out: out, err: err, took: time.Since(begin), at: time.Now()}
	if at := stopped.Load(); at != nil {
		d.dying = time.Since(*at)
	}
	if d.used, err = m.End(); err != nil {
		t.Fatal(err)
	}
	list, _ := c.Effects()
	for _, e := range list {
		if d.effects++; e.Kind != grant.EffectProcess || e.Program != op.Tool {
			t.Errorf("effect %+v", e)
		}
		d.code = e.ExitCode
	}
	return d
}

// bound is without bound but for k.
func bound(k budget.Kind, n int64) budget.Amount {
	v := budget.Values(budget.NoBound())
	v[k] = n
	return budget.FromValues(v)
}

// memory returns an in-memory sandbox.
func memory(t testing.TB, programs map[string]fake.Program) sandbox.Sandbox {
	t.Helper()
	p := fake.New(fake.Options{Programs: programs})
	s := sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-a", Kind: sandbox.KindSandbox, Provider: "fake", UID: 1000, GID: 1000, Network: "none",
		Owner: sandbox.Owner{Instance: "0123456789abcdef", Tenant: "acme", Agent: "main", Session: "a", Scope: sandbox.ScopeSession, ScopeKey: "a"},
		Image: "sandbox:test", ImageID: "sha256:0", Workdir: "/tmp", Env: map[string]string{"SECRET": "hunter2"},
		Mounts:   []sandbox.Mount{{Source: "/host/work/a", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		Tmpfs:    []sandbox.Tmpfs{{Target: "/tmp", Size: 64 << 20, Exec: true, Mode: 0o1777}},
		Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
	}
	_, err := p.Create(t.Context(), s)
	programMust(t, err)
	sb, err := p.Open(t.Context(), s)
	programMust(t, err)
	t.Cleanup(func() { sb.Close() })
	return sb
}

func programMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func codeIs(t testing.TB, err error, code sandbox.Code) {
	t.Helper()
	if sandbox.CodeOf(err) != code {
		t.Fatalf("got %v, want %s", err, code)
	}
}

// other has the executor carry out what is not its own.
func (r *programRig) other(t testing.TB) error {
	t.Helper()
	_, err := operation.NewProgramExecutor(r.sb, r.env).Execute(t.Context(), &operation.Call{Guard: r.guard(t)}, grant.Vetted{Operation: grant.Operation{Kind: grant.OpFsRead}})
	return err
}
