package tools

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// A scripted browser does nothing and notes what it was asked.
type scripted struct {
	mu     sync.Mutex
	asked  []string
	opened int
	closed int
	open   error // instead of a session
	next   error // of the next action
	shot   []byte
}

func (s *scripted) session(_ context.Context, who config.Who) (browser.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open != nil {
		return nil, s.open
	}
	s.opened++
	return &scriptedSession{s, who}, nil
}

type scriptedSession struct {
	*scripted
	who config.Who
}

func (s *scripted) did(what ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked = append(s.asked, strings.Join(what, " "))
	err := s.next
	s.next = nil
	return err
}

func (s *scriptedSession) Navigate(_ context.Context, address string) (browser.Page, error) {
	return browser.Page{URL: address, Status: 200, Title: "A \x1b[31mtitle", MIME: "text/html", Bytes: 12}, s.did("navigate", s.who.Session, address)
}
func (s *scriptedSession) Screenshot(_ context.Context, o browser.Shot) (browser.Picture, error) {
	return browser.Picture{Data: s.shot, MIME: "image/png", Width: 3, Height: 2}, s.did("screenshot", o.Selector)
}
func (s *scriptedSession) Extract(_ context.Context, e browser.Extraction) (browser.Content, error) {
	c := browser.Content{URL: "https://x/", Title: "t", Truncated: true}
	if e.Text {
		c.Text = "words"
	}
	if e.Links {
		c.Links = []browser.Link{{Text: "go\n- forged", URL: "https://y/"}}
	}
	if e.Tree {
		c.Tree = []browser.Node{{Depth: 1, Role: "button", Name: "ok"}, {Depth: 1 << 30, Role: "x"}}
	}
	return c, s.did("extract")
}
func (s *scriptedSession) PDF(context.Context) ([]byte, error) { return []byte("%PDF-"), s.did("pdf") }
func (s *scriptedSession) Wait(_ context.Context, c browser.Condition) error {
	return s.did("wait", c.Visible, c.Gone, c.Text, c.Timeout.String())
}
func (s *scriptedSession) Click(_ context.Context, selector string) error {
	return s.did("click", selector)
}
func (s *scriptedSession) Type(_ context.Context, selector, text string) error {
	return s.did("type", selector, text)
}
func (s *scriptedSession) Upload(_ context.Context, selector string, files []string) error {
	return s.did(append([]string{"upload", selector}, files...)...)
}
func (s *scriptedSession) Download(_ context.Context, selector, folder string) (browser.Download, error) {
	return browser.Download{Path: folder + "/f", Size: 3, URL: "https://x/f"}, s.did("download", selector, folder)
}
func (s *scriptedSession) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed++
	return nil
}

// newBrowsed is a rig with a browser.
func newBrowsed(t *testing.T) (*rig, *scripted) {
	s := &scripted{shot: []byte("\x89PNG\r\n\x1a\n")}
	r := newRig(t, sandboxed("local", `, "browser": {"enabled": true}, "tools": {"alsoAllow": ["browser"]}`), func(o *Options) { o.Browser = s.session })
	return r, s
}

func TestBrowserStaysUntilClose(t *testing.T) {
	r, s := newBrowsed(t)
	a := r.call("browser", obj{"action": "navigate", "url": "https://x/"})
	if d := data[schema.BrowserResult](t, a); d.URL != "https://x/" || d.Status != 200 || !strings.Contains(a.Text, "status: 200") || strings.Contains(a.Text, "\x1b") {
		t.Errorf("%+v %q", d, a.Text)
	}
	for _, v := range []obj{
		{"action": "click", "selector": "a"}, {"action": "type", "selector": "i", "text": "hi"}, {"action": "wait", "selector": "s", "gone": true, "timeout": 3},
		{"action": "upload", "selector": "f", "files": []string{"one", "two"}}, {"action": "extract"},
	} {
		r.call("browser", v)
	}
	a = r.call("browser", obj{"action": "download", "selector": "d", "path": "down"})
	if d := data[schema.BrowserResult](t, a); d.Path != "down/f" || d.Bytes != 3 {
		t.Errorf("%+v", d)
	}
	want := "navigate a https://x/|click a|type i hi|wait  s  3s|upload f one two|extract|download d down"
	if got := strings.Join(s.asked, "|"); got != want || s.opened != 1 || s.closed != 0 {
		t.Errorf("%q, opened %d, closed %d", got, s.opened, s.closed)
	}
	r.call("browser", obj{"action": "close"})
	if a := r.call("browser", obj{"action": "close"}); s.closed != 1 || !strings.Contains(a.Text, "no page open") {
		t.Errorf("closed %d times, %q", s.closed, a.Text)
	}
	other := r.kit(Session{Who: someone("b")})
	for _, k := range []*Kit{r.Kit, other} {
		_, err := k.Call(deadline(t), "browser", in(t, obj{"action": "navigate", "url": "https://z/"}), nil)
		must(t, err)
	}
	if s.opened != 3 || s.asked[len(s.asked)-1] != "navigate b https://z/" {
		t.Errorf("opened %d, %q", s.opened, s.asked)
	}
	must(t, r.all.EndSession(deadline(t), someone("b")))
	must(t, r.all.Close(deadline(t)))
	if s.closed != 3 {
		t.Errorf("closed %d", s.closed)
	}
	r.refused(sandbox.CodeUnavailable, "browser", obj{"action": "extract"})
}

func TestBrowserFilesGoToTheWorkspace(t *testing.T) {
	r, s := newBrowsed(t)
	if a := r.call("browser", obj{"action": "screenshot"}); len(a.Pictures) != 1 || a.Pictures[0].MIME != "image/png" || data[schema.BrowserResult](t, a).Width != 3 {
		t.Errorf("%+v", a)
	}
	if a := r.call("browser", obj{"action": "screenshot", "path": "shots/a.png"}); len(a.Pictures) != 0 || r.content("shots/a.png") != string(s.shot) {
		t.Errorf("%+v", a)
	}
	r.call("browser", obj{"action": "pdf", "path": "a.pdf"})
	if got := r.content("a.pdf"); got != "%PDF-" {
		t.Errorf("%q", got)
	}
	for _, path := range []string{"/etc/x", "../x", "shots"} {
		_, err := r.Call(deadline(t), "browser", in(t, obj{"action": "pdf", "path": path}), nil)
		if c := sandbox.CodeOf(err); c != sandbox.CodeCapabilityBlocked && c != sandbox.CodeValidation {
			t.Errorf("%s: %v", path, err)
		}
	}
	r.refused(sandbox.CodeValidation, "browser", obj{"action": "pdf"})
	s.shot = make([]byte, pictureMaxBytes+1)
	r.refused(sandbox.CodeCapabilityBlocked, "browser", obj{"action": "screenshot"})
}

func TestBrowserShowsWhatPagesSay(t *testing.T) {
	r, _ := newBrowsed(t)
	a := r.call("browser", obj{"action": "extract", "parts": []string{"text", "links", "tree"}})
	d := data[schema.BrowserResult](t, a)
	if d.Text != "words" || len(d.Links) != 1 || len(d.Tree) != 2 || !d.Truncated {
		t.Errorf("%+v", d)
	}
	if strings.Contains(a.Text, "\n- forged") || len(a.Text) > 1000 || !strings.Contains(a.Text, "there is more") {
		t.Errorf("%q", a.Text)
	}
}

// TestBrowserThatIsGoneIsOpenedAnew holds what is done after errors.
func TestBrowserThatIsGoneIsOpenedAnew(t *testing.T) {
	r, s := newBrowsed(t)
	s.open = &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "no engine", Retryable: true}
	r.refused(sandbox.CodeUnavailable, "browser", obj{"action": "extract"})
	s.open = nil
	s.next = &sandbox.Error{Code: sandbox.CodeNotFound, Message: "no element"}
	r.refused(sandbox.CodeNotFound, "browser", obj{"action": "click", "selector": "a"})
	r.call("browser", obj{"action": "extract"})
	if s.opened != 1 {
		t.Errorf("opened %d times after an error of the page", s.opened)
	}
	s.next = &sandbox.Error{Code: sandbox.CodeUnavailable, Message: "the page has crashed"}
	r.refused(sandbox.CodeUnavailable, "browser", obj{"action": "extract"})
	r.call("browser", obj{"action": "extract"})
	if s.opened != 2 || s.closed != 1 {
		t.Errorf("opened %d, closed %d", s.opened, s.closed)
	}
	s.next = errors.New("something else")
	r.refused(sandbox.CodeExecution, "browser", obj{"action": "extract"})
}

func TestBrowserTakesTurns(t *testing.T) {
	r, s := newBrowsed(t)
	ctx := deadline(t)
	errs := make(chan error)
	input := in(t, obj{"action": "click", "selector": "a"})
	for range 20 {
		go func() {
			_, err := r.Call(ctx, "browser", input, nil)
			errs <- err
		}()
	}
	for range 20 {
		must(t, <-errs)
	}
	if s.opened != 1 || len(s.asked) != 20 {
		t.Errorf("opened %d, asked %d", s.opened, len(s.asked))
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Nanosecond)
	defer cancel()
	<-ctx.Done()
	if _, err := r.Call(ctx, "browser", input, nil); err != nil && sandbox.CodeOf(err) != sandbox.CodeTimeout {
		t.Errorf("%v", err)
	}
}
