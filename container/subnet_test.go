package container

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"
)

func prefixes(texts ...string) []netip.Prefix {
	var out []netip.Prefix
	for _, t := range texts {
		out = append(out, netip.MustParsePrefix(t))
	}
	return out
}

func TestCandidatesAvoid(t *testing.T) {
	tests := map[string]struct {
		networks, routes []netip.Prefix
		in               string // where the first lies; empty: there is none
	}{
		"nothing is taken":             {nil, nil, "10.213.0.0/16"},
		"a default route":              {nil, prefixes("0.0.0.0/0"), "10.213.0.0/16"},
		"halves of the default route":  {nil, prefixes("0.0.0.0/1", "128.0.0.0/1"), "10.213.0.0/16"},
		"somebody has the first pool":  {prefixes("10.213.0.0/16"), nil, "10.87.0.0/16"},
		"a route to the first pool":    {nil, prefixes("10.192.0.0/11"), "10.87.0.0/16"},
		"a route to all of ten":        {nil, prefixes("10.0.0.0/8"), "172.16.0.0/16"},
		"ten and the engine's own":     {prefixes("172.17.0.0/16"), prefixes("10.0.0.0/8"), "172.16.0.0/16"},
		"everything private is routed": {nil, prefixes("10.0.0.0/8", "172.16.0.0/12"), ""},
		"a network of everything":      {prefixes("0.0.0.0/0"), nil, ""},
		"version 6 is another world":   {prefixes("fd00::/8"), prefixes("::/0"), "10.213.0.0/16"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := Candidates("sbx-a", tt.networks, tt.routes, 4)
			if tt.in == "" {
				if len(got) != 0 {
					t.Errorf("got %v, want none", got)
				}
				return
			}
			if len(got) != 4 {
				t.Fatalf("got %v, want 4", got)
			}
			for _, c := range got {
				if !netip.MustParsePrefix(tt.in).Contains(c.Addr()) || !servesSubnet(c) {
					t.Errorf("%s does not lie in %s, or is none of ours", c, tt.in)
				}
			}
		})
	}
}

// TestCandidatesFill takes range after range until none is left: no two
// overlap, and all of the pools is used.
func TestCandidatesFill(t *testing.T) {
	var taken []netip.Prefix
	routes := prefixes("10.213.0.0/16", "10.87.0.0/16", "172.16.1.0/24", "172.16.2.3/32", "172.16.32.0/19", "172.16.64.0/18", "172.16.128.0/17")
	for i := range 5000 {
		c := Candidates(fmt.Sprint("sbx-", i), taken, routes, 1)
		if len(c) == 0 {
			if want := (1<<13-256)/8 - 1; i != want {
				t.Fatalf("none left after %d, want %d", i, want)
			}
			return
		}
		for _, r := range routes {
			if c[0].Overlaps(r) {
				t.Fatalf("%s overlaps %s", c[0], r)
			}
		}
		if slices.Contains(taken, c[0]) {
			t.Fatalf("%s is handed out twice", c[0])
		}
		taken = append(taken, c[0])
	}
	t.Fatal("there was always one more")
}

func TestCandidatesDependOnName(t *testing.T) {
	first := map[netip.Prefix]string{}
	for i := range 40 {
		name := fmt.Sprintf("sbx-chat-%d-0123456789abcdef", i)
		a, b := Candidates(name, nil, nil, 1), Candidates(name, nil, nil, 1)
		if a[0] != b[0] {
			t.Errorf("%s gets %s and then %s", name, a[0], b[0])
		}
		first[a[0]] = name
	}
	if len(first) < 35 {
		t.Errorf("40 names begin at only %d places", len(first))
	}
}

func TestServes(t *testing.T) {
	for text, want := range map[string]bool{
		"10.213.4.8/29": true, "172.16.255.248/29": true,
		"10.213.4.9/29": false, "10.213.4.0/24": false, "10.214.0.0/29": false, "172.17.0.0/29": false, "fd00::/29": false,
	} {
		if got := servesSubnet(netip.MustParsePrefix(text)); got != want {
			t.Errorf("%s: %v", text, got)
		}
	}
	if servesSubnet(netip.Prefix{}) {
		t.Error("no prefix at all serves")
	}
}
