package network_test

import (
	"net/netip"
	"strings"
	"testing"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

func TestCanonical(t *testing.T) {
	long := strings.Repeat("a", 63)
	tests := []struct{ host, want string }{
		{"example.com", "example.com"}, {"EXAMPLE.Com", "example.com"}, {"example.com.", "example.com"}, {"a", "a"}, {"localhost", "localhost"},
		{"a-b.c--d.e", "a-b.c--d.e"}, {"xn--bcher-kva.example", "xn--bcher-kva.example"}, {"_dmarc.x_y.example", "_dmarc.x_y.example"}, {"3com.example", "3com.example"},
		{"1.2.3.4x", "1.2.3.4x"}, {long + ".example", long + ".example"},

		{"127.0.0.1", "127.0.0.1"}, {"127.0.0.1.", "127.0.0.1"}, {"127.1", "127.0.0.1"}, {"127.0.1", "127.0.0.1"}, {"2130706433", "127.0.0.1"}, {"0x7f000001", "127.0.0.1"},
		{"0X7F.0.0.1", "127.0.0.1"}, {"0x7f.1", "127.0.0.1"}, {"017700000001", "127.0.0.1"}, {"0177.0.0.01", "127.0.0.1"}, {"0177.0x0.1", "127.0.0.1"}, {"0", "0.0.0.0"},
		{"010.8.8.8", "8.8.8.8"}, {"4294967295", "255.255.255.255"}, {"0x00000000007f.1", "127.0.0.1"},

		{"::1", "::1"}, {"[::1]", "::1"}, {"[0:0::0:1]", "::1"}, {"::ffff:127.0.0.1", "127.0.0.1"}, {"[::FFFF:7f00:1]", "127.0.0.1"}, {"2001:DB8::7", "2001:db8::7"},
		{"::127.0.0.1", "::7f00:1"},

		{"", ""}, {".", ""}, {"..", ""}, {"a..b", ""}, {".a", ""}, {"a..", ""}, {"-a.b", ""}, {"a-.b", ""}, {"xn--google-.com", ""}, {"a.b_c", ""}, {"localhost_", ""},
		{"evil\x00.google.com", ""}, {"a\tb", ""}, {"a b", ""}, {" a", ""}, {"a\r\nb", ""}, {"a\x7f", ""}, {"b\u00fccher.example", ""}, {"a\u200b.com", ""}, {"127\u30020\u30020\u30021", ""}, {"\uff11.1.1.1", ""},
		{"a%2eb", ""}, {"fe80::1%eth0", ""}, {"[fe80::1%25eth0]", ""}, {"user@host", ""}, {"http://x", ""}, {"x/y", ""}, {`x\y`, ""}, {"x?y", ""}, {"x#y", ""}, {"a,b", ""}, {"*.a", ""},
		{"256.1.1.1", ""}, {"1.2.3.4.5", ""}, {"127.0.0.0x", ""}, {"08.1.1.1", ""}, {"1.2.3.08", ""}, {"4294967296", ""}, {"1.16777216", ""}, {"a.1", ""}, {"1..2", ""}, {"+1", ""}, {"0x1_0", ""}, {"1.2.3.-4", ""},
		{"[127.0.0.1]", ""}, {"[a.b]", ""}, {"[::1", ""}, {"::1]", ""}, {"[[::1]]", ""}, {"[]", ""}, {"a:80", ""}, {"1.2.3.4:80", ""}, {":::", ""}, {"::1.2.3", ""}, {"1:2:3:4:5:6:7:8:9", ""},
		{long + "a.example", ""}, {strings.Repeat("a.", 127) + "ab", ""}, {strings.Repeat("a", 100_000), ""},
	}
	for _, tt := range tests {
		h, err := network.Canonical(tt.host)
		if h.String() != tt.want && !(tt.want == "" && h.IsZero()) || (err == nil) != (tt.want != "") {
			t.Errorf("%.60q: %q %v, want %q", tt.host, h, err, tt.want)
		}
		if err != nil && (sandbox.CodeOf(err) != sandbox.CodeValidation || len(err.Error()) > 300 || strings.ContainsAny(err.Error(), "\x00\r\n\t")) {
			t.Errorf("%.60q: the error is not fit to be shown: %q", tt.host, err)
		}
	}
}

func TestParseTarget(t *testing.T) {
	tests := []struct{ target, want string }{
		{"example.com:443", "example.com:443"}, {"Example.COM.:1", "example.com:1"}, {"0x7f.1:65535", "127.0.0.1:65535"}, {"[::1]:80", "[::1]:80"}, {"[::ffff:1.2.3.4]:80", "1.2.3.4:80"},
		{"example.com", ""}, {"example.com:", ""}, {"example.com:0", ""}, {"example.com:00080", ""}, {"example.com:080", ""}, {"example.com:65536", ""}, {"example.com:+80", ""}, {"example.com:80 ", ""},
		{"example.com:http", ""}, {"::1:80", ""}, {"[::1]", ""}, {"[::1]80", ""}, {":80", ""}, {"a:b:80", ""}, {"user@a:80", ""}, {"", ""}, {"[::1]x:80", ""},
	}
	for _, tt := range tests {
		h, port, err := network.ParseTarget(tt.target)
		if (err == nil) != (tt.want != "") || err == nil && h.Target(port) != tt.want {
			t.Errorf("%q: %q %d %v, want %q", tt.target, h, port, err, tt.want)
		}
	}
}

func TestHostOf(t *testing.T) {
	mapped, zoned := netip.MustParseAddr("::ffff:10.0.0.1"), netip.MustParseAddr("fe80::1%eth0")
	plain, err := network.Canonical("10.1")
	if err != nil || network.HostOf(mapped) != plain || network.HostOf(zoned).String() != "fe80::1" {
		t.Errorf("%v %v %v", network.HostOf(mapped), network.HostOf(zoned), err)
	}
	if a, ok := plain.Addr(); !ok || a != netip.MustParseAddr("10.0.0.1") {
		t.Errorf("%v %v", a, ok)
	}
}

// FuzzCanonical holds that a canonical host is read as itself, has none of the
// signs by which readers differ, and that an address has one spelling only.
func FuzzCanonical(f *testing.F) {
	for _, s := range []string{"example.com", "127.1", "0x7f.0.0.1", "[::ffff:127.0.0.1]", "A.b.", "::1", "017700000001", "xn--a.b", "a_b.c", "evil\x00.google.com", "1.2.3.4.5"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		h, err := network.Canonical(text)
		if err != nil {
			if !h.IsZero() {
				t.Fatalf("%q: %v and an error", text, h)
			}
			return
		}
		s := h.String()
		again, err := network.Canonical(s)
		if err != nil || again != h || again.String() != s {
			t.Fatalf("%q: %q, read again %q %v", text, s, again, err)
		}
		if upper, err := network.Canonical(strings.ToUpper(s)); err != nil || upper != h {
			t.Errorf("%q: upper case is %q %v", text, upper, err)
		}
		if s == "" || len(s) > 253 || strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-._:") != "" {
			t.Errorf("%q: %q", text, s)
		}
		a, isAddr := h.Addr()
		parsed, err := netip.ParseAddr(s)
		if isAddr != (err == nil) || isAddr && parsed != a {
			t.Errorf("%q: %q is an address: %v, netip says %v", text, s, isAddr, err)
		}
		if back, port, err := network.ParseTarget(h.Target(443)); err != nil || back != h || port != 443 {
			t.Errorf("%q: target %q is read as %v %d %v", text, h.Target(443), back, port, err)
		}
		if strict, err := netip.ParseAddr(text); err == nil && strict.Zone() == "" && network.HostOf(strict) != h {
			t.Errorf("%q: %v, netip reads %v", text, h, strict)
		}
	})
}

// FuzzIPv4 holds that all spellings of an address are the same host.
func FuzzIPv4(f *testing.F) {
	f.Add(uint32(0x7f000001), uint8(0), uint8(4))
	f.Add(uint32(0xa9fea9fe), uint8(0x1b), uint8(2))
	f.Fuzz(func(t *testing.T, n uint32, bases, parts uint8) {
		want := netip.AddrFrom4([4]byte{byte(n >> 24), byte(n >> 16), byte(n >> 8), byte(n)})
		h, err := network.Canonical(spell(n, bases, int(parts%4)+1))
		if got, ok := h.Addr(); err != nil || !ok || got != want {
			t.Errorf("%s: %v %v, want %s", spell(n, bases, int(parts%4)+1), h, err, want)
		}
	})
}
