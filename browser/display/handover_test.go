package display_test

import (
	"context"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"

	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
)

// TestWayIsHandedOn checks that the clients of two programs use one browser,
// and that those of the second still reach the allowed hosts after the first,
// which had the browser's egress listener, has ended.
func TestWayIsHandedOn(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	req, address := r.shopping("a")
	second := newDisplays(t, newManager(t, dockertest.At(t, r.state), r.net, settings("", "")))
	tab := func(d *display.Display) context.Context {
		t.Helper()
		s, err := d.Serve(ctx, req)
		must(t, err)
		t.Cleanup(func() { s.Close() })
		allocated, done := remote.NewAllocator(ctx, s.WebSocketDebuggerURL, remote.NoModifyURL)
		t.Cleanup(done)
		tab, done := chromedp.NewContext(allocated, chromedp.WithNewBrowserContext())
		t.Cleanup(done)
		must(t, chromedp.Do(tab, chromedp.Navigate(address), chromedp.Click("#press")))
		return tab
	}
	tab(r.Display)
	other := tab(second)
	must(t, r.Display.Close())
	before := r.net.Hits(testenv.Files)
	until(t, "the second reaches the host", func() bool {
		return chromedp.Do(other, chromedp.Navigate(address), chromedp.Click("#press")) == nil
	})
	if r.net.Hits(testenv.Files) == before {
		t.Error("the page came from nowhere")
	}
}
