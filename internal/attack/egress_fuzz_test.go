package attack

import (
	"crypto/tls"
	"io"
	"net"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// FuzzProxy sends arbitrary bytes to the proxy, at each point where a program
// can send some. It checks that there is no panic, that no forbidden host is
// reached, and that nothing stays open.
func FuzzProxy(f *testing.F) {
	for _, text := range refusedHeads() {
		for i, c := range carriers() {
			f.Add(byte(i), []byte(text), c.fixed)
		}
	}
	for _, s := range conversations() {
		f.Add(byte(0), []byte(s.send), false)
		f.Add(byte(3), []byte(s.send), true)
	}
	for _, g := range greetings() {
		f.Add(byte(1), g.send, true)
	}
	for _, host := range spellings() {
		f.Add(byte(0), []byte("CONNECT "+host+":80 HTTP/1.1\r\n\r\n"), false)
		f.Add(byte(0), []byte("GET http://"+host+"/ HTTP/1.1\r\nHost: "+host+"\r\n\r\n"), false)
		f.Add(byte(0), append([]byte{5, 1, 0, 5, 1, 0, 3, byte(len(host))}, host+"\x00\x50"...), false)
	}
	r := egressNewRig(f, setup{secret: []string{testenv.Files}})
	n := 0
	f.Fuzz(func(t *testing.T, place byte, text []byte, fixed bool) {
		r.t = t
		defer func() { r.t = f }()
		c := carriers()[int(place)%len(carriers())]
		conn := fuzzed(t, r, c)
		defer conn.Close()
		done := make(chan struct{})
		go func() { defer close(done); io.Copy(io.Discard, conn) }()
		conn.Write([]byte(carrier{scheme: c.scheme, fixed: fixed}.fill(r, string(text))))
		if half, ok := conn.(interface{ CloseWrite() error }); ok {
			half.CloseWrite()
		}
		<-done
		conn.Close()
		r.drained()
		if n++; n%256 == 0 || r.plane.Counters().Panics > 0 || r.trap.Hits() > 0 {
			r.holds()
			r.mu.Lock()
			r.events = nil
			r.mu.Unlock()
		}
	})
}

// fuzzed opens a connection to the place without the cleanup of a rig, which
// would keep them all.
func fuzzed(t *testing.T, r *egressRig, c carrier) net.Conn {
	conn, err := net.Dial("tcp", r.addr)
	must(t, err)
	conn.SetDeadline(time.Now().Add(patience))
	if !c.fixed {
		return conn
	}
	at := r.net.At(c.scheme, testenv.Files)
	io.WriteString(conn, "CONNECT "+at+" HTTP/1.1\r\n\r\n")
	if _, err := io.ReadFull(conn, make([]byte, len("HTTP/1.1 200 Connection established\r\n\r\n"))); err != nil {
		t.Fatal(err)
	}
	if c.scheme == "http" {
		return conn
	}
	over := tls.Client(conn, &tls.Config{ServerName: testenv.Files, RootCAs: r.ours})
	must(t, over.Handshake())
	return over
}
