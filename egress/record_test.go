package egress_test

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// TestUnrecorded checks that a decision that cannot be recorded does not pass.
func TestUnrecorded(t *testing.T) {
	var reached atomic.Int64
	port := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	raw := listen(t, func(conn net.Conn) {
		if n, _ := conn.Read(make([]byte, 1)); n > 0 {
			reached.Add(1)
		}
	})
	secured, _ := secure(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	w := open(t, network.Options{Allowed: []string{
		"web.test:" + port, "https://web.test:" + secured, "tcp://raw.test:" + raw, "127.0.0.1:" + port, "127.0.0.1:" + raw, "127.0.0.1:" + secured,
	}}, func(o *egress.Options, _ *egress.SessionOptions) {
		o.Decide = func(egress.Event) error { return errors.New("the disk is full") }
	})
	host := "web.test:" + port
	for _, in := range []string{
		"GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n",
		"POST http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 1\r\n\r\na",
		"GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n",
		"CONNECT raw.test:" + raw + " HTTP/1.1\r\n\r\n",
	} {
		if resp, b := w.raw(in); resp.StatusCode != 403 || resp.Header.Get("X-Sandbox-Rule") != "requireEvidence" {
			t.Errorf("%.30q: %s %q", in, resp.Status, b)
		}
	}
	conn, _ := w.connect("web.test:" + secured)
	if err := tls.Client(conn, &tls.Config{ServerName: "web.test", InsecureSkipVerify: true}).Handshake(); err == nil {
		t.Error("TLS passes")
	}
	conn, br := w.connect("web.test:" + port)
	io.WriteString(conn, "GET / HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
	if resp, _ := w.answer(br, "GET"); resp.StatusCode != 403 {
		t.Errorf("plain HTTP in a tunnel: %s", resp.Status)
	}
	if n := len(w.wait(6, refusals)); n != 6 || reached.Load() != 0 {
		t.Errorf("%d refusals, %d requests reached their host", n, reached.Load())
	}
	w.session.Close()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, e := range w.events {
		if ends(e) {
			t.Errorf("what was refused has an end: %+v", e)
		}
	}
}
