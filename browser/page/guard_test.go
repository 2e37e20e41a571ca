package page

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
)

// refusedAddresses are addresses that are refused whatever the rules say.
var refusedAddresses = []string{
	"file:///etc/passwd", "FILE:///etc/passwd", "chrome://settings", "chrome://version/", "view-source:http://site.test/",
	"view-source:file:///etc/passwd", "devtools://devtools/bundled/inspector.html", "javascript:alert(1)", "data:text/html,x",
	"blob:http://site.test/x", "filesystem:http://site.test/temporary/x", "ftp://site.test/", "about:version", "ws://site.test/",
	"chrome-extension://abc/x.html", "http://user:pass@site.test/", "http://workspace.invalid/x.html", "http://other.test/",
}

func TestRefusedAddresses(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{"site.test": html("x")})
	s := p.open(t)
	for _, address := range refusedAddresses {
		t.Run(address, func(t *testing.T) {
			_, err := s.Navigate(t.Context(), address)
			if code := sandbox.CodeOf(err); code != sandbox.CodeCapabilityBlocked && code != sandbox.CodeValidation {
				t.Error(err)
			}
		})
	}
	if got := p.requests(""); len(got) != 0 {
		t.Errorf("the web was asked for %q", got)
	}
}

// TestPageGoesWhereItMayNot checks that a page cannot navigate the browser to
// an address that the caller could not have opened.
func TestPageGoesWhereItMayNot(t *testing.T) {
	ways := map[string]string{
		"script to a host":     `<script>location = 'http://other.test/'</script>`,
		"meta refresh":         `<meta http-equiv=refresh content="0;url=http://other.test/">`,
		"script to the files":  `<script>location = 'http://workspace.invalid/secret.html'</script>`,
		"form to the files":    `<form method=post action="http://workspace.invalid/secret.html"></form><script>document.forms[0].submit()</script>`,
		"form to a host":       `<form method=post action="http://other.test/"></form><script>document.forms[0].submit()</script>`,
		"script to a private":  `<script>location = 'http://127.0.0.1:9222/json'</script>`,
		"script to a metadata": `<script>location = 'http://169.254.169.254/latest'</script>`,
	}
	for name, page := range ways {
		t.Run(name, func(t *testing.T) {
			p := newPlace(t, map[string]http.HandlerFunc{"site.test": html(page)})
			p.file(t, "secret.html", "secret")
			s := p.open(t)
			// The page may have loaded before it leaves, or not.
			_, err := s.Navigate(t.Context(), "http://site.test/")
			if err == nil {
				err = s.Wait(t.Context(), browser.Condition{Text: "never there", Timeout: time.Minute})
			}
			want(t, err, sandbox.CodeCapabilityBlocked, "")
			if got := p.requests("other.test"); len(got) != 0 {
				t.Errorf("it was asked for: %q", got)
			}
			if got := text(t, s); strings.Contains(got, "secret") {
				t.Errorf("the page shows %q", got)
			}
		})
	}
}

func TestRedirects(t *testing.T) {
	to := func(address string) http.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, address, http.StatusFound) }
	}
	p := newPlace(t, map[string]http.HandlerFunc{
		"one.test": to("http://two.test/a"), "two.test": to("http://end.test/"), "end.test": html("<title>end</title>"),
		"out.test": to("http://other.test/x"), "loop.test": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, "http://loop.test/"+r.URL.Path+"x", http.StatusFound)
		},
		"files.test": to("http://workspace.invalid/secret.html"), "port.test": to("http://127.0.0.1:9222/json/version"),
		"file.test": to("file:///etc/passwd"), "data.test": to("data:text/html,x"),
	})
	p.file(t, "secret.html", "secret")
	s := p.open(t)
	got := visited(t, s, "http://one.test/")
	if got.URL != "http://end.test/" || strings.Join(got.Redirects, " ") != "http://one.test/ http://two.test/a" {
		t.Errorf("%+v", got)
	}
	for host, code := range map[string]sandbox.Code{
		"out.test": sandbox.CodeCapabilityBlocked, "loop.test": sandbox.CodeBudgetExceeded,
		"files.test": sandbox.CodeCapabilityBlocked, "port.test": sandbox.CodeCapabilityBlocked,
	} {
		_, err := s.Navigate(t.Context(), "http://"+host+"/")
		want(t, err, code, "")
	}
	for _, host := range []string{"file.test", "data.test"} {
		if page, err := s.Navigate(t.Context(), "http://"+host+"/"); err == nil {
			t.Errorf("%s leads to %+v", host, page)
		}
	}
	if got := p.requests("other.test"); len(got) != 0 {
		t.Errorf("it was asked for: %q", got)
	}
	if got := p.requests("loop.test"); len(got) != 6 {
		t.Errorf("%d hops", len(got))
	}
}

// TestFrames checks that frames of the page's own site and of others are
// judged alike, also when they navigate by themselves.
func TestFrames(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{
		"site.test": func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/leave" {
				html(`<script>location = 'http://other.test/from-same'</script>`)(w, r)
				return
			}
			html(`<iframe src="http://other.test/direct"></iframe><iframe src="http://frame.test/"></iframe><iframe src="/leave"></iframe>
				<iframe src="http://workspace.invalid/secret.html"></iframe><img src="http://workspace.invalid/secret.html">`)(w, r)
		},
		"frame.test": html(`in frame <iframe src="http://other.test/nested"></iframe><script>
			setTimeout(() => { fetch('http://site.test/late'); location = 'http://other.test/from-frame' }, 50)</script>`),
	})
	p.file(t, "secret.html", "secret")
	s := p.open(t)
	visited(t, s, "http://site.test/")
	await(t, func() bool { return len(p.requests("frame.test")) > 0 && len(p.requests("/late")) > 0 })
	visited(t, s, "http://site.test/?again")
	if got := p.requests("other.test"); len(got) != 0 {
		t.Errorf("it was asked for: %q", got)
	}
	if got := p.requests("workspace.invalid"); len(got) != 0 {
		t.Errorf("it was asked for: %q", got)
	}
}

// await waits for something that happens elsewhere.
func await(t testing.TB, so func() bool) {
	t.Helper()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for end := time.Now().Add(time.Minute); !so(); <-tick.C {
		if time.Now().After(end) {
			t.Fatal("it does not happen")
		}
	}
}

// TestWebAsksForFiles checks that a page of the web cannot learn anything
// about the workspace, even in a session that has opened a file.
func TestWebAsksForFiles(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{
		"site.test": html(`<p id=out>?</p><script>
			const tell = x => out.textContent += ' ' + x;
			const img = new Image(); img.onload = () => tell('loaded'); img.onerror = () => tell('image-no');
			img.src = 'http://workspace.invalid/x.svg';
			fetch('http://workspace.invalid/x.svg', {mode: 'no-cors'}).then(() => tell('fetched'), () => tell('fetch-no'));
			const s = document.createElement('script'); s.src = 'http://workspace.invalid/x.js';
			s.onload = () => tell('script'); s.onerror = () => tell('script-no'); document.body.append(s);
			</script>`),
	})
	p.file(t, "x.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="1" height="1"/>`)
	p.file(t, "x.js", `out.textContent += ' leaked'`)
	p.file(t, "x.html", `<iframe src="http://site.test/"></iframe><img src=x.svg id=own>`)
	s := p.open(t)
	visited(t, s, "x.html")
	visited(t, s, "http://site.test/")
	for _, no := range []string{"image-no", "fetch-no", "script-no"} {
		if err := s.Wait(t.Context(), browser.Condition{Text: no, Timeout: time.Minute}); err != nil {
			t.Errorf("%s: %v; %s", no, err, text(t, s))
		}
	}
	if got := text(t, s); strings.Contains(got, "loaded") || strings.Contains(got, "fetched") || strings.Contains(got, "leaked") {
		t.Error(got)
	}
}

// TestFilesOutOfReach checks that pages of the workspace read files of it only.
func TestFilesOutOfReach(t *testing.T) {
	p := newPlace(t, nil)
	out := filepath.Join(t.TempDir(), "outside.txt")
	if err := os.WriteFile(out, []byte("outside"), 0o644); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"out.txt": out, "in.txt": "plain.txt", "folder": "real"} {
		if err := os.Symlink(to, filepath.Join(p.dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	p.file(t, "plain.txt", "plain")
	p.file(t, "real/x.txt", "real")
	p.file(t, "x.html", `<p id=out></p><script>
		(async () => { for (const f of ['plain.txt', 'real/x.txt', 'out.txt', 'in.txt', 'folder/x.txt', '%2e%2e/x', '..%2fx', '%2fetc%2fpasswd', 'real', 'none'])
			await fetch(f).then(async r => out.append(f + '=' + r.status + (r.ok ? await r.text() : '') + ' '), () => out.append(f + '=no ')); out.append('end') })()</script>`)
	s := p.open(t)
	visited(t, s, "x.html")
	if err := s.Wait(t.Context(), browser.Condition{Text: "end", Timeout: time.Minute}); err != nil {
		t.Fatal(err)
	}
	const want = "plain.txt=200plain real/x.txt=200real out.txt=404 in.txt=404 folder/x.txt=404 %2e%2e/x=404 ..%2fx=no %2fetc%2fpasswd=no real=404 none=404 end"
	if got := text(t, s); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

func TestDialogsWindowsPermissions(t *testing.T) {
	p := newPlace(t, map[string]http.HandlerFunc{
		"site.test": html(`<p id=out>start</p><script>
			alert('a'); out.append(' confirm:' + confirm('b')); out.append(' prompt:' + prompt('c'));
			const w = window.open('http://site.test/window'); 
			addEventListener('beforeunload', e => { e.preventDefault(); e.returnValue = 'stay' });
			navigator.permissions.query({name: 'geolocation'}).then(x => out.append(' geo:' + x.state));
			out.append(' note:' + (self.Notification ? Notification.permission : 'denied'));
			</script>`),
		"next.test": html("next"),
	})
	s := p.open(t)
	visited(t, s, "http://site.test/")
	for _, says := range []string{"confirm:false", "prompt:null", "geo:denied", "note:denied"} {
		if err := s.Wait(t.Context(), browser.Condition{Text: says, Timeout: time.Minute}); err != nil {
			t.Errorf("%s: %v; %s", says, err, text(t, s))
		}
	}
	visited(t, s, "http://next.test/")
	if got := p.requests("/window"); len(got) != 0 {
		t.Errorf("the window was loaded: %q", got)
	}
	if got := text(t, s); got != "next" {
		t.Error(got)
	}
}
