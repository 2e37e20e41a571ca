package operation

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// BenchmarkRequest compares a request through guard, meter and proxy with one of
// net/http to the same server, each on a connection of its own.
func BenchmarkRequest(b *testing.B) {
	w := newWorld(b, rules{})
	g := guardOf(b, nil)
	for _, scheme := range []string{"http", "https"} {
		b.Run(scheme+"/plain", func(b *testing.B) {
			direct := &http.Client{Transport: &http.Transport{
				DisableKeepAlives: true, TLSClientConfig: &tls.Config{RootCAs: w.net.Authority.Pool},
				DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
					return new(net.Dialer).DialContext(ctx, "tcp", w.net.At(scheme, "127.0.0.1"))
				},
			}}
			for b.Loop() {
				resp, err := direct.Get(w.net.URL(scheme, testenv.Files, "/greeting.txt"))
				if err != nil {
					b.Fatal(err)
				}
				io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
		})
		b.Run(scheme+"/fetch", func(b *testing.B) {
			for b.Loop() {
				if err := w.once(g, w.net.URL(scheme, testenv.Files, "/greeting.txt"), int64(len(testenv.Content))); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("https/fetch/1MiB", func(b *testing.B) {
		b.SetBytes(1 << 20)
		for b.Loop() {
			if err := w.once(g, w.net.URL("https", testenv.Files, "/zeros?n=1048576"), 1<<20); err != nil {
				b.Fatal(err)
			}
		}
	})
}
