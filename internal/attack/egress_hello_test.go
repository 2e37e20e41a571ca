package attack

import (
	"bytes"
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"
	"time"
)

// A listener is a host that passes received bytes to the test.
type listener struct {
	port  int
	heard chan []byte // bytes of one connection, once it has ended
}

// listen starts a listener. If it echoes, it sends back every byte.
func listen(t testing.TB, first string) *listener {
	t.Helper()
	l := &listener{heard: make(chan []byte, 1000)}
	l.port = raw(t, func(c net.Conn) {
		io.WriteString(c, first)
		b, _ := io.ReadAll(io.TeeReader(c, c))
		l.heard <- b
	})
	return l
}

// got returns the bytes of the next connection.
func (l *listener) got(t testing.TB) []byte {
	t.Helper()
	select {
	case b := <-l.heard:
		return b
	case <-time.After(patience):
		t.Fatal("the host's connection does not end")
		return nil
	}
}

// vector is b with its length before it, in so many bytes.
func vector(size int, b ...byte) []byte {
	var n [8]byte
	binary.BigEndian.PutUint64(n[:], uint64(len(b)))
	return append(n[8-size:], b...)
}

// extension is one of a hello.
func extension(kind uint16, b []byte) []byte {
	return append(binary.BigEndian.AppendUint16(nil, kind), vector(2, b...)...)
}

// sni is the extension with names.
func sni(names ...string) []byte {
	var list []byte
	for _, n := range names {
		list = append(append(list, 0), vector(2, []byte(n)...)...)
	}
	return extension(0, vector(2, list...))
}

// message is a hello with extensions.
func message(extensions ...[]byte) []byte {
	b := append([]byte{3, 3}, make([]byte, 32)...)
	b = append(b, vector(1, make([]byte, 32)...)...)
	b = append(b, vector(2, 0x13, 1, 0xc0, 0x2b)...)
	b = append(b, 1, 0)
	b = append(b, vector(2, bytes.Join(extensions, nil)...)...)
	return append([]byte{1}, vector(3, b...)...)
}

// records cuts a message into records of at most size bytes.
func records(message []byte, size int) []byte {
	var out []byte
	for len(message) > 0 {
		n := min(size, len(message))
		out = append(append(out, 22, 3, 1), vector(2, message[:n]...)...)
		message = message[n:]
	}
	return out
}

func whole(extensions ...[]byte) []byte { return records(message(extensions...), 1<<14) }

// captured returns the first message of Go's own client.
func captured(c *tls.Config) []byte {
	inside, outside := net.Pipe()
	defer outside.Close()
	go func() {
		tls.Client(inside, c).Handshake()
		inside.Close()
	}()
	b := make([]byte, 16<<10)
	n, _ := outside.Read(b)
	return b[:n]
}

// A greeting is a program's first bytes in a tunnel to bare.test.
type greeting struct {
	send   []byte
	passes bool
	rule   string // of the refusal
	silent bool   // the tunnel ends without an alert of TLS
}

func greetings() map[string]greeting {
	const name = "bare.test"
	good := whole(sni(name))
	refused := func(b []byte, rule string) greeting { return greeting{send: b, rule: rule} }
	passes := func(b []byte) greeting { return greeting{send: b, passes: true} }
	other := func(b string) greeting { return greeting{send: []byte(b), rule: "protocol", silent: true} }
	grease := extension(0x0a0a, nil)
	return map[string]greeting{
		"the name":                    passes(good),
		"the name of Go's client":     passes(captured(&tls.Config{ServerName: name})),
		"in upper case":               passes(whole(sni("BARE.TEST"))),
		"in records of one byte":      passes(records(message(sni(name)), 1)),
		"in records of seven bytes":   passes(records(message(sni(name)), 7)),
		"with more behind it":         passes(append(bytes.Clone(good), 23, 3, 3, 0, 5, 'e', 'a', 'r', 'l', 'y')),
		"with early data":             passes(append(whole(grease, extension(42, nil), sni(name)), 23, 3, 3, 0, 1, 0)),
		"with 10 KiB of padding":      passes(whole(extension(21, make([]byte, 10<<10)), sni(name))),
		"another name":                refused(whole(sni("other.test")), "sni"),
		"a name below":                refused(whole(sni("a.bare.test")), "sni"),
		"a name with more behind":     refused(whole(sni("bare.test.other.test")), "sni"),
		"no name":                     refused(whole(grease), "sni"),
		"no extensions":               refused(whole(), "sni"),
		"no name of Go's client":      refused(captured(&tls.Config{ServerName: "127.0.0.1", InsecureSkipVerify: true}), "sni"),
		"an address":                  refused(whole(sni("127.0.0.1")), "sni"),
		"the address of the trap":     refused(whole(sni(trapAddr)), "sni"),
		"a number":                    refused(whole(sni("2130706433")), "sni"),
		"a name of the metadata":      refused(whole(sni("169.254.169.254")), "sni"),
		"two names":                   refused(whole(sni(name, "other.test")), "tls"),
		"two names, other first":      refused(whole(sni("other.test", name)), "tls"),
		"the same name twice":         refused(whole(sni(name, name)), "tls"),
		"two lists of names":          refused(whole(sni(name), sni("other.test")), "tls"),
		"a dot at the end":            refused(whole(sni("bare.test.")), "tls"),
		"NUL in the name":             refused(whole(sni("bare.test\x00.other.test")), "tls"),
		"blank in the name":           refused(whole(sni("bare.test ")), "tls"),
		"letters beyond ASCII":        refused(whole(sni("b\xc3\xa4re.test")), "tls"),
		"escape of a terminal":        refused(whole(sni("\x1b]0;x\x07")), "tls"),
		"empty name":                  refused(whole(sni("")), "tls"),
		"empty list of names":         refused(whole(sni()), "tls"),
		"name of 300 bytes":           refused(whole(sni(strings.Repeat("a", 300))), "tls"),
		"name of another kind":        refused(whole(extension(0, vector(2, append([]byte{1}, vector(2, []byte(name)...)...)...))), "tls"),
		"names that end early":        refused(whole(extension(0, []byte{0, 200, 0, 0, 9, 'b'})), "tls"),
		"extension that ends early":   refused(whole(sni(name), []byte{0, 10, 0xff, 0xff}), "tls"),
		"something after the hello":   refused(records(append(message(sni(name)), message(sni("other.test"))...), 1<<14), "tls"),
		"two hellos across records":   refused(records(append(message(sni(name)), message(sni("other.test"))...), 50), "tls"),
		"hello of a server":           refused(records(append([]byte{2}, message(sni(name))[1:]...), 1<<14), "tls"),
		"empty record first":          refused(append([]byte{22, 3, 1, 0, 0}, good...), "tls"),
		"alert within":                refused(append(append(bytes.Clone(records(message(sni(name))[:20], 20)), 21, 3, 1, 0, 2, 1, 0), good...), "tls"),
		"record of 64 KiB":            refused(append([]byte{22, 3, 1, 0xff, 0xff}, make([]byte, 64<<10)...), "tls"),
		"message of 16 MiB":           refused([]byte{22, 3, 1, 0, 4, 1, 0xff, 0xff, 0xff}, "tls"),
		"version 9 of the record":     refused([]byte{22, 9, 9, 0, 4, 1, 0, 0, 0}, "tls"),
		"version of SSL 2":            refused(records(append([]byte{1}, vector(3, append([]byte{0, 2}, message(sni(name))[6:]...)...)...), 1<<14), "tls"),
		"nothing but the first bytes": refused([]byte{22, 22, 22, 22, 22, 22}, "tls"),
		"hello of SSL 2":              other("\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10\x01\x00\x80"),
		"alert first":                 other("\x15\x03\x01\x00\x02\x01\x00"),
		"data of TLS first":           other("\x17\x03\x03\x00\x05hello"),
		"SSH":                         other("SSH-2.0-OpenSSH_9.9\r\n"),
		"mail":                        other("EHLO mail\r\n"),
		"MAIL with a slash":           other("MAIL FROM:<a>\r\n"),
		"git":                         other("0032git-upload-pack /x\x00host=bare.test\x00"),
		"Redis":                       other("*1\r\n$4\r\nPING\r\n"),
		"PostgreSQL":                  other("\x00\x00\x00\x08\x04\xd2\x16\x2f"),
		"DNS over TCP":                other("\x00\x1d\x00\x00\x01\x00\x00\x01\x00\x00"),
		"one byte of NUL":             other("\x00"),
		"SOCKS within":                other("\x05\x01\x00"),
		"HTTP in lower case":          other("get / http/1.1\r\n\r\n"),
		"SIP":                         other("INVITE sip:a SIP/2.0\r\n\r\n"),
		"telnet":                      other("\xff\xfd\x03"),
		"an address of proxies":       other("PROXY TCP4 127.0.0.1 127.0.0.1 1 2\r\n"),
	}
}

// TestGreetings checks what passes a tunnel to a host that is allowed for TLS
// and HTTP, on any port.
func TestGreetings(t *testing.T) {
	t.Run("TCP", func(t *testing.T) { testGreetings(t, false) })
	t.Run("frames", func(t *testing.T) { testGreetings(t, true) })
}

func testGreetings(t *testing.T, framed bool) {
	host := listen(t, "")
	r := egressNewRig(t, setup{framed: framed, rules: []string{"bare.test:" + itoa(host.port), "127.0.0.1:" + itoa(host.port)}})
	tunnels := map[string]func() *talk{
		"CONNECT": func() *talk { return r.connect("bare.test:" + itoa(host.port)) },
		"SOCKS":   func() *talk { k, _ := r.socks("bare.test", host.port); return k },
	}
	for name, g := range greetings() {
		for tunnel, open := range tunnels {
			t.Run(name+"/"+tunnel, func(t *testing.T) {
				before, k := r.count(), open()
				defer k.Close()
				if tunnel == "SOCKS" && len(g.send) < 4<<10 {
					for i := range g.send { // byte by byte, as far as TCP lets them
						k.Write(g.send[i : i+1])
					}
				} else {
					k.Write(g.send)
				}
				k.Conn.(*net.TCPConn).CloseWrite()
				back, _ := io.ReadAll(k.br)
				heard := host.got(t)
				if g.passes {
					if !bytes.Equal(heard, g.send) || !bytes.Equal(back, g.send) {
						t.Errorf("the host heard %d bytes, the program %d, of %d", len(heard), len(back), len(g.send))
					}
					return
				}
				if len(heard) != 0 {
					t.Errorf("the host heard %q", heard)
				}
				want := "\x15\x03\x01\x00\x02\x02\x31"
				if g.silent {
					want = ""
				}
				if string(back) != want {
					t.Errorf("the program heard %q", back)
				}
				if e := r.refusals(before, 1)[0]; e.Rule != g.rule || e.Host != "bare.test" {
					t.Errorf("%+v", e)
				}
			})
		}
	}
	r.holds()
}

// TestCutHello checks that the proxy waits for the rest of an incomplete hello
// and never sends it.
func TestCutHello(t *testing.T) {
	host := listen(t, "")
	r := egressNewRig(t, setup{rules: []string{"bare.test:" + itoa(host.port), "127.0.0.1:" + itoa(host.port)}})
	good := whole(sni("bare.test"))
	for _, n := range []int{0, 1, 2, 5, 6, 20, len(good) - 1} {
		k := r.connect("bare.test:" + itoa(host.port))
		k.Write(good[:n])
		k.Conn.(*net.TCPConn).CloseWrite()
		io.ReadAll(k.br)
		if heard := host.got(t); len(heard) != 0 {
			t.Errorf("after %d bytes of the hello the host heard %q", n, heard)
		}
	}
}
