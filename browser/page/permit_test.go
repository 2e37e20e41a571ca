package page

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// A doorman is a Visit that refuses hosts that end in bad.test, and files
// called bad.html.
type doorman struct {
	mu    sync.Mutex
	asked []string // "HOP ADDRESS"
}

func (d *doorman) visit(_ context.Context, address string, hop int) error {
	d.mu.Lock()
	d.asked = append(d.asked, strconv.Itoa(hop)+" "+address)
	d.mu.Unlock()
	if strings.Contains(address, "//bad.test") || strings.HasSuffix(address, ":bad.html") {
		return &sandbox.Error{Code: sandbox.CodePermissionDeny, Op: "grant", Field: "grant.capabilities", Message: "no"}
	}
	return nil
}

func (d *doorman) all() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.asked)
}

// guardedBy opens a session with a doorman. The rules allow every host of the
// web, so that refusals come from the doorman.
func (p *place) guardedBy(t testing.TB, d *doorman) *session {
	t.Helper()
	return p.openAs(t, browser.Rights{Write: true, Visit: d.visit}, Options{})
}

func redirect(to string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, to, http.StatusFound) }
}

// refusal fails the test unless err is the doorman's refusal.
func refusal(t *testing.T, err error) {
	t.Helper()
	var e *sandbox.Error
	if !errors.As(err, &e) || e.Code != sandbox.CodePermissionDeny || e.Field != "grant.capabilities" {
		t.Errorf("got %v, want what the caller's function says", err)
	}
}

// clicked clicks and returns the result: that of the click or, if the browser
// took longer than a click waits, that of the next wait.
func clicked(t *testing.T, s *session, selector string) error {
	t.Helper()
	begun := time.Now()
	err := s.Click(t.Context(), selector)
	if err != nil || time.Since(begun) < 2*cleanTime {
		return err
	}
	return s.Wait(t.Context(), browser.Condition{Text: "never there", Timeout: time.Minute})
}

// TestVisitRefuses tries every way to another document of the main frame: none
// leads to a document that the caller's function refuses.
func TestVisitRefuses(t *testing.T) {
	const link = `<a href="http://bad.test/">go</a>`
	tests := []struct {
		name, page string
		click      string // "" is a page that navigates by itself
	}{
		{"link", link, "a"},
		{"link by script", `<button onclick="location='http://bad.test/'">go</button>`, "button"},
		{"link by a redirect", `<a href="http://hop.test/">go</a>`, "a"},
		{"link in a moment", `<button onclick="setTimeout(() => location.replace('http://bad.test/'))">go</button>`, "button"},
		{"form", `<form action="http://bad.test/"><button>go</button></form>`, "button"},
		{"form that posts", `<form method=post action="http://bad.test/"><input name=a value=b><button>go</button></form>`, "button"},
		{"form that posts to a redirect", `<form method=post action="http://hop.test/"><button>go</button></form>`, "button"},
		{"frame that leads its page", `<iframe srcdoc="<script>top.location='http://bad.test/'</script>"></iframe>`, ""},
		{"script", `<script>location = 'http://bad.test/'</script>`, ""},
		{"refresh", `<meta http-equiv=refresh content="0;url=http://bad.test/">`, ""},
		{"form by itself", `<form method=post action="http://bad.test/"></form><script>document.forms[0].submit()</script>`, ""},
		{"refresh by a redirect", `<meta http-equiv=refresh content="0;url=http://hop.test/">`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := newPlace(t, map[string]http.HandlerFunc{"site.test": html(tt.page), "bad.test": html("secret"), "hop.test": redirect("http://bad.test/")})
			d := &doorman{}
			s := p.guardedBy(t, d)
			_, err := s.Navigate(t.Context(), "http://site.test/")
			switch {
			case tt.click != "" && err != nil:
				t.Fatal(err)
			case tt.click != "":
				err = clicked(t, s, tt.click)
			case err == nil: // it was there before it went on
				err = s.Wait(t.Context(), browser.Condition{Text: "never there", Timeout: time.Minute})
			}
			refusal(t, err)
			if got := p.requests("bad.test"); len(got) != 0 {
				t.Errorf("it was asked for: %q", got)
			}
			if got := text(t, s); strings.Contains(got, "secret") {
				t.Errorf("the page shows %q", got)
			}
			if got := d.all(); len(got) < 2 || got[0] != "0 http://site.test/" || !strings.Contains(got[1], ".test/") {
				t.Errorf("asked about %q", got)
			}
		})
	}
}

// TestVisitRefusesOpening checks that Visit is called for addresses that a
// caller opens too, and for each hop with its number.
func TestVisitRefusesOpening(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{
		"bad.test": html("secret"), "one.test": redirect("http://two.test/x?y"), "two.test": redirect("http://bad.test/"), "end.test": html("end"),
		"three.test": redirect("http://end.test/"),
	})
	p.file(t, "good.html", `<a href="bad.html">go</a>`)
	p.file(t, "bad.html", "secret")
	d := &doorman{}
	s := p.guardedBy(t, d)
	for _, address := range []string{"http://bad.test/", "http://one.test/", "./bad.html"} {
		_, err := s.Navigate(t.Context(), address)
		refusal(t, err)
	}
	visited(t, s, "http://three.test/")
	visited(t, s, "./good.html")
	refusal(t, clicked(t, s, "a"))
	want := []string{
		"0 http://bad.test/", "0 http://one.test/", "1 http://two.test/x?y", "2 http://bad.test/", "0 workspace:bad.html",
		"0 http://three.test/", "1 http://end.test/", "0 workspace:good.html", "0 workspace:bad.html",
	}
	if got := d.all(); !slices.Equal(got, want) {
		t.Errorf("asked about %q, want %q", got, want)
	}
	if got := p.requests("bad.test"); len(got) != 0 {
		t.Errorf("it was asked for: %q", got)
	}
}

// TestVisitOnTheWayBack checks that Visit is called again for a page of the
// history, whether it is loaded or cached.
func TestVisitOnTheWayBack(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{
		"one.test": html(`<title>one</title>first`), "two.test": html(`<button onclick="history.back()">back</button>`),
	})
	var mu sync.Mutex
	var asked []string
	shut := false
	s := p.openAs(t, browser.Rights{Write: true, Visit: func(_ context.Context, address string, _ int) error {
		mu.Lock()
		defer mu.Unlock()
		asked = append(asked, address)
		if shut {
			return &sandbox.Error{Code: sandbox.CodePermissionDeny, Field: "grant.capabilities", Message: "no"}
		}
		return nil
	}}, Options{})
	visited(t, s, "http://one.test/")
	visited(t, s, "http://two.test/")
	mu.Lock()
	shut = true
	mu.Unlock()
	err := s.Click(t.Context(), "button")
	if err == nil { // the browser tells of the way back when it is on it
		err = s.Wait(t.Context(), browser.Condition{Text: "never there", Timeout: time.Minute})
	}
	refusal(t, err)
	mu.Lock()
	defer mu.Unlock()
	if want := []string{"http://one.test/", "http://two.test/", "http://one.test/"}; !slices.Equal(asked, want) {
		t.Errorf("asked about %q, want %q", asked, want)
	}
}

// TestVisitIsNotAsked checks when Visit is not called: frames, windows, which
// never load anything, navigation within a page, and empty pages.
func TestVisitIsNotAsked(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{
		"site.test": html(`<iframe src="http://bad.test/"></iframe><a href="#there">go</a>
			<button onclick="window.open('http://bad.test/window')">open</button><p id=there>there</p>`),
		"bad.test": html("frame"),
	})
	d := &doorman{}
	s := p.guardedBy(t, d)
	visited(t, s, "http://site.test/")
	if got := p.requests("bad.test"); len(got) != 1 {
		t.Errorf("the frame was asked for %q", got)
	}
	for _, what := range []string{"a", "button"} {
		if err := s.Click(t.Context(), what); err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	visited(t, s, "about:blank")
	if got := d.all(); !slices.Equal(got, []string{"0 http://site.test/"}) {
		t.Errorf("asked about %q", got)
	}
	if got := p.requests("window"); len(got) != 0 {
		t.Errorf("a window asked for %q", got)
	}
}
