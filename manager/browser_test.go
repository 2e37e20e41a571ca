//go:build linux

package manager_test

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/manager"
)

// withBrowser are settings that let every agent have a browser.
const withBrowser = `{"agents":{"defaults":{"sandbox":{"browser":{"enabled":true,"autoStartTimeout":"60s"}}}}}`

func openBrowser(t *testing.T, m *manager.Manager, session string) *manager.Browser {
	t.Helper()
	testenv.Require(t, "browser")
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	b, err := m.OpenBrowser(ctx, manager.BrowserRequest{Who: who(session)})
	must(t, err)
	t.Cleanup(func() { b.Close() })
	return b
}

// inBrowser runs a shell line in the browser's container.
func inBrowser(t *testing.T, b *manager.Browser, line string) string {
	t.Helper()
	var out strings.Builder
	p, err := b.Start(context.Background(), sandbox.Command{Args: []string{"sh", "-c", line}, Stdout: &out, Stderr: &out})
	must(t, err)
	_, err = p.Wait()
	must(t, err)
	return strings.TrimSpace(out.String())
}

// TestBrowserContainer holds that a browser's container is one of its own: made
// and found again like a sandbox's, and with nothing of the host in it.
func TestBrowserContainer(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(withBrowser)
	b := openBrowser(t, m, "web")
	if !b.Created() || !strings.HasPrefix(b.Name(), "sbx-browser-web-") {
		t.Errorf("created %v as %s", b.Created(), b.Name())
	}
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	begin := time.Now()
	v, started, err := browser.Launch(ctx, b)
	must(t, err)
	t.Logf("%s after %v", v.Browser, time.Since(begin).Round(time.Millisecond))
	if !started || !strings.Contains(v.Browser, "/") {
		t.Errorf("started %v: %+v", started, v)
	}
	for line, want := range map[string]string{
		"ls -A /workspace 2>/dev/null | wc -l":  "0",
		"ls /sys/class/net":                     "lo",
		"touch /usr/x 2>&1 | grep -c Read-only": "1",
		"env | grep -c SECRET":                  "0",
	} {
		if got := inBrowser(t, b, line); got != want {
			t.Errorf("%s: %q, want %q", line, got, want)
		}
	}
	l, err := m.List(ctx, manager.ListOptions{})
	must(t, err)
	if len(l.Browsers) != 1 || len(l.Containers) != 0 {
		t.Fatalf("listed: %+v", l)
	}
	row := l.Browsers[0]
	if row.Name != b.Name() || row.Kind != sandbox.KindBrowser || row.ConfigMatch == nil || !*row.ConfigMatch || row.ImageMatch == nil || !*row.ImageMatch {
		t.Errorf("row %+v", row)
	}
	again := openBrowser(t, m, "web")
	if again.Created() || again.Name() != b.Name() {
		t.Error("a second opening made another one")
	}
	if w, _, err := browser.Launch(ctx, again); err != nil || w.Path != v.Path { // which is that browser's own
		t.Errorf("the browser was started again: %+v after %+v, %v", w, v, err)
	}
}

// TestBrowserIsLeased checks that a browser in use cannot be removed, and that
// nothing of it is left when it is removed.
func TestBrowserIsLeased(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(withBrowser)
	b := openBrowser(t, m, "web")
	ctx := context.Background()
	if _, _, err := m.RemoveBrowser(ctx, who("web"), nil, false); sandbox.CodeOf(err) != sandbox.CodeBusy {
		t.Errorf("removed while open: %v", err)
	}
	must(t, b.Close())
	name, removed, err := m.RemoveBrowser(ctx, who("web"), nil, false)
	must(t, err)
	if !removed || name != b.Name() {
		t.Errorf("removed %v, %s", removed, name)
	}
	if _, removed, err := m.RemoveBrowser(ctx, who("web"), nil, false); err != nil || removed {
		t.Errorf("removed again: %v, %v", removed, err)
	}
	l, err := m.List(ctx, manager.ListOptions{})
	must(t, err)
	if len(l.Browsers) != 0 {
		t.Errorf("left: %+v", l.Browsers)
	}
	if entries, _ := os.ReadDir(r.state.Workspaces()); len(entries) != 0 {
		t.Errorf("workspaces: %v", entries)
	}
	if _, err := os.Stat(r.state.SocketPath(name)); !os.IsNotExist(err) {
		t.Errorf("the socket's folder: %v", err)
	}
}

// TestBrowserRemovedByForce holds that force takes a browser from its users.
func TestBrowserRemovedByForce(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(withBrowser)
	b := openBrowser(t, m, "web")
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	p, err := b.Start(ctx, sandbox.Command{Args: []string{"sleep", "86400"}})
	must(t, err)
	_, removed, err := m.RemoveBrowser(ctx, who("web"), nil, true)
	must(t, err)
	if _, err := p.Wait(); !removed || err == nil {
		t.Errorf("removed %v; the command ends with %v", removed, err)
	}
	if there, err := m.BrowserExists(ctx, who("web"), nil); err != nil || there {
		t.Errorf("still there: %v, %v", there, err)
	}
}

// TestBrowserOutlivesItsOpener holds that a browser runs on when the program
// that started it has gone, and that the next one finds it.
func TestBrowserOutlivesItsOpener(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	first := r.manager(withBrowser)
	b := openBrowser(t, first, "web")
	v, _, err := browser.Launch(ctx, b)
	must(t, err)
	must(t, b.Close())
	must(t, first.Close())
	again := openBrowser(t, r.manager(withBrowser), "web")
	w, _, err := browser.Launch(ctx, again)
	if err != nil || w.Path != v.Path { // which is that browser's own
		t.Errorf("it is %+v after %+v, %v", w, v, err)
	}
}

// TestBrowserIsRefused holds who gets no browser, and why.
func TestBrowserIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	ctx := context.Background()
	for _, c := range []struct {
		name, settings string
		req            manager.BrowserRequest
		code           sandbox.Code
		field          string
	}{
		{"off", "{}", manager.BrowserRequest{}, sandbox.CodeCapabilityBlocked, "browser.enabled"},
		{"strict", `{"agents":{"defaults":{"sandbox":{"preset":"strict"}}}}`, manager.BrowserRequest{}, sandbox.CodeCapabilityBlocked, "browser.enabled"},
		{"tool", withBrowser, manager.BrowserRequest{Tool: "browser"}, sandbox.CodeDenyTool, ""},
		{"not there", withBrowser, manager.BrowserRequest{MustExist: true}, sandbox.CodeNotFound, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.req.Who = who("refused")
			_, err := r.manager(c.settings).OpenBrowser(ctx, c.req)
			e, ok := err.(*sandbox.Error)
			if !ok || e.Code != c.code || c.field != "" && e.Field != c.field || e.Hint == "" && c.code != sandbox.CodeDenyTool {
				t.Errorf("got %v", err)
			}
		})
	}
	l, err := r.manager("{}").List(ctx, manager.ListOptions{})
	must(t, err)
	if len(l.Browsers)+len(l.Containers) != 0 {
		t.Errorf("made: %+v", l)
	}
}

// TestBrowserPortOfTheProxy holds that settings leave the port free at which
// browsers look for their way out.
func TestBrowserPortOfTheProxy(t *testing.T) {
	t.Parallel()
	text := strings.Replace(withBrowser, `"enabled"`, fmt.Sprintf(`"cdpPort":%d,"enabled"`, browser.ProxyPort), 1)
	if _, err := config.Parse("test", []byte(text)); sandbox.CodeOf(err) != sandbox.CodeValidation || !strings.Contains(err.Error(), "the way out") {
		t.Errorf("got %v", err)
	}
}

// TestBrowserIsPruned holds that an idle browser is swept away like a sandbox,
// and one in use is not.
func TestBrowserIsPruned(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(withBrowser)
	ctx, done := context.WithTimeout(context.Background(), time.Minute)
	defer done()
	b := openBrowser(t, m, "web")
	r.clock.advance(25 * time.Hour)
	out, err := m.Prune(ctx, manager.PruneOptions{})
	must(t, err)
	if len(out.Removed) != 0 {
		t.Errorf("removed while in use: %+v", out)
	}
	must(t, b.Close())
	r.clock.advance(25 * time.Hour)
	out, err = m.Prune(ctx, manager.PruneOptions{})
	must(t, err)
	if len(out.Removed) != 1 || out.Removed[0].Name != b.Name() {
		t.Errorf("swept %+v", out)
	}
	if there, err := m.BrowserExists(ctx, who("web"), nil); err != nil || there {
		t.Errorf("still there: %v, %v", there, err)
	}
}

// TestBrowserIsRecreated holds that recreate with --browser takes browsers
// alone, and that other settings make another browser.
func TestBrowserIsRecreated(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	m := r.manager(withBrowser)
	ctx, done := context.WithTimeout(context.Background(), 2*time.Minute)
	defer done()
	mustRun(t, m, "web", "true")
	b := openBrowser(t, m, "web")
	must(t, b.Close())
	rows, err := m.Select(ctx, "", manager.Selector{Session: "web"}, true)
	must(t, err)
	if len(rows) != 1 || rows[0].Name != b.Name() {
		t.Fatalf("selected %+v", rows)
	}
	if done := m.Recreate(ctx, rows); len(done.Removed) != 1 || len(done.Failed) != 0 {
		t.Errorf("recreated %+v", done)
	}
	l, err := m.List(ctx, manager.ListOptions{})
	must(t, err)
	if len(l.Browsers) != 0 || len(l.Containers) != 1 {
		t.Errorf("left %+v", l)
	}
	first := openBrowser(t, m, "web")
	id := inBrowser(t, first, "hostname; cat /proc/sys/kernel/random/boot_id /proc/1/stat | tail -1 | cut -d' ' -f22")
	must(t, first.Close())
	r.clock.advance(time.Hour) // it is cold
	other := r.manager(strings.Replace(withBrowser, `"enabled"`, `"headless":false,"enabled"`, 1))
	second := openBrowser(t, other, "web")
	if now := inBrowser(t, second, "hostname; cat /proc/sys/kernel/random/boot_id /proc/1/stat | tail -1 | cut -d' ' -f22"); !second.Created() || now == id {
		t.Errorf("created %v: %q was %q", second.Created(), now, id)
	}
	if got := inBrowser(t, second, "echo $SANDBOX_BROWSER_HEADLESS"); got != "0" {
		t.Errorf("headless %q", got)
	}
}

// TestExplainFindsTheBrowser holds that explain compares the browser that is
// there with the one that would be made, and changes nothing.
func TestExplainFindsTheBrowser(t *testing.T) {
	t.Parallel()
	testenv.Require(t, "browser")
	r := newRig(t)
	m := r.manager(withBrowser)
	ctx := context.Background()
	explain := func(flags *config.SandboxSettings) manager.BrowserPlan {
		t.Helper()
		e, err := m.Explain(ctx, who("web"), flags, manager.Questions{})
		must(t, err)
		if len(e.Browser.Problems) > 0 {
			t.Errorf("problems: %q", e.Browser.Problems)
		}
		return e.Browser
	}
	if p := explain(nil); p.Status != sandbox.StatusMissing || p.HaveHash != "" || !strings.HasPrefix(p.Next, "create: ") {
		t.Errorf("before: %+v", p)
	}
	if there, err := m.BrowserExists(ctx, who("web"), nil); err != nil || there {
		t.Errorf("explaining made one: %v, %v", there, err)
	}
	b := openBrowser(t, m, "web")
	must(t, b.Close())
	p := explain(nil)
	if p.Name != b.Name() || p.Status != sandbox.StatusRunning || p.HaveHash == "" || p.HaveHash != p.ConfigHash || len(p.Drift) != 0 {
		t.Errorf("unchanged: %+v", p)
	}
	p = explain(&config.SandboxSettings{Browser: &config.BrowserSettings{Headless: new(false)}})
	if p.HaveHash == p.ConfigHash || len(p.Drift) == 0 || !strings.HasPrefix(p.Next, "refuse: ") {
		t.Errorf("with a display: %+v", p)
	}
}
