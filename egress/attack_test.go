package egress_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// openPublic returns a world where every public host is allowed, and dials are
// only counted.
func openPublic(t *testing.T) (*world, *atomic.Int64) {
	t.Helper()
	var dialled atomic.Int64
	w := open(t, network.Options{AllowPublic: true, Denied: []string{"denied.example", "*.denied.example"}}, func(o *egress.Options, _ *egress.SessionOptions) {
		o.Dialer = egress.NewDialer(egress.DialerOptions{Resolver: answers{}, Dial: func(context.Context, netip.AddrPort) (net.Conn, error) {
			dialled.Add(1)
			return nil, errors.New("this test dials nobody")
		}})
	})
	return w, &dialled
}

// answers resolve "10-0-0-1.v4.example" to 10.0.0.1, "fd00--1.v6.example" to
// fd00::1, and every other name to a public address.
type answers struct{}

func (answers) LookupNetIP(_ context.Context, _, host string) ([]netip.Addr, error) {
	host = strings.TrimSuffix(host, ".")
	if name, ok := strings.CutSuffix(host, ".v4.example"); ok {
		return []netip.Addr{netip.MustParseAddr(strings.ReplaceAll(name, "-", "."))}, nil
	}
	if name, ok := strings.CutSuffix(host, ".v6.example"); ok {
		return []netip.Addr{netip.MustParseAddr(strings.ReplaceAll(name, "-", ":"))}, nil
	}
	return []netip.Addr{netip.MustParseAddr("1.1.1.1")}, nil
}

// TestTargetsThatAreRefused checks the targets that are always refused, in
// every spelling and protocol, also if every public host is allowed.
func TestTargetsThatAreRefused(t *testing.T) {
	w, dialled := openPublic(t)
	for _, host := range []string{
		"localhost", "LOCALHOST.", "127.0.0.1", "127.1", "127.0.1", "0x7f.0.0.1", "0x7f000001", "2130706433", "0177.0.0.1", "017700000001", "127.0.0.1.", "0", "0.0.0.0",
		"[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[::127.0.0.1]", "[64:ff9b::127.0.0.1]", "[2002:7f00:1::]", "[fe80::1]", "[fd00:ec2::254]", "[ff02::1]",
		"10.0.0.1", "172.16.0.1", "192.168.1.1", "100.64.0.1", "169.254.169.254", "[::ffff:169.254.169.254]", "0xa9fea9fe", "100.100.100.200", "224.0.0.1", "255.255.255.255", "198.18.0.1",
		"127-0-0-1.v4.example", "10-0-0-1.v4.example", "169-254-169-254.v4.example", "100-64-0-1.v4.example", "0-0-0-0.v4.example", "240-0-0-1.v4.example",
		"fd00--1.v6.example", "fe80--1.v6.example", "64-ff9b--a00-1.v6.example",
		"denied.example", "DENIED.example.", "a.b.denied.example",
		"evil\x00.example", "a b.example", "a..example", "-a.example", "a%2eexample", "user@a.example", "a.example@b.example", `a\b.example`, "[fe80::1%25eth0]", "b\u00fccher.example", "a.example#", "[::1", "::1", "256.1.1.1", "a.1",
		strings.Repeat("a", 64) + ".example", strings.Repeat("a.", 130) + "example",
	} {
		get := "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		for _, in := range []string{get, "CONNECT " + host + ":443 HTTP/1.1\r\n\r\n"} {
			if resp, b := w.raw(in); resp.StatusCode != 403 && resp.StatusCode != 400 {
				t.Errorf("%.80q: %s %q", in, resp.Status, b)
			}
		}
		if len(host) < 256 && !strings.HasPrefix(host, "[") {
			if _, reply := w.socks(host, "443", "", ""); reply != 2 {
				t.Errorf("SOCKS %.80q: reply %d", host, reply)
			}
		}
	}
	if n := dialled.Load(); n != 0 {
		t.Errorf("%d connections were dialled", n)
	}
	for _, e := range w.wait(1, decisions) {
		if e.Rule == "" || e.Message == "" || strings.ContainsFunc(e.Host+e.Message+e.Hint+e.Path+e.Method, func(r rune) bool { return r < ' ' || r > '~' }) {
			t.Errorf("not fit for a record: %+v", e)
		}
	}
}

// TestPortsThatAreRefused checks that ports outside the web need a rule with
// their port.
func TestPortsThatAreRefused(t *testing.T) {
	w, dialled := openPublic(t)
	for _, port := range []int{0, 1, 7, 19, 21, 22, 23, 25, 53, 110, 123, 143, 389, 445, 465, 514, 587, 853, 993, 1023} {
		for _, in := range []string{
			fmt.Sprintf("CONNECT mail.example:%d HTTP/1.1\r\n\r\n", port),
			fmt.Sprintf("GET http://mail.example:%d/ HTTP/1.1\r\nHost: mail.example:%d\r\n\r\n", port, port),
		} {
			if resp, b := w.raw(in); resp.StatusCode != 403 && resp.StatusCode != 400 {
				t.Errorf("%.40q: %s %q", in, resp.Status, b)
			}
		}
	}
	if n := dialled.Load(); n != 0 {
		t.Errorf("%d connections were dialled", n)
	}
	if resp, _ := w.raw("CONNECT mail.example:443 HTTP/1.1\r\n\r\n"); resp.StatusCode != 502 || dialled.Load() != 1 {
		t.Errorf("what is allowed is not dialled: %s", resp.Status)
	}
}

// TestSmuggling checks that bytes that hide a second request do not reach a
// host as one.
func TestSmuggling(t *testing.T) {
	seen := make(chan string, 100)
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		seen <- r.Method + " " + r.URL.Path
	})
	w := open(t, network.Options{Allowed: []string{"http://web.test:" + port + "/ok", "127.0.0.1:" + port}})
	host := "web.test:" + port
	second := "GET http://" + host + "/hidden HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	tests := []struct{ name, fields, body string }{
		{"length within chunks", "Transfer-Encoding: chunked\r\nContent-Length: 4\r\n", "0\r\n\r\n" + second},
		{"length behind chunks", "Content-Length: 4\r\nTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + second},
		{"tab before chunked", "Transfer-Encoding:\tchunked\r\nContent-Length: 1\r\n", "0\r\n\r\n" + second},
		{"blank before colon", "Transfer-Encoding : chunked\r\n", "0\r\n\r\n" + second},
		{"underscore", "Transfer_Encoding: chunked\r\nContent-Length: 5\r\n", "0\r\n\r\n" + second},
		{"chunked twice", "Transfer-Encoding: chunked, chunked\r\n", "0\r\n\r\n" + second},
		{"bare CR", "X: a\rTransfer-Encoding: chunked\r\n", "0\r\n\r\n" + second},
		{"folded", "Transfer-Encoding:\r\n chunked\r\n", "0\r\n\r\n" + second},
		{"chunk that is too long", "Transfer-Encoding: chunked\r\n", "fffffffffffffffff\r\n" + second},
		{"chunk with a sign", "Transfer-Encoding: chunked\r\n", "-1\r\n" + second},
		{"chunk with LF alone", "Transfer-Encoding: chunked\r\n", "0\n\n" + second},
		{"length in the connection", "Connection: Content-Length\r\nContent-Length: 3\r\n", "abc" + second},
		{"all behind the first", "Content-Length: 0\r\n", second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			conn := w.dial()
			io.WriteString(conn, "POST http://"+host+"/ok HTTP/1.1\r\nHost: "+host+"\r\n"+tt.fields+"\r\n"+tt.body)
			conn.(*net.TCPConn).CloseWrite()
			io.Copy(io.Discard, bufio.NewReader(conn))
			for len(seen) > 0 {
				if what := <-seen; what != "POST /ok" {
					t.Errorf("the host got %s", what)
				}
			}
		})
	}
}
