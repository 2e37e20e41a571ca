package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/audit/evidence"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/grant"
)

func TestOneSessionOfACall(t *testing.T) {
	f := &fakeBrowser{data: []byte("text of the page")}
	opened := 0
	open := f.opener()
	c := with(t, t.Context(), deal{}, func(ctx context.Context, r browser.Rights) (browser.Session, error) {
		opened++
		return open(ctx, r)
	})
	_, err := c.do(t.Context(), grant.Operation{Kind: grant.OpBrowserExtract})
	refused(t, err, sandbox.CodeNotFound, "")
	if opened != 0 {
		t.Error("a session was opened for nothing")
	}
	out := c.done(nav("http://a.test/"))
	if out.Page == nil || out.Page.Title != "title" || out.Page.Status != 200 || out.Type != "text/html" {
		t.Errorf("%+v", out)
	}
	if c.used.BytesIn != 10 || c.used.Calls != 1 {
		t.Errorf("used %+v", c.used)
	}
	c.done(nav("http://b.test/"))
	c.done(grant.Operation{Kind: grant.OpBrowserWait, Selector: "a", Gone: true, Timeout: time.Second})
	c.done(grant.Operation{Kind: grant.OpBrowserWait, Text: "x"})
	c.done(grant.Operation{Kind: grant.OpBrowserClick, Selector: "b"})
	if want := []string{"open http://a.test/", "open http://b.test/", "wait |a||1s", "wait ||x|0s", "click b"}; !slices.Equal(f.said, want) {
		t.Errorf("%q, want %q", f.said, want)
	}
	if opened != 1 || c.Pages() != 2 {
		t.Errorf("%d sessions, %d pages", opened, c.Pages())
	}
	browseMust(t, c.Close())
	<-f.closed
	_, err = c.do(t.Context(), nav("http://a.test/"))
	refused(t, err, sandbox.CodeUnavailable, "")
}

// TestRights checks that a session may write only where the profile has an
// action that does.
func TestRights(t *testing.T) {
	for action, want := range map[string]bool{"screenshot": false, "click": true, "type": true, "upload": true, "download": true, "pdf": false, "wait": false} {
		f := &fakeBrowser{}
		c := with(t, t.Context(), deal{actions: []string{"open", action}}, f.opener())
		c.done(nav("http://a.test/"))
		if f.rights.Write != want {
			t.Errorf("%s: may write: %v", action, f.rights.Write)
		}
	}
}

// TestEveryDocumentIsHeldAgainstTheProfile calls the session's function as
// pages do.
func TestEveryDocumentIsHeldAgainstTheProfile(t *testing.T) {
	f := &fakeBrowser{}
	c := with(t, t.Context(), deal{limits: grant.Limits{MaxDepth: 4}}, f.opener())
	c.done(nav("http://a.test/"))
	visit := func(address string, hop int) error { return f.rights.Visit(t.Context(), address, hop) }
	refused(t, visit("http://elsewhere.example/", 0), sandbox.CodePermissionDeny, "grant.capabilities")
	refused(t, visit("http://elsewhere.example/", 3), sandbox.CodePermissionDeny, "grant.capabilities")
	refused(t, visit("https://a.test/", 1), sandbox.CodePermissionDeny, "grant.capabilities")
	refused(t, visit("data:text/html,x", 0), sandbox.CodeCapabilityBlocked, "op.url")
	refused(t, visit("workspace:secret.html", 0), sandbox.CodePermissionDeny, "grant.capabilities")
	refused(t, visit("http://a.test/", 11), sandbox.CodeCapabilityBlocked, "redirect")
	browseMust(t, visit("http://b.test/", 0))
	browseMust(t, visit("http://b.test/hop", 1))
	browseMust(t, visit("workspace:open/a.html", 0))
	browseMust(t, visit("http://c.test/", 0))
	if c.Pages() != 4 {
		t.Errorf("%d pages", c.Pages())
	}
	browseMust(t, visit("http://c.test/hop", 1))
	refused(t, visit("http://d.test/", 0), sandbox.CodeCapabilityBlocked, "profile.limits.maxDepth")
	// The next operation reports what the page did by itself.
	c.done(grant.Operation{Kind: grant.OpBrowserPDF})
	got, _ := c.last.Effects()
	want := []evidence.Effect{
		{Kind: grant.EffectNetwork, Host: "b.test:80"}, {Kind: grant.EffectNetwork, Host: "b.test:80"}, {Kind: grant.EffectRead, Path: "/workspace/open/a.html"},
		{Kind: grant.EffectNetwork, Host: "c.test:80"}, {Kind: grant.EffectNetwork, Host: "c.test:80"},
	}
	if !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestPictures checks that a picture is whole or not there, and that its digest
// is of all of it.
func TestPictures(t *testing.T) {
	data := bytes.Repeat([]byte("p"), 1000)
	for _, o := range []grant.Operation{{Kind: grant.OpBrowserScreenshot, Selector: "a", FullPage: true}, {Kind: grant.OpBrowserPDF}} {
		for keep, whole := range map[int64]bool{1000: true, 999: false} {
			f := &fakeBrowser{data: data}
			c := with(t, t.Context(), deal{keep: keep}, f.opener())
			c.done(nav("http://a.test/"))
			out := c.done(o)
			if out.Digest != evidence.DigestOf(data) || out.Truncated == whole || whole != bytes.Equal(out.Data, data) || !whole && out.Data != nil {
				t.Errorf("%s with %d bytes kept: %d bytes, %+v", o.Kind, keep, len(out.Data), out.Digest)
			}
			if c.used.BytesIn != 1000 {
				t.Errorf("used %+v", c.used)
			}
		}
		f := &fakeBrowser{data: data}
		c := with(t, t.Context(), deal{limits: grant.Limits{MaxBytesIn: 999}}, f.opener())
		c.done(nav("http://a.test/"))
		_, err := c.do(t.Context(), o)
		refused(t, err, sandbox.CodeCapabilityBlocked, "profile.limits.maxBytesIn")
	}
}

func TestText(t *testing.T) {
	f := &fakeBrowser{data: []byte("0123456789")}
	c := with(t, t.Context(), deal{keep: 4, limits: grant.Limits{MaxBytesIn: 100}}, f.opener())
	c.done(nav("http://a.test/"))
	out := c.done(grant.Operation{Kind: grant.OpBrowserExtract})
	if string(out.Data) != "0123" || !out.Truncated || out.Digest != evidence.DigestOf(f.data) || out.Page.URL != "http://a.test/" {
		t.Errorf("%+v", out)
	}
}

// TestTypedTextIsNoEvidence checks that what was typed is nowhere in the record.
func TestTypedTextIsNoEvidence(t *testing.T) {
	f := &fakeBrowser{}
	c := with(t, t.Context(), deal{}, f.opener())
	c.done(nav("http://a.test/"))
	c.done(grant.Operation{Kind: grant.OpBrowserType, Selector: "input", Text: "hunter2hunter2"})
	got, _ := c.last.Effects()
	want := evidence.Effect{Kind: grant.EffectWrite, Host: "a.test:80", BytesOut: 14, Digest: evidence.DigestOf([]byte("hunter2hunter2"))}
	if len(got) != 1 || got[0] != want || c.used.BytesOut != 14 {
		t.Errorf("%+v, used %+v", got, c.used)
	}
	line, err := json.Marshal(got)
	browseMust(t, err)
	if bytes.Contains(line, []byte("hunter2")) {
		t.Errorf("%s", line)
	}
}

func TestFiles(t *testing.T) {
	f := &fakeBrowser{data: []byte("12345")}
	c := with(t, t.Context(), deal{limits: grant.Limits{MaxBytesIn: 100, MaxBytesOut: 100}}, f.opener())
	c.done(nav("http://a.test/"))
	c.done(grant.Operation{Kind: grant.OpBrowserUpload, Selector: "input", Path: "/workspace/open/up.txt"})
	if got, _ := c.last.Effects(); c.used.BytesOut != 5 || len(got) != 1 || got[0].Path != "/workspace/open/up.txt" || got[0].BytesOut != 5 {
		t.Errorf("%+v, used %+v", got, c.used)
	}
	out := c.done(grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a", Path: "/workspace/in/"})
	if got, _ := c.last.Effects(); c.used.BytesIn != 5 || c.used.Files != 1 || len(got) != 1 || got[0].Path != "/workspace/in/x.txt" || got[0].Digest.Size != 5 {
		t.Errorf("%+v, used %+v", got, c.used)
	}
	if out.Path != "/workspace/in/x.txt" || out.Digest.Size != 5 {
		t.Errorf("%+v", out)
	}
	if want := []string{"upload input ./open/up.txt", "download a ./in"}; !slices.Equal(f.said[1:], want) {
		t.Errorf("%q", f.said)
	}
	f.data = make([]byte, 101)
	_, err := c.do(t.Context(), grant.Operation{Kind: grant.OpBrowserUpload, Selector: "input", Path: "/workspace/open/up.txt"})
	refused(t, err, sandbox.CodeCapabilityBlocked, "profile.limits.maxBytesOut")
	_, err = c.do(t.Context(), grant.Operation{Kind: grant.OpBrowserDownload, Selector: "a", Path: "/workspace/in"})
	refused(t, err, sandbox.CodeCapabilityBlocked, "profile.limits.maxBytesIn")
	if c.used.Files != 0 || c.used.BytesIn != 0 {
		t.Errorf("used %+v", c.used)
	}
}

// flood is a page that keeps sending data until it is stopped.
func flood(f *fakeBrowser) func(context.Context, string) (browser.Page, error) {
	return func(ctx context.Context, address string) (browser.Page, error) {
		for {
			f.rights.Received(1000)
			select {
			case <-ctx.Done():
				return browser.Page{}, ctx.Err()
			case <-time.After(time.Millisecond):
			}
		}
	}
}

// TestTooMuch checks that a page which is beyond a bound is stopped while it
// loads, and its session with it.
func TestTooMuch(t *testing.T) {
	tests := map[string]struct {
		d     deal
		code  sandbox.Code
		field string
	}{
		"budget": {deal{budget: grant.Budget{Calls: 10, BytesIn: 5500, BytesOut: 1, CPUMs: -1, GPUMs: -1, Files: 1, WallMs: -1}}, sandbox.CodeBudgetExceeded, "budget.bytesIn"},
		"limit":  {deal{limits: grant.Limits{MaxBytesIn: 5500}}, sandbox.CodeCapabilityBlocked, "profile.limits.maxBytesIn"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			f := &fakeBrowser{}
			f.navigate = flood(f)
			c := with(t, t.Context(), tt.d, f.opener())
			_, err := c.do(t.Context(), nav("http://a.test/"))
			refused(t, err, tt.code, tt.field)
			if c.used.BytesIn < 5000 || name == "budget" && c.used.BytesIn != 5500 {
				t.Errorf("used %+v", c.used)
			}
			<-f.closed
		})
	}
}

// TestTypeOfAPage checks that a page of a type that is not listed is not kept.
func TestTypeOfAPage(t *testing.T) {
	f := &fakeBrowser{}
	c := with(t, t.Context(), deal{mime: []string{"application/json"}}, f.opener())
	_, err := c.do(t.Context(), nav("http://a.test/"))
	refused(t, err, sandbox.CodeCapabilityBlocked, "policy.lists.mime")
	<-f.closed
	_, err = c.do(t.Context(), grant.Operation{Kind: grant.OpBrowserExtract})
	refused(t, err, sandbox.CodeNotFound, "")
}

// TestEnds checks what a running operation comes to when something ends it. Time
// passes only once it runs, so that none ends by its own before.
func TestEnds(t *testing.T) {
	revoked := &sandbox.Error{Code: sandbox.CodePermissionDeny, Field: "grant.revoked", Message: "the grant was revoked"}
	tests := map[string]struct {
		end   func(life, call context.CancelCauseFunc, c *call)
		op    grant.Operation
		code  sandbox.Code
		field string
		stays bool // the session
	}{
		"revoked grant":   {func(life, _ context.CancelCauseFunc, _ *call) { life(revoked) }, nav("http://a.test/"), sandbox.CodePermissionDeny, "grant.revoked", false},
		"stopped call":    {func(_, call context.CancelCauseFunc, _ *call) { call(revoked) }, nav("http://a.test/"), sandbox.CodePermissionDeny, "grant.revoked", true},
		"impatience":      {func(_, call context.CancelCauseFunc, _ *call) { call(nil) }, nav("http://a.test/"), sandbox.CodeTimeout, "", true},
		"end of the call": {func(_, _ context.CancelCauseFunc, c *call) { _ = c.Close() }, nav("http://a.test/"), sandbox.CodeUnavailable, "", false},
		"own time":        {func(_, _ context.CancelCauseFunc, _ *call) {}, grant.Operation{Kind: grant.OpBrowserNav, URL: "http://a.test/", Timeout: 10 * time.Millisecond}, sandbox.CodeTimeout, "op.timeout", true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				life, endLife := context.WithCancelCause(t.Context())
				defer endLife(nil)
				ctx, endCall := context.WithCancelCause(t.Context())
				defer endCall(nil)
				at := make(chan struct{})
				f := &fakeBrowser{navigate: func(ctx context.Context, _ string) (browser.Page, error) {
					close(at)
					<-ctx.Done()
					return browser.Page{}, ctx.Err()
				}}
				c := with(t, life, deal{}, f.opener())
				go func() {
					<-at
					tt.end(endLife, endCall, c)
				}()
				_, err := c.do(ctx, tt.op)
				refused(t, err, tt.code, tt.field)
				if !tt.stays {
					<-f.closed
				}
				select {
				case <-f.closed:
					if tt.stays {
						t.Error("the session is closed")
					}
				default:
				}
			})
		})
	}
}

// TestClosedByItsGrant checks that the grant refuses an operation also when the
// operation is the first to find that the session is closed because of the
// grant.
func TestClosedByItsGrant(t *testing.T) {
	revoked := &sandbox.Error{Code: sandbox.CodePermissionDeny, Field: "grant.revoked", Message: "the grant was revoked"}
	for range 200 {
		life, end := context.WithCancelCause(t.Context())
		f := &fakeBrowser{navigate: func(context.Context, string) (browser.Page, error) {
			end(revoked)
			return browser.Page{}, &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "browse", Message: "the session is closed"}
		}}
		_, err := with(t, life, deal{}, f.opener()).do(t.Context(), nav("http://a.test/"))
		if refused(t, err, sandbox.CodePermissionDeny, "grant.revoked"); t.Failed() {
			return
		}
	}
}

// TestRevokedBetweenOperations checks that a page ends with the grant although
// nothing runs, and that nothing is opened after.
func TestRevokedBetweenOperations(t *testing.T) {
	life, end := context.WithCancelCause(t.Context())
	f := &fakeBrowser{}
	c := with(t, life, deal{}, f.opener())
	c.done(nav("http://a.test/"))
	revoked := &sandbox.Error{Code: sandbox.CodePermissionDeny, Field: "grant.revoked", Message: "the grant was revoked"}
	end(revoked)
	<-f.closed
	refused(t, f.rights.Visit(t.Context(), "http://a.test/", 0), sandbox.CodePermissionDeny, "grant.revoked")
	_, err := c.do(t.Context(), nav("http://a.test/"))
	refused(t, err, sandbox.CodePermissionDeny, "grant.revoked")
}

// TestErrors checks that whatever a session says has a code of the table.
func TestErrors(t *testing.T) {
	lost := &sandbox.Error{Code: sandbox.CodeUnavailable, Op: "browse", Message: "lost"}
	for _, tt := range []struct {
		says   error
		code   sandbox.Code
		closed bool
	}{
		{errors.New("anything"), sandbox.CodeExecution, false},
		{&sandbox.Error{Code: sandbox.CodeNotFound, Message: "no element"}, sandbox.CodeNotFound, false},
		{&sandbox.Error{Code: sandbox.CodeUnavailable, Resource: "http://a.test/", Message: "no such host"}, sandbox.CodeUnavailable, false},
		{lost, sandbox.CodeUnavailable, true},
	} {
		f := &fakeBrowser{touch: func(context.Context, string) error { return tt.says }}
		c := with(t, t.Context(), deal{}, f.opener())
		c.done(nav("http://a.test/"))
		_, err := c.do(t.Context(), grant.Operation{Kind: grant.OpBrowserClick, Selector: "a"})
		refused(t, err, tt.code, "")
		if tt.closed {
			<-f.closed
		}
	}
}

// TestManyAtOnce has operations of one call come at the same time.
func TestBrowseManyAtOnce(t *testing.T) {
	f := &fakeBrowser{}
	var busy atomic.Int32
	f.touch = func(context.Context, string) error {
		if busy.Add(1) > 1 {
			t.Error("two at a time")
		}
		for range 100 {
			runtime.Gosched() // to a concurrent caller
		}
		busy.Add(-1)
		return nil
	}
	c := with(t, t.Context(), deal{limits: grant.Limits{MaxDepth: 100, MaxConcurrency: 100}}, f.opener())
	c.done(nav("http://a.test/"))
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			d := *c // each with its own last
			if _, err := d.do(t.Context(), grant.Operation{Kind: grant.OpBrowserClick, Selector: "a"}); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := len(f.said); n != 9 || !strings.HasPrefix(f.said[8], "click") {
		t.Errorf("%q", f.said)
	}
}
