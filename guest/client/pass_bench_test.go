package client_test

import (
	"context"
	"io"
	"net"
	"os/exec"
	"slices"
	"testing"
	"time"

	sandbox "github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/guest/client"
)

// dialler is a program inside: it connects to a port, sends what its arguments
// say and echoes single bytes, or sends for ever.
const dialler = `
use Socket; use IO::Handle;
socket(S, PF_INET, SOCK_STREAM, 0); connect(S, sockaddr_in($ARGV[0], inet_aton("127.0.0.1"))) or die;
setsockopt(S, 6, 1, 1);
if ($ARGV[1] eq "echo") { while (sysread(S, $b, 1)) { syswrite(S, $b) } exit }
my $x = "x" x 262144;
while (syswrite(S, $x)) {}`

// BenchmarkPass compares connections at a listener of the sandbox as a socket
// of ours, as frames, and, the yardstick, at one of the host: MB/s that come
// from a program, and the median of a round trip of one byte.
func BenchmarkPass(b *testing.B) {
	ways := map[string]func(b *testing.B) (*client.Client, net.Listener){
		"socket": func(b *testing.B) (*client.Client, net.Listener) {
			c := startGuest(b).client(client.Options{Offer: true})
			return c, tcpListener(b, c)
		},
		"frames": func(b *testing.B) (*client.Client, net.Listener) {
			c := startGuest(b).client(client.Options{})
			return c, listen(b, c, "tcp", "127.0.0.1:0")
		},
		"direct": func(b *testing.B) (*client.Client, net.Listener) {
			l, err := net.Listen("tcp", "127.0.0.1:0")
			must(b, err)
			b.Cleanup(func() { l.Close() })
			return nil, l
		},
	}
	for _, name := range []string{"direct", "socket", "frames"} {
		b.Run(name+"/stream", func(b *testing.B) {
			c, l := ways[name](b)
			conn := answered(b, c, l, "send")
			buf := make([]byte, 256<<10)
			begin := time.Now()
			var n int64
			for b.Loop() {
				m, err := io.ReadFull(conn, buf)
				must(b, err)
				n += int64(m)
			}
			b.ReportMetric(float64(n)/time.Since(begin).Seconds()/1e6, "MB/s")
		})
		b.Run(name+"/trip", func(b *testing.B) {
			c, l := ways[name](b)
			conn := answered(b, c, l, "echo")
			one := []byte("x")
			var took []time.Duration
			for b.Loop() {
				begin := time.Now()
				_, err := conn.Write(one)
				must(b, err)
				_, err = conn.Read(one)
				must(b, err)
				took = append(took, time.Since(begin))
			}
			slices.Sort(took)
			b.ReportMetric(float64(took[len(took)/2].Nanoseconds())/1000, "p50-µs")
		})
	}
}

// answered has a program connect to l, and accepts it.
func answered(b *testing.B, c *client.Client, l net.Listener, what string) net.Conn {
	b.Helper()
	_, port, err := net.SplitHostPort(l.Addr().String())
	must(b, err)
	args := []string{"perl", "-e", dialler, port, what}
	if c != nil {
		p, err := c.Start(context.Background(), sandbox.Command{Args: args})
		must(b, err)
		b.Cleanup(func() { _ = p.Kill(context.Background()) })
	} else {
		onHost(b, args)
	}
	conn, err := l.Accept()
	must(b, err)
	b.Cleanup(func() { conn.Close() })
	return conn
}

// onHost runs a program until the end of the benchmark.
func onHost(b *testing.B, args []string) {
	b.Helper()
	cmd := exec.Command(args[0], args[1:]...)
	must(b, cmd.Start())
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
}

// BenchmarkPassListen listens and closes.
func BenchmarkPassListen(b *testing.B) {
	c := startGuest(b).client(client.Options{Offer: true})
	for b.Loop() {
		l, err := c.Listen(context.Background(), "tcp", "127.0.0.1:0")
		must(b, err)
		must(b, l.Close())
	}
}
