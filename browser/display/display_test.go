package display_test

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/cdproto/cdp"
	"github.com/chromedp/cdproto/page"
	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"

	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/internal/testenv/dockertest"
	"github.com/bulkhead-dev/sandbox/provider/seccomp"
)

// A tab is a page that a test drives.
type tab struct {
	t   testing.TB
	ctx context.Context
}

// tabOf opens a tab in the browser behind the address of its WebSocket.
func tabOf(t testing.TB, ctx context.Context, address string) tab {
	t.Helper()
	allocated, done := remote.NewAllocator(ctx, address, remote.NoModifyURL)
	t.Cleanup(done)
	c, done := chromedp.NewContext(allocated)
	t.Cleanup(done)
	return tab{t, c}
}

func (b tab) do(steps ...chromedp.Action[chromedp.Void]) {
	b.t.Helper()
	must(b.t, chromedp.Do(b.ctx, steps...))
}

// script runs JavaScript for its effects.
func script(source string) chromedp.Action[chromedp.Void] {
	return func(ctx context.Context, t *chromedp.Target) (chromedp.Void, error) {
		_, err := chromedp.Evaluate[string](source+"; ''")(ctx, t)
		return chromedp.Void{}, err
	}
}

// text returns the value of a JavaScript expression, which is a string.
func (b tab) text(expression string) string {
	b.t.Helper()
	s, err := chromedp.Run(b.ctx, chromedp.Evaluate[string](expression))
	must(b.t, err)
	return s
}

// until waits until the expression is the text.
func (b tab) until(expression, want string) {
	b.t.Helper()
	for got := ""; ; {
		if got = b.text(expression); got == want {
			return
		}
		select {
		case <-b.ctx.Done():
			b.t.Fatalf("%s is %q, never %q", expression, got, want)
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// onHost returns a browser that reaches loopback addresses of this host, like
// the viewer's own browser; it runs in a container only to be available
// everywhere. The address is that of its WebSocket.
func onHost(t testing.TB, ctx context.Context) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	port := l.Addr().(*net.TCPAddr).Port
	must(t, l.Close())
	filter := filepath.Join(t.TempDir(), "seccomp.json")
	must(t, os.WriteFile(filter, []byte(seccomp.Browser()), 0o600))
	name := "sandbox-test-viewer-" + strings.ToLower(rand.Text())
	out, err := exec.CommandContext(ctx, "docker", "run", "--detach", "--rm", "--init", "--name", name,
		"--label", "dev.bulkhead.sandbox.test=viewer", "--network", "host", "--read-only", "--cap-drop", "ALL",
		"--security-opt", "no-new-privileges", "--security-opt", "seccomp="+filter, "--user", "4711:4711", "--env", "HOME=/home/sandbox",
		"--tmpfs", "/tmp:mode=1777", "--tmpfs", "/run:mode=700,uid=4711,gid=4711", "--tmpfs", "/home/sandbox:mode=700,uid=4711,gid=4711",
		"--env", "SANDBOX_BROWSER_CDP_PORT="+strconv.Itoa(port), "--env", "SANDBOX_BROWSER_PROXY=direct", "--env", "SANDBOX_BROWSER_START_TIMEOUT=60",
		"--entrypoint", "timeout", dockertest.BrowserImage, "300", browser.Program).CombinedOutput() // not for longer than any test, should this one be killed
	t.Cleanup(func() { _ = exec.Command("docker", "rm", "--force", name).Run() })
	if err != nil {
		t.Fatalf("docker run: %v: %s", err, out)
	}
	for {
		if address, err := webSocketOf(ctx, port); err == nil {
			return address
		}
		select {
		case <-ctx.Done():
			t.Fatal("the viewer's browser does not answer")
		case <-time.After(50 * time.Millisecond):
		}
	}
}

// webSocketOf asks the browser at a port of the host for the address.
func webSocketOf(ctx context.Context, port int) (string, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://127.0.0.1:%d/json/version", port), nil)
	if err != nil {
		return "", err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return "", err
	}
	defer resp.Body.Close()
	var said struct {
		URL string `json:"webSocketDebuggerUrl"`
	}
	err = json.NewDecoder(resp.Body).Decode(&said)
	return said.URL, err
}

// shown is the page on the display: it records its input events, and its
// colour can be changed.
const shown = `data:text/html,<title>-</title><body style="margin:0;background:rgb(200,0,0)"><script>` +
	`onmousedown=function(){document.title+='m'};onkeydown=function(e){document.title+=e.key}</script>`

// pixel is the middle of what noVNC draws, as "r,g,b".
const pixel = `(function(){var c=document.querySelector('canvas');if(!c||!c.width)return '';` +
	`return Array.from(c.getContext('2d').getImageData(c.width>>1,c.height>>1,1,1).data.slice(0,3)).join()})()`

// refused collects the violations of a page's content security policy.
const refused = `self.refused='';addEventListener('securitypolicyviolation',function(e){self.refused+=e.violatedDirective+' '+e.blockedURI+' '})`

// TestDisplay checks that noVNC, opened by the link in an ordinary browser,
// shows the display as it changes, without violations of the policy of its
// pages; that the link works once; that the display accepts keys and clicks
// with control and none without, whatever noVNC's settings are; and that
// nothing is visible after the end.
func TestDisplay(t *testing.T) {
	t.Parallel()
	r := on(t, `"headless":false,"enableNoVnc":true,"allowDataUrls":true`, "")
	ctx := patient(t)
	served, err := r.Serve(ctx, of("a"))
	must(t, err)
	defer served.Close()
	inside := tabOf(t, ctx, served.WebSocketDebuggerURL)
	inside.do(chromedp.Navigate(shown))
	viewer := onHost(t, ctx)

	// Without control first: input accepted by mistake is seen later.
	var screens []tab
	for _, control := range []bool{false, true} {
		w, err := r.Watch(ctx, of("a"), control)
		must(t, err)
		defer w.Close()
		screen := tabOf(t, ctx, viewer)
		screens = append(screens, screen)
		screen.do(chromedp.Func(func(ctx context.Context, t *chromedp.Target) error {
			_, err := cdp.Call(ctx, t, page.AddScriptToEvaluateOnNewDocument, page.AddScriptToEvaluateOnNewDocumentParams{Source: refused})
			return err
		}), chromedp.EmulateViewport(1300, 900), chromedp.Navigate(w.URL))
		// Only the server inside may block keys and clicks.
		screen.do(script(`location.hash=location.hash.replace('view_only=true','view_only=false')`), chromedp.Reload())
		screen.until(pixel, "200,0,0")
		if got := screen.text(`self.refused`); got != "" {
			t.Errorf("control %v: its policy stops %s", control, got)
		}
		resp, err := http.Get(w.URL)
		must(t, err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusUnauthorized {
			t.Errorf("control %v: the link works twice: %s", control, resp.Status)
		}
		screen.do(chromedp.MouseClickXY(650, 450), chromedp.KeyEvent(map[bool]string{false: "x", true: "y"}[control]))
		// The second colour is requested after the click and the key.
		for _, colour := range []string{"0,200,0", "0,0,200", "200,0,0"} {
			inside.do(script(`document.body.style.background='rgb(` + colour + `)'`))
			screen.until(pixel, colour)
		}
		if control {
			inside.until(`document.title`, "-my")
			must(t, w.Close())
			screen.until(`String(document.documentElement.classList.contains('noVNC_connected'))`, "false")
		}
	}
	screens[0].until(`String(document.documentElement.classList.contains('noVNC_connected'))`, "false")
}
