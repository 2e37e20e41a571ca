package config

import (
	"maps"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	sandbox "github.com/bulkhead-dev/sandbox"
)

// ForBrowser returns the settings of the container in which the browser of r's
// scope runs: image, prefix, network and binds are those of browser, bounds of
// memory, processors and processes those of docker. It has no workspace, no
// agent's folder, no setup, no variable but env and those every sandbox has,
// no secret, and no bound of single commands, because its one command is the
// browser. It runs in containers: a provider without images cannot serve it.
func (r Resolved) ForBrowser(env map[string]string) Resolved {
	b := r
	b.Kind = sandbox.KindBrowser
	b.WorkspaceAccess, b.Workspace, b.AgentWorkspace, b.WorkspaceQuota = sandbox.AccessNone, "", "", 0
	b.Filesystem, b.Limits = Filesystem{}, Limits{}
	b.Network.Secrets, b.Network.HTTPProxyPort, b.Network.Ask = nil, 0, false
	d := r.Docker
	d.Image, d.ContainerPrefix, d.Network, d.Binds = r.Browser.Image, r.Browser.ContainerPrefix, r.Browser.Network, r.Browser.Binds
	d.Workdir, d.Tmpfs, d.Setup, d.OnStart = sandbox.HomeDir, nil, nil, nil
	d.DNS, d.ExtraHosts, d.GPUs, d.SeccompProfile, d.User = nil, nil, "", "", ""
	if d.Network == "" || d.Network == "none" {
		d.Network = "none"
	} else {
		d.DNS, d.ExtraHosts = slices.Clone(r.Docker.DNS), slices.Clone(r.Docker.ExtraHosts)
	}
	d.ShmSize = browserShm(d.Memory)
	d.Env = map[string]string{"LANG": "C.UTF-8", "HOME": sandbox.HomeDir}
	maps.Copy(d.Env, env)
	b.Docker = d
	b.fields, b.Origins = moved(r.fields), moved(r.Origins)
	return b
}

// browserShm is an eighth of memory: pages hand their pictures around in
// /dev/shm.
func browserShm(memory Size) Size { return Size(pages(int64(memory) / 8)) }

// moved has what is known of places under browser known under docker as well,
// where ForBrowser has put their values.
func moved(m map[string]string) map[string]string {
	out := maps.Clone(m)
	maps.DeleteFunc(out, func(k, _ string) bool { return strings.HasPrefix(k, "docker.binds") })
	for k, v := range m {
		for _, name := range []string{"image", "containerPrefix", "network", "binds"} {
			if rest, ok := strings.CutPrefix(k, "browser."+name); ok && (rest == "" || rest[0] == '[') {
				out["docker."+name+rest] = v
			}
		}
	}
	return out
}

// browserErrors checks the browser's settings against each other.
func browserErrors(r Resolved) []error {
	var errs []error
	b := r.Browser
	taken := map[int64]string{3128: "the way out"} // browser.ProxyPort, which nothing pure can import
	for _, p := range []struct {
		name string
		port int64
	}{{"browser.cdpPort", b.CDPPort}, {"browser.vncPort", b.VNCPort}, {"browser.noVncPort", b.NoVNCPort}} {
		if other, ok := taken[p.port]; ok {
			errs = append(errs, invalid(r.field(p.name), "port %d is that of %s already", p.port, other))
		}
		taken[p.port] = p.name
	}
	if b.Limits.Navigation == 0 || b.AutoStartTimeout == 0 {
		errs = append(errs, invalid(r.field("browser"), "autoStartTimeout and limits.navigation must be more than 0: what waits has to end"))
	}
	if b.ContainerPrefix == r.Docker.ContainerPrefix {
		errs = append(errs, invalid(r.field("browser.containerPrefix"), "it is that of sandboxes too, so that the browser and the sandbox of a scope would have one name"))
	}
	if b.EnableNoVNC && b.Headless {
		e := invalid(r.field("browser.enableNoVnc"), "a headless browser has no display to look at").(*sandbox.Error)
		e.Hint = "set browser.headless to false as well"
		errs = append(errs, e)
	}
	if b.HostCDPURL != "" {
		errs = append(errs, hostCDP(r))
	}
	return errs
}

// hostCDP returns an error for a host browser address that is not valid or
// that the settings do not allow.
func hostCDP(r Resolved) error {
	field := r.field("browser.hostCdpUrl")
	u, err := url.Parse(r.Browser.HostCDPURL)
	if err != nil || u.Scheme != "http" || u.Port() == "" || u.User != nil || u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return invalid(field, "%s is not the address of a DevTools protocol, such as http://127.0.0.1:9222", quoted(r.Browser.HostCDPURL))
	}
	if a, err := netip.ParseAddr(u.Hostname()); (err != nil || !a.IsLoopback()) && u.Hostname() != "localhost" {
		return invalid(field, "%s is not on the loopback interface of this host", quoted(u.Host))
	}
	if !r.Browser.AllowHostControl {
		return &sandbox.Error{Code: sandbox.CodeValidation, Op: "resolve", Field: field,
			Message: "a browser of the host is named, and nothing allows it to be driven: it is not isolated from the host",
			Hint:    "take browser.hostCdpUrl out, or set browser.allowHostControl where that is meant"}
	}
	return nil
}

// BrowserNetwork says what pages can reach beside what the rules for hosts
// let, in one word: none, own, or the name of a network of the engine.
func (r Resolved) BrowserNetwork() string {
	if r.Browser.Network == "" {
		return "none"
	}
	return r.Browser.Network
}
