package display_test

import (
	"bytes"
	"encoding/json"
	"image/png"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/chromedp/chromedp"
	"github.com/chromedp/chromedp/remote"

	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// shop is a page with a cookie, a button and something to look at.
const shop = `<!doctype html><title>Shop</title>
<style>body { background: linear-gradient(red, blue); height: 400px }</style>
<button id="press" onclick="document.querySelector('#effect').textContent = 'pressed'">press</button>
<p id="effect">nothing yet</p><p id="cookies"></p>
<script>document.querySelector('#cookies').textContent = document.cookie; document.cookie = 'basket=full'</script>`

// shopping returns a request that allows the page at the address.
func (r *rig) shopping(session string) (req display.Request, address string) {
	r.net.Handle(testenv.Files, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		io.WriteString(w, shop)
	}))
	req = of(session)
	req.Flags = &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: r.net.Allowed(testenv.Files)}}
	return req, r.net.URL("http", testenv.Files, "/shop")
}

// checkPicture checks that a PNG has the size and more than one colour.
func checkPicture(t *testing.T, data []byte, width, height int) {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(data))
	if err != nil {
		t.Error(err)
		return
	}
	b := img.Bounds()
	if b.Dx() != width || b.Dy() != height {
		t.Errorf("the picture has %v", b.Size())
	}
	top, bottom := img.At(b.Dx()/2, 2), img.At(b.Dx()/2, 390)
	if top == bottom {
		t.Errorf("the picture is all %v", top)
	}
}

// TestPlaywright checks that an unmodified third-party client can use a CDP
// proxy, with the token in the URL and in a header, that the egress rules of
// the browser apply to it too, and that a browser closed by it runs again for
// the next use.
func TestPlaywright(t *testing.T) {
	t.Parallel()
	modules := testenv.Playwright(t)
	r := on(t, "", "")
	ctx := patient(t)
	req, address := r.shopping("a")
	s, err := r.Serve(ctx, req)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	plain := strings.TrimSuffix(s.HTTPURL, s.Token+"/")
	if plain == s.HTTPURL {
		t.Fatalf("the address is %q", s.HTTPURL)
	}
	for name, args := range map[string][]string{"path": {s.HTTPURL}, "websocket": {s.WebSocketDebuggerURL}, "header": {plain, s.Token}} {
		t.Run(name, func(t *testing.T) {
			if name == "websocket" { // that of a browser which ran once
				again, err := r.Serve(ctx, req)
				must(t, err)
				defer again.Close()
				args[0] = again.WebSocketDebuggerURL
			}
			picture := filepath.Join(t.TempDir(), "page.png")
			cmd := exec.CommandContext(ctx, "node", append([]string{"testdata/drive.cjs", args[0], address, picture}, args[1:]...)...)
			cmd.Env = append(os.Environ(), "NODE_PATH="+modules)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			out, err := cmd.Output()
			if err != nil {
				t.Fatalf("%v: %s", err, strings.ReplaceAll(stderr.String(), s.Token, "TOKEN"))
			}
			checkDriven(t, out)
			data, err := os.ReadFile(picture)
			must(t, err)
			checkPicture(t, data, 640, 480)
		})
	}
	if r.net.Hits(testenv.Other) != 0 {
		t.Error("a host was reached that no rule names")
	}
}

// checkDriven checks the output of drive.cjs.
func checkDriven(t *testing.T, out []byte) {
	t.Helper()
	var got struct {
		Status                int
		Effect, Seen, Version string
		Cookies               []string
		Blocked               map[string]string
	}
	must(t, json.Unmarshal(out, &got))
	if got.Status != 200 || got.Effect != "pressed" || got.Version == "" {
		t.Errorf("driven: %+v", got)
	}
	if !slices.Equal(got.Cookies, []string{"basket"}) || got.Seen != "" {
		t.Errorf("cookies %v, and the other context has %q", got.Cookies, got.Seen)
	}
	for _, a := range slices.Sorted(maps.Keys(got.Blocked)) {
		// The egress proxy answers for a host that no rule names.
		if got.Blocked[a] != "net::ERR_BLOCKED_BY_ADMINISTRATOR" && !strings.HasPrefix(got.Blocked[a], "403 ") {
			t.Errorf("%s: %s", a, got.Blocked[a])
		}
	}
	if len(got.Blocked) < 7 {
		t.Errorf("tried %v", got.Blocked)
	}
}

// TestChromedp checks the same for chromedp, used in its ordinary way.
func TestChromedp(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	req, address := r.shopping("a")
	for _, name := range []string{"path", "header"} {
		t.Run(name, func(t *testing.T) {
			// This client closes the browser at the end; the next has an
			// address of its own.
			s, err := r.Serve(ctx, req)
			must(t, err)
			defer s.Close()
			at, options := s.WebSocketDebuggerURL, []remote.Option{remote.NoModifyURL}
			if name == "header" {
				at = strings.Replace(at, s.Token+"/", "", 1)
				options = append(options, remote.WithDialHTTPHeader(http.Header{"Authorization": {"Bearer " + s.Token}}))
			}
			allocated, done := remote.NewAllocator(ctx, at, options...)
			defer done()
			tab, done := chromedp.NewContext(allocated, chromedp.WithNewBrowserContext())
			defer done()
			must(t, chromedp.Do(tab, chromedp.EmulateViewport(640, 480), chromedp.Navigate(address), chromedp.Click("#press")))
			effect, err := chromedp.Run(tab, chromedp.Text("#effect"))
			must(t, err)
			if effect != "pressed" {
				t.Errorf("the effect is %q", effect)
			}
			data, err := chromedp.Run(tab, chromedp.CaptureScreenshot())
			must(t, err)
			checkPicture(t, data, 640, 480)
			for _, a := range []string{"file:///etc/passwd", "chrome://version"} {
				if err := chromedp.Do(tab, chromedp.Navigate(a)); err == nil {
					t.Errorf("%s was opened", a)
				}
			}
		})
	}
}
