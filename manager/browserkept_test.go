//go:build linux

package manager_test

import (
	"context"
	"net"
	"net/http"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/manager"
)

// TestKeptBrowserIsWhatItWasMade holds that a browser which is kept although
// settings changed is spoken to, described and started again as it was made,
// and that sessions in it may do only what both settings let.
func TestKeptBrowserIsWhatItWasMade(t *testing.T) {
	t.Parallel()
	const settings = `{"agents":{"defaults":{"sandbox":{"browser":{"enabled":true,"autoStartTimeout":"30s",`
	r := newRig(t)
	made := openBrowser(t, r.manager(settings+`"cdpPort":9333,"dangerouslyNoSandbox":true,"allowDataUrls":true}}}}}`), "web")
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	first, _, err := browser.Launch(ctx, made)
	must(t, err)

	kept := openBrowser(t, r.manager(settings+`"allowDownloads":true}}}}}`), "web")
	if kept.Created() || kept.Name() != made.Name() {
		t.Fatal("it was not kept")
	}
	s := kept.Settings()
	if s.CDPPort != 9333 || !s.NoSandbox {
		t.Errorf("it is said to listen at %d, without Chromium's sandbox: %v", s.CDPPort, s.NoSandbox)
	}
	if s.Downloads || slices.Contains(s.Schemes, "data") {
		t.Errorf("sessions may download: %v, open %v", s.Downloads, s.Schemes)
	}
	if v, _, err := browser.Launch(ctx, kept); err != nil || v.Path != first.Path { // which is that browser's own
		t.Errorf("another one was started: %+v after %+v, %v", v, first, err)
	}
	// It ends. Whoever starts the next one starts what was made.
	closeBrowser(t, kept)
	inBrowser(t, kept, "timeout 20 flock /run/sandbox-browser/lock true")
	if v, started, err := browser.Launch(ctx, kept); err != nil || !started || v.Path == first.Path {
		t.Fatalf("started %v: %+v after %+v, %v", started, v, first, err)
	}
	const policies = "cat /run/sandbox-browser/policies/session.json | grep -o 'data:\\*\\|DownloadRestrictions\": [0-9]'"
	if got := inBrowser(t, kept, policies); got != "data:*\nDownloadRestrictions\": 3" {
		t.Errorf("it was started with other policies: %q", got)
	}
}

// closeBrowser has the browser in b end itself.
func closeBrowser(t *testing.T, b *manager.Browser) {
	t.Helper()
	ctx, done := context.WithTimeout(context.Background(), 20*time.Second)
	defer done()
	v, err := browser.Probe(ctx, b)
	must(t, err)
	host := net.JoinHostPort("127.0.0.1", strconv.Itoa(b.Settings().CDPPort))
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return b.Dial(ctx, "tcp", host) }
	client := &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}
	c, _, err := websocket.Dial(ctx, "ws://"+host+v.Path, &websocket.DialOptions{HTTPClient: client})
	must(t, err)
	defer func() { _ = c.CloseNow() }()
	must(t, c.Write(ctx, websocket.MessageText, []byte(`{"id":1,"method":"Browser.close"}`)))
	for err == nil { // until it has
		_, _, err = c.Read(ctx)
	}
}
