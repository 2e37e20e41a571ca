package browser_test

import (
	"strings"
	"testing"
)

// refusesAddresses checks that a client of the protocol cannot open
// forbidden addresses, in any way of asking.
func refusesAddresses(t *testing.T, b *box) {
	c := b.drive()
	for _, address := range []string{
		"file:///etc/passwd", "file:///run/sandbox-browser/log", "file:///",
		"view-source:file:///etc/passwd", "view-source:http://a.invalid/", "view-source:chrome://version",
		"chrome://version", "chrome://policy", "chrome://settings", "chrome://newtab", "chrome://inspect",
		"chrome-untrusted://terminal", "chrome-search://local-ntp/", "chrome-error://chromewebdata/",
		"chrome-extension://aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa/x.html", "devtools://devtools/bundled/inspector.html",
		"data:text/html,<p>inside", "filesystem:http://a.invalid/temporary/x", "ftp://a.invalid/", "ws://a.invalid/",
		"blob:null/1b1f2c00-0000-0000-0000-000000000000", "content://a/b", "externalfile:a", "isolated-app://a/",
		"mailto:a@b.invalid", "intent:a",
	} {
		t.Run(address, func(t *testing.T) {
			c.t = t
			if why := c.open(c.page("about:blank"), address); why == "" {
				t.Error("Page.navigate opens it")
			}
			if got := c.settled(c.page(address)); strings.Contains(got, "root:") || strings.Contains(got, "inside") ||
				!strings.HasPrefix(got, "chrome-error:") && !strings.HasPrefix(got, "about:blank") {
				t.Errorf("Target.createTarget opens %q", got)
			}
		})
	}
}

// TestImageOpensWhatItMay is the control of refusesAddresses: the same requests
// reach allowed addresses. No server listens at the egress proxy's port.
func TestImageOpensWhatItMay(t *testing.T) {
	t.Parallel()
	c := browserBox(t, map[string]string{"SCHEMES": "http,https,data"}).drive()
	for address, want := range map[string]string{
		"http://a.invalid/":        "net::ERR_PROXY_CONNECTION_FAILED",
		"https://a.invalid/":       "net::ERR_PROXY_CONNECTION_FAILED",
		"http://127.0.0.1:9222/":   "net::ERR_PROXY_CONNECTION_FAILED",
		"http://localhost:9222/":   "net::ERR_PROXY_CONNECTION_FAILED",
		"data:text/html,<p>inside": "",
		"about:blank":              "",
		"file:///etc/passwd":       "net::ERR_BLOCKED_BY_ADMINISTRATOR",
	} {
		if why := c.open(c.page("about:blank"), address); why != want {
			t.Errorf("%s: %q, want %q", address, why, want)
		}
	}
	if got := c.settled(c.page("data:text/html,<p>inside")); !strings.Contains(got, "inside") {
		t.Errorf("data: shows %q", got)
	}
	// A frame or script cannot reach an address that only some documents may
	// open.
	if got := c.page("data:text/html,<iframe src='file:///etc/passwd'></iframe><script>location='file:///etc/passwd'</script>"); strings.Contains(c.settled(got), "root:") {
		t.Error("a page opens a file")
	}
}

// policyIsClosedForWriting checks that no download can add to the
// rules.
func policyIsClosedForWriting(t *testing.T, b *box) {
	if out, status := b.try("echo {} >/etc/chromium/policies/managed/more.json"); status == 0 || !strings.Contains(out, "Permission denied") {
		t.Errorf("status %d, %q", status, out)
	}
	if out, status := b.try("echo {} >>/etc/chromium/policies/managed/session.json"); status == 0 || !strings.Contains(out, "Permission denied") {
		t.Errorf("status %d, %q", status, out)
	}
}

// TestImageDownloads checks that a download is made only where settings allow
// it. The protocol has a call that makes the browser forget this, see
// keepsDownloadsInside.
func TestImageDownloads(t *testing.T) {
	t.Parallel()
	for setting, want := range map[string]string{"0": "canceled", "1": "completed"} {
		t.Run("DOWNLOADS="+setting, func(t *testing.T) {
			b := browserBox(t, map[string]string{"DOWNLOADS": setting, "SCHEMES": "http,data"})
			if got := b.drive().download("default", ""); got != want {
				t.Errorf("the download is %s, want %s", got, want)
			}
			if setting == "0" {
				t.Run("keeps downloads inside", func(t *testing.T) { keepsDownloadsInside(t, b.of(t)) })
			} else {
				t.Run("policy is closed for writing", func(t *testing.T) { policyIsClosedForWriting(t, b.of(t)) })
			}
		})
	}
}

// keepsDownloadsInside checks what the image cannot prevent, and its
// bounds: a client that sets a download behaviour of its own overrules the
// browser's policy. The files it writes are in the memory of this container,
// and cannot change the policies.
func keepsDownloadsInside(t *testing.T, b *box) {
	const rules = "/run/sandbox-browser/policies"
	if got := b.drive().download("allow", rules); got == "completed" {
		t.Errorf("a driver adds to the rules: %s", b.sh("ls "+rules))
	}
	if got := b.sh("ls " + rules); got != "fixed.json\nsession.json\n" {
		t.Errorf("rules: %q", got)
	}
}

// download clicks on a download and returns how it ended. It clicks again,
// since a busy browser was seen to miss a click.
func (c *cdp) download(behavior, folder string) string {
	c.t.Helper()
	c.must("", "Browser.setDownloadBehavior", map[string]any{"behavior": behavior, "downloadPath": folder, "eventsEnabled": true}, nil)
	page := c.page("data:text/html,<a download=file.json href='data:application/octet-stream,abc'>get</a>")
	c.settled(page)
	c.must(page, "Runtime.evaluate", map[string]any{"expression": "(click => { setTimeout(click); setInterval(click, 10000) })(() => document.querySelector('a').click())", "userGesture": true}, nil)
	for {
		if state := c.event("Browser.downloadProgress", "state"); state != "inProgress" {
			return state
		}
	}
}

// loadsNoExtension checks that a client cannot load an extension.
func loadsNoExtension(t *testing.T, b *box) {
	b.sh(`mkdir /tmp/ext && echo '{"name":"x","version":"1","manifest_version":3}' >/tmp/ext/manifest.json`)
	if err := b.drive().call("", "Extensions.loadUnpacked", map[string]any{"path": "/tmp/ext"}, nil); err == nil {
		t.Error("an extension was loaded")
	}
}
