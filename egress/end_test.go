package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestProgramLeaves checks that the host's connection ends when the program
// disconnects.
func TestProgramLeaves(t *testing.T) {
	began, gone := make(chan struct{}, 1), make(chan struct{}, 1)
	port := serve(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/stream" {
			io.WriteString(w, "first")
			w.(http.Flusher).Flush()
		}
		began <- struct{}{}
		<-r.Context().Done()
		gone <- struct{}{}
	})
	w := open(t, allow(port, "web.test:"+port))
	for i, path := range []string{"/wait", "/stream"} {
		conn := w.dial()
		fmt.Fprintf(conn, "GET http://web.test:%s%s HTTP/1.1\r\nHost: web.test:%s\r\n\r\n", port, path, port)
		<-began
		if path == "/stream" {
			if _, err := http.ReadResponse(bufio.NewReader(conn), nil); err != nil {
				t.Error(err)
			}
		}
		conn.Close()
		<-gone
		if e := w.wait(i+1, ends)[i]; e.Error != "the program hung up" {
			t.Errorf("%s: %+v", path, e)
		}
	}
}

// TestNothingPasses checks that idle connections are ended.
func TestNothingPasses(t *testing.T) {
	port := listen(t, func(conn net.Conn) {
		req, err := http.ReadRequest(bufio.NewReader(conn))
		if err == nil && req.URL.Path == "/half" {
			io.WriteString(conn, "HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
		}
		io.Copy(io.Discard, conn)
	})
	w := open(t, allow(port, "web.test:"+port), func(_ *egress.Options, o *egress.SessionOptions) {
		o.Limits = egress.Limits{Idle: time.Second} // in which the host can answer
	})
	head := "POST http://web.test:" + port + "%s HTTP/1.1\r\nHost: web.test:" + port + "\r\nContent-Length: %d\r\n\r\n"
	if resp, b := w.raw(fmt.Sprintf(head, "/never", 0)); resp.StatusCode != 504 {
		t.Errorf("no answer: %s %q", resp.Status, b)
	}
	testenv.Success(t, func() error {
		conn := w.dial()
		fmt.Fprintf(conn, head, "/half", 0)
		b, err := io.ReadAll(conn)
		switch {
		case contains(string(b), " 504 "): // the host did not answer in time
			return fmt.Errorf("half an answer: %q", b)
		case err != nil || !contains(string(b), "half"):
			t.Errorf("half an answer: %q %v", b, err)
		}
		return nil
	})
	conn := w.dial()
	fmt.Fprintf(conn, head+"abc", "/never", 9)
	if b, _ := io.ReadAll(conn); contains(string(b), " 200 ") {
		t.Errorf("half a request: %q", b)
	}
	w.wait(3, ends)
}

// FuzzServe checks that of any input of a program, only allowed requests reach
// the host, complete and named as they were judged.
func FuzzServe(f *testing.F) {
	var port string
	bad := make(chan string, 100)
	port = serve(f, func(w http.ResponseWriter, r *http.Request) {
		if r.Host != "web.test:"+port || len(r.URL.Path) < 4 || r.URL.Path[:4] != "/pub" || r.Method != "GET" && r.Method != "POST" {
			bad <- fmt.Sprintf("%s %s %s", r.Method, r.Host, r.RequestURI)
		}
		io.Copy(io.Discard, r.Body)
	})
	w := openWithin(f, 100*time.Millisecond, allow(port, "GET,POST http://web.test:"+port+"/pub"), func(o *egress.Options, wo *egress.SessionOptions) {
		o.Record, wo.Limits.Idle = nil, 100*time.Millisecond
	})
	host := "web.test:" + port
	f.Add("GET http://HOST/pub HTTP/1.1\r\nHost: HOST\r\n\r\nGET http://other.test/ HTTP/1.1\r\nHost: HOST\r\n\r\n")
	f.Add("POST http://HOST/pub HTTP/1.1\r\nHost: HOST\r\nTransfer-Encoding: chunked\r\n\r\n1;a\r\nb\r\n0\r\n\r\nGET http://HOST/x HTTP/1.1\r\nHost: HOST\r\n\r\n")
	f.Add("POST http://HOST/pub HTTP/1.1\r\nHost: HOST\r\nContent-Length: 4\r\n\r\nGET GET http://HOST/pub/../x HTTP/1.1\r\nHost: HOST\r\n\r\n")
	f.Add("CONNECT HOST HTTP/1.1\r\n\r\nGET /pub HTTP/1.1\r\nHost: HOST\r\n\r\nGET /x HTTP/1.1\r\nHost: HOST\r\n\r\n")
	f.Add("\x05\x01\x00\x05\x01\x00\x03\x08web.test\x00\x50GET / HTTP/1.1\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		conn, err := net.Dial("tcp", w.addr)
		if err != nil {
			testenv.Lack(t, "port", err) // many runs in a row take all that are free
		}
		defer conn.Close()
		conn.SetDeadline(time.Now().Add(patience))
		io.WriteString(conn, replaced(text, "HOST", host))
		conn.(*net.TCPConn).CloseWrite()
		io.Copy(io.Discard, conn)
		select {
		case what := <-bad:
			t.Fatalf("this reached the host: %s", what)
		default:
		}
		if n := w.plane.Counters().Panics; n != 0 {
			t.Fatalf("%d panics", n)
		}
	})
}
