package attack

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// scripted starts a host that reads the head of a request and then calls say,
// and keeps the connection open if more follows.
func scripted(t testing.TB, say func(c net.Conn, head string)) int {
	t.Helper()
	return raw(t, func(c net.Conn) {
		br := bufio.NewReader(c)
		for {
			req, err := http.ReadRequest(br)
			if err != nil {
				return
			}
			b, _ := io.ReadAll(req.Body)
			say(c, fmt.Sprintf("%s %s %v %s", req.Method, req.RequestURI, req.Header, b))
		}
	})
}

// TestHostileAnswers checks what the program gets from a lying host: a
// complete response, or an end, and never two responses for one request.
func TestHostileAnswers(t *testing.T) {
	const second = "HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nSMUGGLED"
	for name, tt := range map[string]struct {
		say    string
		status int    // 0 for an answer that ends early
		body   string // received body
	}{
		"two answers":              {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok" + second, 200, "ok"},
		"answer before the end":    {"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n" + second, 200, ""},
		"length and chunks":        {"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\n\r\n" + second, 200, "ok"},
		"two lengths":              {"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\nok!", 502, ""},
		"length with a plus":       {"HTTP/1.1 200 OK\r\nContent-Length: +2\r\n\r\nok", 502, ""},
		"length below zero":        {"HTTP/1.1 200 OK\r\nContent-Length: -2\r\n\r\nok", 502, ""},
		"unknown encoding":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: cow\r\n\r\nok", 502, ""},
		"chunk of no number":       {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\nok\r\n0\r\n\r\n", 0, ""},
		"chunk below zero":         {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n-2\r\nok\r\n0\r\n\r\n", 0, ""},
		"chunk that wraps around":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n10000000000000002\r\nok\r\n0\r\n\r\n", 0, ""},
		"chunk without its end":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nokok\r\n0\r\n\r\n", 0, ""},
		"chunk with an extension":  {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;a=b\r\nok\r\n0\r\n\r\n", 200, "ok"},
		"endless extension":        {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2;" + strings.Repeat("a", 64<<10), 0, ""},
		"short of its length":      {"HTTP/1.1 200 OK\r\nContent-Length: 20\r\nConnection: close\r\n\r\nok", 0, ""},
		"NUL in a field":           {"HTTP/1.1 200 OK\r\nX: a\x00b\r\nContent-Length: 2\r\n\r\nok", 502, ""},
		"folded field":             {"HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"nonsense":                 {"\x1b[2Jhello\r\n\r\n", 502, ""},
		"SSH":                      {"SSH-2.0-OpenSSH_9.9\r\n", 502, ""},
		"TLS":                      {"\x15\x03\x01\x00\x02\x02\x31", 502, ""},
		"HTTP/0.9":                 {"<html>\n", 502, ""},
		"HTTP/2.0":                 {"HTTP/2.0 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"status 99":                {"HTTP/1.1 99 OK\r\n\r\n", 502, ""},
		"status 1000":              {"HTTP/1.1 1000 OK\r\n\r\n", 502, ""},
		"status below zero":        {"HTTP/1.1 -20 OK\r\n\r\n", 502, ""},
		"reason with an escape":    {"HTTP/1.1 200 \x1b[2J\x07\xff\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"reason of 100 KiB":        {"HTTP/1.1 200 " + strings.Repeat("y", 100<<10) + "\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"101 unasked for":          {"HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n" + second, 502, ""},
		"100 and an answer":        {"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"early hints":              {"HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"many hints":               {strings.Repeat("HTTP/1.1 103 Early Hints\r\nLink: <"+strings.Repeat("a", 1000)+">\r\n\r\n", 1000), 502, ""},
		"fields of 1 MiB":          {"HTTP/1.1 200 OK\r\n" + strings.Repeat("X: "+strings.Repeat("y", 1000)+"\r\n", 1000), 502, ""},
		"one field of 1 MiB":       {"HTTP/1.1 200 OK\r\nX: " + strings.Repeat("y", 1<<20), 502, ""},
		"fields of the connection": {"HTTP/1.1 200 OK\r\nConnection: X-A\r\nX-A: b\r\nKeep-Alive: 1\r\nProxy-Authenticate: Basic\r\nUpgrade: h2c\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"a trailer that frames":    {"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nok\r\n0\r\nContent-Length: 9\r\nTransfer-Encoding: cow\r\nX: y\r\n\r\n", 200, "ok"},
		"204 with a body":          {"HTTP/1.1 204 No Content\r\nContent-Length: 8\r\n\r\nSMUGGLED", 204, ""},
		"304 with a body":          {"HTTP/1.1 304 Not Modified\r\nContent-Length: 8\r\n\r\nSMUGGLED", 304, ""},
		"gzip that is none":        {"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 2\r\n\r\nok", 200, "ok"},
		"nothing":                  {"", 502, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := raw(t, func(c net.Conn) {
				if _, err := http.ReadRequest(bufio.NewReader(c)); err == nil {
					io.WriteString(c, tt.say)
				}
			})
			at := "bare.test:" + itoa(port)
			r := egressNewRig(t, setup{rules: []string{at, "127.0.0.1:" + itoa(port)}})
			for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
				if upgrade != "" && (name == "101 unasked for" || strings.HasPrefix(tt.say, "HTTP/1.1 103")) {
					continue // requested, or covered by other tests
				}
				k := newTalk(r.dial())
				fmt.Fprintf(k, "GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n%[2]s\r\n", at, upgrade)
				status, body, closes := k.answer("GET")
				if status != tt.status || status == 200 && body != tt.body {
					t.Errorf("%q: %d %s", upgrade, status, body)
				}
				if strings.Contains(body, "SMUGGLED") {
					t.Errorf("a second answer: %q", body)
				}
				if !closes { // no further bytes may be readable
					io.WriteString(k, "GET http://other.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n")
					if status, body, _ := k.answer("GET"); status != 403 {
						t.Errorf("the next answer: %d %s", status, body)
					}
				}
				k.Close()
			}
		})
	}
}

// TestEndless checks that an endless response does not take unbounded memory:
// the host is cut off after some KiB.
func TestEndless(t *testing.T) {
	for name, text := range map[string]string{
		"a field":        strings.Repeat("y", 1<<10),
		"fields":         "X: " + strings.Repeat("y", 1<<10) + "\r\n",
		"other answers":  "\r\nHTTP/1.1 103 Early Hints\r\nX: " + strings.Repeat("y", 1<<10) + "\r\n",
		"short answers":  "\r\nHTTP/1.1 102 Processing\r\n",
		"an ending line": "\r\n\r\nX",
	} {
		for _, upgrade := range []string{"", "Connection: Upgrade\r\nUpgrade: websocket\r\n"} {
			t.Run(name+"/"+upgrade, func(t *testing.T) {
				t.Parallel()
				sent := make(chan int, 4)
				port := raw(t, func(c net.Conn) {
					http.ReadRequest(bufio.NewReader(c))
					n, err := io.WriteString(c, "HTTP/1.1 103 Early Hints\r\nX: y")
					for err == nil && n < 64<<20 {
						var m int
						m, err = io.WriteString(c, text)
						n += m
					}
					sent <- n
				})
				at := "bare.test:" + itoa(port)
				r := egressNewRig(t, setup{rules: []string{at, "127.0.0.1:" + itoa(port)}})
				k := newTalk(r.dial())
				fmt.Fprintf(k, "GET http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\n%[2]s\r\n", at, upgrade)
				if status, body, _ := k.answer("GET"); status != 502 && status != 0 {
					t.Errorf("%d %s", status, body)
				}
				k.Close()
				select {
				case n := <-sent:
					if n > 16<<20 { // includes the kernel's buffers
						t.Errorf("the host could send %d bytes", n)
					}
				case <-time.After(patience):
					t.Error("the host goes on")
				}
			})
		}
	}
}

// TestTrailersOut checks that a program's trailer cannot affect framing.
func TestTrailersOut(t *testing.T) {
	seen := make(chan string, 1)
	port := raw(t, func(c net.Conn) {
		var b strings.Builder
		br := bufio.NewReader(io.TeeReader(c, &b))
		req, err := http.ReadRequest(br)
		if err == nil {
			io.Copy(io.Discard, req.Body)
			io.WriteString(c, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok")
		}
		seen <- b.String()
	})
	at := "bare.test:" + itoa(port)
	r := egressNewRig(t, setup{rules: []string{at, "127.0.0.1:" + itoa(port)}})
	k := newTalk(r.dial())
	fmt.Fprintf(k, "POST http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\nTrailer: X-Sum\r\nTransfer-Encoding: chunked\r\n\r\n2;x=y\r\nok\r\n0\r\nX-Sum: 7\r\n"+
		"Content-Length: 7\r\nHost: other.test\r\nTransfer-Encoding: cow\r\nProxy-Authorization: a\r\nAuthorization: b\r\nConnection: X\r\n\r\n", at)
	if status, body, _ := k.answer("POST"); status != 200 {
		t.Errorf("%d %s", status, body)
	}
	got := <-seen
	_, trailers, _ := strings.Cut(got, "\r\n0\r\n")
	if trailers != "X-Sum: 7\r\n\r\n" || strings.Contains(got, "x=y") {
		t.Errorf("the host heard %q", got)
	}
}
