package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// echo answers with what it was sent.
func echo(w http.ResponseWriter, r *http.Request) {
	b, err := io.ReadAll(r.Body)
	fmt.Fprintf(w, "%s %s %s %d %v %v", r.Method, r.Host, b, r.ContentLength, r.Trailer, err)
}

func TestBodies(t *testing.T) {
	port := serve(t, echo)
	w := open(t, allow(port, "web.test:"+port))
	host := "web.test:" + port
	post := func(fields, body string) string {
		return "POST http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n" + fields + "\r\n" + body
	}
	tests := []struct{ name, in, want string }{
		{"length", post("Content-Length: 3\r\n", "abc"), "POST " + host + " abc 3 map[] <nil>"},
		{"chunks", post("Transfer-Encoding: chunked\r\n", "3\r\nabc\r\n2;x=y\r\nde\r\n0\r\n\r\n"), "POST " + host + " abcde -1 map[] <nil>"},
		{"trailer", post("Transfer-Encoding: chunked\r\nTrailer: X-T\r\n", "1\r\na\r\n0\r\nX-T: v\r\n\r\n"), "POST " + host + " a -1 map[X-T:[v]] <nil>"},
		{"none", post("Content-Length: 0\r\n", ""), "POST " + host + "  0 map[] <nil>"},
		{"old", "POST http://" + host + "/ HTTP/1.0\r\nContent-Length: 1\r\n\r\na", "POST " + host + " a 1 map[] <nil>"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if resp, b := w.raw(tt.in); resp.StatusCode != 200 || b != tt.want {
				t.Errorf("%s %q, want %q", resp.Status, b, tt.want)
			}
		})
	}
}

func TestExpect(t *testing.T) {
	port := serve(t, echo)
	w := open(t, allow(port, "web.test:"+port))
	for _, host := range []string{"web.test:" + port, "other.test:" + port} {
		conn := w.dial()
		br := bufio.NewReader(conn)
		fmt.Fprintf(conn, "POST http://%s/ HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\nExpect: 100-continue\r\n\r\n", host, host)
		resp, err := http.ReadResponse(br, nil)
		if err != nil {
			t.Fatal(err)
		}
		if host[0] == 'o' {
			if resp.StatusCode != 403 {
				t.Errorf("a body was asked for that goes nowhere: %s", resp.Status)
			}
			continue
		}
		if resp.StatusCode != 100 {
			t.Fatalf("the body is not asked for: %s", resp.Status)
		}
		io.WriteString(conn, "ab")
		if resp, b := w.answer(br, "POST"); resp.StatusCode != 200 || !strings.Contains(b, " ab 2 ") {
			t.Errorf("%s %q", resp.Status, b)
		}
	}
}

// TestPipeline checks that each request of a connection is decided separately.
func TestPipeline(t *testing.T) {
	port := serve(t, echo)
	w := open(t, allow(port, "web.test:"+port))
	conn := w.dial()
	br := bufio.NewReader(conn)
	one := func(method, host string) string {
		return fmt.Sprintf("%s http://%s/ HTTP/1.1\r\nHost: %s\r\nContent-Length: 2\r\n\r\nab", method, host, host)
	}
	good, bad := "web.test:"+port, "other.test:"+port
	chunks := strings.Replace(one("POST", good), "Content-Length: 2\r\n\r\nab", "Transfer-Encoding: chunked\r\nTrailer: X-T\r\n\r\n2\r\nab\r\n0\r\nX-T: v\r\n\r\n", 1)
	io.WriteString(conn, one("POST", good)+chunks+one("POST", bad)+one("PUT", good)+strings.ReplaceAll(one("PUT", good), "Host: web", "Host: other"))
	for i, want := range []int{200, 200, 403, 200, 400} {
		resp, b := w.answer(br, "POST")
		if resp.StatusCode != want {
			t.Fatalf("answer %d: %s %q, want %d", i, resp.Status, b, want)
		}
	}
	if _, err := br.ReadByte(); err != io.EOF {
		t.Errorf("the connection goes on after what is malformed: %v", err)
	}
}

func TestMalformed(t *testing.T) {
	var reached atomic.Int64
	port := serve(t, func(http.ResponseWriter, *http.Request) { reached.Add(1) })
	w := open(t, allow(port, "web.test:"+port))
	host := "web.test:" + port
	tests := []struct {
		name, in string
		status   int
	}{
		{"both lengths", "POST http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nContent-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400},
		{"origin form", "GET / HTTP/1.1\r\nHost: " + host + "\r\n\r\n", 400},
		{"host differs", "GET http://" + host + "/ HTTP/1.1\r\nHost: other.test\r\n\r\n", 400},
		{"escape", "GET http://" + host + "/%zz HTTP/1.1\r\nHost: " + host + "\r\n\r\n", 400},
		{"https", "GET https://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n", 400},
		{"huge head", "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\nA: " + strings.Repeat("b", 70<<10), 431},
		{"HTTP/2", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 505},
		{"NUL", "CONNECT evil\x00.web.test:443 HTTP/1.1\r\n\r\n", 400},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if resp, b := w.raw(tt.in); resp.StatusCode != tt.status || resp.Header.Get("X-Sandbox-Rule") != "request" {
				t.Errorf("%s %q, want %d", resp.Status, b, tt.status)
			}
			w.wait(i+1, refusals)
		})
	}
	if reached.Load() != 0 {
		t.Error("something reached the host")
	}
}

// TestAnswers checks that answers without a body have none.
func TestAnswers(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Path", r.URL.Path)
		switch r.URL.Path {
		case "/204":
			w.WriteHeader(204)
		case "/304":
			w.WriteHeader(304)
		case "/302":
			http.Redirect(w, r, "http://other.test/", http.StatusFound)
		case "/chunks":
			w.Header().Set("Trailer", "X-T")
			io.WriteString(w, "a")
			w.(http.Flusher).Flush()
			io.WriteString(w, "b")
			w.Header().Set("X-T", "v")
		default:
			w.Header().Set("Content-Length", "5")
			io.WriteString(w, "12345")
		}
	})
	w := open(t, allow(port, "web.test:"+port))
	conn := w.dial()
	br := bufio.NewReader(conn)
	for _, tt := range []struct {
		method, path, body string
		status             int
		length             int64
	}{
		{"HEAD", "/", "", 200, 5}, {"GET", "/204", "", 204, 0}, {"GET", "/304", "", 304, 0}, {"GET", "/302", "<a href=\"http://other.test/\">Found</a>.\n\n", 302, 41},
		{"GET", "/chunks", "ab", 200, -1}, {"HEAD", "/chunks", "", 200, -1}, {"GET", "/", "12345", 200, 5},
	} {
		fmt.Fprintf(conn, "%s http://web.test:%s%s HTTP/1.1\r\nHost: web.test:%s\r\n\r\n", tt.method, port, tt.path, port)
		resp, b := w.answer(br, tt.method)
		if resp.StatusCode != tt.status || b != tt.body || resp.ContentLength != tt.length || resp.Header.Get("X-Path") != tt.path {
			t.Errorf("%s %s: %s %d %q", tt.method, tt.path, resp.Status, resp.ContentLength, b)
		}
		if tt.path == "/chunks" && tt.method == "GET" && resp.Trailer.Get("X-T") != "v" {
			t.Errorf("trailer %v", resp.Trailer)
		}
	}
	if resp, b := w.raw("GET http://web.test:" + port + "/chunks HTTP/1.0\r\n\r\n"); b != "ab" || resp.TransferEncoding != nil {
		t.Errorf("to an old program: %v %q", resp.TransferEncoding, b)
	}
	if w.names.count("other.test") != 0 {
		t.Error("a redirect was followed")
	}
}

func TestWebsocket(t *testing.T) {
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "websocket" || r.Header.Get("Sec-Websocket-Key") != "k" {
			http.Error(w, "no", 400)
			return
		}
		conn, rw, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nhello ")
		io.Copy(conn, rw)
	})
	w := open(t, allow(port, "web.test:"+port))
	conn := w.dial()
	fmt.Fprintf(conn, "GET http://web.test:%s/ HTTP/1.1\r\nHost: web.test:%s\r\nConnection: keep-alive, Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Key: k\r\n\r\nworld", port, port)
	br := bufio.NewReader(conn)
	resp, err := http.ReadResponse(br, nil)
	if err != nil || resp.StatusCode != 101 {
		t.Fatal(resp, err)
	}
	conn.(*net.TCPConn).CloseWrite()
	if b, err := io.ReadAll(br); string(b) != "hello world" || err != nil {
		t.Errorf("%q %v", b, err)
	}
	if e := w.wait(1, ends)[0]; e.Status != 101 || e.BytesOut < 5 || e.Error != "" {
		t.Errorf("%+v", e)
	}
}

func TestFailures(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := portOf(l.Addr())
	l.Close()
	dumb := listen(t, func(conn net.Conn) { conn.Read(make([]byte, 10)) })
	w := open(t, network.Options{Allowed: []string{"*.test", "missing.example", "rebound.example", "127.0.0.1:" + closed, "127.0.0.1:" + dumb}})
	w.names.addrs["rebound.example"] = []string{"10.0.0.1"}
	tests := []struct {
		host   string
		status int
		rule   string
	}{
		{"missing.example:80", 502, "lookup"}, {"web.test:" + closed, 502, "reach"}, {"web.test:" + dumb, 502, "reach"}, {"rebound.example:80", 403, "address"},
		{"web.test:1", 403, ""}, {"169.254.169.254:80", 403, ""}, {"[::ffff:127.0.0.1]:80", 403, ""}, {"2130706433:80", 403, ""},
	}
	for _, tt := range tests {
		t.Run(tt.host, func(t *testing.T) {
			for _, in := range []string{"GET http://" + tt.host + "/ HTTP/1.1\r\nHost: " + tt.host + "\r\n\r\n", "CONNECT " + tt.host + " HTTP/1.1\r\n\r\n"} {
				if tt.host == "web.test:"+dumb && in[0] == 'C' {
					continue // which can be connected to
				}
				resp, b := w.raw(in)
				if rule := resp.Header.Get("X-Sandbox-Rule"); resp.StatusCode != tt.status || tt.rule != "" && rule != tt.rule {
					t.Errorf("%.8s: %s %q, want %d %s", in, resp.Status, b, tt.status, tt.rule)
				}
			}
		})
	}
}

// listen serves raw connections and returns the port.
func listen(t testing.TB, serve func(net.Conn)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				serve(conn)
			}()
		}
	}()
	return portOf(l.Addr())
}

func TestLimits(t *testing.T) {
	port := serve(t, echo)
	host := "web.test:" + port
	limited := func(l egress.Limits) *world {
		return open(t, allow(port, host), func(_ *egress.Options, o *egress.SessionOptions) { o.Limits = l })
	}
	t.Run("request", func(t *testing.T) {
		w := limited(egress.Limits{RequestBytes: 4})
		head := "POST http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n"
		if resp, _ := w.raw(head + "Content-Length: 5\r\n\r\nabcde"); resp.StatusCode != 413 {
			t.Errorf("a long body: %s", resp.Status)
		}
		if resp, _ := w.raw(head + "Transfer-Encoding: chunked\r\n\r\n5\r\nabcde\r\n0\r\n\r\n"); resp.StatusCode != 413 {
			t.Errorf("a long body in chunks: %s", resp.Status)
		}
		if resp, _ := w.raw(head + "Content-Length: 4\r\n\r\nabcd"); resp.StatusCode != 200 {
			t.Errorf("the longest body: %s", resp.Status)
		}
	})
	t.Run("connections", func(t *testing.T) {
		w := open(t, allow(port, host), func(_ *egress.Options, o *egress.SessionOptions) {
			o.Sandbox, o.Limits = unqueued, egress.Limits{Connections: 1}
		})
		only := w.session.Caller("only")
		conn := w.dial()
		br := bufio.NewReader(conn)
		get := "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
		io.WriteString(conn, get)
		w.answer(br, "GET")
		if resp, _ := w.raw(get); resp.StatusCode != 503 {
			t.Errorf("the second connection: %s", resp.Status)
		}
		if n := w.plane.Counters().RefusedConns; n != 1 {
			t.Errorf("%d turned away", n)
		}
		w.wait(1, func(e egress.Event) bool {
			return e.Phase == egress.PhaseDecision && e.Rule == "limits.connections" && e.Host == ""
		})
		if reported := only.Refused(); len(reported) != 1 || reported[0].Rule != "limits.connections" {
			t.Errorf("the one command is told of %+v", reported)
		}
	})
	t.Run("bytes", func(t *testing.T) {
		w := limited(egress.Limits{BytesOut: 200})
		conn := w.dial()
		io.WriteString(conn, "GET http://"+host+"/"+strings.Repeat("a", 200)+" HTTP/1.1\r\nHost: "+host+"\r\n\r\n")
		if n, err := conn.Read(make([]byte, 1)); n != 0 {
			t.Errorf("an answer all the same: %v", err)
		}
		if resp, _ := w.raw("GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"); resp.StatusCode != 429 {
			t.Errorf("afterwards: %s", resp.Status)
		}
		w.wait(1, func(e egress.Event) bool { return e.Phase == egress.PhaseDecision && e.Rule == "limits.bytesOut" })
	})
	t.Run("head", func(t *testing.T) {
		w := openWithin(t, time.Second, allow(port, host))
		testenv.Success(t, func() error { // a connection without any request gets no response
			conn := w.dial()
			io.WriteString(conn, "GET http://"+host+"/ HTTP/1.1\r\nHost:")
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err == nil && resp.StatusCode != 408 {
				t.Errorf("half a head: %s", resp.Status)
			}
			return err
		})
		if n, err := w.dial().Read(make([]byte, 1)); n != 0 || err != io.EOF {
			t.Errorf("a silent connection: %d %v", n, err)
		}
	})
}
