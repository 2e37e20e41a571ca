package secret

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"testing"
)

// BenchmarkScrub measures the throughput of bodies without a value.
func BenchmarkScrub(b *testing.B) {
	const size = 8 << 20
	rnd := rand.New(rand.NewPCG(1, 2))
	random := make([]byte, size)
	for i := range random {
		random[i] = byte(rnd.Uint32())
	}
	digits := make([]byte, size)
	for i := range digits {
		digits[i] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"[rnd.IntN(64)]
	}
	text := bytes.Repeat([]byte(`{"id": 4711, "name": "an ordinary answer", "tags": ["a", "b"], "url": "https://api.example.com/v1/x"}`+"\n"), size/90+1)[:size]
	for _, secrets := range []int{1, 10, maxBindings} {
		r := newRig()
		var flags []string
		for i := range secrets {
			r.env[fmt.Sprintf("S%d", i)] = fmt.Sprintf("ghp_%036d", rnd.Uint64())
			if secrets == maxBindings { // worst case: as many and as short as possible
				r.env[fmt.Sprintf("S%d", i)] = fmt.Sprintf("%08x", rnd.Uint32())
			}
			flags = append(flags, fmt.Sprintf("S%d@h.example", i))
		}
		s := r.set(b, flags...)
		for name, body := range map[string][]byte{"JSON": text, "random": random, "base64": digits} {
			b.Run(fmt.Sprintf("%d/%s", secrets, name), func(b *testing.B) {
				b.SetBytes(size)
				buf := make([]byte, 32<<10)
				for b.Loop() {
					if n, err := io.CopyBuffer(struct{ io.Writer }{io.Discard}, s.ScrubBody(bytes.NewReader(body)), buf); n != size || err != nil {
						b.Fatal(n, err)
					}
				}
			})
		}
	}
}

func BenchmarkSwap(b *testing.B) {
	s := newRig().set(b, "A=env:TOKEN@h.example", "B=env:OTHER@h.example")
	h := hostOf(b, "h.example")
	for b.Loop() {
		header := http.Header{"Authorization": {"Bearer " + s.Env()["A"]}, "Accept": {"*/*"}, "User-Agent": {"bench"}}
		_, err := s.Swap(b.Context(), h, 443, true, header)
		must(b, err)
	}
}
