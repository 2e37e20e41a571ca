package display_test

import (
	"encoding/json"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestStartAndStop checks the result of starting a browser, and that it is
// gone after the stop.
func TestStartAndStop(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	first, err := r.Start(ctx, of("a"))
	must(t, err)
	if !first.Created || !first.Sandbox || !first.Headless || first.Network != "none" || first.NotIsolated || !strings.HasPrefix(first.Version, "Chrome/") {
		t.Errorf("started %+v", first)
	}
	t.Logf("ready after %v", first.Ready.Round(time.Millisecond))
	again, err := r.Start(ctx, of("a"))
	must(t, err)
	if again.Created || again.Name != first.Name {
		t.Errorf("again %+v", again)
	}
	other, err := r.Start(ctx, of("b"))
	must(t, err)
	if other.Name == first.Name {
		t.Error("two sessions share a browser")
	}
	removed, name, err := r.Stop(ctx, of("a"), false)
	must(t, err)
	if !removed || name != first.Name {
		t.Errorf("stopped %v %s", removed, name)
	}
	if removed, _, err := r.Stop(ctx, of("a"), false); err != nil || removed {
		t.Errorf("stopped again: %v, %v", removed, err)
	}
}

// TestServe checks that a CDP proxy serves the browser, is shared by all
// callers, and ends with the last of them or with the browser.
func TestServe(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	one, err := r.Serve(ctx, of("a"))
	must(t, err)
	two, err := r.Serve(ctx, of("a"))
	must(t, err)
	if one.HTTPURL != two.HTTPURL || one.Token == "" || !strings.Contains(one.WebSocketDebuggerURL, "/devtools/browser/") {
		t.Errorf("%+v, %+v", one, two)
	}
	ask := func() (string, error) {
		resp, err := http.Get(one.HTTPURL + "json/version")
		if err != nil {
			return "", err
		}
		defer resp.Body.Close()
		b, err := io.ReadAll(resp.Body)
		var said struct{ Browser string }
		_ = json.Unmarshal(b, &said)
		return said.Browser, err
	}
	if said, err := ask(); err != nil || !strings.HasPrefix(said, "Chrome/") {
		t.Errorf("it says %q, %v", said, err)
	}
	must(t, one.Close())
	if said, err := ask(); err != nil || !strings.HasPrefix(said, "Chrome/") {
		t.Errorf("after one close: %q, %v", said, err)
	}
	if _, _, err := r.Stop(ctx, of("a"), false); err != nil {
		t.Fatal(err)
	}
	select {
	case <-two.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the bridge outlives its browser")
	}
	if err := two.Err(); !sandbox.IsNotFound(err) {
		t.Errorf("it ended with %v", err)
	}
	if _, err := ask(); err == nil {
		t.Error("somebody still answers")
	}
	http.DefaultClient.CloseIdleConnections()
}

// TestBridgeEndsWithTheBrowser checks that a CDP proxy notices the removal of
// its browser by another program.
func TestBridgeEndsWithTheBrowser(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	s, err := r.Serve(ctx, of("a"))
	must(t, err)
	if _, _, err := newDisplays(t, r.m).Stop(ctx, of("a"), false); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.Done():
	case <-time.After(30 * time.Second):
		t.Fatal("the bridge outlives its browser")
	}
	if !sandbox.IsNotFound(s.Err()) {
		t.Errorf("it ended with %v", s.Err())
	}
}

// TestSessionReachesWhatRulesLet checks that a session reaches the hosts that
// the rules name, through the egress proxy, and no others.
func TestSessionReachesWhatRulesLet(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	ctx := patient(t)
	req := of("a")
	req.Flags = &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: r.net.Allowed(testenv.Files)}}
	s, err := r.Session(ctx, req, browser.Rights{})
	must(t, err)
	defer s.Close()
	p, err := s.Navigate(ctx, r.net.URL("http", testenv.Files, "/greeting.txt"))
	must(t, err)
	if p.Status != 200 || r.net.Hits(testenv.Files) == 0 {
		t.Errorf("page %+v", p)
	}
	c, err := s.Extract(ctx, browser.Extraction{Text: true})
	must(t, err)
	if !strings.Contains(c.Text, strings.TrimSpace(testenv.Content)) {
		t.Errorf("text %q", c.Text)
	}
	if _, err := s.Navigate(ctx, r.net.URL("http", testenv.Other, "/greeting.txt")); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
		t.Errorf("the other host: %v", err)
	}
	if r.net.Hits(testenv.Other) != 0 {
		t.Error("the other host was reached")
	}
	// A name that only the proxy resolves to a private address is refused in
	// the same way.
	r.net.Names.Set("inner.test", testenv.Reply{Addrs: []netip.Addr{netip.MustParseAddr("10.1.2.3")}})
	named := of("b")
	named.Flags = &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: []string{"inner.test"}}}
	other, err := r.Session(ctx, named, browser.Rights{})
	must(t, err)
	defer other.Close()
	if p, err := other.Navigate(ctx, "http://inner.test/"); sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked || !strings.Contains(err.Error(), "(address)") {
		t.Errorf("a private address by name: %+v, %v", p, err)
	}
	if err := s.Click(ctx, "body"); sandbox.CodeOf(err) != sandbox.CodePermissionDeny {
		t.Errorf("a click without the right: %v", err)
	}
}

// TestStartThatFails checks that a browser that does not start leaves no
// container, and that the error contains the end of its log.
func TestStartThatFails(t *testing.T) {
	t.Parallel()
	r := on(t, `"image":"sandbox:bookworm-slim"`, "")
	ctx := patient(t)
	_, err := r.Start(ctx, of("a"))
	if sandbox.CodeOf(err) != sandbox.CodeUnavailable || !strings.Contains(err.Error(), "images build --browser") {
		t.Errorf("got %v", err)
	}
	if there, err := r.m.BrowserExists(ctx, of("a").Who, nil); err != nil || there {
		t.Errorf("left behind: %v, %v", there, err)
	}
}

// TestNotStartedByUse checks that without autoStart only start creates a
// browser.
func TestNotStartedByUse(t *testing.T) {
	t.Parallel()
	r := on(t, `"autoStart":false`, "")
	ctx := patient(t)
	if _, err := r.Serve(ctx, of("a")); !sandbox.IsNotFound(err) {
		t.Errorf("serve: %v", err)
	}
	if _, err := r.Session(ctx, of("a"), browser.Rights{}); !sandbox.IsNotFound(err) {
		t.Errorf("session: %v", err)
	}
	_, err := r.Start(ctx, of("a"))
	must(t, err)
	s, err := r.Session(ctx, of("a"), browser.Rights{})
	must(t, err)
	must(t, s.Close())
}

// TestWatchWantsADisplay checks that only a display can be watched.
func TestWatchWantsADisplay(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	if _, err := r.Watch(patient(t), of("a"), false); sandbox.CodeOf(err) != sandbox.CodeValidation {
		t.Errorf("a headless browser: %v", err)
	}
	headed := on(t, `"headless":false,"enableNoVnc":true`, "")
	ctx := patient(t)
	w, err := headed.Watch(ctx, of("a"), false)
	must(t, err)
	if !w.ViewOnly || len(w.Password) != 8 || !strings.Contains(w.URL, "127.0.0.1") {
		t.Errorf("watched %+v", w)
	}
	// A later watch ends the earlier.
	next, err := headed.Watch(ctx, of("a"), true)
	must(t, err)
	select {
	case <-w.Done():
	case <-time.After(30 * time.Second):
		t.Error("two watch one display")
	}
	if _, _, err := newDisplays(t, headed.m).Stop(ctx, of("a"), false); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("stopped while it is watched: %v", err)
	}
	must(t, next.Close())
	if next.Err() != nil {
		t.Error(next.Err())
	}
}
