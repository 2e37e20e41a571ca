package admission_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/server"
	"github.com/bulkhead-dev/sandbox/server/admission"
	"github.com/bulkhead-dev/sandbox/server/api"
	"github.com/bulkhead-dev/sandbox/server/auth"
	"github.com/bulkhead-dev/sandbox/server/resource"
	"github.com/bulkhead-dev/sandbox/server/stream"
	"github.com/bulkhead-dev/sandbox/tenant"
	"github.com/bulkhead-dev/sandbox/tenant/token"
	"github.com/bulkhead-dev/sandbox/tools"
	"github.com/bulkhead-dev/sandbox/tools/running"
)

// A paying is a daemon whose tokens have budgets, and the folder of their
// accounts.
type paying struct {
	*served.Rig
	admission *admission.Admission
	accounts  *ledger.Ledger
	box       string
}

// pays starts a daemon with accounts in the folder dir, or without where dir is
// empty.
func pays(t *testing.T, wall, dir string) *paying {
	t.Helper()
	p := &paying{}
	o := served.Options{Wall: wall}
	ao := admission.Options{Keeper: tenant.New(time.Now), Rules: admission.Rules(func() *config.Settings { return nil }), Turns: turns}
	var err error
	if dir != "" {
		ao.Ledger, err = ledger.Open(dir, ledger.Options{})
		must(t, err)
	}
	p.accounts = ao.Ledger
	p.admission, err = admission.New(ao)
	must(t, err)
	o.Change = func(m *manager.Options) { m.Accounting = p.admission }
	o.Daemon = func(d *server.Options) { d.Admission = p.admission }
	o.Resources = func(r *served.Rig) []resource.Resource {
		house := running.New(running.Options{Manager: running.Managed(r.Manager), Log: r.Log})
		t.Cleanup(func() {
			ctx, done := context.WithTimeout(context.Background(), time.Minute)
			defer done()
			must(t, house.Close(ctx))
		})
		kits := tools.New(tools.Options{Manager: r.Manager, Running: house, Log: r.Log})
		return []resource.Resource{
			resource.NewCommands(r.Manager), resource.NewShells(r.Manager, house, stream.Options{}), resource.NewFilesResource(r.Manager, resource.Limits{}),
			resource.NewToolCalls(r.Manager, kits), resource.NewTokens(r.Tokens),
		}
	}
	p.Rig = served.New(t, o)
	p.box = "/v1/sandboxes/" + p.Ready("acme", "s1")
	return p
}

// token makes a token for the tenant, derived from parent.
func (p *paying) token(parent string, most budget.Amount) (secret, id string) {
	p.T.Helper()
	secret, id, err := p.Tokens.Create(token.Claims{Role: token.Tenant, Tenant: "acme", Parent: parent, Budget: &most})
	must(p.T, err)
	return secret, id
}

func most(change func(*budget.Amount)) budget.Amount {
	b := budget.NoBound()
	change(&b)
	return b
}

func calls(n int64) budget.Amount { return most(func(b *budget.Amount) { b.Calls = n }) }

// used returns the usage of a token's account.
func (p *paying) used(id string) budget.Amount {
	p.T.Helper()
	out := budget.One(budget.Calls, -1)
	must(p.T, p.accounts.Entries(context.Background(), func(e ledger.Entry) bool {
		if e.ID == "token:"+id {
			out = e.Used
		}
		return true
	}))
	return out
}

// exceeded holds that an answer reports an exhausted budget.
func (p *paying) exceeded(a served.Answer, account, field string) {
	p.T.Helper()
	if a.Status != http.StatusTooManyRequests {
		p.T.Fatalf("%d: %s", a.Status, a.Body)
	}
	if got := a.Problem(p.T); got.Code != "QUOTA.BUDGET_EXCEEDED" || got.Resource != account || got.Field != field {
		p.T.Errorf("%s", a.Body)
	}
}

const echo = `{"line":"echo hello"}`

// TestChildrenSpendTheirParents has a token and two that were derived from it
// used at the same time, by commands, tools, lines and files: together they get
// exactly the budget of the first, and neither derived token more than its own.
func TestChildrenSpendTheirParents(t *testing.T) {
	p := pays(t, "", t.TempDir())
	parent, top := p.token("", calls(40))
	first, a := p.token(top, calls(40))
	second, b := p.token(top, calls(7))
	ways := [][3]string{
		{"POST", p.box + "/exec", echo},
		{"POST", p.box + "/tools/exec", `{"command":"echo hello"}`},
		{"POST", p.box + "/shells/main/run", echo},
		{"PUT", p.box + "/files/workspace/f%d", "text"},
		{"POST", p.box + "/tools/read", `{"path":"/workspace"}`},
	}
	var got [3]atomic.Int64
	var wg sync.WaitGroup
	// Not all at the same moment: a call that waits too long for the accounts is
	// refused because they are busy, and stays charged.
	at := make(chan struct{}, 9)
	for i := range 90 {
		wg.Go(func() {
			at <- struct{}{}
			defer func() { <-at }()
			way := ways[i/3%len(ways)]
			secret := [...]string{parent, first, second}[i%3]
			answer := p.Ask(secret, way[0], strings.Replace(way[1], "%d", fmt.Sprint(i), 1), way[2])
			switch {
			case answer.Status < 300, answer.Status == 422: // a folder cannot be read, and asking is a call, too
				got[i%3].Add(1)
			case answer.Status != http.StatusTooManyRequests:
				t.Errorf("%s %s: %d %s", way[0], way[1], answer.Status, answer.Body)
			}
		})
	}
	wg.Wait()
	all := got[0].Load() + got[1].Load() + got[2].Load()
	if all != 40 || got[2].Load() > 7 {
		t.Errorf("%d calls were carried out, %d of the smaller child", all, got[2].Load())
	}
	for id, n := range map[string]int64{top: 40, a: got[1].Load(), b: got[2].Load()} {
		if have := p.used(id).Calls; have != n {
			t.Errorf("token %s has used %d calls, want %d", id, have, n)
		}
	}
}

// TestAccountsOutliveTheProgram holds that usage is kept over a restart, also
// what was reserved for a command that had not ended.
func TestAccountsOutliveTheProgram(t *testing.T) {
	dir := t.TempDir()
	p := pays(t, "", dir)
	secret, id := p.token("", calls(2))
	p.Want(200, secret, "POST", p.box+"/exec", echo)
	again, err := ledger.Open(dir, ledger.Options{})
	must(t, err)
	a, err := admission.New(admission.Options{
		Keeper: tenant.New(time.Now), Rules: admission.Rules(func() *config.Settings { return nil }), Turns: turns, Ledger: again,
	})
	must(t, err)
	tok, err := p.Tokens.Get(id)
	must(t, err)
	payer, err := a.Payer(admission.WithCaller(t.Context(), callerWith(tok)))
	must(t, err)
	if payer.Bound.Calls != 2 {
		t.Errorf("the bound is %v", payer.Bound)
	}
	if _, err := payer.Reserve(t.Context(), budget.One(budget.Calls, 1)); err != nil {
		t.Error(err)
	}
	// The reservation was never settled, as if the process had been killed: it
	// counts as used.
	p.exceeded(p.Ask(secret, "POST", p.box+"/exec", echo), "token:"+id, "budget.calls")
}

// TestOthersAccountsAreNotReported holds that the user of a derived token learns
// that the budget of an ancestor is too small, but neither which nor how much is
// left.
func TestOthersAccountsAreNotReported(t *testing.T) {
	p := pays(t, "", t.TempDir())
	parent, top := p.token("", calls(12345))
	child, own := p.token(top, calls(3))
	tok, err := p.Tokens.Get(top)
	must(t, err)
	payer, err := p.admission.Payer(admission.WithCaller(t.Context(), callerWith(tok)))
	must(t, err)
	_, err = payer.Reserve(t.Context(), budget.One(budget.Calls, 12344))
	must(t, err)
	p.Want(200, child, "POST", p.box+"/exec", echo)
	for _, way := range []string{"/exec", "/shells/main/run"} {
		answer := p.Ask(child, "POST", p.box+way, echo)
		p.exceeded(answer, "", "budget.calls")
		if strings.Contains(answer.Body, top) || strings.Contains(answer.Body, "1234") {
			t.Errorf("it tells %s", answer.Body)
		}
	}
	p.exceeded(p.Ask(parent, "POST", p.box+"/exec", echo), "token:"+top, "budget.calls")
	if n := p.used(own).Calls; n != 1 {
		t.Errorf("the child has used %d", n)
	}
}

// TestBytesAndFilesCount holds that all data in and out is charged, to the byte:
// the line, its input, its variables and the paths of files as well as their
// content; names in folders; and that a file beyond the budget is not delivered.
func TestBytesAndFilesCount(t *testing.T) {
	p := pays(t, "", t.TempDir())
	secret, id := p.token("", most(func(b *budget.Amount) { b.BytesIn, b.BytesOut, b.Files = 60, 500, 2 }))
	was := p.used(id)
	step := func(what string, in, out, files int64) {
		t.Helper()
		got := p.used(id)
		if got.BytesIn-was.BytesIn != in || got.BytesOut-was.BytesOut != out || got.Files-was.Files != files {
			t.Fatalf("%s: from %+v to %+v, want %d bytes in, %d out and %d files", what, was, got, in, out, files)
		}
		was = got
	}
	p.Want(200, secret, "POST", p.box+"/exec", `{"line":"cat","stdin":"four"}`)
	step("a line with input", 4, int64(len("cat\x00")+4), 0)
	p.Want(200, secret, "POST", p.box+"/exec", `{"args":["printf","abc"],"env":{"NAME":"value"}}`)
	step("arguments and variables", 3, int64(len("printf\x00abc\x00")+len("NAME=value\x00")), 0)
	p.Want(201, secret, "PUT", p.box+"/files/workspace/a", "xyz")
	step("a file", 0, int64(2*len("/workspace/a")+3), 1) // looked at, and written
	p.Want(200, secret, "POST", p.box+"/shells/main/run", `{"line":"printf ab"}`)
	step("a line of a shell", 2, int64(len("printf ab\x00")), 0)
	p.exceeded(p.Ask(secret, "POST", p.box+"/exec", `{"line":"`+strings.Repeat(": ", 300)+`"}`), "token:"+id, "budget.bytesOut")
	step("a line that is too long", 0, 0, 0)
	p.exceeded(p.Ask(secret, "PUT", p.box+"/files/workspace/"+strings.Repeat(strings.Repeat("n", 150)+"/", 3)+"x", "1"), "token:"+id, "budget.bytesOut")
	p.Want(201, secret, "PUT", p.box+"/files/workspace/b", "1")
	p.exceeded(p.Ask(secret, "PUT", p.box+"/files/workspace/c", ""), "token:"+id, "budget.files")
	p.exceeded(p.Ask(secret, "PUT", p.box+"/files/workspace/b", strings.Repeat("5", 500)), "token:"+id, "budget.files")
	p.exceeded(p.Ask(secret, "POST", p.box+"/exec", `{"line":"printf `+strings.Repeat("1", 60)+`"}`), "token:"+id, "budget.bytesIn")
	if got := p.used(id); got.BytesIn != 60 || got.Files != 2 || got.BytesOut > 500 {
		t.Errorf("used is %+v", got)
	}
	p.Want(404, "acme", "GET", p.box+"/files/workspace/c", "")
}

// TestTimeEndsACommand holds that a command ends when the time of a token is
// used up, also a background command.
func TestTimeEndsACommand(t *testing.T) {
	p := pays(t, "", t.TempDir())
	secret, id := p.token("", most(func(b *budget.Amount) { b.WallMs = 10_000 })) // it counts from before the program starts
	p.Want(200, secret, "POST", p.box+"/tools/exec", `{"command":"sleep 600","background":true}`)
	testenv.Until(t, "it ends", func() bool {
		return strings.Contains(p.Ask("acme", "POST", p.box+"/tools/process", `{"action":"list"}`).Body, `"state":"failed"`)
	})
	p.exceeded(p.Ask(secret, "POST", p.box+"/exec", echo), "token:"+id, "budget.wallMs")
}

// TestUnmeteredIsRefused holds that nothing runs where a bound could not be
// enforced.
func TestUnmeteredIsRefused(t *testing.T) {
	p := pays(t, "", t.TempDir())
	secret, _ := p.token("", most(func(b *budget.Amount) { b.CPUMs = 1000 }))
	p.Want(501, secret, "POST", p.box+"/shells/main/run", echo) // its outputs are not separate

	none := pays(t, "", "") // no accounts
	bare, _ := none.token("", calls(100))
	for _, path := range []string{none.box + "/exec", "/v1/tokens"} {
		if a := none.Ask(bare, "POST", path, echo); a.Status != 403 || a.Problem(t).Field != "budget" {
			t.Errorf("%s: %d %s", path, a.Status, a.Body)
		}
	}
}

// TestProcessorTimeCounts runs a program that computes in a real sandbox until
// the budget of its token is used up.
func TestProcessorTimeCounts(t *testing.T) {
	p := pays(t, "local", t.TempDir())
	secret, id := p.token("", most(func(b *budget.Amount) { b.CPUMs = 400 }))
	p.exceeded(p.Ask(secret, "POST", p.box+"/exec", `{"args":["sh","-c","while :; do :; done"]}`), "token:"+id, "budget.cpuMs")
	p.exceeded(p.Ask(secret, "POST", p.box+"/exec", `{"args":["true"]}`), "token:"+id, "budget.cpuMs")
	if got := p.used(id); got.CPUMs < 400 || got.Calls != 2 {
		t.Errorf("used is %+v", got)
	}
}

// TestAccountsGoWithTheirTokens holds that the accounts of tokens that no longer
// exist are removed, and all others kept.
func TestAccountsGoWithTheirTokens(t *testing.T) {
	p := pays(t, "", t.TempDir())
	kept, id := p.token("", calls(5))
	lost, gone := p.token(id, calls(5))
	for _, secret := range []string{kept, lost} {
		p.Want(200, secret, "POST", p.box+"/exec", echo)
	}
	_, err := p.Tokens.Revoke(gone)
	must(t, err)
	must(t, p.admission.Forget(t.Context(), func(id string) bool { return id == gone }))
	if n := p.used(id).Calls; n != 2 {
		t.Errorf("the token that stays has used %d, want 2", n)
	}
	if n := p.used(gone).Calls; n != -1 {
		t.Errorf("there is an account of the token that is gone, with %d calls", n)
	}
}

// TestMakingABudget holds that a token is made with the budget that is asked
// for, and never with more than its maker has.
func TestMakingABudget(t *testing.T) {
	p := pays(t, "", t.TempDir())
	own, _ := p.token("", most(func(b *budget.Amount) { b.Calls, b.Files = 10, 3 }))
	for body, status := range map[string]int{
		`{"role":"tenant","budget":{"calls":11}}`:          403,
		`{"role":"tenant","budget":{"calls":-1}}`:          422,
		`{"role":"tenant","budget":{"calls":4}}`:           201,
		`{"role":"tenant","budget":{"calls":4,"gifts":1}}`: 422,
	} {
		p.Want(status, own, "POST", "/v1/tokens", body)
	}
	made := served.JSON[api.NewToken](t, p.Want(201, own, "POST", "/v1/tokens", `{"role":"tenant","budget":{"calls":4}}`))
	got, err := p.Tokens.Get(made.ID)
	must(t, err)
	if want := most(func(b *budget.Amount) { b.Calls, b.Files = 4, 3 }); *got.Budget != want {
		t.Errorf("its budget is %+v, want %+v", *got.Budget, want)
	}
}

func callerWith(t token.Token) auth.Caller {
	return auth.Caller{Role: t.Role, Token: &t, Tenant: t.Tenant}
}
