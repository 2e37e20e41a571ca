package egress

import (
	"io"
	"net"
	"testing"
)

// compared runs f with a direct connection and with pumped ones, for comparison in
// the same run.
func compared(b *testing.B, f func(b *testing.B, program, host *net.TCPConn)) {
	b.Run("direct", func(b *testing.B) {
		program, host := tcp(b)
		f(b, program, host)
	})
	for name, wrap := range map[string]func(*net.TCPConn) net.Conn{
		"spliced": func(c *net.TCPConn) net.Conn { return c },
		"copied":  func(c *net.TCPConn) net.Conn { return pumpPlain{c} },
	} {
		b.Run(name, func(b *testing.B) {
			program, inside := tcp(b)
			outside, host := tcp(b)
			m := newMeter(Limits{BytesIn: 1 << 60})
			done := make(chan struct{})
			go func() {
				defer close(done)
				_, _, _ = bothPump(b.Context(), wrap(inside), outside, m)
			}()
			f(b, program, host)
			program.Close()
			host.Close()
			<-done
			m.Close()
		})
	}
}

// BenchmarkDownload measures bytes in one direction.
func BenchmarkDownload(b *testing.B) {
	compared(b, func(b *testing.B, program, host *net.TCPConn) {
		const size = 1 << 20
		b.SetBytes(size)
		b.ResetTimer()
		go func() {
			buf := make([]byte, size)
			for range b.N {
				if _, err := host.Write(buf); err != nil {
					return
				}
			}
		}()
		buf := make([]byte, size)
		if _, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{io.LimitReader(program, int64(b.N)*size)}, buf); err != nil {
			b.Fatal(err)
		}
	})
}

// BenchmarkRoundTrip measures a short request and a short response.
func BenchmarkRoundTrip(b *testing.B) {
	compared(b, func(b *testing.B, program, host *net.TCPConn) {
		go func() {
			buf := make([]byte, 100)
			for {
				if _, err := io.ReadFull(host, buf); err != nil {
					return
				}
				if _, err := host.Write(buf); err != nil {
					return
				}
			}
		}()
		b.ResetTimer()
		buf := make([]byte, 100)
		for range b.N {
			if _, err := program.Write(buf); err != nil {
				b.Fatal(err)
			}
			if _, err := io.ReadFull(program, buf); err != nil {
				b.Fatal(err)
			}
		}
	})
}
