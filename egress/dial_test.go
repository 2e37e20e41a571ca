package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/policy"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A names resolver answers from a list, one entry for each lookup; the last
// one stays.
type names struct {
	mu      sync.Mutex
	answers [][]netip.Addr
	asked   []string
}

func (n *names) LookupNetIP(_ context.Context, network, host string) ([]netip.Addr, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.asked = append(n.asked, network+" "+host)
	return n.answers[min(len(n.asked), len(n.answers))-1], nil
}

// A leading connection reports a given remote address.
type leading struct {
	net.Conn
	to     netip.AddrPort
	closed chan struct{} // nil, or closed by Close
}

func (l leading) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(l.to) }

func (l leading) Close() error {
	if l.closed != nil {
		close(l.closed)
	}
	return nil
}

// A dialler records the dialled addresses, and connects to nothing.
type dialler struct {
	mu   sync.Mutex
	seen []string
	fail error
}

func (d *dialler) dial(_ context.Context, to netip.AddrPort) (net.Conn, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.seen = append(d.seen, to.String())
	if d.fail != nil {
		return nil, d.fail
	}
	return leading{to: to}, nil
}

func addrs(list ...string) []netip.Addr {
	var out []netip.Addr
	for _, text := range list {
		if text == "" {
			out = append(out, netip.Addr{})
			continue
		}
		out = append(out, netip.MustParseAddr(text))
	}
	return out
}

func host(t testing.TB, name string) network.Host {
	t.Helper()
	h, err := network.Canonical(name)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func compiled(t testing.TB, o network.Options) *network.Policy {
	t.Helper()
	p, err := network.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestVetting checks which answers of a name server are dialled, and which
// refusal is reported if none may be.
func TestVetting(t *testing.T) {
	public := network.Options{AllowPublic: true}
	tests := map[string]struct {
		options network.Options
		answers []netip.Addr
		dialled string // empty: refused
		refused string
	}{
		"public":                    {public, addrs("1.1.1.1"), "1.1.1.1:443", ""},
		"public IPv6":               {public, addrs("2606:4700::1111"), "[2606:4700::1111]:443", ""},
		"private":                   {public, addrs("10.1.2.3"), "", "10.1.2.3:443"},
		"private before public":     {public, addrs("10.1.2.3", "1.1.1.1"), "1.1.1.1:443", ""},
		"public before private":     {public, addrs("1.1.1.1", "10.1.2.3"), "1.1.1.1:443", ""},
		"several private":           {public, addrs("10.1.2.3", "192.168.1.1"), "", "10.1.2.3:443"},
		"loopback":                  {public, addrs("127.0.0.1"), "", "127.0.0.1:443"},
		"loopback, other":           {public, addrs("127.9.9.9", "::1"), "", "127.9.9.9:443"},
		"mapped loopback":           {public, addrs("::ffff:127.0.0.1"), "", "127.0.0.1:443"},
		"mapped public":             {public, addrs("::ffff:1.1.1.1"), "1.1.1.1:443", ""},
		"compatible":                {public, addrs("::127.0.0.1"), "", "[::7f00:1]:443"},
		"NAT64 of private":          {public, addrs("64:ff9b::10.0.0.1"), "", "[64:ff9b::a00:1]:443"},
		"NAT64 of metadata":         {public, addrs("64:ff9b::169.254.169.254"), "", "[64:ff9b::a9fe:a9fe]:443"},
		"NAT64 of public":           {public, addrs("64:ff9b::8.8.8.8"), "[64:ff9b::808:808]:443", ""},
		"6to4 of loopback":          {public, addrs("2002:7f00:1::1"), "", "[2002:7f00:1::1]:443"},
		"zone":                      {public, addrs("fe80::1%lo"), "", "[fe80::1%lo]:443"},
		"zone on a public address":  {public, addrs("2606:4700::1111%lo"), "", "[2606:4700::1111%lo]:443"},
		"link-local":                {public, addrs("fe80::1"), "", "[fe80::1]:443"},
		"metadata":                  {public, addrs("169.254.169.254"), "", "169.254.169.254:443"},
		"shared by a provider":      {public, addrs("100.64.0.1"), "", "100.64.0.1:443"},
		"ULA":                       {public, addrs("fd00::1"), "", "[fd00::1]:443"},
		"unspecified":               {public, addrs("0.0.0.0", "::"), "", "0.0.0.0:443"},
		"multicast and broadcast":   {public, addrs("224.0.0.1", "255.255.255.255"), "", "224.0.0.1:443"},
		"no address in an answer":   {public, addrs(""), "", "invalid AddrPort"},
		"none, and one":             {public, addrs("", "1.1.1.1"), "1.1.1.1:443", ""},
		"many private, then public": {public, append(slices.Repeat(addrs("10.0.0.1"), 999), addrs("1.1.1.1")...), "1.1.1.1:443", ""},
		"denied":                    {network.Options{AllowPublic: true, Denied: []string{"1.1.1.0/24"}}, addrs("1.1.1.1"), "", "1.1.1.1:443"},
		"private that is allowed":   {network.Options{Allowed: []string{"web.example"}, AllowPrivate: true}, addrs("10.1.2.3"), "10.1.2.3:443", ""},
		"loopback by a rule":        {network.Options{Allowed: []string{"web.example", "127.0.0.1:443"}}, addrs("127.0.0.1"), "127.0.0.1:443", ""},
		"loopback by another port":  {network.Options{Allowed: []string{"web.example", "127.0.0.1:80"}}, addrs("127.0.0.1"), "", "127.0.0.1:443"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			d := &dialler{}
			r := NewDialer(DialerOptions{Resolver: &names{answers: [][]netip.Addr{tt.answers}}, Dial: d.dial})
			_, at, err := r.Dial(t.Context(), host(t, "web.example"), 443, compiled(t, tt.options).JudgeAddr)
			if tt.dialled != "" {
				if err != nil || at.String() != tt.dialled || !slices.Equal(d.seen, []string{tt.dialled}) {
					t.Errorf("%v, %v, dialled %v", at, err, d.seen)
				}
				return
			}
			var refused *dialRefused
			if !errors.As(err, &refused) || refused.Addr.String() != tt.refused || refused.Decision.Rule == "" || refused.Decision.Message == "" {
				t.Fatalf("%+v", err)
			}
			if len(d.seen) != 0 || sandbox.CodeOf(err) != sandbox.CodeCapabilityBlocked {
				t.Errorf("dialled %v, code %v", d.seen, sandbox.CodeOf(err))
			}
		})
	}
}

// TestOnlyAllowIsAllowed checks that neither a decision to ask nor the zero
// decision allows an address.
func TestOnlyAllowIsAllowed(t *testing.T) {
	for name, judge := range map[string]judgeAddr{
		"ask":     func(netip.Addr, uint16) network.Decision { return network.Decision{Verdict: policy.Ask} },
		"deny":    func(netip.Addr, uint16) network.Decision { return network.Decision{Verdict: policy.Deny} },
		"no word": func(netip.Addr, uint16) network.Decision { return network.Decision{} },
		"nobody":  nil,
	} {
		d := &dialler{}
		r := NewDialer(DialerOptions{Dial: d.dial})
		_, _, err := r.Dial(t.Context(), host(t, "1.1.1.1"), 443, judge)
		var refused *dialRefused
		if !errors.As(err, &refused) || len(d.seen) != 0 {
			t.Errorf("%s: %v, dialled %v", name, err, d.seen)
		}
	}
}

// TestRebinding checks that a name is looked up once for a connection, so that
// an answer that changes in between has no effect, and again for the next.
func TestRebinding(t *testing.T) {
	n := &names{answers: [][]netip.Addr{addrs("1.1.1.1"), addrs("127.0.0.1")}}
	d := &dialler{}
	r := NewDialer(DialerOptions{Resolver: n, Dial: d.dial})
	judge := compiled(t, network.Options{AllowPublic: true}).JudgeAddr
	if _, at, err := r.Dial(t.Context(), host(t, "Web.Example."), 443, judge); err != nil || at.String() != "1.1.1.1:443" {
		t.Fatalf("%v, %v", at, err)
	}
	if !slices.Equal(n.asked, []string{"ip web.example."}) {
		t.Errorf("asked %q", n.asked)
	}
	var refused *dialRefused
	if _, _, err := r.Dial(t.Context(), host(t, "web.example"), 443, judge); !errors.As(err, &refused) {
		t.Errorf("the second time: %v", err)
	}
	if !slices.Equal(d.seen, []string{"1.1.1.1:443"}) {
		t.Errorf("dialled %v", d.seen)
	}
}

// TestLiteral checks that an address is not looked up.
func TestLiteral(t *testing.T) {
	for text, want := range map[string]string{"1.1.1.1": "1.1.1.1:80", "0x1010101": "1.1.1.1:80", "[2606:4700::1111]": "[2606:4700::1111]:80", "::ffff:1.1.1.1": "1.1.1.1:80"} {
		n, d := &names{}, &dialler{}
		r := NewDialer(DialerOptions{Resolver: n, Dial: d.dial})
		_, at, err := r.Dial(t.Context(), host(t, text), 80, compiled(t, network.Options{AllowPublic: true}).JudgeAddr)
		if err != nil || at.String() != want || len(n.asked) != 0 {
			t.Errorf("%s: %v, %v, asked %v", text, at, err, n.asked)
		}
	}
}

// TestLocalhost checks that localhost is this machine, whatever name servers
// answer, and as restricted.
func TestLocalhost(t *testing.T) {
	for _, name := range []string{"localhost", "LocalHost.", "x.localhost"} {
		n, d := &names{}, &dialler{}
		r := NewDialer(DialerOptions{Resolver: n, Dial: d.dial})
		_, _, err := r.Dial(t.Context(), host(t, name), 80, compiled(t, network.Options{AllowPublic: true, AllowPrivate: true}).JudgeAddr)
		var refused *dialRefused
		if !errors.As(err, &refused) || len(n.asked) != 0 || len(d.seen) != 0 {
			t.Errorf("%s: %v, asked %v, dialled %v", name, err, n.asked, d.seen)
		}
		_, at, err := r.Dial(t.Context(), host(t, name), 80, compiled(t, network.Options{Allowed: []string{"[::1]:80"}}).JudgeAddr)
		if err != nil || at.String() != "[::1]:80" || len(n.asked) != 0 {
			t.Errorf("%s: %v, %v, asked %v", name, at, err, n.asked)
		}
	}
}

// TestDialMany checks that each address is tried once, alternating between
// both families, and at most 8 of them. It runs with synctest's clock, so that
// a slow machine does not start a later address early.
func TestDialMany(t *testing.T) { synctest.Test(t, testMany) }

func testMany(t *testing.T) {
	var answers []netip.Addr
	for i := range 1000 {
		answers = append(answers, netip.AddrFrom4([4]byte{1, 1, byte(i >> 4), byte(i >> 4)}))
	}
	answers = append(answers, addrs("2606:4700::1", "2606:4700::2", "2606:4700::1")...)
	d := &dialler{fail: errors.New("down")}
	r := NewDialer(DialerOptions{Resolver: &names{answers: [][]netip.Addr{answers}}, Dial: d.dial})
	_, at, err := r.Dial(t.Context(), host(t, "web.example"), 443, compiled(t, network.Options{AllowPublic: true}).JudgeAddr)
	var unreachable *dialUnreachable
	if !errors.As(err, &unreachable) || !errors.Is(err, d.fail) || unreachable.Timeout || at.String() != "1.1.0.0:443" || unreachable.Addr != at {
		t.Errorf("%v, %v", at, err)
	}
	want := []string{"1.1.0.0:443", "[2606:4700::1]:443", "1.1.1.1:443", "[2606:4700::2]:443", "1.1.2.2:443", "1.1.3.3:443", "1.1.4.4:443", "1.1.5.5:443"}
	if !slices.Equal(d.seen, want) {
		t.Errorf("dialled %v", d.seen)
	}
}
