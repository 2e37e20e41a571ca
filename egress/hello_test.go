package egress

import (
	"bufio"
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

// clients are configurations of clients that speak differently.
func clients(t testing.TB) map[string]*tls.Config {
	out := map[string]*tls.Config{
		"plain":          {ServerName: "example.com"},
		"upper case":     {ServerName: "WWW.Example.COM"},
		"dot":            {ServerName: "example.com."},
		"IPv4":           {ServerName: "192.0.2.1"},
		"IPv6":           {ServerName: "2001:db8::1"},
		"no name":        {InsecureSkipVerify: true},
		"long":           {ServerName: strings.Repeat("a.", 120) + "example"},
		"odd":            {ServerName: "a_b.example"},
		"ALPN":           {ServerName: "example.com", NextProtos: []string{"h2", "http/1.1", "\x00odd"}},
		"TLS 1.2":        {ServerName: "example.com", MaxVersion: tls.VersionTLS12},
		"TLS 1.3":        {ServerName: "example.com", MinVersion: tls.VersionTLS13},
		"TLS 1.0":        {ServerName: "example.com", MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS10},
		"one curve":      {ServerName: "example.com", CurvePreferences: []tls.CurveID{tls.CurveP256}},
		"post-quantum":   {ServerName: "example.com", CurvePreferences: []tls.CurveID{tls.X25519MLKEM768}},
		"many protocols": {ServerName: "example.com", NextProtos: slices.Repeat([]string{strings.Repeat("p", 200)}, 60)},
		"ECH":            {ServerName: "inner.example", MinVersion: tls.VersionTLS13, EncryptedClientHelloConfigList: echConfigs(t, "outer.example")},
	}
	for _, c := range out {
		if c.ServerName == "" && !c.InsecureSkipVerify {
			t.Fatal("a client without name has to skip verification")
		}
	}
	return out
}

// echConfigs returns the list with which a client hides its hello behind the
// public name.
func echConfigs(t testing.TB, public string) []byte {
	key, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	c := []byte{7, 0, 0x20}                              // id, KEM
	c = append(c, vec(2, key.PublicKey().Bytes())...)    // key
	c = append(c, vec(2, []byte{0, 1, 0, 1})...)         // KDF, AEAD
	c = append(append(c, 32), vec(1, []byte(public))...) // longest name, public name
	c = append(c, 0, 0)                                  // extensions
	return vec(2, append([]byte{0xfe, 0x0d}, vec(2, c)...))
}

// TestStandardClients checks that hellos of clients of the standard library
// are read as its servers read them, however they are split and however slowly
// they arrive.
func TestStandardClients(t *testing.T) {
	for name, config := range clients(t) {
		t.Run(name, func(t *testing.T) {
			said := spoken(t, config)
			want := standard(said)
			if want == nil {
				t.Fatal("the standard library does not read its own hello")
			}
			message := said[5:] // one record
			for _, data := range [][]byte{said, records(message, 64), records(message, 1000), append(slices.Clone(said), 23, 3, 3, 0, 1, 9)} {
				for _, r := range []io.Reader{bytes.NewReader(data), iotest.OneByteReader(bytes.NewReader(data))} {
					br := bufio.NewReaderSize(r, helloBufferSize)
					h, err := peekHello(br)
					if err != nil || h.ServerName != want.ServerName || !slices.Equal(h.ALPN, want.SupportedProtos) || h.ECH != (name == "ECH") {
						t.Fatalf("%+v, %v, want %q %q", h, err, want.ServerName, want.SupportedProtos)
					}
					if !slices.Equal(h.Versions, want.SupportedVersions) && config.MaxVersion != tls.VersionTLS10 {
						t.Errorf("versions %x, want %x", h.Versions, want.SupportedVersions)
					}
					if left, err := io.ReadAll(br); err != nil || !bytes.Equal(left, data) {
						t.Fatalf("%d of %d bytes are left, %v", len(left), len(data), err)
					}
				}
			}
		})
	}
}

func TestWhatIsNotTLS(t *testing.T) {
	tests := map[string]string{
		"HTTP":                "GET / HTTP/1.1\r\nHost: a\r\n\r\n",
		"SSH":                 "SSH-2.0-OpenSSH_9.2\r\n",
		"SSLv2":               "\x80\x2e\x01\x00\x02\x00\x15\x00\x00\x00\x10",
		"SSLv2 for SSLv3":     "\x80\x2e\x01\x03\x01\x00\x15\x00\x00\x00\x10",
		"NUL":                 "\x00",
		"application data":    "\x17\x03\x03\x00\x01a",
		"alert":               "\x15\x03\x01\x00\x02\x02\x28",
		"another version":     "\x16\x04\x01\x00\x05",
		"version of DTLS":     "\x16\xfe\xfd\x00\x00",
		"another low version": "\x16\x03\x05\x00\x05",
	}
	for name, data := range tests {
		// The reader never ends: other protocols are detected without waiting.
		br := bufio.NewReaderSize(io.MultiReader(strings.NewReader(data), never{t}), helloBufferSize)
		if h, err := peekHello(br); !errors.Is(err, errNotTLS) || h.ServerName != "" {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

// never is a reader that must not be read.
type never struct{ t *testing.T }

func (n never) Read([]byte) (int, error) {
	n.t.Error("more was read than was needed")
	return 0, io.ErrNoProgress
}

func TestMalformed(t *testing.T) {
	good := "\x00example.com"
	whole := message(sni(good))
	tests := map[string][]byte{
		"two names":               one(sni(good, "\x00evil.example")),
		"the same name twice":     one(sni(good, good)),
		"name of another type":    one(sni("\x01example.com")),
		"another type beside it":  one(sni("\x01x", good)),
		"name extension twice":    one(sni(good), sni(good)),
		"two name extensions":     one(sni(good), sni("\x00evil.example")),
		"other extension twice":   one(ext(5), sni(good), ext(5)),
		"empty name":              one(sni("\x00")),
		"no name in the list":     one(ext(0, 0, 0)),
		"empty name extension":    one(ext(0)),
		"list longer than it is":  one(ext(0, 0, 9, 0, 0, 1, 'a')),
		"list shorter than it is": one(ext(0, 0, 4, 0, 0, 1, 'a', 'b')),
		"NUL in the name":         one(sni("\x00example.com\x00.evil.example")),
		"blank in the name":       one(sni("\x00exam ple.com")),
		"line break in the name":  one(sni("\x00a\r\nb")),
		"not ASCII":               one(sni("\x00b\xc3\xbccher.example")),
		"star":                    one(sni("\x00*.example.com")),
		"percent":                 one(sni("\x00a%2eb")),
		"brackets":                one(sni("\x00[::1]")),
		"zone":                    one(sni("\x00fe80::1%eth0")),
		"dot at the end":          one(sni("\x00example.com.")),
		"a dot":                   one(sni("\x00.")),
		"too long a name":         one(sni("\x00" + strings.Repeat("a", 256))),
		"empty protocols":         one(ext(16, 0, 0)),
		"an empty protocol":       one(ext(16, 0, 1, 0)),
		"odd versions":            one(ext(43, 3, 3, 4, 3)),
		"no versions":             one(ext(43, 0)),
		"extension too long":      one([]byte{0, 5, 0, 9, 1}),
		"half an extension":       one([]byte{0}),
		"bytes after extensions":  records(relength(append(slices.Clone(whole), 1)), 1<<14),
		"bytes after the message": records(append(slices.Clone(whole), 14, 0, 0, 0), 1<<14),
		"a second message":        records(slices.Concat(whole, message(sni("\x00evil.example"))), 1<<14),
		"server's hello":          records(append([]byte{2}, whole[1:]...), 1<<14),
		"empty message":           records([]byte{1, 0, 0, 0}, 1<<14),
		"too early an end":        records(relength(whole[:20]), 1<<14),
		"huge message":            append([]byte{22, 3, 1, 0x40, 0}, 1, 0xff, 0xff, 0xff),
		"empty record":            {22, 3, 1, 0, 0},
		"huge record":             {22, 3, 1, 0x40, 1},
		"alert between":           slices.Concat(records(whole[:20], 20), []byte{21, 3, 1, 0, 2, 1, 0}, records(whole[20:], 100)),
		"empty record between":    slices.Concat(records(whole[:20], 20), []byte{22, 3, 1, 0, 0}, records(whole[20:], 100)),
		"other version between":   slices.Concat(records(whole[:20], 20), []byte{22, 9, 1, 0, 2, 1, 0}, records(whole[20:], 100)),
		"tiny records, too many":  records(message(sni(good), ext(21, make([]byte, 8<<10)...)), 1),
		"SSL 2 version":           patched(one(sni(good)), 9, 2),
		"version of nobody":       patched(one(sni(good)), 9, 4),
		"long session":            patched(one(sni(good)), 5+4+34, 33),
		"odd suites":              patched(one(sni(good)), 5+4+36, 3),
	}
	for name, data := range tests {
		h, err := peekHello(bufio.NewReaderSize(bytes.NewReader(data), helloBufferSize))
		if !errors.Is(err, errMalformed) || h.ServerName != "" {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

// relength corrects the length of a message.
func relength(m []byte) []byte { return append([]byte{1}, vec(3, m[4:])...) }

func patched(data []byte, at int, b byte) []byte {
	data[at] = b
	return data
}

func TestHelloRead(t *testing.T) {
	tests := map[string]struct {
		data []byte
		want hello
	}{
		"no extensions at all": {one(), hello{Versions: []uint16{0x0303}}},
		"no extension":         {one([]byte{}), hello{Versions: []uint16{0x0303}}},
		"GREASE": {one(ext(0x0a0a), sni("\x00a.example"), ext(43, 4, 0x1a, 0x1a, 3, 4), ext(0x1a1a, 0), ext(16, 0, 3, 2, 'h', '2')),
			hello{ServerName: "a.example", ALPN: []string{"h2"}, Versions: []uint16{0x1a1a, 0x0304}}},
		"ECH":             {one(sni("\x00outer.example"), ext(0xfe0d, 0, 1)), hello{ServerName: "outer.example", Versions: []uint16{0x0303}, ECH: true}},
		"ESNI":            {one(ext(0xffce, 0, 1)), hello{Versions: []uint16{0x0303}, ECH: true}},
		"an address":      {one(sni("\x00192.0.2.1")), hello{ServerName: "192.0.2.1", Versions: []uint16{0x0303}}},
		"IPv6":            {one(sni("\x002001:db8::1")), hello{ServerName: "2001:db8::1", Versions: []uint16{0x0303}}},
		"255 signs":       {one(sni("\x00" + strings.Repeat("a", 255))), hello{ServerName: strings.Repeat("a", 255), Versions: []uint16{0x0303}}},
		"one byte each":   {records(message(sni("\x00a.example")), 1), hello{ServerName: "a.example", Versions: []uint16{0x0303}}},
		"as large as can": {records(message(sni("\x00a.example"), ext(21, make([]byte, 16<<10-70)...)), 64), hello{ServerName: "a.example", Versions: []uint16{0x0303}}},
	}
	for name, tt := range tests {
		h, err := peekHello(bufio.NewReaderSize(bytes.NewReader(tt.data), helloBufferSize))
		if err != nil || fmt.Sprint(h) != fmt.Sprint(tt.want) {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
	}
}

// TestBrokenOff checks that an incomplete hello is distinguished from a
// missing one, and from a reader's own error.
func TestBrokenOff(t *testing.T) {
	data := records(message(sni("\x00a.example")), 20)
	for n := range len(data) {
		want := io.ErrUnexpectedEOF
		if n == 0 {
			want = io.EOF
		}
		for _, end := range []error{want, iotest.ErrTimeout} {
			r := io.Reader(bytes.NewReader(data[:n]))
			if end == iotest.ErrTimeout {
				r = io.MultiReader(r, iotest.ErrReader(end))
			}
			if _, err := peekHello(bufio.NewReaderSize(r, helloBufferSize)); err != end {
				t.Errorf("after %d bytes: %v, want %v", n, err, end)
			}
		}
	}
}
