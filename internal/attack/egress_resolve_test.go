package attack

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// ask sends one request for the name through each carrier and returns the
// status.
func (r *egressRig) ask(t *testing.T, name string, port int) map[string]int {
	t.Helper()
	out, at := map[string]int{}, fmt.Sprintf("%s:%d", name, port)
	k := newTalk(r.dial())
	fmt.Fprintf(k, "GET http://%s/greeting.txt HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
	out["GET"], _, _ = k.answer("GET")
	k = newTalk(r.dial())
	fmt.Fprintf(k, "CONNECT %s HTTP/1.1\r\n\r\n", at)
	out["CONNECT"], _, _ = k.answer("CONNECT")
	k.Close()
	k = newTalk(r.dial())
	fmt.Fprintf(k, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", at, at)
	out["websocket"], _, _ = k.answer("GET")
	k, reply := r.socks(name, port)
	k.Close()
	out["SOCKS"] = map[byte]int{0: 200, 1: 500, 2: 403, 4: 502}[reply]
	return out
}

// TestAnswers checks the handling of resolver answers. All names are allowed.
func TestAnswers(t *testing.T) {
	many := func(of string, last ...string) testenv.Reply {
		list := make([]netip.Addr, 1000, 1001)
		for i := range list {
			list[i] = netip.MustParseAddr(of)
		}
		return testenv.Reply{Addrs: append(list, addrs(last...).Addrs...)}
	}
	r := egressNewRig(t, setup{rules: []string{"*.a.test"}})
	for name, tt := range map[string]struct {
		reply testenv.Reply
		want  int
	}{
		"trap":        {addrs(trapAddr), 403},
		"mapped":      {addrs("::ffff:127.0.0.2"), 403},
		"compatible":  {addrs("::127.0.0.2"), 403},
		"nat64":       {addrs("64:ff9b::7f00:2"), 403},
		"6to4":        {addrs("2002:7f00:2::"), 403},
		"private":     {addrs("10.0.0.1", "172.16.0.1", "192.168.0.1", "fd00::1"), 403},
		"cgnat":       {addrs("100.64.0.1"), 403},
		"link":        {addrs("fe80::1", "169.254.0.1"), 403},
		"zone":        {addrs("fe80::1%lo", "::1%lo"), 403},
		"metadata":    {addrs("169.254.169.254", "fd00:ec2::254"), 403},
		"unspecified": {addrs("0.0.0.0", "::"), 403},
		"multicast":   {addrs("224.0.0.1", "ff02::1"), 403},
		"broadcast":   {addrs("255.255.255.255"), 403},
		"invalid":     {testenv.Reply{Addrs: []netip.Addr{{}}}, 403},
		"mixed":       {addrs(trapAddr, "127.0.0.1", "10.0.0.1"), 200},
		"many":        {many("127.0.0.1"), 200},
		"manytraps":   {many(trapAddr), 403},
		"hidden":      {many(trapAddr, "127.0.0.1"), 200},
		"nothing":     {testenv.Reply{}, 502},
		"failing":     {testenv.Reply{Err: errors.New("\x1b[31mnot \r\nnow\xff")}, 502},
		"nxdomain":    {testenv.Reply{Err: &net.DNSError{Err: "no such host", Name: "\x1b[2J", IsNotFound: true}}, 502},
		"both":        {testenv.Reply{Addrs: addrs("127.0.0.1").Addrs, Err: errors.New("half an answer")}, 502},
	} {
		host := name + ".a.test"
		r.net.Names.Set(host, tt.reply)
		r.net.Handle(host, greet())
		port := r.net.Port("http")
		if tt.want == 403 {
			port = r.trap.Port()
		}
		for way, got := range r.ask(t, host, port) {
			if got != tt.want {
				t.Errorf("%s by %s: %d, want %d", name, way, got, tt.want)
			}
		}
	}
	for _, e := range r.refusals(0, 4*15) {
		if !e.Addr.IsValid() && !strings.HasPrefix(e.Host, "invalid.") || e.Rule != "address" {
			t.Errorf("%+v", e)
		}
	}
}

// TestNextAddress checks that after an allowed address that does not answer no
// forbidden one is tried.
func TestNextAddress(t *testing.T) {
	trap := testenv.NewTrap(t, trapAddr)
	closed := fmt.Sprintf("127.0.0.1:%d", trap.Port()) // a port without a listener
	r := egressNewRig(t, setup{rules: []string{"next.test", closed}})
	r.net.Names.Set("next.test", addrs("127.0.0.1", trapAddr, "::ffff:127.0.0.2"))
	for way, got := range r.ask(t, "next.test", trap.Port()) {
		if got != 502 {
			t.Errorf("%s: %d", way, got)
		}
	}
	if n := trap.Hits(); n != 0 {
		t.Errorf("%d connections reached the trap", n)
	}
}

// TestRebinding has the resolver answer differently each time: once with the
// host, then with the trap.
func TestRebinding(t *testing.T) {
	r := egressNewRig(t, setup{rules: []string{"*.a.test"}})
	port := r.net.Port("http")
	turns := func(host string) {
		r.net.Handle(host, greet())
		r.net.Names.Set(host, addrs("127.0.0.1"), addrs(trapAddr))
	}
	// Each carrier looks up the name once: the second time it is refused.
	for i := range 4 {
		host := fmt.Sprintf("turn%d.a.test", i)
		turns(host)
		at := fmt.Sprintf("%s:%d", host, port)
		first := func() {
			switch k := newTalk(r.dial()); i {
			case 0:
				fmt.Fprintf(k, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
				k.answer("GET")
			case 1:
				k = r.connect(at)
				k.Close()
			case 2:
				k, _ = r.socks(host, port)
				k.Close()
			case 3:
				fmt.Fprintf(k, "GET http://%s/ HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", at, at)
				k.answer("GET")
			}
		}
		first()
		n := 0
		for _, name := range r.net.Names.Asked() {
			if name == host {
				n++
			}
		}
		if n != 1 {
			t.Errorf("%s was looked up %d times for one connection", host, n)
		}
		if _, reply := r.socks(host, port); reply != 2 {
			t.Errorf("%s: SOCKS replies %d once the host has another address", host, reply)
		}
	}
	// Requests of one connection: the connection to the host is kept or the
	// name looked up again.
	turns("keep.a.test")
	at := fmt.Sprintf("keep.a.test:%d", port)
	k := newTalk(r.dial())
	for i := range 5 {
		closes := ""
		if i == 2 {
			closes = "&close"
		}
		fmt.Fprintf(k, "GET http://%s/?%s HTTP/1.1\r\nHost: %s\r\n\r\n", at, closes, at)
		if status, _, _ := k.answer("GET"); status != 200 && status != 403 {
			t.Errorf("request %d: %d", i, status)
		}
	}
	// HTTP in a tunnel uses connections of its own, which are judged again.
	turns("tunnel.a.test")
	at = fmt.Sprintf("tunnel.a.test:%d", port)
	k = r.connect(at)
	fmt.Fprintf(k, "GET / HTTP/1.1\r\nHost: %s\r\n\r\n", at)
	if status, _, _ := k.answer("GET"); status != 403 {
		t.Errorf("in the tunnel: %d", status)
	}
}

// TestUnlooked checks that names that are not allowed are not looked up.
func TestUnlooked(t *testing.T) {
	for name, s := range map[string]setup{
		"list": {}, "denied": {options: network.Options{AllowPublic: true}, denied: []string{"*.other.test", "other.test", "*.evil.test"}},
	} {
		t.Run(name, func(t *testing.T) {
			r := egressNewRig(t, s)
			for _, host := range []string{"other.test", "data-that-leaves.other.test", "a.evil.test", "OTHER.test."} {
				for way, got := range r.ask(t, host, 443) {
					if got != 403 {
						t.Errorf("%s by %s: %d", host, way, got)
					}
				}
			}
			if asked := r.net.Names.Asked(); len(asked) != 0 {
				t.Errorf("%v", asked)
			}
		})
	}
}

// TestRedirects checks that the proxy does not follow redirects.
func TestRedirects(t *testing.T) {
	r := egressNewRig(t, setup{})
	for _, to := range []string{
		"http://" + r.trap.At() + "/", "http://" + r.net.At("http", testenv.Other) + "/", "//" + r.trap.At() + "/", "http://169.254.169.254/latest/meta-data",
		"file:///etc/passwd", "http://files.test@" + r.trap.At(),
	} {
		for _, code := range []int{301, 302, 303, 307, 308} {
			k := newTalk(r.dial())
			at := r.net.At("http", testenv.Redirect)
			fmt.Fprintf(k, "GET http://%s/?code=%d&to=%s HTTP/1.1\r\nHost: %s\r\n\r\n", at, code, to, at)
			if status, body, _ := k.answer("GET"); status != code {
				t.Errorf("%s: %d %s", to, status, body)
			}
			k.Close()
		}
	}
	r.holds()
}

// TestLoop checks that the proxy does not connect to itself, nor to another
// service on its machine.
func TestLoop(t *testing.T) {
	r := egressNewRig(t, setup{options: network.Options{AllowPublic: true, AllowPrivate: true}, rules: []string{"*"}})
	_, port, _ := net.SplitHostPort(r.addr)
	at := []string{r.addr, "localhost:" + port, "[::1]:" + port, "[::ffff:127.0.0.1]:" + port, "files.test:" + port, "0.0.0.0:" + port, "[::]:" + port, r.trap.At()}
	all, err := net.InterfaceAddrs()
	must(t, err)
	for _, a := range all {
		if p, ok := a.(*net.IPNet); ok && !p.IP.IsLoopback() {
			at = append(at, net.JoinHostPort(p.IP.String(), port))
		}
	}
	for _, at := range at {
		k := newTalk(r.dial())
		fmt.Fprintf(k, "CONNECT %s HTTP/1.1\r\n\r\n", at)
		if status, body, _ := k.answer("CONNECT"); status != 403 {
			t.Errorf("%s: %d %s", at, status, body)
		}
		k = newTalk(r.dial())
		fmt.Fprintf(k, "GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", at)
		if status, body, _ := k.answer("GET"); status != 403 {
			t.Errorf("%s: %d %s", at, status, body)
		}
	}
	r.refusals(0, 2*len(at))
}

// TestMethodsOfTunnels checks that nothing but CONNECT opens one.
func TestMethodsOfTunnels(t *testing.T) {
	r := egressNewRig(t, setup{})
	for _, method := range []string{"connect", "Connect", "CONNECT2", "TUNNEL"} {
		k := newTalk(r.dial())
		fmt.Fprintf(k, "%s %s HTTP/1.1\r\n\r\n", method, r.net.At("http", testenv.Files))
		if status, body, _ := k.answer("GET"); status != 400 {
			t.Errorf("%s: %d %s", method, status, body)
		}
		if rest, _ := io.ReadAll(k.br); len(rest) != 0 {
			t.Errorf("%q", rest)
		}
	}
}
