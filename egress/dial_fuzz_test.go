package egress

import (
	"bytes"
	"net"
	"net/netip"
	"testing"
)

// A canned connection reads from prepared bytes.
type canned struct {
	net.Conn
	*bytes.Reader
}

func (c canned) Read(b []byte) (int, error)  { return c.Reader.Read(b) }
func (c canned) Write(b []byte) (int, error) { return len(b), nil }

// FuzzProxyAnswer checks that for any output of a proxy only its answer is
// read, and that the error can be shown.
func FuzzProxyAnswer(f *testing.F) {
	f.Add(false, []byte("HTTP/1.1 200 OK\r\nX: y\r\n\r\nmore"))
	f.Add(false, []byte("HTTP/1.0 407 \x1b\n\n"))
	f.Add(true, []byte("\x05\x00\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00more"))
	f.Add(true, []byte("\x05\x02\x01\x00\x05\x00\x00\x03\x01a\x00\x00more"))
	f.Fuzz(func(t *testing.T, socks bool, answer []byte) {
		p := &upstreamProxy{scheme: "http", login: len(answer)%2 == 1, user: "u", pass: "p"}
		if socks {
			p.scheme = "socks5"
		}
		c := canned{Reader: bytes.NewReader(answer)}
		_, err := p.ask(t.Context(), c, netip.MustParseAddrPort(vetted))
		if err != nil {
			for _, r := range err.Error() {
				if r < ' ' || r > '~' {
					t.Fatalf("%q is not fit to be shown", err.Error())
				}
			}
			if len(err.Error()) > 400 {
				t.Fatalf("%d bytes of error", len(err.Error()))
			}
			return
		}
		read := answer[:len(answer)-c.Len()]
		if !socks && (len(read) > maxProxyAnswerHead || !bytes.HasSuffix(read, []byte("\n")) || bytes.Contains(read[:len(read)-1], []byte("\n\r\n")) || bytes.Contains(read[:len(read)-1], []byte("\n\n"))) {
			t.Fatalf("%q was read of %q", read, answer)
		}
		if socks && len(read) > 4+4+1+255+2+2 {
			t.Fatalf("%d bytes were read", len(read))
		}
	})
}
