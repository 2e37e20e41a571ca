package operation

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

func filesMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A purse is a budget in memory.
type purse struct {
	mu    sync.Mutex
	chain []budget.Account
}

func (p *purse) Reserve(_ context.Context, want budget.Amount) (budget.Reservation, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	chain, err := budget.Draw(p.chain, want)
	if err != nil {
		return nil, err
	}
	p.chain = chain
	return &reservation{p: p, held: want}, nil
}

type reservation struct {
	p    *purse
	held budget.Amount
}

func (r *reservation) Held() budget.Amount { return r.held }

func (r *reservation) More(_ context.Context, least, want budget.Amount) (budget.Amount, error) {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	part, err := budget.Part(r.p.chain, least, want)
	if err == nil {
		r.p.chain, err = budget.Draw(r.p.chain, part)
	}
	if err != nil {
		return budget.Amount{}, err
	}
	r.held = budget.Add(r.held, part)
	return part, nil
}

func (r *reservation) Settle(_ context.Context, used budget.Amount) error {
	r.p.mu.Lock()
	defer r.p.mu.Unlock()
	r.p.chain = budget.Settle(r.p.chain, r.held, used)
	return nil
}

// A rig is a sandbox in memory with an executor, and a profile that allows
// everything below the workspace.
type rig struct {
	testing.TB
	sb     sandbox.Sandbox
	files  sandbox.Files // without links
	x      *filesExecutor
	limits grant.Limits
	bound  budget.Amount
	keep   int64
	space  Space
}

func newRig(t testing.TB) *rig {
	t.Helper()
	s := sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-files", Kind: sandbox.KindSandbox, Provider: "fake", UID: 1000, GID: 1000,
		Mounts:       []sandbox.Mount{{Source: "/host/work", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		ReadOnlyRoot: true, Network: "none", Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Tmpfs: []sandbox.Tmpfs{{Target: "/small", Size: 1 << 20, Mode: 0o700, Owned: true}, {Target: "/tmp", Mode: 0o1777}},
	}
	p := fake.New(fake.Options{})
	_, err := p.Create(t.Context(), s)
	filesMust(t, err)
	sb, err := p.Open(t.Context(), s)
	filesMust(t, err)
	t.Cleanup(func() {
		filesMust(t, sb.Close())
		filesMust(t, p.Remove(context.Background(), s.Name))
	})
	b, err := fsbridge.Open(t.Context(), sb, s.Mounts, s.Tmpfs)
	filesMust(t, err)
	return rigOver(t, sb, b)
}

func rigOver(t testing.TB, sb sandbox.Sandbox, b *fsbridge.Bridge) *rig {
	t.Helper()
	f, err := b.WithoutLinks()
	filesMust(t, err)
	return &rig{TB: t, sb: sb, files: f, x: NewFilesExecutor(f), bound: budget.NoBound(), keep: 1 << 20}
}

// call returns a call with a guard and a meter, and the context to run in.
func (r *rig) call() (context.Context, *Call) {
	r.Helper()
	all := []grant.Capability{{Kind: grant.Temp}}
	for _, kind := range []grant.Kind{grant.FSRead, grant.FSWrite, grant.FSList} {
		all = append(all, grant.Capability{Kind: kind, Path: sandbox.WorkspaceDir}, grant.Capability{Kind: kind, Path: "/tmp"}, grant.Capability{Kind: kind, Path: "/small"})
	}
	now := time.Now()
	profile, err := grant.Build(grant.Grant{
		ID: "g", Tenant: "t", Subject: "s", Tool: "tool", Call: "c", Capabilities: all, Budget: r.bound,
		Issued: now.Add(-time.Minute), Expires: now.Add(time.Hour), DecisionKey: "k",
		Consent: &grant.Consent{By: "s", At: now.Add(-time.Minute), Expires: now.Add(time.Hour)},
	}, grant.Manifest{Tool: "tool", Version: "1.0.0", Capabilities: all, Safety: grant.SafetyLow, SideEffects: []grant.SideEffect{grant.EffectRead, grant.EffectWrite}},
		grant.Policy{Version: "p", Capabilities: all, Safety: grant.SafetyLow, Limits: r.limits, Mappings: grant.Mappings{Root: sandbox.WorkspaceDir, Tmp: "/tmp"}}, now)
	filesMust(r, err)
	guard, err := grant.Compile(profile)
	filesMust(r, err)
	m, ctx, err := budget.Start(r.Context(), &purse{chain: []budget.Account{{ID: "grant:g", Bound: r.bound}}}, budget.One(budget.Calls, 1))
	filesMust(r, err)
	r.Cleanup(func() { m.End() })
	return ctx, &Call{Guard: guard, Meter: m, Keep: r.keep, Space: r.space}
}

// do carries out an operation in a call of its own.
func (r *rig) do(op grant.Operation) (*Call, Output, error) {
	r.Helper()
	ctx, c := r.call()
	out, err := r.x.Execute(ctx, c, grant.Vetted{Operation: op})
	return c, out, err
}

// sh runs a line inside, which must succeed.
func (r *rig) sh(line string) string {
	r.Helper()
	var out, complaints bytes.Buffer
	p, err := r.sb.Start(r.Context(), sandbox.Command{Args: []string{"sh", "-ec", line}, Dir: sandbox.WorkspaceDir, Stdout: &out, Stderr: &complaints})
	filesMust(r, err)
	exit, err := p.Wait()
	filesMust(r, err)
	if exit.Code != 0 {
		r.Fatalf("%s: status %d: %s", line, exit.Code, complaints.String())
	}
	return out.String()
}

// put writes a file.
func (r *rig) put(path, content string) {
	r.Helper()
	filesMust(r, r.files.Write(r.Context(), path, strings.NewReader(content), sandbox.WriteOptions{}))
}

// fails wants an error with code and field.
func (r *rig) fails(what string, err error, code sandbox.Code, field string) {
	r.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		r.Errorf("%s: got %v, want %s at %q", what, err, code, field)
	}
}
