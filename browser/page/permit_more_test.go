package page

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// TestVisitThatDoesNotAnswer checks that a missing answer, a panic and an
// error of another type are refusals, and leave a working session.
func TestVisitThatDoesNotAnswer(t *testing.T) {
	plain := errors.New("no code")
	tests := map[string]struct {
		visit func(context.Context) error
		code  sandbox.Code
	}{
		"silence":              {func(ctx context.Context) error { <-ctx.Done(); return nil }, sandbox.CodeTimeout},
		"panic":                {func(context.Context) error { panic("no") }, sandbox.CodeInternal},
		"error without a code": {func(context.Context) error { return plain }, sandbox.CodeInternal},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, map[string]http.HandlerFunc{"good.test": html("<title>good</title><a href=http://bad.test/>go</a>"), "bad.test": html("secret")})
			s := p.openAs(t, browser.Rights{Write: true, Visit: func(ctx context.Context, address string, _ int) error {
				if strings.Contains(address, "bad") {
					return tt.visit(ctx)
				}
				return nil
			}}, Options{})
			begin := time.Now()
			_, err := s.Navigate(t.Context(), "http://bad.test/")
			want(t, err, tt.code, "")
			if took := time.Since(begin); took > 30*time.Second { // cleanTime is waited for, the time of a navigation is not
				t.Errorf("it took %v", took)
			}
			visited(t, s, "http://good.test/")
			want(t, clicked(t, s, "a"), tt.code, "")
			if name == "error without a code" && !errors.Is(err, plain) {
				t.Errorf("%v says not why", err)
			}
			if got := p.requests("bad.test"); len(got) != 0 {
				t.Errorf("it was asked for: %q", got)
			}
			if got := visited(t, s, "http://good.test/"); got.Title != "good" {
				t.Errorf("%+v", got)
			}
		})
	}
}

// TestNoServiceWorker checks that no service worker starts in a session, so
// that none navigates a page or answers for a document. The browser itself
// blocks it, before it is requested.
func TestNoServiceWorker(t *testing.T) {
	const site = `<p id=state>wait</p><script>
		const say = x => document.getElementById('state').textContent = x;
		if (!isSecureContext) say('insecure');
		navigator.serviceWorker.register('/sw.js').then(() => navigator.serviceWorker.ready).then(() => say('ready')).catch(say);
	</script>`
	p := newPlace(t, map[string]http.HandlerFunc{"app.localhost": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/sw.js" {
			w.Header().Set("Content-Type", "text/javascript")
			_, _ = w.Write([]byte(`addEventListener('fetch', e => e.respondWith(new Response('forged')))`))
			return
		}
		html(site)(w, r)
	}})
	s := p.open(t)
	visited(t, s, "http://app.localhost/")
	want(t, s.Wait(t.Context(), browser.Condition{Text: "ready", Timeout: 3 * time.Second}), sandbox.CodeTimeout, "")
	if got := text(t, s); strings.TrimSpace(got) != "wait" {
		t.Errorf("the page could not have one at all: %q", got)
	}
	if got := p.requests("sw.js"); len(got) != 0 {
		t.Errorf("it was asked for: %q", got)
	}
}

// TestVisitAndData checks that Visit is called once for an address that
// contains its document, before the document is loaded.
func TestVisitAndData(t *testing.T) {
	p := newPlace(t, nil)
	p.settings.Schemes = append(slices.Clone(p.settings.Schemes), "data")
	var asked []string
	s := p.openAs(t, browser.Rights{Visit: func(_ context.Context, address string, _ int) error {
		asked = append(asked, address)
		if strings.Contains(address, "bad") {
			return &sandbox.Error{Code: sandbox.CodePermissionDeny, Field: "grant.capabilities", Message: "no"}
		}
		return nil
	}}, Options{})
	good, bad := "data:text/html,<title>good</title>", "data:text/html,<title>bad</title>"
	if got, err := s.Navigate(t.Context(), good); err == nil && got.Title != "good" {
		t.Errorf("%+v", got)
	} else if err != nil && sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked { // the policies of the image have the last word
		t.Error(err)
	}
	_, err := s.Navigate(t.Context(), bad)
	refusal(t, err)
	if !slices.Equal(asked, []string{good, bad}) {
		t.Errorf("asked about %q", asked)
	}
}

// TestTransfers checks that files are transferred only as the caller's
// function allows, and that Received is called with the bytes that pages
// receive.
func TestTransfers(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/file" {
			w.Header().Set("Content-Disposition", "attachment; filename=f.txt")
			_, _ = w.Write([]byte("12345"))
			return
		}
		html(`<a href=/file>file</a><input type=file>`)(w, r)
	}})
	p.settings.Downloads = true
	p.file(t, "up.txt", "123")
	var asked []browser.Transfer
	var received int64
	shut := false
	heard := make(chan int64, 1000)
	s := p.openAs(t, browser.Rights{Write: true, Received: func(n int64) { heard <- n }, Transfer: func(_ context.Context, f browser.Transfer) error {
		asked = append(asked, f)
		if shut {
			return &sandbox.Error{Code: sandbox.CodeBudgetExceeded, Field: "budget.files", Message: "no"}
		}
		return nil
	}}, Options{})
	got := visited(t, s, "http://site.test/")
	for received < got.Bytes {
		received += <-heard
	}
	if got.Bytes == 0 || received != got.Bytes {
		t.Errorf("told of %d bytes of %d", received, got.Bytes)
	}
	if err := s.Upload(t.Context(), "input", []string{"up.txt"}); err != nil {
		t.Error(err)
	}
	if d, err := s.Download(t.Context(), "a", "in"); err != nil || d.Size != 5 {
		t.Errorf("%+v, %v", d, err)
	}
	shut = true
	want(t, s.Upload(t.Context(), "input", []string{"up.txt"}), sandbox.CodeBudgetExceeded, "")
	_, err := s.Download(t.Context(), "a", "other")
	want(t, err, sandbox.CodeBudgetExceeded, "")
	up, down := browser.Transfer{Upload: true, Bytes: 3}, browser.Transfer{Bytes: 5}
	if !slices.Equal(asked, []browser.Transfer{up, down, up, down}) {
		t.Errorf("asked about %+v", asked)
	}
}
