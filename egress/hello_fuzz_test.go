package egress

import (
	"fmt"
	"testing"
)

// FuzzParse checks that a hello is read as by the standard library's server,
// that the result depends on the bytes and not on how they were split, and
// that the parser waits only for bytes that it needs.
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
