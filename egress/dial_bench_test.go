package egress

import (
	"net"
	"testing"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// BenchmarkDial measures the cost of vetting, in comparison with a plain dial.
// The connections are reset, so that the kernel keeps no state of them.
func BenchmarkDial(b *testing.B) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_ = c.Close()
		}
	}()
	to := l.Addr().(*net.TCPAddr).AddrPort()
	end := func(b *testing.B, c net.Conn, err error) {
		if err != nil {
			b.Fatal(err)
		}
		_ = c.(*net.TCPConn).SetLinger(0)
		_ = c.Close()
	}
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			c, err := net.Dial("tcp", to.String())
			end(b, c, err)
		}
	})
	b.Run("vetted", func(b *testing.B) {
		r := NewDialer(DialerOptions{Resolver: answering("127.0.0.1")})
		judge := compiled(b, network.Options{Allowed: []string{"127.0.0.1:" + to.String()[len("127.0.0.1:"):]}}).JudgeAddr
		h := host(b, "web.example")
		for b.Loop() {
			c, _, err := r.Dial(b.Context(), h, to.Port(), judge)
			end(b, c, err)
		}
	})
}
