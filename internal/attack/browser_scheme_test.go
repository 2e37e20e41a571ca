package attack_test

import (
	"encoding/json"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// forbidden are addresses that no page and no client with the token may open.
var forbidden = map[string]string{
	"file":                           "file:///etc/passwd",
	"file of localhost":              "file://localhost/etc/passwd",
	"file in other case":             "FiLe:///etc/passwd",
	"file with one stroke":           "file:/etc/passwd",
	"file with four strokes":         "file:////etc/passwd",
	"file behind dots":               "file:///tmp/%2e%2e/etc/passwd",
	"folder":                         "file:///",
	"source of a file":               "view-source:file:///etc/passwd",
	"source of a page":               "view-source:http://evil.test/",
	"source in other case":           "View-Source:http://evil.test/",
	"version":                        "chrome://version/",
	"settings":                       "chrome://settings/",
	"settings in other case":         "CHROME://settings/",
	"flags":                          "chrome://flags/",
	"inspector of others":            "chrome://inspect/",
	"untrusted page of the browser":  "chrome-untrusted://pdf-viewer/",
	"search page of the browser":     "chrome-search://local-ntp/",
	"error page":                     "chrome-error://chromewebdata/",
	"front end of the tools":         "devtools://devtools/bundled/inspector.html",
	"extension":                      "chrome-extension://nmmhkkegccagdldgiimedpiccmgmieda/x.html",
	"data":                           "data:text/html,<p>here",
	"data in base64":                 "data:text/html;base64,PHA+aGVyZQ==",
	"data in other case":             "DATA:text/html,<p>here",
	"file system of a page":          "filesystem:http://evil.test/temporary/x",
	"file transfer":                  "ftp://evil.test/",
	"WebSocket":                      "ws://evil.test/",
	"content of a phone":             "content://x/y",
	"external file":                  "externalfile:x",
	"isolated application":           "isolated-app://x/",
	"scheme that nobody knows":       "nobody-knows:x",
	"archive":                        "jar:http://evil.test/x.jar!/x",
	"mail":                           "mailto:a@evil.test",
	"crash of the page":              crash,
	"script":                         "javascript:document.write('here')",
	"script in other case":           "JavaScript:document.write('here')",
	"frame's document at the top":    "about:srcdoc",
	"store of extensions":            "https://chromewebstore.google.com/",
	"archive of an extension's host": "https://clients2.google.com/service/update2/crx",
}

// harmless reports whether an address may be open in a document.
func harmless(address string) bool {
	u, err := url.Parse(address)
	if err != nil {
		return false
	}
	switch u.Scheme {
	case "about":
		return true // Chromium shows an empty document, whatever the rest is
	case "http":
		return u.Hostname() == evil || u.Hostname() == allowed
	case "":
		return address == "" || address == ":"
	}
	return false
}

// TestSchemes holds for one browser that neither clients nor pages open an address
// outside the web, and that sessions do not either.
func TestSchemes(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	arrived := &forwarded{}
	r.net.Handle(evil, attacker())
	r.net.Handle(allowed, arrived)
	req := r.of("a", evil, allowed)
	c := r.client(t, req)
	t.Run("clients", func(t *testing.T) { schemesOfClients(t, r, c, arrived) })
	t.Run("pages", func(t *testing.T) { schemesOfPages(t, r, c, arrived) })
	t.Run("sessions", func(t *testing.T) { schemesOfSessions(t, r, r.session(t, req, false)) })
}

// schemesOfClients checks that policies of the browser refuse addresses
// outside the web to clients with the token.
func schemesOfClients(t *testing.T, r *rig, c *client, arrived *forwarded) {
	_, page := c.page("about:blank")
	open := map[string]func(address string) error{
		"navigated to": func(address string) error {
			s := page
			if address == crash {
				_, s = c.page("about:blank")
			}
			return c.call(s, "Page.navigate", object{"url": address}, nil)
		},
		"opened": func(address string) error {
			return c.call("", "Target.createTarget", object{"url": address}, nil)
		},
	}
	for _, way := range []string{"navigated to", "opened"} { // the first needs its page
		do := open[way]
		control := "/client/" + strings.ReplaceAll(way, " ", "-")
		must(t, do(r.net.URL("http", allowed, control)))
		await(t, "the control arrives", func() bool { return arrived.has(control) })
		await(t, way+": the control is shown", func() bool {
			return slices.Contains(c.documents(), r.net.URL("http", allowed, control))
		})
		for name, address := range forbidden {
			if way == "opened" && (halts(address) || !testenv.All() && slices.Contains(spellings, name)) {
				continue
			}
			t.Run(way+"/"+name, func(t *testing.T) {
				_ = do(address) // some are errors, some pages that say so
				for _, d := range c.documents() {
					if !harmless(d) {
						t.Errorf("%s is shown", d)
					}
				}
				if way == "opened" {
					c.empty(t)
				}
			})
		}
		c.empty(t)
	}
}

// crash is an address that ends the process of the page that is at it.
const crash = "chrome://crash/"

// halts reports whether a new page at the address never gets a document. There
// is nothing to see on it.
func halts(address string) bool {
	scheme, _, _ := strings.Cut(strings.ToLower(address), ":")
	return scheme == "javascript" || address == crash
}

// leaves reports whether an address would be passed to another program. A
// frame that is redirected to one ends this Chromium, see
// [TestPageEndsTheBrowser].
func leaves(address string) bool {
	scheme, _, _ := strings.Cut(address, ":")
	return slices.Contains([]string{"content", "externalfile", "jar", "mailto", "nobody-knows"}, scheme)
}

// TestPageEndsTheBrowser checks that a page that crashes the browser, which is
// possible, shows nothing by it, and that the browser runs again for the next
// use.
func TestPageEndsTheBrowser(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	r.net.Handle(evil, attacker())
	req := r.of("a", evil, allowed)
	c := r.client(t, req)
	_, s := c.page(r.net.URL("http", evil, "/"))
	c.shows(s, "evil")
	frame := r.net.URL("http", evil, "/way/redirect?to="+url.QueryEscape("nobody-knows:x"))
	_ = c.call(s, "Runtime.evaluate", object{"expression": `document.body.append(Object.assign(document.createElement('iframe'), {src: '` + frame + `'}))`}, nil)
	select {
	case <-c.gone:
	case <-time.After(callTime): // another version of Chromium does not crash
	}
	if _, err := r.session(t, req, false).Navigate(patient(t), r.net.URL("http", evil, "/")); err != nil {
		t.Error(err)
	}
}

// spellings are those of the forbidden addresses that name what another one does:
// whichever way they are opened, the same part of the browser has read them.
var spellings = []string{
	"file of localhost", "file in other case", "file with one stroke", "file with four strokes", "file behind dots", "folder", "source in other case", "settings in other case",
	"flags", "inspector of others", "data in base64", "data in other case", "script in other case",
}

// schemesOfPages checks that a page cannot open such an address by any
// technique: each is tried with all of them in frames of one page, and one of them
// with all spellings too.
func schemesOfPages(t *testing.T, r *rig, c *client, arrived *forwarded) {
	for _, way := range wayNames() {
		t.Run(way, func(t *testing.T) {
			path := "/way/" + strings.ReplaceAll(way, " ", "-")
			var frames []string
			for name, address := range forbidden {
				if way == "redirect" && leaves(address) || way != "script" && !testenv.All() && slices.Contains(spellings, name) {
					continue
				}
				frames = append(frames, r.net.URL("http", evil, "/way/"+url.PathEscape(way)+"?to="+url.QueryEscape(address)))
			}
			frames = append(frames, r.net.URL("http", evil, "/way/"+url.PathEscape(way)+"?to="+url.QueryEscape(r.net.URL("http", allowed, path))))
			list, err := json.Marshal(frames)
			must(t, err)
			target, s := c.page(r.net.URL("http", evil, "/"))
			c.shows(s, "evil")
			if _, ok := c.eval(s, `Promise.all(`+string(list)+`.map(u => new Promise(done => { const f = document.createElement('iframe'); f.onload = done; f.src = u; document.body.append(f); setTimeout(done, 700) }))).then(() => 1)`); !ok {
				t.Fatal("the page does not come to it")
			}
			await(t, "the control arrives", func() bool { return arrived.has(path) })
			for _, d := range c.documents() {
				if !harmless(d) {
					t.Errorf("%s is shown", d)
				}
			}
			c.closePage(target)
			c.empty(t)
		})
	}
}

// schemesOfSessions checks that a session itself refuses such addresses,
// with a reason, before the browser is asked.
func schemesOfSessions(t *testing.T, r *rig, s browser.Session) {
	for name, address := range forbidden {
		t.Run(name, func(t *testing.T) {
			if address == "about:srcdoc" {
				address = "about:version"
			}
			_, err := s.Navigate(patient(t), address)
			e, ok := err.(*sandbox.Error)
			if !ok || e.Code != sandbox.CodeCapabilityBlocked || e.Message == "" || e.Field == "" {
				t.Errorf("%+v", err)
			}
		})
	}
	for name, address := range map[string]string{"empty page": "about:blank", "page of the web": r.net.URL("http", evil, "/")} {
		t.Run("control/"+name, func(t *testing.T) {
			if _, err := s.Navigate(patient(t), address); err != nil {
				t.Error(err)
			}
		})
	}
}
