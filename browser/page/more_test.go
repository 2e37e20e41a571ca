package page

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestWindows checks that no window opened by a page is loaded, however the
// page hides that it opened it.
func TestWindows(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": html(`
		<button id=open onclick="window.open('/window')">o</button>
		<button id=noopener onclick="window.open('/window', '_blank', 'noopener')">n</button>
		<button id=popup onclick="window.open('/window', 'x', 'width=100,height=100')">p</button>
		<a id=blank target=_blank href="/window">b</a><a id=named target=other rel=opener href="/window">m</a>
		<form target=_blank action="/window"><button id=form>f</button></form>
		<button id=script onclick="w = window.open('about:blank'); if (w) w.location = '/window'">s</button>`)})
	for _, id := range []string{"open", "noopener", "popup", "blank", "named", "form", "script"} {
		t.Run(id, func(t *testing.T) {
			s := p.open(t)
			visited(t, s, "http://site.test/")
			if err := s.Click(t.Context(), "#"+id); err != nil {
				t.Fatal(err)
			}
			await(t, func() bool { return s.windows.Load() > 0 })
			visited(t, s, "http://site.test/?after")
			if got := p.requests("/window"); len(got) != 0 {
				t.Errorf("the window was loaded: %q", got)
			}
		})
	}
}

// TestPrerendered checks that a prerendered page is judged as well.
func TestPrerendered(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/" {
			html(`<script type=speculationrules>{"prerender": [{"urls": ["/ahead"], "eagerness": "immediate"}]}</script><a id=a href="/ahead">a</a>`)(w, r)
			return
		}
		html(`ahead<script>location = 'http://other.test/'</script>`)(w, r)
	}})
	s := p.open(t)
	visited(t, s, "http://site.test/")
	if err := s.Click(t.Context(), "#a"); err != nil {
		t.Fatal(err)
	}
	err := s.Wait(t.Context(), browser.Condition{Text: "never", Timeout: time.Minute})
	want(t, err, sandbox.CodeCapabilityBlocked, "other.test")
	if got := p.requests("other.test"); len(got) != 0 {
		t.Errorf("it was asked for: %q", got)
	}
}

func TestOddPages(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{
		"auth.test": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
			w.WriteHeader(http.StatusUnauthorized)
			_, _ = w.Write([]byte("who are you"))
		},
		"file.test": func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Disposition", "attachment")
			_, _ = w.Write([]byte("content"))
		},
		"none.test": func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(http.StatusNoContent) },
	})
	s := p.open(t)
	if got := visited(t, s, "http://auth.test/"); got.Status != 401 || !strings.Contains(text(t, s), "who are you") {
		t.Errorf("%+v", got)
	}
	if got := visited(t, s, "about:blank"); got.URL != "about:blank" || got.Status != 0 {
		t.Errorf("%+v", got)
	}
	_, err := s.Navigate(t.Context(), "http://file.test/")
	want(t, err, sandbox.CodeCapabilityBlocked, "")
	if _, err := s.Navigate(t.Context(), "http://none.test/"); err == nil {
		t.Error("an answer without content is a page")
	}
	if got := visited(t, s, "http://auth.test/#x"); got.URL != "http://auth.test/#x" {
		t.Errorf("%+v", got)
	}
	if got := visited(t, s, "http://auth.test/#y"); got.URL != "http://auth.test/#y" {
		t.Errorf("%+v", got)
	}
}

// TestWorkers checks that pages of the workspace have workers.
func TestWorkers(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", `<script>new Worker('w.js').onmessage = e => document.body.append(e.data)</script>`)
	p.file(t, "w.js", `fetch('x.txt').then(r => r.text()).then(x => postMessage('worker has ' + x), () => postMessage('worker fails'))`)
	p.file(t, "x.txt", "content")
	s := p.open(t)
	visited(t, s, "x.html")
	if err := s.Wait(t.Context(), browser.Condition{Text: "worker has content", Timeout: time.Minute}); err != nil {
		t.Errorf("%v: %s", err, text(t, s))
	}
}

// TestNoWay checks that nothing is reached if the rules allow nothing.
func TestNoWay(t *testing.T) {
	p := newPlace(t, nil)
	p.settings.Rules.AllowedDomains = []string{"site.test", "127.0.0.1"}
	s := p.open(t)
	_, err := s.Navigate(t.Context(), "http://site.test/")
	want(t, err, sandbox.CodeCapabilityBlocked, "way out")
}

func TestNoGoroutineStays(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": html(`<iframe src="http://frame.test/"></iframe>`), "frame.test": html("x")})
	s := p.open(t) // the rig's own connections exist from now on
	visited(t, s, "http://site.test/")
	before := goleak.IgnoreCurrent()
	other := p.open(t)
	visited(t, other, "http://site.test/")
	other.Close()
	testenv.None(t, before)
}

// TestSessionsSideBySide checks that sessions of one browser neither disturb
// nor see each other.
func TestSessionsSideBySide(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": func(w http.ResponseWriter, r *http.Request) {
		http.SetCookie(w, &http.Cookie{Name: "seen", Value: "yes"})
		html("cookie:"+r.Header.Get("Cookie")+`<script>const v = localStorage.x || 'none'; localStorage.x = 1; document.body.append(' stored:' + v)</script>`)(w, r)
	}})
	var all sync.WaitGroup
	for range 4 {
		all.Go(func() {
			s := p.open(t)
			defer s.Close()
			page, err := s.Navigate(t.Context(), "http://site.test/")
			if err != nil {
				t.Error(err)
				return
			}
			c, err := s.Extract(t.Context(), browser.Extraction{Text: true})
			if err != nil || c.Text != "cookie: stored:none" {
				t.Errorf("%+v: %q, %v", page, c.Text, err)
			}
		})
	}
	all.Wait()
	if got := p.egress.Load(); got != 0 {
		t.Errorf("%d ways are still open", got)
	}
}
