package page

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// newPlace returns a browser whose web consists of the handlers by host. With
// a nil web there is no egress.
func newPlace(t testing.TB, web map[string]http.HandlerFunc) *place {
	t.Helper()
	p := &place{Browser: shared.open(t), dir: t.TempDir()}
	p.settings = p.Browser.Settings()
	p.settings.Limits = browser.Limits{
		Navigation: time.Minute, Navigations: 100, Redirects: 5, PageBytes: 8 << 20,
		ScreenshotPixels: 16 << 20, ScreenshotsPerMinute: 1000, TransferBytes: 4 << 20,
	}
	if web != nil {
		for host := range web {
			p.settings.Rules.AllowedDomains = append(p.settings.Rules.AllowedDomains, host)
		}
		p.web = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if h := web[r.URL.Hostname()]; h != nil {
				h(w, r)
				return
			}
			http.NotFound(w, r)
		})
	}
	return p
}

// open opens a session that may write.
func (p *place) open(t testing.TB) *session {
	t.Helper()
	return p.openAs(t, browser.Rights{Write: true}, Options{})
}

func (p *place) openAs(t testing.TB, r browser.Rights, o Options) *session {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	s, err := Open(ctx, p, r, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s.(*session)
}

// file puts a file into the workspace.
func (p *place) file(t testing.TB, name, content string) {
	t.Helper()
	full := filepath.Join(p.dir, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(full, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

// html answers with a document.
func html(body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, "<!doctype html>", body)
	}
}

func visited(t testing.TB, s *session, address string) browser.Page {
	t.Helper()
	p, err := s.Navigate(t.Context(), address)
	if err != nil {
		t.Fatalf("%s: %v", address, err)
	}
	return p
}

// text is what a reader sees.
func text(t testing.TB, s *session) string {
	t.Helper()
	c, err := s.Extract(t.Context(), browser.Extraction{Text: true})
	if err != nil {
		t.Fatal(err)
	}
	return c.Text
}

// want checks the code and the text of an error.
func want(t testing.TB, err error, code sandbox.Code, says string) {
	t.Helper()
	if sandbox.CodeOf(err) != code || !strings.Contains(fmt.Sprint(err), says) {
		t.Errorf("%v, want %s with %q", err, code, says)
	}
}

func TestNavigateWeb(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": html("<title>Hello</title><p>there")})
	s := p.open(t)
	got := visited(t, s, "http://SITE.test/x?y#z")
	if got.URL != "http://site.test/x?y#z" || got.Status != 200 || got.Title != "Hello" || got.Bytes == 0 {
		t.Errorf("%+v", got)
	}
	if got := text(t, s); got != "there" {
		t.Errorf("text %q", got)
	}
}

func TestNavigateFile(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "a/x.html", `<title>File</title><link rel=stylesheet href=x.css><script src=../x.js></script><p id=p>text<iframe src=f.html></iframe>`)
	p.file(t, "a/x.css", `p { color: rgb(1,2,3) }`)
	p.file(t, "a/f.html", `inner`)
	p.file(t, "x.js", `document.title += getComputedStyle(document.documentElement).display`)
	s := p.open(t)
	got := visited(t, s, "a/x.html")
	if got.URL != "workspace:a/x.html" || got.Status != 200 || got.Title != "Fileblock" {
		t.Errorf("%+v", got)
	}
	if _, err := s.Navigate(t.Context(), "./none.html"); !sandbox.IsNotFound(err) {
		t.Error(err)
	}
	if err := os.Symlink("a/x.html", filepath.Join(p.dir, "link.html")); err != nil {
		t.Fatal(err)
	}
	_, err := s.Navigate(t.Context(), "./link.html")
	want(t, err, sandbox.CodeCapabilityBlocked, "links")
}

func TestCloseLeavesNothing(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": html("x")})
	s := p.open(t)
	visited(t, s, "http://site.test/")
	if p.egress.Load() != 1 {
		t.Error("no way")
	}
	s.Close()
	if p.egress.Load() != 0 {
		t.Error("the way is still open")
	}
	if _, err := s.Navigate(t.Context(), "http://site.test/"); !errors.Is(err, &sandbox.Error{Code: sandbox.CodeUnavailable}) {
		t.Error(err)
	}
}
