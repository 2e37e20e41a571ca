package page

import (
	"compress/gzip"
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

func TestPageBytes(t *testing.T) {
	large := strings.Repeat("x", 1<<20)
	p := newPlace(t, map[string]http.HandlerFunc{
		"large.test": func(w http.ResponseWriter, r *http.Request) {
			for range 16 {
				if _, err := w.Write([]byte(large)); err != nil {
					return
				}
			}
		},
		"bomb.test": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
			z := gzip.NewWriter(w)
			for range 16 {
				_, _ = z.Write([]byte(large))
			}
			z.Close()
		},
		"later.test": html(`<p>fine<script>(async () => { for (;;) await (await fetch('http://later.test/more')).text() })()</script><!--` + large[:4<<10] + `-->`),
		"ok.test":    html("fine"),
	})
	p.settings.Limits.PageBytes = 4 << 20
	s := p.open(t)
	for _, host := range []string{"large.test", "bomb.test"} {
		_, err := s.Navigate(t.Context(), "http://"+host+"/")
		want(t, err, sandbox.CodeBudgetExceeded, "pageBytes")
		visited(t, s, "http://ok.test/")
	}
	p.settings.Limits.PageBytes = 100 << 10
	s = p.open(t)
	_, err := s.Navigate(t.Context(), "http://later.test/")
	if err == nil {
		err = s.Wait(t.Context(), browser.Condition{Text: "never"})
	}
	want(t, err, sandbox.CodeBudgetExceeded, "pageBytes")
	visited(t, s, "http://ok.test/")
}

func TestNavigations(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": html("x"), "chain.test": html(`<script>setTimeout(() => { location = '/' + Math.random() }, 1)</script>`)})
	p.settings.Limits.Navigations = 3
	s := p.open(t)
	visited(t, s, "http://site.test/")
	visited(t, s, "http://site.test/")
	visited(t, s, "http://site.test/")
	_, err := s.Navigate(t.Context(), "http://site.test/")
	want(t, err, sandbox.CodeBudgetExceeded, "navigations")
	s = p.open(t)
	_, err = s.Navigate(t.Context(), "http://chain.test/")
	if err == nil {
		err = s.Wait(t.Context(), browser.Condition{Text: "never"})
	}
	want(t, err, sandbox.CodeBudgetExceeded, "navigations")
	pages := slices.DeleteFunc(p.requests("chain.test/"), func(r string) bool { return strings.Contains(r, "favicon") })
	if len(pages) != 3 {
		t.Errorf("%q", pages)
	}
}

func TestNavigationTime(t *testing.T) {
	gate := make(chan struct{})
	p := newPlace(t, map[string]http.HandlerFunc{
		"slow.test": func(w http.ResponseWriter, r *http.Request) {
			select {
			case <-gate:
			case <-r.Context().Done():
			}
		},
		"image.test": html(`<img src="http://slow.test/">`), "ok.test": html("fine"),
		"busy.test": html(`<script>for (;;);</script>`),
	})
	defer close(gate)
	p.settings.Limits.Navigation = time.Second
	s := p.open(t)
	for _, host := range []string{"slow.test", "image.test", "busy.test"} {
		_, err := s.Navigate(t.Context(), "http://"+host+"/")
		want(t, err, sandbox.CodeTimeout, "")
		s.settings.Limits.Navigation = time.Minute
		visited(t, s, "http://ok.test/")
		s.settings.Limits.Navigation = time.Second
	}
}

func TestCancel(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", "x")
	s := p.open(t)
	visited(t, s, "x.html")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	want(t, s.Wait(ctx, browser.Condition{Text: "never"}), sandbox.CodeTimeout, "")
	visited(t, s, "x.html")
}

// TestCrash checks that a page that crashes fails its action, and that the next
// one gets another page of the same profile.
func TestCrash(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "a", Value: "b"})
		html("cookie:"+r.Header.Get("Cookie"))(w, r)
	}})
	s := p.open(t)
	visited(t, s, "http://site.test/")
	done := make(chan error, 1)
	go func() { done <- s.Wait(t.Context(), browser.Condition{Text: "never", Timeout: time.Minute}) }()
	want(t, crash(t, s, done), sandbox.CodeUnavailable, "crashed")
	visited(t, s, "http://site.test/")
	if got := text(t, s); got != "cookie:a=b" {
		t.Errorf("%q", got)
	}
	other := p.open(t)
	visited(t, other, "http://site.test/")
	if got := text(t, other); got != "cookie:" {
		t.Errorf("another session sees %q", got)
	}
}

// crash makes the page of a session crash until its action has ended, and
// returns the error of that action. An action that begins after a crash has a
// page of its own.
func crash(t *testing.T, s *session, done <-chan error) error {
	t.Helper()
	for {
		s.mu.Lock()
		tab := s.tab
		s.mu.Unlock()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		_ = tab.line.Call(ctx, "Page.crash", nil, nil) // ends with the page
		cancel()
		select {
		case err := <-done:
			return err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func TestLostConnection(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", "x")
	s := p.open(t)
	visited(t, s, "x.html")
	s.wire.conn.CloseNow()
	_, err := s.Navigate(t.Context(), "x.html")
	want(t, err, sandbox.CodeUnavailable, "connection")
	s.Close()
}
