package operation

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/grant/ledger"
)

// A deal is what a call was granted in a test. The zero value allows every
// action, and hosts below *.test by plain HTTP.
type deal struct {
	actions []string
	hosts   []grant.Capability
	limits  grant.Limits
	mime    []string
	budget  grant.Budget
	keep    int64
}

// A call is one call with its executor.
type call struct {
	*browseExecutor
	t       testing.TB
	guard   *grant.Guard
	ledger  *ledger.Ledger
	budget  grant.Budget
	keep    int64
	allowed func(grant.Vetted) error
	used    budget.Amount // by the last operation
	last    *Call
}

// with grants a call what d says, with sessions of open, until life ends.
func with(t testing.TB, life context.Context, d deal, open browseOpen) *call {
	t.Helper()
	if d.actions == nil {
		d.actions = []string{"open", "screenshot", "extract", "pdf", "wait", "click", "type", "upload", "download"}
	}
	if d.hosts == nil {
		d.hosts = []grant.Capability{{Kind: grant.NetHTTP, Host: "*.test", Scheme: "http", Methods: []string{"GET"}}}
	}
	if d.budget == (grant.Budget{}) {
		d.budget = budget.NoBound()
	}
	if d.keep == 0 {
		d.keep = 1 << 20
	}
	capabilities := append([]grant.Capability{
		{Kind: grant.Browser, Actions: d.actions}, {Kind: grant.FSRead, Path: "/workspace/open"}, {Kind: grant.FSWrite, Path: "/workspace/in"},
	}, d.hosts...)
	now := time.Now()
	d.limits.MaxFiles = 2
	p, err := grant.Build(grant.Grant{
		ID: "g", Tenant: "acme", Subject: "alice", Tool: "reader", Call: "c", Capabilities: capabilities, Budget: d.budget,
		Issued: now, Expires: now.Add(time.Hour), Consent: &grant.Consent{By: "alice", At: now, Expires: now.Add(time.Hour)}, DecisionKey: "k",
	}, grant.Manifest{Tool: "reader", Version: "1.0.0", Capabilities: capabilities, Safety: grant.SafetyLow}, grant.Policy{
		Version: "v", Capabilities: capabilities, Safety: grant.SafetyLow, Limits: d.limits, Lists: grant.Lists{MIME: d.mime},
		Mappings: grant.Mappings{Root: "/workspace", Tmp: "/tmp/call"},
	}, now)
	browseMust(t, err)
	c := &call{browseExecutor: NewBrowseExecutor(life, open), t: t, budget: d.budget, keep: d.keep}
	c.guard, err = grant.Compile(p)
	browseMust(t, err)
	c.ledger, err = ledger.Open(t.TempDir(), ledger.Options{})
	browseMust(t, err)
	t.Cleanup(func() { browseMust(t, c.Close()) })
	return c
}

// do vets an operation and carries it out.
func (c *call) do(ctx context.Context, o grant.Operation) (Output, error) {
	c.t.Helper()
	v, err := c.guard.Check(o, c.state())
	browseMust(c.t, err)
	from, err := c.ledger.Account(c.t.Context(), ledger.Limit{ID: "tenant:acme", Bound: c.budget})
	browseMust(c.t, err)
	m, ctx, err := budget.Start(ctx, from, budget.One(budget.Calls, 1))
	browseMust(c.t, err)
	c.last = &Call{Guard: c.guard, Meter: m, State: c.state, Keep: c.keep, Allowed: c.allowed}
	out, err := c.Execute(ctx, c.last, v)
	var failed error
	c.used, failed = m.End()
	browseMust(c.t, failed)
	return out, err
}

func (c *call) state() grant.State { return grant.State{Now: time.Now(), Depth: c.Pages()} }

// done carries out what has to succeed.
func (c *call) done(o grant.Operation) Output {
	c.t.Helper()
	out, err := c.do(c.t.Context(), o)
	browseMust(c.t, err)
	return out
}

func nav(address string) grant.Operation {
	return grant.Operation{Kind: grant.OpBrowserNav, URL: address}
}

func browseMust(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// refused fails the test unless err has code and field.
func refused(t testing.TB, err error, code sandbox.Code, field string) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != code || e.Field != field {
		t.Errorf("got %v, want %s at %q", err, code, field)
	}
}

// A fakeBrowser is a session in memory. Its functions say what pages do; those
// that are nil do nothing.
type fakeBrowser struct {
	browser.Session // for what no test needs
	rights          browser.Rights
	navigate        func(ctx context.Context, address string) (browser.Page, error)
	touch           func(ctx context.Context, what string) error
	data            []byte

	once   sync.Once
	closed chan struct{}
	mu     sync.Mutex
	said   []string
}

func (f *fakeBrowser) note(what string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.said = append(f.said, what)
}

func (f *fakeBrowser) Navigate(ctx context.Context, address string) (browser.Page, error) {
	f.note("open " + address)
	if f.navigate != nil {
		return f.navigate(ctx, address)
	}
	if err := f.rights.Visit(ctx, address, 0); err != nil {
		return browser.Page{}, err
	}
	f.rights.Received(10)
	return browser.Page{URL: address, Status: 200, MIME: "text/html", Title: "title", Bytes: 10}, nil
}

func (f *fakeBrowser) act(ctx context.Context, what string) error {
	f.note(what)
	if f.touch != nil {
		return f.touch(ctx, what)
	}
	return nil
}

func (f *fakeBrowser) Screenshot(_ context.Context, s browser.Shot) (browser.Picture, error) {
	f.note("shot " + s.Selector)
	return browser.Picture{Data: f.data, MIME: "image/png"}, nil
}

func (f *fakeBrowser) PDF(context.Context) ([]byte, error) { return f.data, nil }

func (f *fakeBrowser) Extract(_ context.Context, e browser.Extraction) (browser.Content, error) {
	n := min(len(f.data), e.MaxText)
	return browser.Content{URL: "http://a.test/", Text: string(f.data[:n]), Truncated: n < len(f.data)}, nil
}

func (f *fakeBrowser) Wait(ctx context.Context, c browser.Condition) error {
	return f.act(ctx, "wait "+c.Visible+"|"+c.Gone+"|"+c.Text+"|"+c.Timeout.String())
}

func (f *fakeBrowser) Click(ctx context.Context, s string) error { return f.act(ctx, "click "+s) }

func (f *fakeBrowser) Type(ctx context.Context, s, text string) error {
	return f.act(ctx, "type "+s+" "+text)
}

func (f *fakeBrowser) Upload(ctx context.Context, s string, files []string) error {
	if err := f.rights.Transfer(ctx, browser.Transfer{Upload: true, Bytes: int64(len(f.data))}); err != nil {
		return err
	}
	return f.act(ctx, "upload "+s+" "+files[0])
}

func (f *fakeBrowser) Download(ctx context.Context, s, folder string) (browser.Download, error) {
	if err := f.rights.Transfer(ctx, browser.Transfer{Bytes: int64(len(f.data))}); err != nil {
		return browser.Download{}, err
	}
	return browser.Download{Path: "in/x.txt", Size: int64(len(f.data)), Sum: make([]byte, 32)}, f.act(ctx, "download "+s+" "+folder)
}

func (f *fakeBrowser) Close() error {
	f.once.Do(func() { close(f.closed) })
	return nil
}

// opener hands f out with the rights of the call.
func (f *fakeBrowser) opener() browseOpen {
	f.closed = make(chan struct{})
	return func(_ context.Context, r browser.Rights) (browser.Session, error) {
		f.rights = r
		return f, nil
	}
}
