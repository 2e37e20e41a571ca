//go:build linux

package manager_test

import (
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/config"
)

// TestUnreachedIsReported checks that a command which fails for want of a name or a
// route gets a notice that names the host and the rule which keeps it away:
// without any rules, beside rules for others, and where a program does not ask
// the proxy for a host that they allow. Other failures get no notice.
func TestUnreachedIsReported(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		plain := "env -u HTTPS_PROXY -u https_proxy -u ALL_PROXY -u all_proxy -u HTTP_PROXY -u http_proxy "
		other := &config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: []string{"other.test", "*.wide.test"}}}
		for _, tt := range []struct {
			name     string
			flags    *config.SandboxSettings
			line     string
			resource string
			rule     string
		}{
			{"no rules", nil, "curl -sS https://example.com/", "example.com", "network.allowedDomains"},
			{"no route", nil, "curl -sS http://93.184.216.34/", "93.184.216.34:80", "network.allowedDomains"},
			{"a program that names no host", nil, `python3 -c 'import urllib.request; urllib.request.urlopen("https://example.com/")'`, "example.com:443", "network.allowedDomains"},
			{"rules for others", other, plain + "curl -sS https://example.com/", "example.com", "network.allowedDomains"},
			{"a rule, and no proxy", other, plain + "curl -sS https://a.wide.test/", "a.wide.test", "proxy: "},
			{"in the output", nil, "curl -sS https://example.com/ 2>&1", "example.com", "network.allowedDomains"},
			{"nothing of hosts", nil, "echo no such file >&2; exit 3", "", ""},
			{"loopback", nil, "curl -sS http://127.0.0.1:9/", "", ""},
			{"a success", nil, "curl -sS https://example.com/; true", "", ""},
		} {
			r, err := o.try(tt.flags, tt.line)
			must(o.t, err)
			if r.Blocked != (tt.resource != "") || r.BlockedResource != tt.resource {
				o.t.Errorf("%s: blocked %v, %q, %s", tt.name, r.Blocked, r.BlockedResource, r.Stderr)
			}
			if tt.resource != "" && (len(r.Violations) != 1 || !strings.HasPrefix(r.Violations[0].Rule, tt.rule)) {
				o.t.Errorf("%s: %+v", tt.name, r.Violations)
			}
		}
	})
}

// TestAddressIsReported checks that for a host which the rules allow, but whose
// address they do not, the notice names the address and what would have to name
// it.
func TestAddressIsReported(t *testing.T) {
	t.Parallel()
	onProviders(t, func(o *outward) {
		at := o.net.At("http", "127.0.0.1")
		r, err := o.try(&config.SandboxSettings{Network: &config.NetworkSettings{AllowedDomains: []string{"web.test:1-65535"}}}, "curl -sSf "+o.net.URL("http", "web.test", "/"))
		must(o.t, err)
		if len(r.Violations) == 0 || !strings.HasPrefix(r.Violations[0].Rule, "address: "+at+" is ") || !strings.Contains(r.Violations[0].Rule, "network.allowedDomains name the address: "+at) {
			o.t.Errorf("%+v", r.Violations)
		}
	})
}
