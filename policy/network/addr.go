package network

import "net/netip"

// A class is a kind of address, from harmless to never reached.
type class int

const (
	public     class = iota
	private          // of a private network
	special          // of this machine or link, or for documents and measurements
	metadata         // of the service that hands out a machine's credentials
	unroutable       // no single host
)

// A block is a range of addresses of one class.
type block struct {
	prefix netip.Prefix
	class  class
	name   string
}

// A table is what is known of addresses.
type table struct {
	blocks        []block
	global, nat64 netip.Prefix // where IPv6 addresses of the public are
}

func newTable() table {
	return table{blocks(), netip.MustParsePrefix("2000::/3"), netip.MustParsePrefix("64:ff9b::/96")}
}

// blocks returns the ranges that are not public, the special ones within
// others first.
func blocks() []block {
	var out []block
	for _, b := range [...]struct {
		class  class
		name   string
		ranges []string
	}{
		{metadata, "the metadata service of a cloud", []string{
			"169.254.169.254/32", "169.254.170.2/32", "169.254.170.23/32", "169.254.169.253/32", "169.254.169.123/32", "169.254.42.42/32", "169.254.0.23/32",
			"100.100.100.200/32", "168.63.129.16/32", "192.0.0.192/32", "fd00:ec2::254/128", "fd00:ec2::23/128", "fd00:ec2::253/128", "fd20:ce::254/128", "fd00:42::42/128",
		}},
		{unroutable, "the unspecified address", []string{"0.0.0.0/8", "::/128"}},
		{unroutable, "a multicast address", []string{"224.0.0.0/4", "ff00::/8"}},
		{unroutable, "a broadcast or reserved address", []string{"240.0.0.0/4"}},
		{unroutable, "an address that leads nowhere", []string{"100::/64", "100:0:0:1::/64"}},
		{special, "a loopback address", []string{"127.0.0.0/8", "::1/128"}},
		{special, "a link-local address", []string{"169.254.0.0/16", "fe80::/10"}},
		{special, "an address for documents", []string{"192.0.2.0/24", "198.51.100.0/24", "203.0.113.0/24", "2001:db8::/32", "3fff::/20"}},
		{special, "an address for measurements", []string{"198.18.0.0/15", "2001:2::/48"}},
		{special, "an address of a protocol", []string{"192.0.0.0/24", "192.88.99.0/24", "192.31.196.0/24", "192.52.193.0/24", "192.175.48.0/24", "2001:10::/28", "2001:20::/28", "5f00::/16"}},
		{private, "a private address", []string{"10.0.0.0/8", "172.16.0.0/12", "192.168.0.0/16", "fc00::/7", "fec0::/10"}},
		{private, "an address shared by customers of a provider", []string{"100.64.0.0/10"}},
		{private, "an address behind a translator of the own network", []string{"64:ff9b:1::/48"}},
	} {
		for _, r := range b.ranges {
			out = append(out, block{netip.MustParsePrefix(r), b.class, b.name})
		}
	}
	return out
}

// classify returns the class of a, with its name. Of an address that carries
// an IPv4 address in it the worse of both counts.
func (t *table) classify(a netip.Addr) (worst class, name string) {
	carried, n := unwrapped(a)
	for _, a := range carried[:n] {
		for _, b := range t.blocks {
			if b.prefix.Contains(a) {
				if b.class > worst {
					worst, name = b.class, b.name
				}
				break
			}
		}
	}
	if a := carried[0]; worst == public && a.Is6() && !t.global.Contains(a) && !t.nat64.Contains(a) {
		return unroutable, "an address that is not assigned"
	}
	return worst, name
}

// unwrapped returns a and the IPv4 addresses that it carries: mapped,
// compatible, translated (NAT64, SIIT), 6to4, Teredo, ISATAP. n is how many
// these are.
func unwrapped(a netip.Addr) (out [4]netip.Addr, n int) {
	a = a.WithZone("").Unmap()
	out[0], n = a, 1
	if a.Is4() {
		return out, n
	}
	b := a.As16()
	add := func(four [4]byte) { out[n], n = netip.AddrFrom4(four), n+1 }
	zero := func(from, to int) bool {
		for _, c := range b[from:to] {
			if c != 0 {
				return false
			}
		}
		return true
	}
	switch {
	case zero(0, 12) && !zero(12, 15): // ::a.b.c.d, without :: and ::1
		add([4]byte(b[12:]))
	case zero(0, 8) && b[8] == 0xff && b[9] == 0xff && zero(10, 12): // ::ffff:0:a.b.c.d
		add([4]byte(b[12:]))
	case b[0] == 0 && b[1] == 0x64 && b[2] == 0xff && b[3] == 0x9b: // 64:ff9b::a.b.c.d
		add([4]byte(b[12:]))
	case b[0] == 0x20 && b[1] == 0x02: // 2002:ab:cd::
		add([4]byte(b[2:]))
	case b[0] == 0x20 && b[1] == 0x01 && b[2] == 0 && b[3] == 0: // 2001:0:server:…:client, its bits turned
		add([4]byte(b[4:]))
		add([4]byte{^b[12], ^b[13], ^b[14], ^b[15]})
	}
	if b[8]&^2 == 0 && b[9] == 0 && b[10] == 0x5e && b[11] == 0xfe { // …:0:5efe:a.b.c.d
		add([4]byte(b[12:]))
	}
	return out, n
}

// PrivateRanges returns the ranges of addresses that network.allowPrivate is
// about, as rules name them.
func PrivateRanges() []string {
	var out []string
	for _, b := range blocks() {
		if b.class == private {
			out = append(out, b.prefix.String())
		}
	}
	return out
}
