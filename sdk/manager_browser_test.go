package sdk_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv/served"
	"github.com/bulkhead-dev/sandbox/server/resource"
)

// A desk has a browser in memory and notes the last request.
type displayManager struct {
	resource.Displays // what no test here calls
	asked             display.Request
	force             bool
	target            string
	shot              browser.Shot
}

func (d *displayManager) Start(_ context.Context, r display.Request) (display.Started, error) {
	d.asked = r
	return started(), nil
}

func started() display.Started {
	return display.Started{Name: "sbx-browser-x", Version: "Chromium 156", Created: true, Ready: 7, Sandbox: true, Headless: true, Network: "own", NotIsolated: true}
}

func (d *displayManager) Stop(_ context.Context, r display.Request, force bool) (bool, string, error) {
	d.asked, d.force = r, force
	return true, "sbx-browser-x", nil
}

func (d *displayManager) Session(_ context.Context, r display.Request, _ browser.Rights) (browser.Session, error) {
	d.asked = r
	return openPage{d: d}, nil
}

type openPage struct {
	browser.Session
	d *displayManager
}

func (s openPage) Navigate(_ context.Context, address string) (browser.Page, error) {
	s.d.target = address
	return browser.Page{URL: address, Title: "T", Status: 200}, nil
}

func (s openPage) Screenshot(_ context.Context, o browser.Shot) (browser.Picture, error) {
	s.d.shot = o
	return browser.Picture{Data: []byte("picture"), MIME: "image/jpeg", Width: 3, Height: 2}, nil
}

func (openPage) Close() error { return nil }

// TestBrowsers holds that what is asked of a browser arrives, and comes back.
func TestBrowsers(t *testing.T) {
	x := &displayManager{}
	r := &managerRig{T: t, ctx: t.Context(), Rig: served.New(t, served.Options{Resources: func(r *served.Rig) []resource.Resource {
		b := resource.NewBrowsers(x, r.Manager, r.Log)
		t.Cleanup(func() {
			if err := b.Close(context.Background()); err != nil {
				t.Error(err)
			}
		})
		return []resource.Resource{b}
	}})}
	req := display.Request{Who: managerSession("s1"), Flags: config.Overrides{AllowDomains: []string{"a.test"}}.Layer()}
	admin := r.as("").Browsers()
	if s, err := admin.Start(r.ctx, req); err != nil || s != started() || x.asked.Who != req.Who || x.asked.Flags.Network.AllowedDomains[0] != "a.test" {
		t.Errorf("%+v, %v, asked %+v", s, err, x.asked)
	}
	shot := browser.Shot{Selector: "#a", Full: true, Width: 640, Height: 480, JPEG: 50}
	page, picture, err := admin.Shoot(r.ctx, req, "x.html", shot)
	if err != nil || page.URL != "x.html" || page.Title != "T" || string(picture.Data) != "picture" || picture.Width != 3 || x.shot != shot {
		t.Errorf("%+v, %+v, %v, asked %+v", page, picture, err, x.shot)
	}
	if removed, name, err := admin.Stop(r.ctx, req, true); err != nil || !removed || name != "sbx-browser-x" || !x.force {
		t.Errorf("%v, %q, %v", removed, name, err)
	}
	_, err = r.as("acme").Browsers().Start(r.ctx, req)
	r.code("a tenant gives flags", err, sandbox.CodePermissionDeny)
	_, err = admin.Serve(r.ctx, req)
	r.code("letting in", err, sandbox.CodeUnsupported)
	_, err = admin.Watch(r.ctx, req, false)
	r.code("looking", err, sandbox.CodeUnsupported)
}

// TestPicturesOfLiars holds that what is no picture is none.
func TestPicturesOfLiars(t *testing.T) {
	const picture = "UE5H"
	for name, lie := range map[string]string{
		"nothing": `{}`, "no page": fmt.Sprintf(`{"mime":"image/png","data":%q}`, picture), "no data": `{"page":{},"mime":"image/png"}`,
		"another kind": fmt.Sprintf(`{"page":{},"mime":"text/html\u001b[2J","data":%q}`, picture), "no base64": `{"page":{},"mime":"image/png","data":"*"}`,
	} {
		_, _, err := liar(t, "application/json", lie).Browsers().Shoot(t.Context(), display.Request{Who: managerSession("s1")}, "x", browser.Shot{})
		if c := sandbox.CodeOf(err); c != sandbox.CodeUnavailable && c != sandbox.CodeExecution {
			t.Errorf("%s: %v", name, err)
		}
	}
}
