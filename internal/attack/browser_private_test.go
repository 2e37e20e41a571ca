package attack_test

import (
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/browser/display"
	"github.com/bulkhead-dev/sandbox/config"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// private are addresses that are not routed on the internet.
var private = map[string]string{
	"10/8":                      "10.1.2.3",
	"172.16/12":                 "172.16.0.1",
	"end of 172.16/12":          "172.31.255.254",
	"192.168/16":                "192.168.1.1",
	"metadata":                  "169.254.169.254",
	"link":                      "169.254.1.1",
	"carrier's":                 "100.64.0.1",
	"benchmarks":                "198.18.0.1",
	"many":                      "224.0.0.1",
	"all":                       "255.255.255.255",
	"this":                      "0.0.0.0",
	"loopback":                  "127.0.0.1",
	"other loopback":            "127.9.9.9",
	"loopback of IPv6":          "::1",
	"this of IPv6":              "::",
	"link of IPv6":              "fe80::1",
	"own of IPv6":               "fd00::1",
	"mapped loopback":           "::ffff:127.0.0.1",
	"mapped 10/8":               "::ffff:10.1.2.3",
	"translated loopback":       "64:ff9b::7f00:1",
	"tunnelled loopback":        "2002:7f00:1::1",
	"metadata of IPv6":          "fd00:ec2::254",
	"engine's own network":      "172.17.0.1",
	"names of the engine":       "127.0.0.11",
	"documentation's addresses": "192.0.2.1",
}

// somewhere is a public address, which the rig maps to the hosts of the test.
var somewhere = netip.MustParseAddr("93.184.215.14")

// TestPrivateAddresses checks that no page reaches a private address, as a
// literal or by a name where all public hosts are allowed, and by a name that is
// allowed where only some are.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	r := on(t, "", "")
	arrived := &forwarded{}
	r.net.Handle(evil, attacker())
	r.net.Handle("public.test", arrived)
	r.net.Handle(somewhere.String(), arrived)
	r.net.Names.Set("public.test", testenv.Reply{Addrs: []netip.Addr{somewhere}})
	r.net.Names.Set(evil, testenv.Reply{Addrs: []netip.Addr{somewhere}})
	hosts := map[string]string{}
	listed := []string{evil, "public.test", somewhere.String()}
	n := 0
	for name, text := range private {
		addr := netip.MustParseAddr(text)
		hosts[name] = text
		if addr.Is6() {
			hosts[name] = "[" + text + "]"
		}
		n++
		byName := "n" + itoa(n) + ".test"
		r.net.Names.Set(byName, testenv.Reply{Addrs: []netip.Addr{addr}})
		hosts[name+", by name"] = byName
		listed = append(listed, byName)
	}
	public := display.Request{Who: config.Who{Agent: "main", Session: "public"}, Flags: &config.SandboxSettings{Network: &config.NetworkSettings{AllowPublic: new(true)}}}
	list := display.Request{Who: config.Who{Agent: "main", Session: "list"}, Flags: &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: listed}}}
	for rules, req := range map[string]display.Request{"all that is public": public, "a list": list} {
		c := r.client(t, req)
		_, s := c.page(r.net.URL("http", evil, "/"))
		c.shows(s, "evil")
		session := r.session(t, req, false)
		for name, host := range hosts {
			if rules == "a list" && !strings.HasSuffix(name, ", by name") {
				continue // it is not on the list, whatever address it is
			}
			t.Run(rules+"/"+name, func(t *testing.T) {
				path := "/" + url.PathEscape(rules+name)
				before := len(r.refusals())
				target := "http://" + host + ":" + itoa(r.net.Port("http")) + "/"
				attempt(t, c, s, techniques["fetch without CORS"], []string{target, r.net.URL("http", "public.test", path)})
				await(t, "the control arrives", func() bool { return arrived.has(mustPath(t, path)) })
				if !strings.Contains(host, "0.0.0.0") && host != "[::]" { // which Chromium itself refuses
					await(t, "it is refused", func() bool { return len(r.refusals()) > before })
				}
				p, err := session.Navigate(patient(t), target)
				if sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
					t.Errorf("a session: %+v, %v", p, err)
				}
			})
		}
	}
	for _, to := range r.reached() {
		if to.Addr() != somewhere {
			t.Errorf("the proxy has dialled %v", to)
		}
	}
}

func mustPath(t testing.TB, escaped string) string {
	t.Helper()
	path, err := url.PathUnescape(escaped)
	must(t, err)
	return path
}
