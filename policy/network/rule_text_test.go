package network_test

import (
	"net/netip"
	"slices"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// TestRuleTells holds what a rule says of itself against how it was written.
func TestRuleTells(t *testing.T) {
	tests := []struct {
		rule, hosts, scheme string
		low, high           uint16
	}{
		{"Example.com", "example.com", "", 0, 0},
		{"*.example.com", "*.example.com", "", 0, 0},
		{"*", "*", "", 0, 0},
		{"127.1", "127.0.0.1", "", 0, 0},
		{"10.0.0.0/8:443", "10.0.0.0/8", "", 443, 443},
		{"[fd00::/8]:80-90", "fd00::/8", "", 80, 90},
		{"https://example.com", "example.com", "https", 443, 443},
		{"GET http://example.com:8080/pub", "example.com", "http", 8080, 8080},
		{"tcp://example.com:22", "example.com", "tcp", 22, 22},
	}
	for _, tt := range tests {
		r, err := network.ParseRule(tt.rule)
		if err != nil {
			t.Fatal(err)
		}
		low, high := r.Ports()
		if got := r.Hosts().String(); got != tt.hosts || r.Scheme() != tt.scheme || low != tt.low || high != tt.high {
			t.Errorf("%s: hosts %s, scheme %q, ports %d to %d", tt.rule, got, r.Scheme(), low, high)
		}
		if same, err := network.ParseHosts(tt.hosts); err != nil || same != r.Hosts() {
			t.Errorf("%s: the hosts are not those of %s: %v", tt.rule, tt.hosts, err)
		}
	}
}

// TestPrivateRanges holds that the ranges are those which allowPrivate opens,
// and that all of them can be rules.
func TestPrivateRanges(t *testing.T) {
	ranges := network.PrivateRanges()
	open, err := network.New(network.Options{AllowPublic: true, AllowPrivate: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range ranges {
		if err := network.CheckAllowed(text, false); err != nil {
			t.Error(err)
		}
		a := netip.MustParsePrefix(text).Addr().Next()
		if text == "64:ff9b:1::/48" { // its addresses carry others, which count as well
			a = netip.MustParseAddr("64:ff9b:1::a00:1")
		}
		if d := open.Judge(network.HostOf(a), 443); d.Verdict != policy.Allow {
			t.Errorf("%s is not opened: %+v", a, d)
		}
	}
	for _, want := range []string{"10.0.0.0/8", "fc00::/7", "100.64.0.0/10"} {
		if !slices.Contains(ranges, want) {
			t.Errorf("%s is missing in %q", want, ranges)
		}
	}
	if slices.Contains(ranges, "127.0.0.0/8") || slices.Contains(ranges, "169.254.0.0/16") {
		t.Errorf("what is of this machine is among %q", ranges)
	}
}
