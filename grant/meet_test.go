package grant_test

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/grant"
)

func met(t testing.TB, a, b []grant.Capability) []grant.Capability {
	t.Helper()
	out, err := grant.Meet(a, b)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func normal(t testing.TB, list []grant.Capability) []grant.Capability {
	t.Helper()
	out, err := grant.Normal(list)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestMeetLaws checks the laws over random lists of a small world, against an
// oracle that is written without what it checks: the meet allows exactly what both allow;
// it is commutative, associative and idempotent; and a normal form allows what
// the list does and is its own.
func TestMeetLaws(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 1))
	all := universe()
	for n := range rounds(1500) {
		a, b, c := randomList(r), randomList(r), randomList(r)
		ab := met(t, a, b)
		for _, p := range all {
			if got, want := allows(ab, p), allows(a, p) && allows(b, p); got != want {
				t.Fatalf("round %d: %+v\n%+v\nmeet %+v: %+v is %v, want %v", n, a, b, ab, p, got, want)
			}
			if got, want := allows(normal(t, a), p), allows(a, p); n < 100 && got != want {
				t.Fatalf("round %d: %+v\nnormal %+v: %+v is %v, want %v", n, a, normal(t, a), p, got, want)
			}
		}
		same(t, "commutative", ab, met(t, b, a))
		same(t, "idempotent", normal(t, a), met(t, a, a))
		same(t, "again", ab, met(t, ab, a))
		same(t, "associative", met(t, ab, c), met(t, a, met(t, b, c)))
		same(t, "normal of normal", normal(t, a), normal(t, normal(t, a)))
		r.Shuffle(len(a), func(i, j int) { a[i], a[j] = a[j], a[i] })
		same(t, "order", ab, met(t, append(a, a...), b))
	}
}

// TestMeetGrows checks that more on one side never takes from the result, and
// less never adds to it.
func TestMeetGrows(t *testing.T) {
	r := rand.New(rand.NewPCG(8, 2))
	all := universe()
	for n := range rounds(500) {
		a, b := append(randomList(r), randomCapability(r)), randomList(r)
		more, less := met(t, a, b), met(t, a[:len(a)-1], b)
		for _, p := range all {
			if allows(less, p) && !allows(more, p) {
				t.Fatalf("round %d: with %+v added to %+v, %+v is lost", n, a[len(a)-1], a[:len(a)-1], p)
			}
		}
	}
}

func same(t *testing.T, law string, a, b []grant.Capability) {
	t.Helper()
	if !reflect.DeepEqual(a, b) {
		t.Fatalf("%s: %+v\nand %+v", law, a, b)
	}
}

// TestMeet names what the narrowest is, kind by kind.
func TestMeet(t *testing.T) {
	fs := func(k grant.Kind, p string) grant.Capability { return grant.Capability{Kind: k, Path: p} }
	net := func(host string, port int, scheme string, methods ...string) grant.Capability {
		return grant.Capability{Kind: grant.NetHTTP, Host: host, Port: port, Scheme: scheme, Methods: methods}
	}
	tests := []struct {
		name string
		a, b grant.Capability
		want string // as fmt has it; empty is nothing
	}{
		{"folder in folder", fs(grant.FSRead, "/w"), fs(grant.FSRead, "/w/a"), "/w/a"},
		{"folders apart", fs(grant.FSRead, "/w"), fs(grant.FSRead, "/wa"), ""},
		{"root", fs(grant.FSRead, "/"), fs(grant.FSRead, "/w"), "/w"},
		{"reading is not writing", fs(grant.FSRead, "/w"), fs(grant.FSWrite, "/w"), ""},
		{"reading is not listing", fs(grant.FSRead, "/w"), fs(grant.FSList, "/w"), ""},
		{"wildcard and host", net("*.x.test", 0, "", "*"), net("a.x.test", 0, "", "GET"), "a.x.test 0  [GET]"},
		{"wildcard is not the host", net("*.x.test", 0, "", "*"), net("x.test", 0, "", "GET"), ""},
		{"spelling", net("A.X.test.", 0, "", "*"), net("*.x.TEST", 0, "", "GET"), "a.x.test 0  [GET]"},
		{"wildcards", net("*.x.test", 0, "", "GET"), net("*.a.x.test", 0, "", "GET"), "*.a.x.test 0  [GET]"},
		{"address in range", net("10.0.0.0/8", 0, "", "GET"), net("0x0a.1", 0, "", "GET"), "10.0.0.1 0  [GET]"},
		{"every name is no address", net("*", 0, "", "GET"), net("10.0.0.1", 0, "", "GET"), ""},
		{"port", net("x.test", 0, "", "GET"), net("x.test", 8443, "", "GET"), "x.test 8443  [GET]"},
		{"unusual port", net("x.test", 0, "", "GET"), net("x.test", 22, "", "GET"), ""},
		{"scheme brings its port", net("x.test", 0, "https", "GET"), net("x.test", 0, "", "GET"), "x.test 443 https [GET]"},
		{"scheme at a port", net("x.test", 8443, "", "GET"), net("x.test", 8443, "https", "GET"), "x.test 8443 https [GET]"},
		{"scheme at another port", net("x.test", 8443, "", "GET"), net("x.test", 0, "https", "GET"), ""},
		{"schemes", net("x.test", 0, "http", "GET"), net("x.test", 0, "https", "GET"), ""},
		{"methods", net("x.test", 0, "", "GET", "POST"), net("x.test", 0, "", "PUT", "POST"), "x.test 0  [POST]"},
		{"no methods", net("x.test", 0, "", "GET"), net("x.test", 0, "", "POST"), ""},
		{"wide and narrow crosswise", net("*.x.test", 443, "", "GET"), net("a.x.test", 0, "https", "*"), "a.x.test 443 https [GET]"},
		{"actions", grant.Capability{Kind: grant.Browser, Actions: []string{"open", "click"}}, grant.Capability{Kind: grant.Browser, Actions: []string{"type", "open"}}, "open"},
		{"programs", grant.Capability{Kind: grant.Process, Tool: "git"}, grant.Capability{Kind: grant.Process, Tool: "Git"}, ""},
		{"space", grant.Capability{Kind: grant.Temp, Bytes: 10}, grant.Capability{Kind: grant.Temp}, "10"},
		{"less space", grant.Capability{Kind: grant.Temp, Bytes: 10}, grant.Capability{Kind: grant.Temp, Bytes: 5}, "5"},
		{"gpu", grant.Capability{Kind: grant.GPU, Class: "a100"}, grant.Capability{Kind: grant.GPU, Class: "a100"}, "a100"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := ""
			if out := met(t, []grant.Capability{tt.a}, []grant.Capability{tt.b}); len(out) > 0 {
				got = short(out[0])
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

func short(c grant.Capability) string {
	switch c.Kind {
	case grant.NetHTTP:
		return fmt.Sprint(c.Host, " ", c.Port, " ", c.Scheme, " ", c.Methods)
	case grant.Browser:
		return fmt.Sprint(c.Actions[0])
	case grant.Temp:
		return fmt.Sprint(c.Bytes)
	}
	return c.Path + c.Tool + c.Class
}

func TestNormal(t *testing.T) {
	got := normal(t, []grant.Capability{
		{Kind: grant.NetHTTP, Host: "a.x.test", Methods: []string{"PUT", "GET"}},
		{Kind: grant.Temp, Bytes: 5},
		{Kind: grant.FSRead, Path: "/w/a"},
		{Kind: grant.NetHTTP, Host: "*.X.test", Methods: []string{"GET"}},
		{Kind: grant.FSRead, Path: "/w"},
		{Kind: grant.Temp},
		{Kind: grant.Browser, Actions: []string{"type"}},
		{Kind: grant.Browser, Actions: []string{"open", "open"}},
		{Kind: grant.NetHTTP, Host: "A.x.test", Methods: []string{"POST"}},
	})
	same(t, "normal form", got, []grant.Capability{
		{Kind: grant.Browser, Actions: []string{"open", "type"}},
		{Kind: grant.FSRead, Path: "/w"},
		{Kind: grant.NetHTTP, Host: "*.x.test", Methods: []string{"GET"}},
		{Kind: grant.NetHTTP, Host: "a.x.test", Methods: []string{"POST", "PUT"}},
		{Kind: grant.Temp},
	})
}

func TestCapabilityFaults(t *testing.T) {
	tests := []struct {
		name  string
		c     grant.Capability
		field string
	}{
		{"no kind", grant.Capability{}, "kind"},
		{"alien field", grant.Capability{Kind: grant.FSRead, Path: "/a", Tool: "git"}, "tool"},
		{"relative", grant.Capability{Kind: grant.FSRead, Path: "a"}, "path"},
		{"no path", grant.Capability{Kind: grant.FSList}, "path"},
		{"back", grant.Capability{Kind: grant.FSWrite, Path: "/a/../b"}, "path"},
		{"slash at the end", grant.Capability{Kind: grant.FSWrite, Path: "/a/"}, "path"},
		{"NUL", grant.Capability{Kind: grant.FSWrite, Path: "/a\x00"}, "path"},
		{"no UTF-8", grant.Capability{Kind: grant.FSWrite, Path: "/a\xff"}, "path"},
		{"text turned around", grant.Capability{Kind: grant.FSWrite, Path: "/a\u202e"}, "path"},
		{"host with port", grant.Capability{Kind: grant.NetHTTP, Host: "x.test:443", Methods: []string{"GET"}}, "host"},
		{"no host", grant.Capability{Kind: grant.NetHTTP, Methods: []string{"GET"}}, "host"},
		{"no methods", grant.Capability{Kind: grant.NetHTTP, Host: "x.test"}, "methods"},
		{"small method", grant.Capability{Kind: grant.NetHTTP, Host: "x.test", Methods: []string{"get"}}, "methods[0]"},
		{"tunnel", grant.Capability{Kind: grant.NetHTTP, Host: "x.test", Methods: []string{"CONNECT"}}, "methods[0]"},
		{"scheme", grant.Capability{Kind: grant.NetHTTP, Host: "x.test", Scheme: "ftp", Methods: []string{"GET"}}, "scheme"},
		{"port", grant.Capability{Kind: grant.NetHTTP, Host: "x.test", Port: 70000, Methods: []string{"GET"}}, "port"},
		{"no actions", grant.Capability{Kind: grant.Browser}, "actions"},
		{"unknown action", grant.Capability{Kind: grant.Browser, Actions: []string{"eval"}}, "actions[0]"},
		{"program with folder", grant.Capability{Kind: grant.Process, Tool: "/bin/sh"}, "tool"},
		{"program as option", grant.Capability{Kind: grant.Process, Tool: "-c"}, "tool"},
		{"pattern of programs", grant.Capability{Kind: grant.Process, Tool: "*"}, "tool"},
		{"less than no space", grant.Capability{Kind: grant.Temp, Bytes: -1}, "bytes"},
		{"no class", grant.Capability{Kind: grant.GPU}, "class"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := grant.Normal([]grant.Capability{{Kind: grant.Temp}, tt.c})
			refused(t, err, sandbox.CodeValidation, "capabilities[1]."+tt.field)
		})
	}
	_, err := grant.Normal(make([]grant.Capability, 257))
	refused(t, err, sandbox.CodeValidation, "capabilities")
}

// TestMeetIsBounded checks that lists which cross in very many ways are refused
// soon, and as many as may be that do not cross are not.
func TestMeetIsBounded(t *testing.T) {
	var ports, names []grant.Capability
	for i := range 256 {
		ports = append(ports, grant.Capability{Kind: grant.NetHTTP, Host: "*", Port: 2000 + i, Methods: []string{"GET"}})
		names = append(names, grant.Capability{Kind: grant.NetHTTP, Host: fmt.Sprintf("h%d.test", i), Methods: []string{"GET"}})
	}
	_, err := grant.Meet(ports, names)
	refused(t, err, sandbox.CodeValidation, "a")
	g, m, p := aGrant(), aManifest(), aPolicy()
	g.Capabilities = ports
	m.Capabilities, p.Capabilities = names, names
	_, err = grant.Build(g, m, p, noon())
	refused(t, err, sandbox.CodeValidation, "grant.capabilities")
	if got := met(t, names, names); len(got) != 256 {
		t.Errorf("%d are left of 256", len(got))
	}
}
