//go:build linux

package tools

import (
	"context"
	"io"
	"strings"
	"testing"

	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
	"github.com/bulkhead-dev/sandbox/tools/schema"
)

// TestBrowserOnProviders drives a real browser on files of the workspace.
func TestBrowserOnProviders(t *testing.T) {
	testenv.Require(t, "browser")
	r := newDocker(t, `, "browser": {"enabled": true, "headless": true, "autoStartTimeout": "60s"}, "tools": {"alsoAllow": ["browser"]}`, func(o *Options) {
		log := logrus.New()
		log.SetOutput(io.Discard)
		d := display.New(manager.BrowserBackend(o.Manager.(*manager.Manager)), log)
		t.Cleanup(func() { d.Close() })
		o.Browser = func(ctx context.Context, who config.Who) (browser.Session, error) {
			return d.Session(ctx, display.Request{Who: who}, browser.Rights{Write: true})
		}
	})
	r.write("site/index.html", `<title>Form</title><input id=i><button id=b onclick="document.title='done';p.textContent='said '+i.value">go</button><p id=p>nothing</p><a href="other.html">on</a>`)
	if d := data[schema.BrowserResult](t, r.call("browser", obj{"action": "navigate", "url": "site/index.html"})); d.Title != "Form" {
		t.Errorf("%+v", d)
	}
	r.call("browser", obj{"action": "type", "selector": "#i", "text": "hello"})
	r.call("browser", obj{"action": "click", "selector": "#b"})
	r.call("browser", obj{"action": "wait", "text": "said hello", "timeout": 30})
	d := data[schema.BrowserResult](t, r.call("browser", obj{"action": "extract", "parts": []string{"text", "links"}}))
	if !strings.Contains(d.Text, "said hello") || len(d.Links) != 1 {
		t.Errorf("%+v", d)
	}
	if a := r.call("browser", obj{"action": "screenshot"}); len(a.Pictures) != 1 || len(a.Pictures[0].Data) < 100 {
		t.Errorf("%+v", a.Text)
	}
	r.call("browser", obj{"action": "screenshot", "path": "shot.png"})
	if d := data[schema.ReadResult](t, r.call("image", obj{"path": "shot.png"})); d.Width == 0 || d.MIME != "image/png" {
		t.Errorf("%+v", d)
	}
	r.call("browser", obj{"action": "pdf", "path": "page.pdf"})
	if d := data[schema.ReadResult](t, r.call("read", obj{"path": "page.pdf"})); d.Kind != "binary" || !strings.Contains(d.Hint, "PDF") {
		t.Errorf("%+v", d)
	}
	r.refused(sandbox.CodeCapabilityBlocked, "browser", obj{"action": "navigate", "url": "https://example.com/"})
	r.refused(sandbox.CodeNotFound, "browser", obj{"action": "click", "selector": "#none"})
	r.call("browser", obj{"action": "close"})
}
