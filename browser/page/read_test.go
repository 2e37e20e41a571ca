package page

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

func shot(t testing.TB, s *session, o browser.Shot) (browser.Picture, image.Image) {
	t.Helper()
	p, err := s.Screenshot(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	i, form, err := image.Decode(bytes.NewReader(p.Data))
	if err != nil || "image/"+form != p.MIME || i.Bounds().Dx() != p.Width || i.Bounds().Dy() != p.Height {
		t.Fatalf("%v, %s, %dx%d of %v", err, p.MIME, p.Width, p.Height, i)
	}
	return p, i
}

func TestScreenshot(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", `<style>body { margin: 0; background: rgb(0,0,255) } #tall { height: 3000px } #box { position: absolute; top: 2000px; left: 10px; width: 30px; height: 20px; background: rgb(255,0,0) }</style><div id=tall></div><div id=box></div><div id=none style="display:none">`)
	s := p.open(t)
	visited(t, s, "x.html")
	if got, i := shot(t, s, browser.Shot{}); got.Width != 1280 || got.Height != 800 || !near(i.At(5, 5), 0, 0, 255) {
		t.Errorf("window: %dx%d %v", got.Width, got.Height, i.At(5, 5))
	}
	if got, _ := shot(t, s, browser.Shot{Width: 400, Height: 300, JPEG: 50}); got.Width != 400 || got.Height != 300 || got.MIME != "image/jpeg" {
		t.Errorf("jpeg: %dx%d", got.Width, got.Height)
	}
	if got, i := shot(t, s, browser.Shot{Full: true}); got.Width != 1280 || got.Height != 3000 || !near(i.At(20, 2010), 255, 0, 0) {
		t.Errorf("full: %dx%d", got.Width, got.Height)
	}
	if got, i := shot(t, s, browser.Shot{Selector: "#box"}); got.Width != 30 || got.Height != 20 || !near(i.At(15, 10), 255, 0, 0) {
		t.Errorf("element: %dx%d", got.Width, got.Height)
	}
	for _, bad := range []struct {
		shot browser.Shot
		code sandbox.Code
	}{
		{browser.Shot{Selector: "#missing"}, sandbox.CodeNotFound}, {browser.Shot{Selector: "#none"}, sandbox.CodeExecution},
		{browser.Shot{Selector: "]["}, sandbox.CodeValidation}, {browser.Shot{Selector: "#box", Full: true}, sandbox.CodeValidation},
		{browser.Shot{JPEG: 101}, sandbox.CodeValidation}, {browser.Shot{Width: -1}, sandbox.CodeValidation},
		{browser.Shot{Width: 16000, Height: 16000}, sandbox.CodeBudgetExceeded},
	} {
		_, err := s.Screenshot(t.Context(), bad.shot)
		want(t, err, bad.code, "")
	}
}

func near(c color.Color, r, g, b uint32) bool {
	cr, cg, cb, _ := c.RGBA()
	return cr>>8 == r && cg>>8 == g && cb>>8 == b
}

func TestScreenshotLimits(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", `<div style="height: 200000px; width: 5000px">`)
	p.settings.Limits.ScreenshotPixels = 1280 * 1000
	p.settings.Limits.ScreenshotsPerMinute = 2
	now := time.Unix(1000, 0)
	s := p.openAs(t, browser.Rights{}, Options{Now: func() time.Time { return now }})
	visited(t, s, "x.html")
	_, err := s.Screenshot(t.Context(), browser.Shot{Full: true})
	want(t, err, sandbox.CodeBudgetExceeded, "screenshotPixels")
	shot(t, s, browser.Shot{})
	_, err = s.Screenshot(t.Context(), browser.Shot{})
	want(t, err, sandbox.CodeBudgetExceeded, "screenshotsPerMinute")
	now = now.Add(time.Minute)
	shot(t, s, browser.Shot{})
}

func TestExtract(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": html(`<title>The title</title><h1>Head</h1>
		<p>seen <span style="display:none">hidden</span><a href="/next?x#y"> to the <b>next</b> </a><a href="http://far.test/">far</a>
		<a href="javascript:alert(1)">no</a><a href="mailto:a@b">no</a><map><area href="/area"></map>
		<button aria-label="Send it">x</button><input value="typed" aria-label="Field">
		<form name="body"><input name="innerText"></form><img name="querySelectorAll"><img name="title">
		<script>document.querySelectorAll = () => []; Document.prototype.querySelectorAll = () => []; String.prototype.slice = () => 'forged';
		Object.defineProperty(HTMLElement.prototype, 'innerText', {get: () => 'forged'})</script>`)})
	s := p.open(t)
	visited(t, s, "http://site.test/")
	c, err := s.Extract(t.Context(), browser.Extraction{Text: true, Links: true, Tree: true})
	if err != nil {
		t.Fatal(err)
	}
	if c.Title != "The title" || c.URL != "http://site.test/" || c.Truncated {
		t.Errorf("%+v", c)
	}
	if !strings.Contains(c.Text, "Head") || !strings.Contains(c.Text, "seen to the next") || strings.Contains(c.Text, "hidden") || strings.Contains(c.Text, "forged") {
		t.Errorf("text %q", c.Text)
	}
	want := []browser.Link{{Text: "to the next", URL: "http://site.test/next?x#y"}, {Text: "far", URL: "http://far.test/"}, {URL: "http://site.test/area"}}
	if !slices.Equal(c.Links, want) {
		t.Errorf("links %+v", c.Links)
	}
	tree := fmt.Sprint(c.Tree)
	for _, has := range []string{"heading Head", "button Send it", "textbox Field typed", "link to the next"} {
		if !strings.Contains(tree, has) {
			t.Errorf("no %q in %s", has, tree)
		}
	}
}

func TestExtractBounds(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", "<p>"+strings.Repeat("é", 5000)+strings.Repeat(`<a href="y.html">l</a>`, 50))
	s := p.open(t)
	visited(t, s, "x.html")
	for _, o := range []browser.Extraction{{Text: true, MaxText: 101}, {Links: true, MaxLinks: 7}, {Tree: true, MaxNodes: 9}} {
		c, err := s.Extract(t.Context(), o)
		if err != nil || !c.Truncated || len(c.Text) > 101 || len(c.Links) > 7 || len(c.Tree) > 9 {
			t.Errorf("%+v: %v, %d bytes, %d links, %d nodes, truncated %v", o, err, len(c.Text), len(c.Links), len(c.Tree), c.Truncated)
		}
		if o.Links && c.Links[0].URL != "workspace:y.html" {
			t.Errorf("%+v", c.Links[0])
		}
	}
	_, err := s.Extract(t.Context(), browser.Extraction{MaxText: 1 << 40})
	want(t, err, sandbox.CodeValidation, "maxText")
}

func TestPDF(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", "<p>print me")
	s := p.open(t)
	visited(t, s, "x.html")
	data, err := s.PDF(t.Context())
	if err != nil || !bytes.HasPrefix(data, []byte("%PDF-")) || !bytes.Contains(data[len(data)-32:], []byte("%%EOF")) {
		t.Errorf("%v, %d bytes", err, len(data))
	}
	p.settings.Limits.TransferBytes = 100
	s = p.open(t)
	visited(t, s, "x.html")
	_, err = s.PDF(t.Context())
	want(t, err, sandbox.CodeBudgetExceeded, "transferBytes")
}

func TestWait(t *testing.T) {
	p := newPlace(t, nil)
	p.file(t, "x.html", `<div id=old>old</div><div id=new hidden>new</div><script>setTimeout(() => { old.remove(); document.getElementById('new').hidden = false; document.body.append('arrived') }, 300)</script>`)
	s := p.open(t)
	visited(t, s, "x.html")
	for _, c := range []browser.Condition{{Visible: "#new"}, {Gone: "#old"}, {Text: "arrived"}} {
		if err := s.Wait(t.Context(), c); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
	for _, bad := range []struct {
		c    browser.Condition
		code sandbox.Code
	}{
		{browser.Condition{Visible: "#nothing", Timeout: 200 * time.Millisecond}, sandbox.CodeTimeout},
		{browser.Condition{Visible: "]["}, sandbox.CodeValidation}, {browser.Condition{}, sandbox.CodeValidation},
		{browser.Condition{Visible: "p", Text: "x"}, sandbox.CodeValidation},
	} {
		want(t, s.Wait(t.Context(), bad.c), bad.code, "")
	}
}
