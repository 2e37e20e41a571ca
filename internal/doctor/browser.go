package doctor

import (
	"context"
	"errors"
	"io/fs"
	"strings"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/images"
)

// Browser are the settings of browsers that checks need.
type Browser struct {
	Enabled     bool
	Image       string
	Network     string // none, own, or the name of a network of the engine
	NoSandbox   bool   // Chromium without its own sandbox
	HostControl bool   // a browser of the host may be driven
	HostURL     string // and is, when this is not empty
}

// onHost reports whether a browser of the host is used in place of a
// container.
func (b Browser) onHost() bool { return b.HostControl && b.HostURL != "" }

// dangers names the switches in force that disable an isolation layer.
func (b Browser) dangers() []string {
	switch {
	case b.Enabled && b.onHost():
		return []string{"browser.allowHostControl"}
	case b.Enabled && b.NoSandbox:
		return []string{"browser.dangerouslyNoSandbox"}
	}
	return nil
}

// noBrowser is the finding of every check of browsers where there is none.
func noBrowser() finding { return ok("no browser is enabled") }

// ofBrowser makes a check of what is wanted where browsers are enabled.
func ofBrowser(look func(ctx context.Context, e *examination, b Browser) finding) func(context.Context, *examination) finding {
	return func(ctx context.Context, e *examination) finding {
		s, err := e.settings()
		switch {
		case err != nil:
			return warn("", "not known: the settings cannot be read")
		case !s.Browser.Enabled:
			return noBrowser()
		}
		return look(ctx, e, s.Browser)
	}
}

// browserProviders tells what isolates browsers, and what of it settings take away.
func browserProviders(_ context.Context, _ *examination, b Browser) finding {
	switch {
	case b.onHost():
		return warn(`take "browser.hostCdpUrl" out, so that browsers get containers`, "NOT ISOLATED: the browser of this host at %s is driven (browser.allowHostControl)", b.HostURL)
	case b.HostControl:
		return warn(`set "browser.allowHostControl" to false where no browser of the host is meant`, "in containers; browser.allowHostControl would let a browser of the host be driven, and browser.hostCdpUrl names none")
	case b.Network != "none" && b.Network != "":
		return warn(`set "browser.network" to "none", and name hosts in "network.allowedDomains"`, "in containers; browser.network is %s, with which no rule for hosts bounds what is reached", b.Network)
	}
	return ok("in containers of their own without a network; pages reach what network.allowedDomains names")
}

func browserImage(ctx context.Context, e *examination, b Browser) finding {
	if b.onHost() {
		return ok("not needed: a browser of the host is used")
	}
	if e.Image == nil {
		return warn("", "%v", errNotAsked)
	}
	img, err := e.Image(ctx, b.Image)
	if sandbox.IsNotFound(err) {
		return warn(makeBrowserImage(b.Image), "%s is not there; the first browser waits until it is made", b.Image)
	}
	if err != nil {
		return unknown()
	}
	return imageFinding(e, b.Image, img, makeBrowserImage(b.Image))
}

// makeBrowserImage is how the image of browsers comes to this machine.
func makeBrowserImage(ref string) string {
	if ref == images.BrowserImage {
		return "sandbox images build --browser"
	}
	return "sandbox images pull " + ref
}

// Where Linux says whether processes without privileges get namespaces.
const (
	maxUserNamespaces = "/proc/sys/user/max_user_namespaces"
	unprivilegedClone = "/proc/sys/kernel/unprivileged_userns_clone" // of Debian's kernels
)

// browserSandbox looks whether Chromium can keep its own sandbox, which is
// made of user namespaces. Without one it does not start, unless settings say
// that it shall.
func browserSandbox(_ context.Context, e *examination, b Browser) finding {
	if b.onHost() {
		return ok("not known of a browser of the host")
	}
	blocked, fix, err := userNamespaces(e.Host)
	switch {
	case b.NoSandbox && err == nil && blocked == "":
		return warn(`take "browser.dangerouslyNoSandbox" out: this machine does not need it`, "OFF by browser.dangerouslyNoSandbox: a hole in Chromium is one into all pages of its browser")
	case b.NoSandbox:
		return warn(fixOr(fix, "allow user namespaces")+`, then take "browser.dangerouslyNoSandbox" out`, "OFF by browser.dangerouslyNoSandbox: a hole in Chromium is one into all pages of its browser")
	case err != nil:
		return warn("", "not known: %v", err)
	case blocked != "":
		return fail(fix, "Chromium cannot keep its own sandbox, and does not start without: %s", blocked)
	}
	return ok("Chromium keeps its own: user namespaces can be used")
}

func fixOr(fix, otherwise string) string {
	if fix == "" {
		return otherwise
	}
	return fix
}

// userNamespaces says what keeps processes without privileges from user
// namespaces, and what mends it.
func userNamespaces(h Host) (blocked, fix string, err error) {
	text := func(path string) (string, error) {
		b, err := h.ReadFile(path)
		if errors.Is(err, fs.ErrNotExist) {
			return "", nil
		}
		return strings.TrimSpace(string(b)), err
	}
	most, err := text(maxUserNamespaces)
	if err != nil {
		return "", "", err
	}
	clone, err := text(unprivilegedClone)
	if err != nil {
		return "", "", err
	}
	switch {
	case most == "0":
		return "user.max_user_namespaces is 0", "sudo sysctl -w user.max_user_namespaces=15000, and put the line into a file in /etc/sysctl.d to keep it", nil
	case clone == "0":
		return "kernel.unprivileged_userns_clone is 0", "sudo sysctl -w kernel.unprivileged_userns_clone=1, and put the line into a file in /etc/sysctl.d to keep it", nil
	case most == "":
		return "", "", errors.New("this machine does not tell of user namespaces")
	}
	return "", "", nil
}
