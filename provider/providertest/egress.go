package providertest

import (
	"bufio"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// egressChecks hold that a listener of the sandbox serves as its only way
// out, and for nothing else.
func egressChecks() []Check {
	return []Check{
		{Name: "a way out carries plain HTTP to an allowed host", run: onEgress(egressHTTP)},
		{Name: "a way out carries CONNECT to an allowed host", run: onEgress(egressConnect)},
		{Name: "a way out carries SOCKS5 to an allowed host", run: onEgress(egressSOCKS)},
		{Name: "a way out refuses another host with the rule", run: onEgress(egressRefuses)},
		{Name: "without a way out nothing is reached", run: onEgress(egressOnly)},
		{Name: "a way out serves its own sandbox alone", run: onEgress(egressAlone)},
		{Name: "a way out ends with its plane", run: onEgress(egressEndsWithPlane)},
		{Name: "a way out ends with its handle", run: onEgress(egressEndsWithHandle)},
		{Name: "a way out ends with its sandbox", needs: needStop, run: onEgress(egressEndsWithSandbox)},
	}
}

// A egressRig is a sandbox with an egress proxy to a small internet.
type egressRig struct {
	*netRig
	net     *testenv.Internet
	plane   *egress.Plane
	session *egress.Session
	addr    string // of the proxy, inside
}

// onEgress makes a check that listens inside as the proxy does, and dials
// there as a program inside does.
func onEgress(check func(*egressRig)) func(*rig) {
	return onLoopback(func(n *netRig) {
		w := &egressRig{netRig: n, net: testenv.NewInternet(n.TB)}
		w.plane = egress.New(egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{Resolver: w.net.Names})})
		n.Cleanup(func() { w.plane.Close() })
		p, err := network.New(network.Options{Allowed: w.net.Allowed(testenv.Files)})
		if err != nil {
			n.Fatal(err)
		}
		l := n.listen()
		w.addr = l.Addr().String()
		if w.session, err = w.plane.Open(l, egress.SessionOptions{Sandbox: n.spec.Name, Policy: p}); err != nil {
			n.Fatalf("opening the way out: %v", err)
		}
		check(w)
	})
}

// ask sends a request and returns what answers; r goes on behind its head.
func (w *egressRig) ask(c net.Conn, r *bufio.Reader, head ...string) *http.Response {
	w.Helper()
	var a *http.Response
	w.within(w.h.Patience, "an answer", func() {
		var err error
		if _, err = io.WriteString(c, strings.Join(head, "\r\n")+"\r\n\r\n"); err == nil {
			a, err = http.ReadResponse(r, &http.Request{Method: strings.Fields(head[0])[0]})
		}
		if err != nil {
			w.Errorf("%s: %v", head[0], err)
		}
	})
	if a == nil {
		w.FailNow()
	}
	return a
}

// body reads an answer to its end.
func (w *egressRig) body(a *http.Response) string {
	w.Helper()
	var text []byte
	w.within(w.h.Patience, "the end of an answer", func() {
		var err error
		if text, err = io.ReadAll(a.Body); err != nil {
			w.Errorf("reading the answer: %v", err)
		}
		a.Body.Close()
	})
	return string(text)
}

// wantGreeting holds that the answer is the file of the internet.
func (w *egressRig) wantGreeting(a *http.Response) {
	w.Helper()
	if text := w.body(a); a.StatusCode != http.StatusOK || text != testenv.Content {
		w.Errorf("%s, %q; want %q", a.Status, text, testenv.Content)
	}
}

func egressHTTP(w *egressRig) {
	at := w.net.At("http", testenv.Files)
	c := w.dial(w.addr)
	r := bufio.NewReader(c)
	for range 2 { // the second on the same connection
		w.wantGreeting(w.ask(c, r, "GET http://"+at+"/greeting.txt HTTP/1.1", "Host: "+at))
	}
	const size = "1048577"
	if text := w.body(w.ask(c, r, "GET http://"+at+"/zeros?n="+size+" HTTP/1.1", "Host: "+at)); text != strings.Repeat("\x00", 1<<20+1) {
		w.Errorf("of %s zero bytes %d bytes came, or others", size, len(text))
	}
}

// throughTLS fetches the greeting through a tunnel that stands.
func (w *egressRig) throughTLS(c net.Conn) {
	w.Helper()
	s := tls.Client(c, &tls.Config{ServerName: testenv.Files, RootCAs: w.net.Authority.Pool})
	w.wantGreeting(w.ask(s, bufio.NewReader(s), "GET /greeting.txt HTTP/1.1", "Host: "+testenv.Files, "Connection: close"))
}

func egressConnect(w *egressRig) {
	at := w.net.At("https", testenv.Files)
	c := w.dial(w.addr)
	if a := w.ask(c, bufio.NewReader(c), "CONNECT "+at+" HTTP/1.1", "Host: "+at); a.StatusCode != http.StatusOK {
		w.Fatalf("CONNECT: %s", a.Status)
	}
	w.throughTLS(c)
}

// socks asks for a host by name and returns the reply's code.
func (w *egressRig) socks(c net.Conn, name string, port int) byte {
	w.Helper()
	code := byte(0xff)
	w.within(w.h.Patience, "a reply", func() {
		hello := []byte{5, 1, 0, 5, 1, 0, 3, byte(len(name))}
		hello = append(append(hello, name...), byte(port>>8), byte(port))
		reply := make([]byte, 2+10) // the choice of method, and a reply with an IPv4 address
		if _, err := c.Write(hello[:3]); err != nil {
			w.Errorf("greeting: %v", err)
		}
		if _, err := io.ReadFull(c, reply[:2]); err != nil || reply[0] != 5 || reply[1] != 0 {
			w.Errorf("the choice of method is %v, %v", reply[:2], err)
			return
		}
		if _, err := c.Write(hello[3:]); err != nil {
			w.Errorf("request: %v", err)
		}
		if _, err := io.ReadFull(c, reply[2:]); err != nil || reply[2] != 5 {
			w.Errorf("the reply is %v, %v", reply[2:], err)
			return
		}
		code = reply[3]
	})
	return code
}

func egressSOCKS(w *egressRig) {
	c := w.dial(w.addr)
	if code := w.socks(c, testenv.Files, w.net.Port("https")); code != 0 {
		w.Fatalf("the allowed host: reply %d", code)
	}
	w.throughTLS(c)
	if code := w.socks(w.dial(w.addr), testenv.Other, w.net.Port("https")); code != 2 {
		w.Errorf("another host: reply %d, want 2", code)
	}
}

func egressRefuses(w *egressRig) {
	const rule = "network.allowedDomains"
	for _, line := range []string{
		"GET http://" + w.net.At("http", testenv.Other) + "/greeting.txt",
		"CONNECT " + w.net.At("https", testenv.Other),
	} {
		host := strings.TrimPrefix(strings.TrimSuffix(strings.Fields(line)[1], "/greeting.txt"), "http://")
		c := w.dial(w.addr)
		a := w.ask(c, bufio.NewReader(c), line+" HTTP/1.1", "Host: "+host)
		if a.StatusCode != http.StatusForbidden || !strings.Contains(a.Status, "Blocked by sandbox: "+rule) || a.Header.Get("X-Sandbox-Rule") != rule {
			w.Errorf("%s: %q, header %q; want %s", line, a.Status, a.Header, rule)
		}
		c.Close()
	}
	if n := w.net.Hits(testenv.Other); n != 0 || len(w.net.Names.Asked()) != 0 {
		w.Errorf("the other host was reached %d times, and these were looked up: %q", n, w.net.Names.Asked())
	}
}

// egressOnly holds that inside there is nothing but the loopback, with the way
// out and after it.
func egressOnly(w *egressRig) {
	if got := w.output(w.sb, w.h.Programs.Interfaces()); got != "lo" {
		w.Errorf("interfaces and routes inside are %q, want only lo", got)
	}
	trap := testenv.NewTrap(w.TB, "127.0.0.1")
	for _, addr := range append(hostAddresses(trap.Port()), trap.At(), "192.0.2.1:80", "10.0.0.1:53") {
		w.refused(w.sb, addr)
	}
	_, err := w.Dial(w.ctx, "tcp", w.net.At("http", testenv.Files))
	if err == nil {
		w.Error("a name was looked up inside")
	}
	if n := w.net.Hits(testenv.Files); n != 0 {
		w.Errorf("the host was reached %d times", n)
	}
}

// hostAddresses are those that this machine has itself, with the port.
func hostAddresses(port int) []string {
	addrs, _ := net.InterfaceAddrs() // none is one thing less to try
	var out []string
	for _, a := range addrs {
		if n, ok := a.(*net.IPNet); ok && n.IP.To4() != nil && !n.IP.IsLoopback() {
			out = append(out, (&net.TCPAddr{IP: n.IP, Port: port}).String())
		}
	}
	return out
}

func egressAlone(w *egressRig) {
	_, other := w.box("b")
	w.refused(other, w.addr)
	if c, err := net.Dial("tcp", w.addr); err == nil { // another process may listen at that port of the host
		defer c.Close()
		w.silent(c)
	}
	egressHTTP(w)
}

// silent checks that the peer of c does not fetch for us.
func (w *egressRig) silent(c net.Conn) {
	w.Helper()
	at := w.net.At("http", testenv.Files)
	io.WriteString(c, "GET http://"+at+"/greeting.txt HTTP/1.1\r\nHost: "+at+"\r\nConnection: close\r\n\r\n")
	c.(*net.TCPConn).CloseWrite()
	c.SetReadDeadline(time.Now().Add(time.Second)) // a stranger may have nothing to say to that
	w.within(w.h.Patience, "the end of a stranger", func() {
		if text, _ := io.ReadAll(c); strings.Contains(string(text), testenv.Content) {
			w.Error("the way out serves the host")
		}
	})
}

// over checks that the egress proxy has stopped listening, and that c, which
// was open there, has ended.
func (w *egressRig) over(c net.Conn, through *netRig) {
	w.Helper()
	w.within(w.h.Patience, "the end of the way out", func() {
		<-w.session.Done()
		if n, err := c.Read(make([]byte, 1)); err == nil {
			w.Errorf("a connection through it goes on, %d bytes came", n)
		}
	})
	w.refused(through.sb, w.addr)
}

// tunnel opens a connection to the allowed host that stays.
func (w *egressRig) tunnel(through *netRig) net.Conn {
	w.Helper()
	at := w.net.At("https", testenv.Files)
	c := through.dial(w.addr)
	if a := w.ask(c, bufio.NewReader(c), "CONNECT "+at+" HTTP/1.1", "Host: "+at); a.StatusCode != http.StatusOK {
		w.Fatalf("CONNECT: %s", a.Status)
	}
	return c
}

func egressEndsWithPlane(w *egressRig) {
	c := w.tunnel(w.netRig)
	if err := w.plane.Close(); err != nil {
		w.Errorf("Close of the plane: %v", err)
	}
	w.over(c, w.netRig)
	w.works(w.sb)
}

func egressEndsWithHandle(w *egressRig) {
	other := w.network(w.spec, w.open(w.spec))
	c := w.tunnel(other)
	if err := w.sb.Close(); err != nil {
		w.Errorf("Close of the handle: %v", err)
	}
	w.over(c, other)
	w.works(other.sb)
}

// egressEndsWithSandbox kills the sandbox, and its guest with it: what the proxy
// holds of it outside must not stay.
func egressEndsWithSandbox(w *egressRig) {
	c := w.tunnel(w.netRig)
	w.h.Behind.Stop(w.TB, w.p, w.spec.Name)
	w.within(w.h.Patience, "the end of the way out", func() {
		<-w.session.Done()
		if n, err := c.Read(make([]byte, 1)); err == nil {
			w.Errorf("a connection through it goes on, %d bytes came", n)
		}
	})
	w.eventually(func() (bool, string) {
		open := w.plane.Counters().Open
		return open == 0, "the proxy has open connections"
	})
}
