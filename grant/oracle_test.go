package grant_test

import (
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"

	"github.com/bulkhead-dev/sandbox/grant"
)

// A probe is one possible request: the smallest unit that capabilities
// distinguish.
type probe struct {
	kind                           grant.Kind
	path, host, scheme, word, name string
	port                           int
	bytes                          int64
}

// allows says whether a list of capabilities allows the probe. It is written
// from the words of the documentation, with strings and without anything of
// what it is a check of.
func allows(list []grant.Capability, p probe) bool {
	return slices.ContainsFunc(list, func(c grant.Capability) bool { return c.Kind == p.kind && allowsOne(c, p) })
}

func allowsOne(c grant.Capability, p probe) bool {
	switch c.Kind {
	case grant.FSRead, grant.FSWrite, grant.FSList:
		return c.Path == "/" || p.path == c.Path || strings.HasPrefix(p.path, c.Path+"/")
	case grant.NetHTTP:
		return hostAllowed(c.Host, p.host) && portAllowed(c, p) && (c.Scheme == "" || c.Scheme == p.scheme) &&
			(slices.Contains(c.Methods, "*") || slices.Contains(c.Methods, p.word))
	case grant.Browser:
		return slices.Contains(c.Actions, p.word)
	case grant.Process:
		return c.Tool == p.name
	case grant.Temp:
		return c.Bytes == 0 || p.bytes <= c.Bytes && p.bytes > 0
	case grant.GPU:
		return c.Class == p.name
	}
	return false
}

func hostAllowed(rule, host string) bool {
	if a, err := netip.ParseAddr(host); err == nil {
		if prefix, err := netip.ParsePrefix(rule); err == nil {
			return prefix.Contains(a)
		}
		return rule == host
	}
	parent, wild := strings.CutPrefix(rule, "*.")
	return rule == "*" || rule == host || wild && strings.HasSuffix(host, "."+parent)
}

func portAllowed(c grant.Capability, p probe) bool {
	switch {
	case c.Port != 0:
		return c.Port == p.port
	case c.Scheme == "http":
		return p.port == 80
	case c.Scheme == "https":
		return p.port == 443
	}
	return p.port == 80 || p.port == 443 || p.port >= 1024
}

// Values that capabilities and probes are made of: near each other, so that
// they meet often.
var (
	folders = []string{"/", "/a", "/a/b", "/a/b/c", "/ab", "/a/bc", "/b"}
	rules   = []string{"*", "x.test", "*.x.test", "a.x.test", "*.a.x.test", "y.test", "10.0.0.0/8", "10.1.0.0/16", "10.1.2.3", "2001:db8::/32"}
	hosts   = []string{"x.test", "a.x.test", "b.a.x.test", "xx.test", "y.test", "test", "10.1.2.3", "10.2.0.1", "11.0.0.1", "2001:db8::1"}
	ports   = []int{0, 80, 443, 22, 8080}
	schemes = []string{"", "http", "https"}
	verbs   = []string{"GET", "POST", "PUT"}
	acts    = []string{"open", "click", "extract"}
	names   = []string{"git", "make", "cc"}
	sizes   = []int64{0, 1, 10, 1000}
	fsKinds = []grant.Kind{grant.FSRead, grant.FSWrite, grant.FSList}
)

// universe is every probe of those values.
func universe() []probe {
	var out []probe
	for _, k := range fsKinds {
		for _, p := range append([]string{"/a/b/c/d", "/c", "/abc/b"}, folders...) {
			out = append(out, probe{kind: k, path: p})
		}
	}
	for _, h := range hosts {
		for _, port := range []int{80, 443, 22, 8080, 1024, 1023} {
			for _, s := range []string{"http", "https"} {
				for _, m := range append([]string{"DELETE"}, verbs...) {
					out = append(out, probe{kind: grant.NetHTTP, host: h, port: port, scheme: s, word: m})
				}
			}
		}
	}
	for _, a := range append([]string{"type"}, acts...) {
		out = append(out, probe{kind: grant.Browser, word: a})
	}
	for _, n := range names {
		out = append(out, probe{kind: grant.Process, name: n}, probe{kind: grant.GPU, name: n})
	}
	for _, n := range []int64{1, 2, 10, 11, 1000, 1001} {
		out = append(out, probe{kind: grant.Temp, bytes: n})
	}
	return out
}

func one[T any](r *rand.Rand, from []T) T { return from[r.IntN(len(from))] }

// some takes a part of the list that is not empty.
func some(r *rand.Rand, from []string) []string {
	out := []string{one(r, from)}
	for _, s := range from {
		if r.IntN(3) == 0 {
			out = append(out, s)
		}
	}
	return out
}

func randomCapability(r *rand.Rand) grant.Capability {
	switch r.IntN(9) {
	case 0, 1, 2:
		return grant.Capability{Kind: one(r, fsKinds), Path: one(r, folders)}
	case 3, 4, 5:
		c := grant.Capability{Kind: grant.NetHTTP, Host: one(r, rules), Port: one(r, ports), Scheme: one(r, schemes), Methods: some(r, verbs)}
		if r.IntN(5) == 0 {
			c.Methods = append(c.Methods, "*")
		}
		return c
	case 6:
		return grant.Capability{Kind: grant.Browser, Actions: some(r, acts)}
	case 7:
		if r.IntN(2) == 0 {
			return grant.Capability{Kind: grant.GPU, Class: one(r, names)}
		}
		return grant.Capability{Kind: grant.Process, Tool: one(r, names)}
	}
	return grant.Capability{Kind: grant.Temp, Bytes: one(r, sizes)}
}

func randomList(r *rand.Rand) []grant.Capability {
	out := []grant.Capability{}
	for range r.IntN(9) {
		out = append(out, randomCapability(r))
	}
	return out
}
