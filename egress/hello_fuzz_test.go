package egress

import (
	"fmt"
	"testing"
)

// FuzzParse holds that a hello is never read differently than by the standard
// library's server, that what is there decides rather than how much of it came
// at once, and that waiting is always for something.
func FuzzParse(f *testing.F) {
	for _, c := range clients(f) {
		said := spoken(f, c)
		f.Add(said)
		f.Add(records(said[5:], 100))
	}
	f.Add(one(sni("\x00a.example", "\x00b.example")))
	f.Add(one(sni("\x01a.example", "\x00b.example"), sni("\x00c.example")))
	f.Add([]byte("GET / HTTP/1.1\r\n\r\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		h, need, err := parseHello(data)
		switch {
		case need != 0 && (need <= len(data) || err != nil):
			t.Fatalf("waits for byte %d of %d, %v", need, len(data), err)
		case need != 0 || err != nil:
			if h.ServerName != "" {
				t.Fatalf("a name without success: %q", h.ServerName)
			}
			return
		}
		if want := standard(data); want != nil && want.ServerName != h.ServerName {
			t.Fatalf("the name is %q, and the standard library reads %q", h.ServerName, want.ServerName)
		}
		for n := 0; n < len(data); n += 1 + len(data)/64 {
			part, need, err := parseHello(data[:n])
			if err != nil || need == 0 && fmt.Sprint(part) != fmt.Sprint(h) || need > len(data) {
				t.Fatalf("after %d of %d bytes: %+v, %d, %v", n, len(data), part, need, err)
			}
		}
	})
}
