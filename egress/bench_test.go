package egress_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
)

// BenchmarkGet compares a small GET over a kept connection with the same one
// without the proxy. It reports the median of the added time.
func BenchmarkGet(b *testing.B) {
	port := serve(b, func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })
	w := open(b, allow(port, "web.test:"+port), quiet)
	proxied := &http.Transport{Proxy: http.ProxyURL(&url.URL{Scheme: "http", Host: w.addr})}
	direct := &http.Transport{}
	defer proxied.CloseIdleConnections()
	defer direct.CloseIdleConnections()
	times := map[*http.Transport][]time.Duration{}
	once := func(tr *http.Transport, host string) {
		began := time.Now()
		req, _ := http.NewRequest("GET", "http://"+host+":"+port+"/", nil)
		resp, err := tr.RoundTrip(req)
		if err != nil {
			b.Fatal(err)
		}
		io.Copy(io.Discard, resp.Body)
		resp.Body.Close()
		times[tr] = append(times[tr], time.Since(began))
	}
	once(proxied, "web.test")
	once(direct, "127.0.0.1")
	for b.Loop() {
		once(proxied, "web.test")
		once(direct, "127.0.0.1")
	}
	median := func(d []time.Duration) time.Duration {
		slices.Sort(d)
		return d[len(d)/2]
	}
	p, d := median(times[proxied]), median(times[direct])
	b.ReportMetric(float64((p - d).Microseconds()), "added-µs-p50")
	b.ReportMetric(float64(p)/float64(d), "ratio")
}

func quiet(o *egress.Options, _ *egress.SessionOptions) { o.Record = nil }

// BenchmarkTunnel compares the throughput of a tunnel with that of a direct
// connection.
func BenchmarkTunnel(b *testing.B) {
	const size = 256 << 20
	port := listen(b, func(conn net.Conn) {
		line, err := bufio.NewReader(conn).ReadString('\n')
		n, _ := strconv.Atoi(line[:max(0, len(line)-1)])
		block := make([]byte, 1<<20)
		for ; err == nil && n > 0; n -= len(block) {
			_, err = conn.Write(block)
		}
	})
	w := open(b, allow(port, "tcp://web.test:"+port), quiet)
	fetch := func(conn net.Conn) time.Duration {
		defer conn.Close()
		began := time.Now()
		fmt.Fprintf(conn, "%d\n", size)
		buf := make([]byte, 1<<20)
		n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, buf)
		if n != size {
			b.Fatal(n, err)
		}
		return time.Since(began)
	}
	var through, direct time.Duration
	for b.Loop() {
		conn, _ := w.connect("web.test:" + port)
		conn.SetDeadline(time.Time{})
		through += fetch(conn)
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			b.Fatal(err)
		}
		direct += fetch(conn)
	}
	b.SetBytes(0)
	b.ReportMetric(float64(size)*float64(b.N)/through.Seconds()/1e9, "GB/s")
	b.ReportMetric(float64(size)*float64(b.N)/direct.Seconds()/1e9, "direct-GB/s")
}

// BenchmarkBody measures the throughput of a large response over plain HTTP.
func BenchmarkBody(b *testing.B) {
	const size = 256 << 20
	block := make([]byte, 1<<20)
	port := serve(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		for range size / len(block) {
			w.Write(block)
		}
	})
	w := open(b, allow(port, "web.test:"+port), quiet)
	var took time.Duration
	buf := make([]byte, 1<<20)
	for b.Loop() {
		conn := w.dial()
		began := time.Now()
		fmt.Fprintf(conn, "GET http://web.test:%s/ HTTP/1.0\r\n\r\n", port)
		if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{conn}, buf); n < size {
			b.Fatal(n, err)
		}
		took += time.Since(began)
		conn.Close()
	}
	b.ReportMetric(float64(size)*float64(b.N)/took.Seconds()/1e9, "GB/s")
}
