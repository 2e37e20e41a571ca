package display_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestHostBrowsersAreNotMixedUp checks that a request whose settings name one
// browser of the host does not get another one named by other settings.
func TestHostBrowsersAreNotMixedUp(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	ask := func(session string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = fmt.Fprintf(w, `{"Browser":%q,"webSocketDebuggerUrl":"ws://x/devtools/browser/a1"}`, "Of "+session)
		}))
		t.Cleanup(s.Close)
		req := of(session)
		req.Flags = &config.SandboxSettings{Browser: &config.BrowserSettings{AllowHostControl: new(true), HostCDPURL: new(s.URL)}}
		served, err := r.Serve(ctx, req)
		must(t, err)
		t.Cleanup(func() { served.Close() })
		resp, err := http.Get(served.HTTPURL + "json/version")
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		return string(body)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	for _, session := range []string{"a", "b"} {
		if said := ask(session); !strings.Contains(said, "Of "+session) {
			t.Errorf("%s is let into the browser that says %s", session, said)
		}
	}
}

// TestRulesAreShared checks that a request does not share the egress
// listener of a request with other rules.
func TestRulesAreShared(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	wide := of("a")
	wide.Flags = &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: r.net.Allowed("site.test")}}
	one, err := r.Serve(ctx, wide)
	must(t, err)
	if _, err := r.Serve(ctx, of("a")); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("let in by other rules: %v", err)
	}
	two, err := r.Serve(ctx, wide)
	must(t, err)
	must(t, two.Close())
	must(t, one.Close())
	three, err := r.Serve(ctx, of("a"))
	must(t, err)
	must(t, three.Close())
}

// TestDisplayShowsTheImagesPages checks that a viewer gets the noVNC of the
// image.
func TestDisplayShowsTheImagesPages(t *testing.T) {
	t.Parallel()
	r := on(t, `"headless":false,"enableNoVnc":true`, "")
	w, err := r.Watch(patient(t), of("a"), false)
	must(t, err)
	defer w.Close()
	jar, err := cookiejar.New(nil)
	must(t, err)
	client := http.Client{Jar: jar, Transport: &http.Transport{DisableKeepAlives: true}}
	get := func(address string) (int, string, string) {
		resp, err := client.Get(address)
		must(t, err)
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		return resp.StatusCode, string(body), resp.Request.URL.String()
	}
	status, body, at := get(w.URL)
	if status != http.StatusOK || !strings.Contains(body, "app/ui.js") {
		t.Errorf("the page: %d %.80q", status, body)
	}
	folder, _, _ := strings.Cut(at, "vnc.html")
	for name, want := range map[string]int{"core/rfb.js": http.StatusOK, "vendor/pako/lib/zlib/inflate.js": http.StatusOK, "app/images/none.svg": http.StatusNotFound} {
		if status, _, _ := get(folder + name); status != want {
			t.Errorf("%s: %d, want %d", name, status, want)
		}
	}
}

// TestWhatIsOpenOutlivesItsCall checks that the context of the call that
// opened a session or a CDP proxy bounds the opening alone.
func TestWhatIsOpenOutlivesItsCall(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	req := of("a")
	req.Flags = &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: r.net.Allowed(testenv.Files)}}
	ctx, cancel := context.WithCancel(patient(t))
	s, err := r.Session(ctx, req, browser.Rights{})
	must(t, err)
	defer s.Close()
	served, err := r.Serve(ctx, req)
	must(t, err)
	defer served.Close()
	cancel()
	if _, err := s.Navigate(patient(t), r.net.URL("http", testenv.Files, "/greeting.txt")); err != nil {
		t.Error(err)
	}
	client := http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	resp, err := client.Get(served.HTTPURL + "json/version")
	must(t, err)
	resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Error(resp.Status)
	}
}
