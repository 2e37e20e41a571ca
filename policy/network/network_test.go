package network_test

import (
	"net/netip"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

const (
	allow = policy.Allow
	ask   = policy.Ask
	deny  = policy.Deny
)

func compiled(t testing.TB, o network.Options) *network.Policy {
	t.Helper()
	p, err := network.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// explained reports what is missing in a decision.
func explained(d network.Decision) string {
	if d.Rule == "" || d.Message == "" || d.Verdict != allow && d.Hint == "" {
		return "not explained"
	}
	return ""
}

func TestJudge(t *testing.T) {
	some := network.Options{
		Allowed: []string{
			"example.com", "*.sub.example.com", "ports.example:443", "ports.example:8000-8100", "Upper.Example.", "*.wild.example:443",
			"192.0.2.7", "8.8.8.0/24:53", "0xA000001", "[2001:4860::]/32:443", "2606:4700::1111", "inner.example",
		},
		Denied: []string{"bad.sub.example.com", "*.worse.sub.example.com", "8.8.8.8", "example.com:22", "1.2.3.0/24"},
	}
	asking, public := some, some
	asking.Ask, public.AllowPublic = true, true
	everything := network.Options{Allowed: []string{"*"}, AllowPublic: true, AllowPrivate: true, Denied: []string{"*:25", "10.0.0.0/8"}}
	tests := []struct {
		name    string
		options network.Options
		want    map[string]policy.Verdict
	}{
		{"nothing", network.Options{}, map[string]policy.Verdict{"example.com:443": deny, "8.8.8.8:53": deny, "[::1]:80": deny, "localhost:80": deny}},
		{"some", some, map[string]policy.Verdict{
			"example.com:443": allow, "EXAMPLE.com.:80": allow, "example.com:22": deny, "www.example.com:443": deny, "notexample.com:443": deny, "example.com.evil.com:443": deny,
			"sub.example.com:443": deny, "a.sub.example.com:443": allow, "a.b.sub.example.com:443": allow, "xsub.example.com:443": deny,
			"bad.sub.example.com:443": deny, "x.bad.sub.example.com:443": allow, "worse.sub.example.com:443": allow, "a.worse.sub.example.com:443": deny,
			"ports.example:443": allow, "ports.example:444": deny, "ports.example:8000": allow, "ports.example:8100": allow, "ports.example:8101": deny,
			"upper.example:1": deny, "upper.example:8080": allow, "a.wild.example:443": allow, "a.wild.example:80": deny,
			"192.0.2.7:80": allow, "192.0.519:80": allow, "192.0.2.8:80": deny, "8.8.8.9:53": allow, "8.8.8.9:443": deny, "8.8.8.8:53": deny, "8.8.2056:53": deny,
			"10.0.0.1:80": allow, "10.0.0.2:80": deny, "[2001:4860:4860::8888]:443": allow, "[2001:4860:4860::8888]:80": deny, "[2606:4700::1111]:9": deny, "[2606:4700::1111]:9999": allow,
			"other.example:443": deny,
		}},
		{"asking", asking, map[string]policy.Verdict{
			"example.com:443": allow, "other.example:443": ask, "1.1.1.1:80": ask, "example.com:22": deny, "10.9.9.9:80": deny, "169.254.169.254:80": deny, "localhost:80": ask, "127.1:80": deny,
		}},
		{"public", public, map[string]policy.Verdict{
			"other.example:443": allow, "1.1.1.1:80": allow, "1.2.3.4:80": deny, "[::ffff:1.2.3.4]:80": deny, "[64:ff9b::1.2.3.4]:80": deny, "[64:ff9b::8.8.4.4]:80": allow, "10.9.9.9:80": deny,
			"2130706433:80": deny, "bad.sub.example.com:1": deny,
		}},
		{"everything", everything, map[string]policy.Verdict{
			"other.example:443": allow, "other.example:25": deny, "192.168.1.1:80": allow, "10.0.0.1:80": deny, "127.0.0.1:80": deny, "169.254.169.254:80": deny, "1.1.1.1:25": deny,
		}},
	}
	for _, tt := range tests {
		p := compiled(t, tt.options)
		for target, want := range tt.want {
			h, port, err := network.ParseTarget(target)
			if err != nil {
				t.Fatal(err)
			}
			d := p.Judge(h, port)
			if d.Verdict != want || explained(d) != "" {
				t.Errorf("%s: %s: %+v, want %s %s", tt.name, target, d, want, explained(d))
			}
			if a, ok := h.Addr(); ok && d.Verdict == allow && p.JudgeAddr(a, port).Verdict != allow {
				t.Errorf("%s: %s is allowed as a host and not as an address", tt.name, target)
			}
		}
	}
	if d := compiled(t, everything).Judge(network.Host{}, 80); d.Verdict != deny {
		t.Errorf("no host: %+v", d)
	}
}

// TestJudgeAddr holds the ranges, with what opens each.
func TestJudgeAddr(t *testing.T) {
	none := compiled(t, network.Options{AllowPublic: true})
	private := compiled(t, network.Options{AllowPublic: true, AllowPrivate: true})
	tests := []struct {
		addr                 string
		none, private, named policy.Verdict
	}{
		{"1.1.1.1", allow, allow, allow}, {"2606:4700::1111", allow, allow, allow}, {"172.15.0.1", allow, allow, allow}, {"172.32.0.1", allow, allow, allow}, {"100.63.0.1", allow, allow, allow}, {"100.128.0.1", allow, allow, allow},
		{"10.1.2.3", deny, allow, allow}, {"172.16.0.1", deny, allow, allow}, {"172.31.255.255", deny, allow, allow}, {"192.168.0.1", deny, allow, allow}, {"100.64.0.1", deny, allow, allow},
		{"fd12::1", deny, allow, allow}, {"fc00::1", deny, allow, allow}, {"fec0::1", deny, allow, allow},
		{"127.0.0.1", deny, deny, allow}, {"127.255.0.1", deny, deny, allow}, {"::1", deny, deny, allow}, {"169.254.1.1", deny, deny, allow}, {"fe80::1", deny, deny, allow},
		{"192.0.2.1", deny, deny, allow}, {"198.51.100.1", deny, deny, allow}, {"203.0.113.1", deny, deny, allow}, {"2001:db8::1", deny, deny, allow}, {"198.18.0.1", deny, deny, allow}, {"192.0.0.1", deny, deny, allow},
		{"169.254.169.254", deny, deny, allow}, {"169.254.170.2", deny, deny, allow}, {"100.100.100.200", deny, deny, allow}, {"fd00:ec2::254", deny, deny, allow}, {"168.63.129.16", deny, deny, allow}, {"192.0.0.192", deny, deny, allow},
		{"0.0.0.0", deny, deny, deny}, {"0.1.2.3", deny, deny, deny}, {"::", deny, deny, deny}, {"224.0.0.1", deny, deny, deny}, {"ff02::1", deny, deny, deny}, {"255.255.255.255", deny, deny, deny}, {"240.0.0.1", deny, deny, deny},
		{"100::1", deny, deny, deny}, {"4000::1", deny, deny, deny}, {"::2", deny, deny, deny},

		{"::ffff:127.0.0.1", deny, deny, allow}, {"::ffff:8.8.8.8", allow, allow, allow}, {"::127.0.0.1", deny, deny, allow}, {"::ffff:0:127.0.0.1", deny, deny, allow},
		{"64:ff9b::7f00:1", deny, deny, allow}, {"64:ff9b::a00:1", deny, allow, allow}, {"64:ff9b::808:808", allow, allow, allow}, {"64:ff9b::a9fe:a9fe", deny, deny, allow}, {"64:ff9b:1::a00:1", deny, allow, allow},
		{"2002:7f00:1::", deny, deny, allow}, {"2002:a9fe:a9fe::1", deny, deny, allow}, {"2002:808:808::1", allow, allow, allow},
		{"2001:0:808:808::80ff:fffe", deny, deny, allow}, {"2001:0:a00:1::f7f7:f7f7", deny, allow, allow}, {"2001:0:808:808::f7f7:f7f7", allow, allow, allow},
		{"2606:4700::5efe:7f00:1", deny, deny, allow}, {"2606:4700::200:5efe:a00:1", deny, allow, allow},
	}
	for _, tt := range tests {
		a := netip.MustParseAddr(tt.addr)
		named := compiled(t, network.Options{Allowed: []string{tt.addr}})
		for name, c := range map[string]struct {
			p    *network.Policy
			want policy.Verdict
		}{"none": {none, tt.none}, "private": {private, tt.private}, "named": {named, tt.named}} {
			if d := c.p.JudgeAddr(a, 80); d.Verdict != c.want || explained(d) != "" {
				t.Errorf("%s, %s: %+v, want %s %s", tt.addr, name, d, c.want, explained(d))
			}
		}
	}
	if d := none.JudgeAddr(netip.Addr{}, 80); d.Verdict != deny {
		t.Errorf("no address: %+v", d)
	}
	if d := none.JudgeAddr(netip.MustParseAddr("fe80::1%eth0"), 80); d.Verdict != deny {
		t.Errorf("with a zone: %+v", d)
	}
}

// TestJudgeAddrRanges holds which ranges open which addresses.
func TestJudgeAddrRanges(t *testing.T) {
	tests := []struct {
		rule, addr string
		want       policy.Verdict
	}{
		{"10.0.0.0/8", "10.1.1.1", allow}, {"10.1.0.0/16", "10.1.1.1", allow}, {"10.1.0.0/16", "10.2.1.1", deny}, {"8.0.0.0/5", "10.1.1.1", deny}, {"127.0.0.0/8", "127.0.0.1", allow}, {"127.0.0.1:80", "127.0.0.1", allow},
		{"127.0.0.1:81", "127.0.0.1", deny}, {"169.254.0.0/16", "169.254.1.1", allow}, {"169.254.0.0/16", "169.254.169.254", deny}, {"169.254.169.254", "169.254.169.254", allow}, {"100.64.0.0/10", "100.100.100.200", deny},
		{"fd00::/8", "fd00:ec2::254", deny}, {"fd00::/8", "fd00::1", allow}, {"224.0.0.0/4", "224.0.0.1", deny}, {"128.0.0.0/1", "192.168.1.1", deny}, {"10.0.0.0/8", "64:ff9b::10.1.1.1", deny},
	}
	for _, tt := range tests {
		p := compiled(t, network.Options{Allowed: []string{tt.rule}})
		if d := p.JudgeAddr(netip.MustParseAddr(tt.addr), 80); d.Verdict != tt.want {
			t.Errorf("%s, %s: %+v, want %s", tt.rule, tt.addr, d, tt.want)
		}
	}
}

func TestDeniedForAddr(t *testing.T) {
	p := compiled(t, network.Options{AllowPublic: true, AllowPrivate: true, Allowed: []string{"10.0.0.1"}, Denied: []string{"10.0.0.0/8:443", "8.8.8.8", "2606::/16", "named.example"}})
	for addr, want := range map[string]policy.Verdict{
		"10.0.0.1:443": deny, "10.0.0.1:80": allow, "8.8.8.8:53": deny, "[64:ff9b::808:808]:53": deny, "[::ffff:8.8.8.8]:53": deny, "[2002:808:808::]:53": deny, "[2606::1]:1": deny, "8.8.4.4:53": allow,
	} {
		a := netip.MustParseAddrPort(addr)
		if d := p.JudgeAddr(a.Addr(), a.Port()); d.Verdict != want {
			t.Errorf("%s: %+v, want %s", addr, d, want)
		}
	}
}

func TestJudgeListen(t *testing.T) {
	closed, open := compiled(t, network.Options{}), compiled(t, network.Options{AllowLocalBinding: true})
	for addr, want := range map[string]policy.Verdict{"127.0.0.1": allow, "::1": allow, "::ffff:127.0.0.1": allow, "0.0.0.0": deny, "192.168.1.1": deny, "::": deny} {
		a := netip.MustParseAddr(addr)
		if c, o := closed.JudgeListen(a, 80), open.JudgeListen(a, 80); c.Verdict != deny || o.Verdict != want || explained(c)+explained(o) != "" {
			t.Errorf("%s: %+v and %+v, want %s", addr, c, o, want)
		}
	}
}

func TestNewErrors(t *testing.T) {
	tests := []struct {
		name, field string
		options     network.Options
	}{
		{"everything", "network.allowedDomains[0]", network.Options{Allowed: []string{"*"}}},
		{"everything at a port", "network.allowedDomains[0]", network.Options{Allowed: []string{"*:443"}, AllowPublic: true}},
		{"every address", "network.allowedDomains[1]", network.Options{Allowed: []string{"a", "0.0.0.0/0"}, AllowPublic: true}},
		{"bad name", "network.deniedDomains[0]", network.Options{Denied: []string{"a b"}}},
		{"too many", "network.deniedDomains", network.Options{Denied: make([]string, 10_001)}},
	}
	for _, tt := range tests {
		_, err := network.New(tt.options)
		e, ok := err.(*sandbox.Error)
		if !ok || e.Code != sandbox.CodeValidation || e.Field != tt.field {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func TestParseRule(t *testing.T) {
	for _, good := range []string{
		"a", "a.b:1", "a.b:1-2", "*", "*:25", "*.a", "*.a.b:443", "1.2.3.4", "1.2.3.4:5", "0x1.2:5-6", "10.0.0.0/8", "10.0.0.0/8:80", "::1", "[::1]", "[::1]:80", "fd00::/8", "[fd00::/8]", "[fd00::/8]:80-90", "[fd00::]/8", "[fd00::]/8:1", "A.B.",
	} {
		if r, err := network.ParseRule(good); err != nil || r.String() != good {
			t.Errorf("%q: %v %v", good, r, err)
		}
	}
	for _, bad := range []string{
		"", "a b", "a:", "a:0", "a:1-", "a:-1", "a:2-1", "a:1-2-3", "a:65536", "a:x", "**", "*a", "*.", "*.*", "a.*", "*.1.2.3.4", "*:", "x/8", "10.0.0.0/33", "10.0.0.1/8", "10.0.0.0/08", "::ffff:10.0.0.0/104", "fe80::%eth0/64",
		"[::1", "[::1]:", "[::1]x", "[1.2.3.4]", "a\x00", "b\u00fc.example", "10.0.0.0/8/8", "[fd00::/8", strings.Repeat("a", 300),
	} {
		if r, err := network.ParseRule(bad); err == nil || sandbox.CodeOf(err) != sandbox.CodeValidation {
			t.Errorf("%q: %+v %v", bad, r, err)
		}
	}
	if err := network.CheckAllowed("*", false); err == nil {
		t.Error("* is allowed")
	}
	if err := network.CheckAllowed("*", true); err != nil {
		t.Error(err)
	}
}

// FuzzJudge holds that every host gets an explained verdict, that nothing is
// allowed beside the rules, and that a denied range is never reached.
func FuzzJudge(f *testing.F) {
	for _, s := range []string{"example.com", "a.example.com", "10.0.0.1", "::ffff:8.8.8.8", "2002:808:808::", "127.1", "*.example.com"} {
		f.Add(s, uint16(443))
	}
	few := compiled(f, network.Options{Allowed: []string{"*.example.com:443", "8.8.8.0/24"}, Denied: []string{"x.example.com"}})
	many := compiled(f, network.Options{AllowPublic: true, AllowPrivate: true, Denied: []string{"8.8.0.0/16"}})
	f.Fuzz(func(t *testing.T, host string, port uint16) {
		if r, err := network.ParseRule(host); err == nil {
			if again, err := network.ParseRule(r.String()); err != nil || again != r {
				t.Errorf("%q is read again as %+v %v", host, again, err)
			}
		}
		h, err := network.Canonical(host)
		if err != nil {
			return
		}
		a, isAddr := h.Addr()
		for _, p := range []*network.Policy{few, many} {
			if d := p.Judge(h, port); explained(d) != "" || isAddr && d.Verdict == allow && p.JudgeAddr(a, port).Verdict != allow {
				t.Errorf("%q: %+v", host, d)
			}
		}
		d := few.Judge(h, port)
		byName := port == 443 && strings.HasSuffix(h.String(), ".example.com") && h.String() != "x.example.com"
		byAddr := isAddr && netip.MustParsePrefix("8.8.8.0/24").Contains(a) && (port == 80 || port == 443 || port >= 1024)
		if d.Verdict == allow != (byName || byAddr) && port != 0 {
			t.Errorf("%q: %+v", host, d)
		}
		if isAddr && netip.MustParsePrefix("8.8.0.0/16").Contains(a) && many.JudgeAddr(a, port).Verdict != deny {
			t.Errorf("%q is reached", host)
		}
	})
}
