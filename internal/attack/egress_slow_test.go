package attack

import (
	"fmt"
	"io"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// drip sends text repeatedly, a byte at a time, until the other side closes
// the connection or its response is complete.
func drip(k *talk, text string) (answer []byte, took time.Duration) {
	began, done := time.Now(), make(chan struct{})
	go func() {
		defer close(done)
		answer, _ = io.ReadAll(k.br)
	}()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for i := 0; ; i++ {
		select {
		case <-done:
			return answer, time.Since(began)
		case <-tick.C:
			if len(text) > 0 {
				io.WriteString(k, text[i%len(text):i%len(text)+1])
			}
		}
	}
}

// TestSlow checks that a client that sends slowly, or nothing, is ended by a
// limit on the whole rather than on each byte.
func TestSlow(t *testing.T) {
	host := listen(t, "220 the host speaks first\r\n")
	rules := []string{"bare.test:" + itoa(host.port), "127.0.0.1:" + itoa(host.port)}
	r := egressNewRig(t, setup{rules: rules, secret: []string{testenv.Files}})
	at := "bare.test:" + itoa(host.port)
	tunnel := func() *talk { return r.connect(at) }
	direct := func() *talk { return newTalk(r.dial()) }
	half := whole(sni("bare.test"))[:20]
	var all sync.WaitGroup
	for name, tt := range map[string]struct {
		open func() *talk
		head string // sent at once
		drip string
		want string
	}{
		"nothing":               {direct, "", "", ""},
		"request line":          {direct, "", "A", "HTTP/1.1 408"},
		"fields":                {direct, "GET http://files.test/ HTTP/1.1\r\n", "X: y\r\n", "HTTP/1.1 408"},
		"greeting of SOCKS":     {direct, "\x05\xff", "\x00", ""},
		"name of SOCKS":         {direct, "\x05\x01\x00\x05\x01\x00\x03\xff", "a", "\x05\x00"},
		"credentials of SOCKS":  {direct, "\x05\x01\x02\x01\xff", "a", "\x05\x02"},
		"silent in a tunnel":    {tunnel, "", "", ""},
		"hello of TLS":          {tunnel, string(half), "\x00", "\x15\x03"},
		"word of a tunnel":      {tunnel, "", "A", ""},
		"request in a tunnel":   {tunnel, "GET / HTTP/1.1\r\n", "X: y\r\n", "HTTP/1.1 408"},
		"silent where read":     {func() *talk { return r.connect(r.net.At("https", testenv.Files)) }, "", "", ""},
		"hello where read":      {func() *talk { return r.connect(r.net.At("https", testenv.Files)) }, string(whole(sni(testenv.Files))[:20]), "\x00", "\x15\x03"},
		"request in TLS":        {func() *talk { return r.intercepted(testenv.Files) }, "GET / HTTP/1.1\r\n", "X: y\r\n", "HTTP/1.1 408"},
		"second flight of TLS":  {func() *talk { return r.connect(r.net.At("https", testenv.Files)) }, string(whole(sni(testenv.Files))), "", "\x15\x03"},
		"half of the preface":   {tunnel, "PRI * HTTP/2.0\r\n", "", "HTTP/1.1 408"},
		"lines of half a field": {direct, "GET http://files.test/ HTTP/1.1\r\nX: ", "y", "HTTP/1.1 408"},
	} {
		k := tt.open()
		all.Go(func() {
			io.WriteString(k, tt.head)
			answer, took := drip(k, tt.drip)
			if len(answer) < len(tt.want) || string(answer[:len(tt.want)]) != tt.want || tt.want == "" && len(answer) != 0 {
				t.Errorf("%s: %q", name, answer)
			}
			if took > time.Minute { // with a bound for each byte it would never end
				t.Errorf("%s: it took %v", name, took)
			}
		})
	}
	all.Wait()
	for len(host.heard) > 0 {
		if b := <-host.heard; len(b) != 0 {
			t.Errorf("the host heard %q", b)
		}
	}
}

// TestFlood opens more connections than a sandbox may have, in every state,
// and checks that they all end and leave nothing.
func TestFlood(t *testing.T) {
	r := egressNewRig(t, setup{change: func(_ *egress.Options, o *egress.SessionOptions) { o.Limits = egress.Limits{Connections: 20} }})
	heads := []string{"", "G", "\x05", "\x05\x01\x00", "CONNECT " + r.net.At("http", testenv.Files) + " HTTP/1.1\r\n\r\n", "\x16\x03",
		"POST http://" + r.net.At("http", testenv.Echo) + "/ HTTP/1.1\r\nHost: " + r.net.At("http", testenv.Echo) + "\r\nContent-Length: 1000\r\n\r\nx"}
	for round := range 3 {
		conns := make([]net.Conn, 0, 200)
		for i := range 200 {
			c := r.dial()
			io.WriteString(c, heads[i%len(heads)])
			conns = append(conns, c)
		}
		if c := r.plane.Counters(); c.Open > 20 {
			t.Errorf("round %d: %d connections are open", round, c.Open)
		}
		for i, c := range conns {
			if i%2 == 0 {
				c.(*net.TCPConn).SetLinger(0) // a reset
			}
			c.Close()
		}
		r.drained()
	}
	k := newTalk(r.dial())
	fmt.Fprintf(k, "GET http://%[1]s/greeting.txt HTTP/1.1\r\nHost: %[1]s\r\n\r\n", r.net.At("http", testenv.Files))
	if status, body, _ := k.answer("GET"); status != 200 {
		t.Errorf("after the flood: %d %s", status, body)
	}
	if c := r.plane.Counters(); c.Waiting != 0 {
		t.Errorf("%+v", c)
	}
}

// drained waits until the proxy has seen all connections and none is open.
func (r *egressRig) drained() {
	r.t.Helper()
	r.mu.Lock()
	dialed := r.dialed
	r.mu.Unlock()
	testenv.Success(r.t, func() error {
		if c := r.plane.Counters(); c.Connections+c.RefusedConns < dialed || c.Open > 0 {
			return fmt.Errorf("%d connections were dialed, and the proxy counts %+v", dialed, c)
		}
		return nil
	})
}

// TestHalfOpen checks that programs that end one direction, or vanish, do not
// keep anything open.
func TestHalfOpen(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { testHalfOpen(t, false) })
	t.Run("frames", func(t *testing.T) { testHalfOpen(t, true) })
}

func testHalfOpen(t *testing.T, framed bool) {
	host := listen(t, "")
	r := egressNewRig(t, setup{framed: framed, rules: []string{"tcp://bare.test:" + itoa(host.port), "tcp://127.0.0.1:" + itoa(host.port)}})
	k := r.connect("bare.test:" + itoa(host.port))
	io.WriteString(k, "all that I say")
	k.Conn.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(k.br); string(b) != "all that I say" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if b := host.got(t); string(b) != "all that I say" {
		t.Errorf("the host heard %q", b)
	}
	for range 50 {
		k := r.connect("bare.test:" + itoa(host.port))
		io.WriteString(k, "x")
		k.Conn.(*net.TCPConn).SetLinger(0)
		k.Close()
		host.got(t)
	}
	for range 50 { // disconnected while the host is slow
		k := newTalk(r.dial())
		fmt.Fprintf(k, "GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n\r\n", r.net.At("http", testenv.Slow))
		k.Close()
	}
	r.drained()
}
