package egress_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// BenchmarkMany opens 200 sandboxes with 10 tunnels each, sends 1 KiB there
// and back through all tunnels at the same time, and compares that with as
// many direct connections.
func BenchmarkMany(b *testing.B) {
	const sandboxes, each = 200, 10
	port := listen(b, func(conn net.Conn) { io.Copy(struct{ io.Writer }{conn}, struct{ io.Reader }{conn}) })
	direct := make([]net.Conn, 0, sandboxes*each)
	for range sandboxes * each {
		conn, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err != nil {
			b.Fatal(err)
		}
		defer conn.Close()
		direct = append(direct, conn)
	}
	before := memory()
	through := many(b, port, sandboxes, each)
	held := memory() - before
	var with, without time.Duration
	for b.Loop() {
		with += round(b, through)
		without += round(b, direct)
	}
	b.ReportMetric(float64(held)/sandboxes/each/1024, "KiB/tunnel")
	b.ReportMetric(float64(with)/float64(without), "ratio")
}

func memory() int64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapInuse + m.StackInuse)
}

// many opens tunnels through separate Sessions.
func many(b *testing.B, port string, sandboxes, each int) []net.Conn {
	p, err := network.New(allow(port, "tcp://web.test:"+port))
	if err != nil {
		b.Fatal(err)
	}
	plane := egress.New(egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{Resolver: &names{asked: map[string]int{}}})})
	b.Cleanup(func() { plane.Close() })
	var out []net.Conn
	for range sandboxes {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		if _, err := plane.Open(l, egress.SessionOptions{Policy: p}); err != nil {
			b.Fatal(err)
		}
		for range each {
			conn, err := net.Dial("tcp", l.Addr().String())
			if err != nil {
				b.Fatal(err)
			}
			b.Cleanup(func() { conn.Close() })
			fmt.Fprintf(conn, "CONNECT web.test:%s HTTP/1.1\r\n\r\n", port)
			if resp, err := http.ReadResponse(newReader(conn), &http.Request{Method: "CONNECT"}); err != nil || resp.StatusCode != 200 {
				b.Fatal(resp, err)
			}
			out = append(out, conn)
		}
	}
	return out
}

// round sends 1 KiB there and back on every connection.
func round(b *testing.B, conns []net.Conn) time.Duration {
	began := time.Now()
	var all sync.WaitGroup
	for _, conn := range conns {
		all.Go(func() {
			buf := make([]byte, 1<<10)
			conn.Write(buf)
			if _, err := io.ReadFull(conn, buf); err != nil {
				b.Error(err)
			}
		})
	}
	all.Wait()
	return time.Since(began)
}
