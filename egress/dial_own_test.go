package egress

import (
	"errors"
	"net"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// TestOwnAddress checks that the machine's own addresses are restricted like
// its loopback, in any range.
func TestOwnAddress(t *testing.T) {
	own := addrs("1.1.1.1", "2606:4700::1", "10.0.0.1")
	tests := map[string]struct {
		options network.Options
		answers []netip.Addr
		dialled []string
	}{
		"public":            {network.Options{AllowPublic: true}, addrs("1.1.1.1"), nil},
		"public IPv6":       {network.Options{AllowPublic: true}, addrs("2606:4700::1"), nil},
		"mapped":            {network.Options{AllowPublic: true}, addrs("::ffff:1.1.1.1"), nil},
		"private":           {network.Options{AllowPublic: true, AllowPrivate: true}, addrs("10.0.0.1"), nil},
		"beside another":    {network.Options{AllowPublic: true}, addrs("1.1.1.1", "1.1.1.2"), []string{"1.1.1.2:443"}},
		"by a rule":         {network.Options{AllowPublic: true, Allowed: []string{"127.0.0.1:443"}}, addrs("1.1.1.1"), []string{"1.1.1.1:443"}},
		"IPv6 by a rule":    {network.Options{AllowPublic: true, Allowed: []string{"[::1]:443"}}, addrs("2606:4700::1"), []string{"[2606:4700::1]:443"}},
		"rule, other port":  {network.Options{AllowPublic: true, Allowed: []string{"127.0.0.1:80"}}, addrs("1.1.1.1"), nil},
		"rule, other kind":  {network.Options{AllowPublic: true, Allowed: []string{"[::1]:443"}}, addrs("1.1.1.1"), nil},
		"somebody else's":   {network.Options{AllowPublic: true}, addrs("1.1.1.3"), []string{"1.1.1.3:443"}},
		"loopback, by rule": {network.Options{AllowPublic: true, Allowed: []string{"127.0.0.1:443"}}, addrs("127.0.0.1"), []string{"127.0.0.1:443"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &dialler{}
			r := NewDialer(DialerOptions{
				Resolver: &names{answers: [][]netip.Addr{tt.answers}}, Dial: d.dial,
				Own: func(a netip.Addr) bool { return slices.Contains(own, a) },
			})
			_, _, err := r.Dial(t.Context(), host(t, "web.example"), 443, compiled(t, tt.options).JudgeAddr)
			var refused *dialRefused
			if !slices.Equal(d.seen, tt.dialled) || (tt.dialled == nil) != errors.As(err, &refused) {
				t.Errorf("dialled %v, %v", d.seen, err)
			}
			if refused != nil && (refused.Decision.Rule != "address" || !strings.Contains(refused.Decision.Message, "machine") || refused.Decision.Hint == "") {
				t.Errorf("%+v", refused)
			}
		})
	}
}

// TestKernelKnowsOwn checks that the machine's addresses are detected without
// configuration.
func TestKernelKnowsOwn(t *testing.T) {
	list, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	tried := 0
	for _, a := range list {
		p, err := netip.ParsePrefix(a.String())
		if err != nil || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
			continue
		}
		tried++
		d := &dialler{}
		judge := func(a netip.Addr, port uint16) network.Decision {
			if a.IsLoopback() {
				return network.Decision{}
			}
			return anything(a, port)
		}
		_, _, err = NewDialer(DialerOptions{Dial: d.dial}).Dial(t.Context(), network.HostOf(p.Addr()), 443, judge)
		var refused *dialRefused
		if !errors.As(err, &refused) || len(d.seen) != 0 {
			t.Errorf("%v: %v", p.Addr(), err)
		}
	}
	if tried == 0 {
		testenv.Lack(t, "an address besides loopback", list)
	}
}
