//go:build linux

package manager_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/internal/statedir"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/provider"
)

// onLocal returns the rig of onControlled on local sandboxes alone, and its state
// folder.
func onLocal(t *testing.T, extra string) (*controlled, *statedir.Dir) {
	t.Helper()
	c := &controlled{outward: &outward{t: t, net: testenv.NewInternet(t), who: config.Who{Tenant: tenant, Agent: "main", Session: "s"}}, wall: "local"}
	var kept *statedir.Dir
	c.Manager = newSandboxed(t, func(opts *manager.Options, state *statedir.Dir) {
		kept = state
		c.open(opts, state)
		c.control(opts, state)
		opts.Settings = c.parsed(extra)
		if p, err := opts.Providers.Get("local"); err != nil {
			t.Error(err)
		} else if opts.Providers, err = provider.New(p, provider.NewHost(os.Environ())); err != nil {
			t.Error(err)
		}
	}).Manager
	c.browsers()
	return c, kept
}

func (c *controlled) parsed(extra string) *config.Settings {
	c.t.Helper()
	s, err := config.Parse("test", []byte(c.settingsFor(extra)))
	must(c.t, err)
	return s
}

// refused holds that an operation is refused with a code.
func (c *controlled) refused(what string, op manager.Operation, want sandbox.Code) {
	c.t.Helper()
	if done, err := c.operate(op); sandbox.CodeOf(err) != want || done.Code != want || done.OK {
		c.t.Errorf("%s: %v (%+v), want %q", what, err, done, want)
	}
}

// files counts the files below a folder, without what it forgets by.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	must(t, filepath.WalkDir(dir, func(_ string, d os.DirEntry, err error) error {
		// The clock of a folder that forgets is written in the background, beside itself first.
		if err == nil && d.Type().IsRegular() && !strings.HasPrefix(strings.TrimLeft(d.Name(), "."), strings.TrimLeft(statedir.FileName, ".")) {
			n++
		}
		return err
	}))
	return n
}

func write(name string) grant.Operation {
	return grant.Operation{Kind: grant.OpFsWrite, Path: "/workspace/" + name, Data: []byte("text"), Overwrite: true}
}

// TestForgedLines holds that what says it was derived, and was not, is refused,
// and that nothing is written down of it: a note that one grant was derived
// from another would let whoever has the other one revoke both.
func TestForgedLines(t *testing.T) {
	t.Parallel()
	c, state := onLocal(t, "")
	parent := c.operation(write("a")).Grant
	parent.Budget.GPUMs = 5
	child, err := parent.Derive(grant.Wish{ID: "child", Call: "call-child", DecisionKey: "key-child"}, time.Now())
	must(t, err)
	for _, tt := range []struct {
		name   string
		change func(*manager.Operation)
		code   sandbox.Code
	}{
		{"of no parent", func(o *manager.Operation) { o.Grant.Parent = "" }, sandbox.CodePermissionDeny},
		{"of another parent", func(o *manager.Operation) { o.Grant.Parent = "other" }, sandbox.CodePermissionDeny},
		{"without its parent", func(o *manager.Operation) { o.Line = nil }, sandbox.CodePermissionDeny},
		{"of another tenant", func(o *manager.Operation) { o.Line[0].Tenant = "other" }, sandbox.CodePermissionDeny},
		{"of another session", func(o *manager.Operation) { o.Line[0].Session = "other" }, sandbox.CodePermissionDeny},
		{"of another subject", func(o *manager.Operation) { o.Line[0].Subject = "other" }, sandbox.CodePermissionDeny},
		{"consent that the parent has not", func(o *manager.Operation) { o.Line[0].Consent = nil }, sandbox.CodePermissionDeny},
		{"consent for longer", func(o *manager.Operation) {
			consent := *o.Grant.Consent
			consent.Expires = consent.Expires.Add(time.Hour)
			o.Grant.Consent = &consent
		}, sandbox.CodePermissionDeny},
		{"a budget without the parent's bound", func(o *manager.Operation) { o.Grant.Budget.GPUMs = grant.Unlimited }, sandbox.CodePermissionDeny},
		{"a capability more", func(o *manager.Operation) { o.Line[0].Capabilities = o.Line[0].Capabilities[1:] }, sandbox.CodePermissionDeny},
		{"for longer", func(o *manager.Operation) { o.Grant.Expires = o.Grant.Expires.Add(time.Second) }, sandbox.CodePermissionDeny},
		{"a parent that has expired", func(o *manager.Operation) {
			o.Line[0].Expires = time.Now().Add(-time.Second)
			o.Grant.Expires, o.Grant.Issued = o.Line[0].Expires, o.Line[0].Issued
		}, sandbox.CodePermissionDeny},
		{"a parent that is malformed", func(o *manager.Operation) { o.Line[0].Budget.Calls = -2 }, sandbox.CodeValidation},
		{"its own parent", func(o *manager.Operation) { o.Grant.Parent, o.Line[0] = o.Grant.ID, o.Grant }, sandbox.CodePermissionDeny},
		{"too long", func(o *manager.Operation) { o.Line = make([]grant.Grant, 1<<16) }, sandbox.CodeValidation},
	} {
		op := c.operation(write("a"))
		op.Grant, op.Line = child, []grant.Grant{parent}
		tt.change(&op)
		c.refused(tt.name, op, tt.code)
	}
	for what, dir := range map[string]string{"revocations": state.Revoked(), "accounts": state.Budget(), "decisions": state.Decisions()} {
		if n := files(t, dir); n != 0 {
			t.Errorf("%d files are among the %s", n, what)
		}
	}
	if n := manager.Calls(c.Manager); n != 0 {
		t.Errorf("%d calls are kept of grants that are none", n)
	}
}

// TestParentIsOne holds that a grant is the same in every line that it is in.
func TestParentIsOne(t *testing.T) {
	t.Parallel()
	c, _ := onLocal(t, "")
	op := c.operation(write("a"))
	op.Do.Path = "/workspace" // which is a folder: the call is known, and nothing done
	_, err := c.operate(op)
	if err == nil {
		t.Error("a folder was written")
	}
	other := op.Grant
	other.Budget.Calls = 1000
	child, err := other.Derive(grant.Wish{ID: "child", Call: "call-child", DecisionKey: "key-child"}, time.Now())
	must(t, err)
	forged := op
	forged.Grant, forged.Line = child, []grant.Grant{other}
	c.refused("of a parent with a larger budget", forged, sandbox.CodePermissionDeny)
}

// TestRevokedDecision holds that a grant that was revoked uses no decision up.
func TestRevokedDecision(t *testing.T) {
	t.Parallel()
	c, state := onLocal(t, "")
	op := c.operation(write("a"))
	must(t, c.ctl.Revoke(op.Grant))
	c.refused("revoked", op, sandbox.CodePermissionDeny)
	if n := files(t, state.Decisions()); n != 0 {
		t.Error("the decision counts as used")
	}
}

// TestEndedCall holds that the end of a call stops what runs of it, that
// operations which are refused afterwards leave nothing, and that nothing
// begins after the end of the manager.
func TestEndedCall(t *testing.T) {
	t.Parallel()
	c, _ := onLocal(t, "")
	op := c.operation(grant.Operation{Kind: grant.OpProcExec, Tool: "echo", Args: []string{"a"}})
	if _, err := c.operate(op); err != nil {
		t.Fatal(err)
	}
	op.Do = grant.Operation{Kind: grant.OpProcExec, Tool: "sleep", Args: []string{"60"}}
	op.Grant.Budget.WallMs = 60_000
	op.Grant.ID, op.Grant.Call, op.Grant.DecisionKey = "long", "long", "long"
	type end struct {
		done manager.Performed
		err  error
	}
	ended := make(chan end, 1)
	start := time.Now()
	go func() {
		done, err := c.operate(op)
		ended <- end{done, err}
	}()
	testenv.Until(t, "the call runs", func() bool { return manager.Running(c.Manager, tenant, op.Grant.ID) > 0 })
	must(t, c.EndCall(tenant, op.Grant.ID))
	if e := <-ended; e.done.Code != sandbox.CodePermissionDeny || time.Since(start) > 50*time.Second {
		t.Errorf("after %s: %v (%+v)", time.Since(start), e.err, e.done)
	}
	for range 3 {
		c.refused("of a call that has ended", op, sandbox.CodePermissionDeny)
	}
	if n := manager.Running(c.Manager, tenant, op.Grant.ID); n != 0 {
		t.Errorf("%d operations of the call run", n)
	}
	must(t, c.Close())
	c.refused("after the end", c.operation(write("a")), sandbox.CodeUnavailable)
}

// TestPanickingOperation holds that an operation that panics does not stay
// among those that run.
func TestPanickingOperation(t *testing.T) {
	t.Parallel()
	c, _ := onLocal(t, "")
	c.ctl.Control.Recorder = panicking{}
	op := c.operation(write("a"))
	func() {
		defer func() {
			if recover() == nil {
				t.Error("nothing panicked")
			}
		}()
		_, _ = c.operate(op)
	}()
	if n := manager.Running(c.Manager, tenant, op.Grant.ID); n != 0 {
		t.Errorf("%d operations of the call run", n)
	}
}

// TestBudgetsOfNow holds that bounds of the settings that change hold for the
// next operation of a call.
func TestBudgetsOfNow(t *testing.T) {
	t.Parallel()
	c, _ := onLocal(t, "")
	op := c.operation(grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: c.net.URL("http", testenv.Files, "/greeting.txt")})
	if _, err := c.operate(op); err != nil {
		t.Fatal(err)
	}
	c.Reload(c.parsed(`, "budgets": {"tenant": {"calls": 1}}`))
	c.refused("with a bound that is used up", op, sandbox.CodeBudgetExceeded)
	c.Reload(c.parsed(`, "budgets": {"tenant": {"calls": 3}}`))
	if _, err := c.operate(op); err != nil {
		t.Error(err)
	}
}

// TestBudgetsOfNobody holds that a grant that names no agent and no session draws
// from the budgets of those that it is used as.
func TestBudgetsOfNobody(t *testing.T) {
	t.Parallel()
	for _, bound := range []string{"agent", "session"} {
		c, _ := onLocal(t, `, "budgets": {"`+bound+`": {"calls": 0}}`)
		op := c.operation(grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: c.net.URL("http", testenv.Files, "/greeting.txt")})
		op.Grant.Agent, op.Grant.Session = "", ""
		c.refused("beyond the budget of the "+bound, op, sandbox.CodeBudgetExceeded)
	}
}

// TestInputsDiffer holds that what was asked has digests of its own, also where
// JSON cannot tell it apart.
func TestInputsDiffer(t *testing.T) {
	t.Parallel()
	seen := map[string]string{}
	for _, op := range []grant.Operation{
		{Kind: grant.OpNetHTTP, Header: map[string]string{"A": "\xff"}}, {Kind: grant.OpNetHTTP, Header: map[string]string{"A": "\xfe"}},
		{Kind: grant.OpNetHTTP, Header: map[string]string{"A": "\ufffd"}}, {Kind: grant.OpNetHTTP, Header: map[string]string{"A": `\ufffd`}},
		{Kind: grant.OpProcExec, Args: []string{"a\xff", "b"}}, {Kind: grant.OpProcExec, Args: []string{"a", "\xffb"}},
		{Kind: grant.OpFsWrite, Path: "/a", Data: []byte("{}\n")}, {Kind: grant.OpFsWrite, Path: "/a", Data: []byte("{}\n\n")},
		{Kind: grant.OpProcExec, Args: []string{"a b"}}, {Kind: grant.OpProcExec, Args: []string{"a", "b"}},
	} {
		d, text := manager.Inputs(op).B64, fmt.Sprintf("%+v", op)
		if other, ok := seen[d]; ok {
			t.Errorf("%s and %s have the same digest", text, other)
		}
		seen[d] = text
	}
	if a, b := manager.Inputs(grant.Operation{Path: "/a"}), manager.Inputs(grant.Operation{Path: "/a"}); a != b || !strings.HasSuffix(a.B64, "=") {
		t.Errorf("%v and %v", a, b)
	}
}

// panicking is a recorder that panics.
type panicking struct{ silent }

func (panicking) Begin(context.Context, evidence.Begin, bool) (manager.Entry, error) { panic("begin") }
