package network_test

import (
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// TestHosts holds that sets of hosts are met point by point: a host is in the
// meet of two exactly when it is in both, and in a set that holds another when
// it is in that.
func TestHosts(t *testing.T) {
	texts := []string{
		"*", "example.com", "EXAMPLE.com.", "*.example.com", "*.a.example.com", "a.example.com", "b.a.example.com", "*.com", "ample.com", "*.ample.com",
		"10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "0x0a.1.2.3", "192.0.2.7", "::ffff:10.1.2.3", "2001:db8::/32", "2001:db8::7", "[2001:db8::7]",
	}
	var hosts []network.Host
	for _, text := range []string{"example.com", "com", "a.example.com", "b.a.example.com", "c.b.a.example.com", "xexample.com", "ample.com", "x.ample.com", "10.1.2.3", "10.1.2.4", "10.2.0.1", "11.0.0.1", "192.0.2.7", "2001:db8::7", "2001:db9::7"} {
		h, err := network.Canonical(text)
		if err != nil {
			t.Fatal(err)
		}
		hosts = append(hosts, h)
	}
	for _, one := range texts {
		s := parsedHosts(t, one)
		if again := parsedHosts(t, s.String()); again != s {
			t.Errorf("%q is spelled %q, which is another", one, s)
		}
		if s.Has(network.Host{}) {
			t.Errorf("%q has no host in it", one)
		}
		for _, other := range texts {
			o := parsedHosts(t, other)
			meet := s.Meet(o)
			if meet != o.Meet(s) {
				t.Errorf("%q and %q meet in %q, and the other way round in %q", one, other, meet, o.Meet(s))
			}
			for _, h := range hosts {
				if s.Holds(network.HostsOf(h)) != s.Has(h) {
					t.Errorf("%q has %s: %v, and the other way round", one, h, s.Has(h))
				}
				if got, want := meet.Has(h), s.Has(h) && o.Has(h); got != want {
					t.Errorf("%q and %q: %s in both: %v, want %v", one, other, h, got, want)
				}
				if s.Holds(o) && o.Has(h) && !s.Has(h) {
					t.Errorf("%q holds %q and not its %s", one, other, h)
				}
			}
		}
	}
}

func TestParseHostsRefuses(t *testing.T) {
	for _, text := range []string{"", "example.com:443", "https://example.com", "GET http://example.com", "http://example.com/x", "exa*mple.com", "*.10.0.0.1", "a..b", "10.0.0.1/8", "[::1]:80", "tcp://x:1"} {
		if s, err := network.ParseHosts(text); sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q is %q, %v", text, s, err)
		}
	}
}

func parsedHosts(t *testing.T, text string) network.Hosts {
	t.Helper()
	s, err := network.ParseHosts(text)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
