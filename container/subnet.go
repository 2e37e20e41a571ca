// This file chooses address ranges for networks that serve one sandbox each.
// Its functions are pure: the ranges that are in use are arguments.
//
// The ranges are small and lie outside those that engines hand out by
// themselves, which are few: about thirty networks use them up. So many
// sandboxes can have a network each, and none takes a range from a network that
// another program creates.

package container

import (
	"encoding/binary"
	"hash/fnv"
	"net/netip"
)

// Bits is the length of the prefix of a range: 8 addresses, of which the
// gateway and one sandbox need one each.
const subnetBits = 29

// shortestRoute is the length from which a route counts as one to certain
// places. Shorter ones are ways to everywhere: the default route, and the
// halves of it that tunnels lay over it.
const shortestRoute = 8

// pools are the private ranges that are cut up, in the order of use. A host
// that routes all of 10.0.0.0/8 somewhere is left with the last.
func pools() []netip.Prefix {
	return []netip.Prefix{
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 213, 0, 0}), 16),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 87, 0, 0}), 16),
		netip.PrefixFrom(netip.AddrFrom4([4]byte{172, 16, 0, 0}), 16),
	}
}

// Candidates returns up to most ranges that overlap nothing of networks and
// routes, best first. Where the search begins depends on name alone, so that
// sandboxes that are made at once seldom try the same range, and one that is
// made anew mostly gets the range it had. The result is empty if no range is
// free. Routes with prefixes shorter than /8 are default routes and are
// ignored.
func Candidates(name string, networks, routes []netip.Prefix, most int) []netip.Prefix {
	taken := make([]netip.Prefix, 0, len(networks)+len(routes))
	taken = append(taken, networks...)
	for _, r := range routes {
		if r.Bits() >= shortestRoute {
			taken = append(taken, r)
		}
	}
	var out []netip.Prefix
	for _, pool := range pools() {
		used := slotsIn(pool, taken)
		slots := uint32(len(used))
		first := start(name) % slots
		for i := range slots {
			if len(out) >= most {
				return out
			}
			if n := (first + i) % slots; !used[n] {
				out = append(out, nth(pool, n))
			}
		}
	}
	return out
}

// slotsIn tells of each range of pool whether one of taken has some of it.
func slotsIn(pool netip.Prefix, taken []netip.Prefix) []bool {
	used := make([]bool, 1<<(subnetBits-pool.Bits()))
	for _, t := range taken {
		if !t.Overlaps(pool) {
			continue
		}
		first, count := 0, len(used)
		if t.Bits() > pool.Bits() {
			first = int((number(t.Masked().Addr()) - number(pool.Addr())) >> (32 - subnetBits))
			count = 1 << max(0, subnetBits-t.Bits())
		}
		for n := first; n < first+count; n++ {
			used[n] = true
		}
	}
	return used
}

// Serves reports whether p is a range that Candidates may have returned.
func servesSubnet(p netip.Prefix) bool {
	if p.Bits() != subnetBits || p != p.Masked() {
		return false
	}
	for _, pool := range pools() {
		if pool.Contains(p.Addr()) {
			return true
		}
	}
	return false
}

// nth is the range number n of pool.
func nth(pool netip.Prefix, n uint32) netip.Prefix {
	var a [4]byte
	binary.BigEndian.PutUint32(a[:], number(pool.Addr())+n<<(32-subnetBits))
	return netip.PrefixFrom(netip.AddrFrom4(a), subnetBits)
}

// number is an IPv4 address as a number.
func number(a netip.Addr) uint32 {
	b := a.As4()
	return binary.BigEndian.Uint32(b[:])
}

func start(name string) uint32 {
	h := fnv.New32a()
	h.Write([]byte(name)) // never fails
	return h.Sum32()
}
