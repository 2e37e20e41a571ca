package config_test

import (
	"slices"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
)

// TestBrowserSpec holds what is in the container of a browser, and what of the
// sandbox beside it is not.
func TestBrowserSpec(t *testing.T) {
	r := resolve(t, inDefaults(`"docker":{"env":{"TOKEN":"t"},"setup":["make"],"onStart":["true"],
		"binds":["/data/a:/a"],"network":"none","memory":"4g","gpus":"all"},
		"network":{"allowedDomains":["api.example"],"secrets":{"KEY":{"hosts":["api.example"]}},"httpProxyPort":8080},
		"limits":{"cpuSeconds":5},"browser":{"enabled":true,"image":"web:1","containerPrefix":"w-","binds":["/data/b:/b"]}`), ann, config.Overrides{})
	b := r.ForBrowser(map[string]string{"SANDBOX_BROWSER_HEADLESS": "1"})
	f := facts()
	lookup(t, b, &f)
	s, err := config.BuildSpec(b, f)
	if err != nil {
		t.Fatal(err)
	}
	if s.Kind != sandbox.KindBrowser || !strings.HasPrefix(s.Name, "w-") || s.Image != "web:1" || s.Network != "none" || s.Workdir != sandbox.HomeDir {
		t.Errorf("spec %+v", s)
	}
	for _, m := range s.Mounts {
		if m.Role == sandbox.RoleWorkspace || m.Role == sandbox.RoleAgent || m.Role == sandbox.RoleTrust || m.Target == "/a" {
			t.Errorf("it sees %+v", m)
		}
	}
	if n := len(s.Mounts); n == 0 || s.Mounts[n-1].Target != "/b" || !s.Mounts[n-1].ReadOnly {
		t.Errorf("mounts %+v", s.Mounts)
	}
	if len(s.Env) != 3 || s.Env["TOKEN"] != "" || s.Env["HOME"] != sandbox.HomeDir || s.Env["SANDBOX_BROWSER_HEADLESS"] != "1" {
		t.Errorf("environment %v", s.Env)
	}
	if len(s.Setup)+len(s.OnStart)+len(s.Egress.Secrets) != 0 || s.GPUs != "" || s.Limits != (sandbox.Limits{}) || s.Egress.HTTPProxyPort != 0 {
		t.Errorf("taken over: %+v", s)
	}
	if s.Resources.Memory != 4<<30 || s.Resources.ShmSize != 512<<20 || !s.ReadOnlyRoot || !s.Security.NoNewPrivileges || len(s.Security.CapDrop) != 1 {
		t.Errorf("sandboxes: %+v %+v", s.Resources, s.Security)
	}
	if n := len(s.Tmpfs); n == 0 || slices.ContainsFunc(s.Tmpfs, func(t sandbox.Tmpfs) bool { return t.Exec }) {
		t.Errorf("programs are run from memory: %+v", s.Tmpfs)
	}
	if len(s.Egress.AllowedDomains) != 1 {
		t.Errorf("rules %+v", s.Egress)
	}
	// The settings that it was made from are as they were.
	if r.Docker.Image == "web:1" || r.Docker.Env["TOKEN"] != "t" || len(r.Network.Secrets) != 1 {
		t.Error("the sandbox's own settings have changed")
	}
}

// TestBrowserSettingsAreChecked holds which settings of a browser are refused.
func TestBrowserSettingsAreChecked(t *testing.T) {
	for name, c := range map[string]struct{ browser, field, says string }{
		"ports":               {`"cdpPort":5900`, "browser.vncPort", "already"},
		"port of the way":     {`"noVncPort":3128`, "browser.noVncPort", "way out"},
		"low port":            {`"cdpPort":80`, "browser.cdpPort", "1024"},
		"prefix of sandboxes": {`"containerPrefix":"sbx-"`, "browser.containerPrefix", "one name"},
		"view of nothing":     {`"enableNoVnc":true`, "browser.enableNoVnc", "no display"},
		"host uninvited":      {`"hostCdpUrl":"http://127.0.0.1:9222"`, "browser.hostCdpUrl", "not isolated"},
		"host elsewhere":      {`"allowHostControl":true,"hostCdpUrl":"http://192.0.2.1:9222"`, "browser.hostCdpUrl", "loopback"},
		"host by name":        {`"allowHostControl":true,"hostCdpUrl":"http://localhost.example:9222"`, "browser.hostCdpUrl", "loopback"},
		"host with password":  {`"allowHostControl":true,"hostCdpUrl":"http://u:p@127.0.0.1:9222"`, "browser.hostCdpUrl", "address"},
		"host without port":   {`"allowHostControl":true,"hostCdpUrl":"http://127.0.0.1"`, "browser.hostCdpUrl", "address"},
		"host as socket":      {`"allowHostControl":true,"hostCdpUrl":"ws://127.0.0.1:9222"`, "browser.hostCdpUrl", "address"},
		"host network":        {`"network":"host"`, "browser.network", "host"},
		"other's network":     {`"network":"container:x"`, "browser.network", "container"},
		"endless page":        {`"limits":{"navigation":0}`, "browser", "has to end"},
		"endless start":       {`"autoStartTimeout":0`, "browser", "has to end"},
		"sources":             {`"cdpSourceRange":"everybody"`, "browser.cdpSourceRange", "range"},
		"no pixels":           {`"limits":{"screenshotPixels":0}`, "browser.limits.screenshotPixels", "too small"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := config.Parse("test", []byte(inDefaults(`"browser":{`+c.browser+`}`)))
			if err == nil || !strings.Contains(err.Error(), c.field) || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v", err)
			}
		})
	}
	ok := `"browser":{"enabled":true,"headless":false,"enableNoVnc":true,"allowHostControl":true,"hostCdpUrl":"http://[::1]:9222/"}`
	if _, err := config.Parse("test", []byte(inDefaults(ok))); err != nil {
		t.Error(err)
	}
}

// TestBrowserNetworkIsReported holds that a network which no rule bounds is not
// used in silence.
func TestBrowserNetworkIsReported(t *testing.T) {
	reported := func(settings string) bool {
		r := resolve(t, inDefaults(settings), ann, config.Overrides{})
		for _, n := range r.NoEffect {
			if strings.HasSuffix(n.Path, "browser.network") && strings.Contains(n.Why, "private addresses") {
				return true
			}
		}
		return false
	}
	if !reported(`"browser":{"enabled":true,"network":"web"}`) {
		t.Error("nothing was said")
	}
	if reported(`"browser":{"enabled":true}`) || reported(`"browser":{"network":"web"}`) {
		t.Error("it was said of a browser that has none")
	}
}
