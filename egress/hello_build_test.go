package egress

import (
	"bytes"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"testing"
	"time"
)

// ext writes an extension.
func ext(kind int, data ...byte) []byte {
	return append([]byte{byte(kind >> 8), byte(kind)}, vec(2, data)...)
}

// vec writes data after its length.
func vec(lengthBytes int, data []byte) []byte {
	var out []byte
	for i := lengthBytes - 1; i >= 0; i-- {
		out = append(out, byte(len(data)>>(8*i)))
	}
	return append(out, data...)
}

// sni writes an extension with the names, of the type that the first byte of
// each is.
func sni(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(append(list, n[0]), vec(2, []byte(n[1:]))...)
	}
	return ext(0, vec(2, list)...)
}

// message writes a ClientHello with the extensions.
func message(extensions ...[]byte) []byte {
	body := append([]byte{3, 3}, make([]byte, 32)...)
	body = append(body, 0)                // session
	body = append(body, 0, 2, 0x13, 0x01) // suites
	body = append(body, 1, 0)             // compression
	if extensions != nil {
		body = append(body, vec(2, bytes.Join(extensions, nil))...)
	}
	return append([]byte{1}, vec(3, body)...)
}

// records cuts a message into records of so many bytes.
func records(m []byte, size int) []byte {
	var out []byte
	for len(m) > 0 {
		n := min(size, len(m))
		out = append(append(out, 22, 3, 1), vec(2, m[:n])...)
		m = m[n:]
	}
	return out
}

// one writes a hello in one record.
func one(extensions ...[]byte) []byte { return records(message(extensions...), 1<<14) }

// A script is a connection that reads from prepared bytes.
type script struct {
	io.Reader
	io.Writer
}

func (script) Close() error                     { return nil }
func (script) LocalAddr() net.Addr              { return nil }
func (script) RemoteAddr() net.Addr             { return nil }
func (script) SetDeadline(time.Time) error      { return nil }
func (script) SetReadDeadline(time.Time) error  { return nil }
func (script) SetWriteDeadline(time.Time) error { return nil }

var errSeen = errors.New("seen")

// standard returns what the standard library reads in a hello, or nil when it
// refuses it.
func standard(data []byte) *tls.ClientHelloInfo {
	var seen *tls.ClientHelloInfo
	s := tls.Server(script{bytes.NewReader(data), io.Discard}, &tls.Config{
		GetConfigForClient: func(h *tls.ClientHelloInfo) (*tls.Config, error) {
			seen = h
			return nil, errSeen
		},
	})
	_ = s.Handshake()
	return seen
}

// spoken returns the first message of a client of the standard library.
func spoken(t testing.TB, c *tls.Config) []byte {
	t.Helper()
	var said bytes.Buffer
	_ = tls.Client(script{bytes.NewReader(nil), &said}, c).Handshake()
	if said.Len() == 0 {
		t.Fatal("the client said nothing")
	}
	return said.Bytes()
}
