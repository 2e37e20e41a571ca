package manager

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/confighash"
)

// A BrowserPlan says what browser a session gets, as far as it has one.
type BrowserPlan struct {
	Enabled bool   `json:"enabled"`
	Uses    string `json:"uses"` // nothing, container, or host: a browser of the host, which is not isolated

	Isolated bool      `json:"isolated"` // false only for a browser of the host
	Sandbox  bool      `json:"chromiumSandbox"`
	Network  string    `json:"network"` // none, own, or the name of a network of the engine
	Reach    string    `json:"reach"`   // what pages reach, in words
	Settings []Setting `json:"settings"`

	// Of a container, where it could be found out:
	Name       string              `json:"name"`
	Image      string              `json:"image"`
	ImageID    string              `json:"imageId"` // empty: not made yet
	Status     sandbox.Status      `json:"status"`
	ConfigHash string              `json:"configHash"`
	HaveHash   string              `json:"haveHash"`
	Next       string              `json:"next"` // what the next use would do, and why
	Drift      []confighash.Change `json:"drift"`
	Problems   []string            `json:"problems"`
}

// What a plan uses.
const (
	browserNothing   = "nothing"
	browserContainer = "container"
	browserHost      = "host"
)

// browserPlan says what the settings tell of the browser.
func browserPlan(res config.Resolved) BrowserPlan {
	b := res.Browser
	p := BrowserPlan{
		Enabled: b.Enabled, Uses: browserContainer, Isolated: true, Sandbox: !b.DangerouslyNoSandbox, Network: res.BrowserNetwork(),
		Settings: []Setting{}, Drift: []confighash.Change{}, Problems: []string{},
	}
	switch {
	case !b.Enabled:
		p.Uses, p.Sandbox, p.Reach = browserNothing, false, "nothing: there is none"
	case hostControl(res):
		p.Uses, p.Isolated, p.Sandbox, p.Network = browserHost, false, false, ""
		p.Reach = "all that this host reaches, with the profiles of its user"
	default:
		p.Reach = browserReach(res)
	}
	for _, s := range browserValues(res) {
		s.Layer = res.Origin(s.Path)
		p.Settings = append(p.Settings, s)
	}
	return p
}

// hostControl reports whether a browser of the host is used in place of a
// container.
func hostControl(res config.Resolved) bool {
	return res.Browser.Enabled && res.Browser.AllowHostControl && res.Browser.HostCDPURL != ""
}

// browserDangers names the switches of the browser that are in force and take
// a sandbox away.
func browserDangers(res config.Resolved) []string {
	var out []string
	if !res.Browser.Enabled {
		return nil
	}
	if hostControl(res) {
		return append(out, "browser.allowHostControl")
	}
	if res.Browser.DangerouslyNoSandbox {
		out = append(out, "browser.dangerouslyNoSandbox")
	}
	return out
}

// browserReach says what pages reach.
func browserReach(res config.Resolved) string {
	switch n := res.Network; {
	case res.BrowserNetwork() == sandbox.NetworkOwn:
		return "whatever this host reaches, services of the host itself and of its cloud included: a network of its own bounds neighbours, not hosts"
	case res.BrowserNetwork() != "none":
		return "whatever the engine's network " + res.Browser.Network + " reaches: programs there need not use the proxy"
	case n.AllowPublic:
		return "any public host but what network.deniedDomains names; files of the workspace"
	case len(n.AllowedDomains) > 0:
		return fmt.Sprintf("only what network.allowedDomains names (%s); files of the workspace", someRules(n.AllowedDomains))
	}
	return "files of the workspace, and no host: network.allowedDomains names none"
}

// someRules names the first few.
func someRules(rules []string) string {
	const most = 5
	if len(rules) > most {
		return strings.Join(rules[:most], ", ") + fmt.Sprintf(" and %d more", len(rules)-most)
	}
	return strings.Join(rules, ", ")
}

// browserValues are the settings that say what a browser is and may do, with
// what each means here.
func browserValues(res config.Resolved) []Setting {
	b, l := res.Browser, res.Browser.Limits
	note := func(when bool, text string) string {
		if when {
			return text
		}
		return ""
	}
	out := []Setting{{Path: "browser.enabled", Value: fmt.Sprint(b.Enabled)}}
	if !b.Enabled {
		return out
	}
	if b.AllowHostControl || b.HostCDPURL != "" {
		out = append(out,
			Setting{Path: "browser.allowHostControl", Value: fmt.Sprint(b.AllowHostControl), Note: note(hostControl(res), "NOT ISOLATED: a browser of this host is driven")},
			Setting{Path: "browser.hostCdpUrl", Value: b.HostCDPURL})
	}
	if hostControl(res) {
		return out
	}
	return append(out,
		Setting{Path: "browser.image", Value: b.Image},
		Setting{Path: "browser.network", Value: res.BrowserNetwork()},
		Setting{Path: "browser.headless", Value: fmt.Sprint(b.Headless)},
		Setting{Path: "browser.enableNoVnc", Value: fmt.Sprint(b.EnableNoVNC), Note: note(b.EnableNoVNC, "sandbox browser open shows the display")},
		Setting{Path: "browser.dangerouslyNoSandbox", Value: fmt.Sprint(b.DangerouslyNoSandbox), Note: note(b.DangerouslyNoSandbox, "Chromium's own sandbox is OFF")},
		Setting{Path: "browser.allowDownloads", Value: fmt.Sprint(b.AllowDownloads), Note: note(b.AllowDownloads, "into the workspace, where the caller may write")},
		Setting{Path: "browser.allowDataUrls", Value: fmt.Sprint(b.AllowDataURLs)},
		Setting{Path: "browser.autoStart", Value: fmt.Sprint(b.AutoStart), Note: note(!b.AutoStart, "sandbox browser start has to come first")},
		Setting{Path: "browser.limits.navigation", Value: l.Navigation.String()},
		Setting{Path: "browser.limits.navigations", Value: fmt.Sprint(l.Navigations)},
		Setting{Path: "browser.limits.redirects", Value: fmt.Sprint(l.Redirects)},
		Setting{Path: "browser.limits.pageBytes", Value: l.PageBytes.String()},
		Setting{Path: "browser.limits.screenshotPixels", Value: fmt.Sprint(l.ScreenshotPixels)},
		Setting{Path: "browser.limits.screenshotsPerMinute", Value: fmt.Sprint(l.ScreenshotsPerMinute)},
		Setting{Path: "browser.limits.transferBytes", Value: l.TransferBytes.String()},
	)
}

// explainBrowser says what browser the session gets, and what its next use
// would find and do. It changes nothing; what cannot be found out is among the
// problems of the plan.
func (bs *browsers) explainBrowser(ctx context.Context, res config.Resolved, flags *config.SandboxSettings) BrowserPlan {
	p := browserPlan(res)
	if p.Uses != browserContainer {
		return p
	}
	fail := func(err error) BrowserPlan {
		p.Status = sandbox.StatusUnknown
		p.Problems = append(p.Problems, err.Error())
		return p
	}
	provider, why, err := bs.browserProvider(res)
	if err != nil {
		return fail(err)
	}
	w, err := bs.m.describer.resolve(ctx, nil, forBrowser(res), flags, place{provider: provider, why: why}, observe)
	if err != nil {
		return fail(err)
	}
	var e Explanation
	e.describe(w)
	err = bs.m.explainer.explainNext(ctx, w, &e)
	p.Name, p.Image, p.ImageID, p.ConfigHash = e.Name, e.Image, e.ImageID, e.ConfigHash
	p.Status, p.HaveHash, p.Next = e.Status, e.HaveHash, e.Next
	p.Drift, p.Problems = append(p.Drift, e.Drift...), slices.Concat(p.Problems, e.Problems, keptDangers(e.Drift))
	if err != nil {
		return fail(err)
	}
	return p
}
