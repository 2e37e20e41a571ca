package doctor_test

import (
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images"
	"github.com/bulkhead-dev/sandbox/internal/doctor"
)

const (
	maxNamespaces = "proc/sys/user/max_user_namespaces"
	cloneSwitch   = "proc/sys/kernel/unprivileged_userns_clone"
)

// TestBrowserChecks holds that doctor tells every sandbox that a browser lacks,
// and nothing where there is none.
func TestBrowserChecks(t *testing.T) {
	t.Parallel()
	file := func(text string) *fstest.MapFile { return &fstest.MapFile{Data: []byte(text + "\n"), Mode: 0o644} }
	host := func(w *world) {
		w.settings.Browser.HostControl, w.settings.Browser.HostURL = true, "http://127.0.0.1:9222"
	}
	tests := []struct {
		name   string
		ill    func(*world)
		check  string
		want   doctor.Status
		detail string
		fix    string
	}{
		{"isolated", func(*world) {}, "browser", doctor.OK, "without a network", ""},
		{"a browser of the host", host, "browser", doctor.Warn, "NOT ISOLATED", "browser.hostCdpUrl"},
		{"a browser of the host would be let", func(w *world) { w.settings.Browser.HostControl = true }, "browser", doctor.Warn, "names none", "browser.allowHostControl"},
		{"a network of its own", func(w *world) { w.settings.Browser.Network = "own" }, "browser", doctor.Warn, "browser.network is own", "network.allowedDomains"},
		{"a browser of the host breaks the glass", host, "break-glass", doctor.Warn, "in force: browser.allowHostControl", "remove"},
		{"no own sandbox breaks the glass", func(w *world) { w.settings.Browser.NoSandbox = true }, "break-glass", doctor.Warn, "in force: browser.dangerouslyNoSandbox", "remove"},
		{"settings wrong", func(w *world) { w.setErr = fs.ErrInvalid }, "browser", doctor.Warn, "not known", ""},

		{"image there", func(*world) {}, "browser-image", doctor.OK, "sandbox-browser:bookworm-slim is 0123456789ab, built from our recipe", ""},
		{"image missing", func(w *world) { w.imageErr = &sandbox.Error{Code: sandbox.CodeNotFound} }, "browser-image", doctor.Warn, "is not there", "sandbox images build --browser"},
		{"other image missing", func(w *world) {
			w.imageErr, w.settings.Browser.Image = &sandbox.Error{Code: sandbox.CodeNotFound}, "example.com/b:1"
		}, "browser-image", doctor.Warn, "is not there", "sandbox images pull example.com/b:1"},
		{"image stale", func(w *world) { w.image.Stale = true }, "browser-image", doctor.Warn, "another recipe", "sandbox images build --browser"},
		{"image old", func(w *world) { w.image.Created = noon.Add(-90 * 24 * time.Hour) }, "browser-image", doctor.Warn, "90 days", "--browser"},
		{"no engine", func(w *world) { w.imageErr = &sandbox.Error{Code: sandbox.CodeUnavailable} }, "browser-image", doctor.Skip, "depends on engine", ""},
		{"no image on the host", host, "browser-image", doctor.OK, "not needed", ""},

		{"own sandbox", func(*world) {}, "browser-sandbox", doctor.OK, "keeps its own", ""},
		{"own sandbox with the switch on", func(w *world) { w.files[cloneSwitch] = file("1") }, "browser-sandbox", doctor.OK, "keeps its own", ""},
		{"no user namespaces", func(w *world) { w.files[maxNamespaces] = file("0") }, "browser-sandbox", doctor.Fail, "max_user_namespaces is 0", "sysctl"},
		{"only root's", func(w *world) { w.files[cloneSwitch] = file("0") }, "browser-sandbox", doctor.Fail, "unprivileged_userns_clone is 0", "sysctl"},
		{"nothing is told", func(w *world) { delete(w.files, maxNamespaces) }, "browser-sandbox", doctor.Warn, "not known", ""},
		{"switched off in need", func(w *world) { w.files[cloneSwitch], w.settings.Browser.NoSandbox = file("0"), true }, "browser-sandbox", doctor.Warn, "OFF by browser.dangerouslyNoSandbox", "sysctl"},
		{"switched off without need", func(w *world) { w.settings.Browser.NoSandbox = true }, "browser-sandbox", doctor.Warn, "OFF by browser.dangerouslyNoSandbox", "does not need it"},
		{"nothing is known of the host's", host, "browser-sandbox", doctor.OK, "not known", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			w := healthy()
			w.image.Origin = images.OriginBrowser
			w.settings.Browser = doctor.Browser{Enabled: true, Image: images.BrowserImage, Network: "none"}
			tt.ill(w)
			c := lookFor(t, doctor.Run(t.Context(), w.deps()), tt.check)
			if c.Status != tt.want || !strings.Contains(c.Detail, tt.detail) || !strings.Contains(c.Fix, tt.fix) {
				t.Errorf("%s: %s %q, fix %q; want %s with %q and %q", c.Name, c.Status, c.Detail, c.Fix, tt.want, tt.detail, tt.fix)
			}
		})
	}
	w := healthy()
	w.settings.Browser = doctor.Browser{NoSandbox: true, HostControl: true, HostURL: "http://127.0.0.1:9222"}
	w.files[maxNamespaces] = file("0")
	for _, name := range []string{"browser", "browser-image", "browser-sandbox"} {
		if c := lookFor(t, doctor.Run(t.Context(), w.deps()), name); c.Status != doctor.OK || c.Detail != "no browser is enabled" {
			t.Errorf("%s of none: %+v", name, c)
		}
	}
}
