package attack_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
)

// TestExtensions checks that no client can add an extension to the browser.
// The control is that the manifest is one that Chromium accepts: the policy
// refuses it, and not its content.
func TestExtensions(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	r.net.Handle(evil, http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		if strings.HasSuffix(q.URL.Path, ".crx") {
			w.Header().Set("Content-Type", "application/x-chrome-extension")
			fmt.Fprint(w, "Cr24\x03\x00\x00\x00")
			return
		}
		html("evil")(w, q)
	}))
	req := r.of("a", evil)
	c := r.client(t, req)
	in := r.inside(t, req)
	sh(t, in, `mkdir -p /tmp/extension && echo '{"manifest_version":3,"name":"x","version":"1","background":{"service_worker":"x.js"}}' >/tmp/extension/manifest.json && echo >/tmp/extension/x.js`)
	_, page := c.page(r.net.URL("http", evil, "/"))
	c.shows(page, "evil")
	for name, do := range map[string]func() error{
		"loaded by the protocol": func() error { return c.call("", "Extensions.loadUnpacked", object{"path": "/tmp/extension"}, nil) },
		"loaded for private use": func() error {
			return c.call("", "Extensions.loadUnpacked", object{"path": "/tmp/extension", "enableInIncognito": true}, nil)
		},
		"archive that is opened": func() error {
			return c.call(page, "Page.navigate", object{"url": r.net.URL("http", evil, "/x.crx")}, nil)
		},
		"page of the store": func() error {
			return c.call(page, "Page.navigate", object{"url": "https://chromewebstore.google.com/"}, nil)
		},
		"page of the extensions": func() error { return c.call(page, "Page.navigate", object{"url": "chrome://extensions/"}, nil) },
		"installed as application": func() error {
			return c.call(page, "PWA.install", object{"manifestId": r.net.URL("http", evil, "/")}, nil)
		},
		"storage of another's": func() error {
			return c.call("", "Extensions.getStorageItems", object{"id": "mhjfbmdgcfjbbpaeojofohoefgiehjai", "storageArea": "local"}, nil)
		},
		"front end of the protocol": func() error {
			return c.call("", "Target.createTarget", object{"url": "devtools://devtools/bundled/devtools_app.html"}, nil)
		},
	} {
		t.Run(name, func(t *testing.T) {
			if err := do(); strings.HasPrefix(name, "loaded") && (err == nil || !strings.Contains(err.Error(), "administrator")) {
				t.Errorf("refused by something else than the rule: %v", err)
			}
			var all struct{ Extensions []any }
			if err := c.call("", "Extensions.getExtensions", nil, &all); err == nil && len(all.Extensions) > 0 {
				t.Errorf("there is one: %v", all.Extensions)
			}
			for _, d := range c.documents() {
				if !harmless(d) {
					t.Errorf("%s is shown", d)
				}
			}
		})
	}
	t.Run("second browser with the flag", func(t *testing.T) {
		out := sh(t, in, `tr '\0' '\n' </proc/$(pgrep -o chromium)/cmdline | grep -c -e --load-extension || true`)
		if out != "0" {
			t.Errorf("%s such flags", out)
		}
		if out := sh(t, in, `ls -ld /etc/chromium/policies/managed/. 2>&1; echo x >/etc/chromium/policies/managed/x.json 2>&1 || echo refused`); !strings.Contains(out, "refused") {
			t.Errorf("the rules can be written: %s", out)
		}
	})
}
