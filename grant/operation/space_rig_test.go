package operation_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/fsbridge"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/operation"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/fake"
)

// unwatched are goroutines of others that end by themselves.
func unwatched() []goleak.Option {
	return []goleak.Option{
		goleak.IgnoreTopFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreTopFunction("net/http.(*persistConn).writeLoop"),
	}
}

func TestMain(m *testing.M) { testenv.Main(m, unwatched()...) }

func spaceMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// A spaceRig is a sandbox and its files.
type spaceRig struct {
	testing.TB
	sb     sandbox.Sandbox
	files  sandbox.Files // without links
	limits grant.Limits
	bytes  int64 // of the capability
}

func over(t testing.TB, sb sandbox.Sandbox, s sandbox.Spec) *spaceRig {
	t.Helper()
	b, err := fsbridge.Open(t.Context(), sb, s.Mounts, s.Tmpfs)
	spaceMust(t, err)
	f, err := b.WithoutLinks()
	spaceMust(t, err)
	return &spaceRig{TB: t, sb: sb, files: f}
}

// inMemory is a rig over the fake.
func inMemory(t testing.TB) *spaceRig {
	t.Helper()
	s := sandbox.Spec{
		Format: sandbox.SpecFormat, Name: "sbx-space", Kind: sandbox.KindSandbox, Provider: "fake", UID: 1000, GID: 1000,
		Mounts:       []sandbox.Mount{{Source: "/host/work", Target: sandbox.WorkspaceDir, Role: sandbox.RoleWorkspace}},
		ReadOnlyRoot: true, Network: "none", Security: sandbox.Security{CapDrop: []string{"ALL"}, NoNewPrivileges: true},
		Tmpfs: []sandbox.Tmpfs{{Target: "/tmp", Mode: 0o1777}},
	}
	p := fake.New(fake.Options{})
	_, err := p.Create(t.Context(), s)
	spaceMust(t, err)
	sb, err := p.Open(t.Context(), s)
	spaceMust(t, err)
	t.Cleanup(func() {
		spaceMust(t, sb.Close())
		spaceMust(t, p.Remove(context.Background(), s.Name))
	})
	return over(t, sb, s)
}

// inDocker is a rig over a real container.
func inDocker(t *testing.T) *spaceRig {
	t.Helper()
	w := dockertest.New(t)
	sb, s := w.Open("space")
	return over(t, sb, s)
}

// inLocal returns a rig over a local sandbox.
func inLocal(t *testing.T) *spaceRig {
	t.Helper()
	w := dockertest.NewLocal(t)
	s := w.Spec("space")
	_, err := w.P.Create(t.Context(), s)
	spaceMust(t, err)
	sb, err := w.P.Open(t.Context(), s)
	spaceMust(t, err)
	t.Cleanup(func() { spaceMust(t, sb.Close()) })
	return over(t, sb, s)
}

// call returns a call whose profile allows temporary space.
func (r *spaceRig) call(expires time.Time) *operation.Call {
	r.Helper()
	all := []grant.Capability{{Kind: grant.Temp, Bytes: r.bytes}}
	now := time.Now()
	profile, err := grant.Build(grant.Grant{
		ID: "g", Tenant: "t", Subject: "s", Tool: "tool", Call: "c", Capabilities: all, Budget: budget.NoBound(),
		Issued: now.Add(-time.Minute), Expires: expires, DecisionKey: "k",
	}, grant.Manifest{Tool: "tool", Version: "1.0.0", Capabilities: all, Safety: grant.SafetyLow},
		grant.Policy{Version: "p", Capabilities: all, Safety: grant.SafetyLow, Limits: r.limits, Mappings: grant.Mappings{Root: sandbox.WorkspaceDir, Tmp: "/tmp"}}, now)
	spaceMust(r, err)
	guard, err := grant.Compile(profile)
	spaceMust(r, err)
	return &operation.Call{Guard: guard}
}

// allot makes a folder and returns its path.
func (r *spaceRig) allot(s *operation.Spaces, bytes int64) string {
	r.Helper()
	out, err := r.try(s, bytes)
	spaceMust(r, err)
	return out.Path
}

func (r *spaceRig) try(s *operation.Spaces, bytes int64) (operation.Output, error) {
	r.Helper()
	return s.Execute(r.Context(), r.call(time.Now().Add(time.Hour)), allotment(bytes))
}

func allotment(bytes int64) grant.Vetted {
	return grant.Vetted{Operation: grant.Operation{Kind: grant.OpTmpAlloc, Bytes: bytes}}
}

// sh runs a line inside, which must succeed.
func (r *spaceRig) sh(line string, args ...string) string {
	r.Helper()
	var out, complaints bytes.Buffer
	p, err := r.sb.Start(r.Context(), sandbox.Command{Args: append([]string{"sh", "-ec", line, "sh"}, args...), Dir: "/tmp", Stdout: &out, Stderr: &complaints})
	spaceMust(r, err)
	exit, err := p.Wait()
	spaceMust(r, err)
	if exit.Code != 0 {
		r.Fatalf("%s: status %d: %s", line, exit.Code, complaints.String())
	}
	return out.String()
}

// background runs a line inside until stop is called.
func (r *spaceRig) background(line string, args ...string) (stop func()) {
	r.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	p, err := r.sb.Start(ctx, sandbox.Command{Args: append([]string{"sh", "-c", line, "sh"}, args...), Dir: "/tmp"})
	if err != nil {
		cancel()
		r.Fatal(err)
	}
	return func() {
		cancel()
		p.Wait() // it was killed; how it ended does not matter
	}
}

// fails wants an error with code and field.
func (r *spaceRig) fails(what string, err error, code sandbox.Code, field string) {
	r.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		r.Errorf("%s: got %v, want %s at %q", what, err, code, field)
	}
}

// ends wants the context to end because of the folder.
func (r *spaceRig) ends(ctx context.Context, folder string) {
	r.Helper()
	timer := time.NewTimer(30 * time.Second)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
		r.Fatal("what runs is not ended")
	}
	err := context.Cause(ctx)
	r.fails("the end", err, sandbox.CodeBudgetExceeded, "space")
	var e *sandbox.Error
	if errors.As(err, &e) && e.Resource != folder {
		r.Errorf("the end names %q, not %q", e.Resource, folder)
	}
}
