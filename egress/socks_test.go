package egress

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"
)

// join makes one text of bytes and strings.
func join(parts ...any) string {
	var b strings.Builder
	for _, p := range parts {
		switch p := p.(type) {
		case int:
			b.WriteByte(byte(p))
		case string:
			b.WriteString(p)
		}
	}
	return b.String()
}

func TestSocksRead(t *testing.T) {
	plain := "\x05\x01\x00"
	tests := []struct{ name, in, target, user, out string }{
		{"name", join(plain, 5, 1, 0, 3, 9, "Web.TEST.", 1, 187), "web.test:443", "", "\x05\x00"},
		{"IPv4", join(plain, 5, 1, 0, 1, 1, 2, 3, 4, 0, 80), "1.2.3.4:80", "", "\x05\x00"},
		{"IPv6", join(plain, 5, 1, 0, 4, strings.Repeat("\x00", 15), 1, 0, 80), "[::1]:80", "", "\x05\x00"},
		{"mapped IPv4", join(plain, 5, 1, 0, 4, strings.Repeat("\x00", 10), 255, 255, 1, 2, 3, 4, 0, 80), "1.2.3.4:80", "", "\x05\x00"},
		{"odd IPv4 as a name", join(plain, 5, 1, 0, 3, 6, "0x7f.1", 0, 80), "127.0.0.1:80", "", "\x05\x00"},
		{"user", join(5, 2, 0, 2, 1, 2, "me", 3, "key", 5, 1, 0, 1, 1, 2, 3, 4, 0, 80), "1.2.3.4:80", "me:key", "\x05\x02\x01\x00"},
		{"empty user", join(5, 1, 2, 1, 0, 0, 5, 1, 0, 1, 1, 2, 3, 4, 0, 80), "1.2.3.4:80", ":", "\x05\x02\x01\x00"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			r := strings.NewReader(tt.in + "next")
			q, err := readSocks(r, &out)
			if err != nil {
				t.Fatal(err)
			}
			user := ""
			if strings.Contains(tt.user, ":") {
				user = q.User + ":" + q.Password
			}
			if q.Host.Target(q.Port) != tt.target || user != tt.user || out.String() != tt.out {
				t.Errorf("%+v, answered %q", q, out.String())
			}
			if rest, _ := io.ReadAll(r); string(rest) != "next" {
				t.Errorf("left %q", rest)
			}
		})
	}
}

func TestReadRefuses(t *testing.T) {
	plain := "\x05\x01\x00"
	tests := []struct {
		name, in string
		reply    socksReply
		asked    bool
	}{
		{"BIND", join(plain, 5, 2, 0, 1, 1, 2, 3, 4, 0, 80), commandUnsupported, true},
		{"UDP", join(plain, 5, 3, 0, 1, 1, 2, 3, 4, 0, 80), commandUnsupported, true},
		{"port 0", join(plain, 5, 1, 0, 1, 1, 2, 3, 4, 0, 0), notAllowed, true},
		{"NUL in the name", join(plain, 5, 1, 0, 3, 3, "a\x00b", 0, 80), notAllowed, true},
		{"empty name", join(plain, 5, 1, 0, 3, 0, 0, 80), notAllowed, true},
		{"kind of address", join(plain, 5, 1, 0, 2, 0, 0), addressUnsupported, true},
		{"version of the request", join(plain, 4, 1, 0, 1, 1, 2, 3, 4, 0, 80), socksFailed, true},
		{"reserved byte", join(plain, 5, 1, 1, 1, 1, 2, 3, 4, 0, 80), socksFailed, true},
		{"GSSAPI only", "\x05\x01\x01", socksFailed, false},
		{"no method", "\x05\x00", socksFailed, false},
		{"SOCKS4", "\x04\x01\x00", socksFailed, false},
		{"version of the credentials", join(5, 1, 2, 5, 1, "a", 1, "b"), socksFailed, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := readSocks(strings.NewReader(tt.in), io.Discard)
			var e *socksError
			if !errors.As(err, &e) || e.Reply != tt.reply || e.Asked != tt.asked {
				t.Errorf("%+v %v", e, err)
			}
		})
	}
	whole := join(5, 2, 0, 2, 1, 2, "me", 3, "key", 5, 1, 0, 3, 1, "a", 0, 80)
	for n := range len(whole) {
		var e *socksError
		if _, err := readSocks(strings.NewReader(whole[:n]), io.Discard); err == nil || errors.As(err, &e) {
			t.Errorf("%d of %d bytes: %v", n, len(whole), err)
		}
	}
}

func FuzzRead(f *testing.F) {
	f.Add([]byte("\x05\x01\x00\x05\x01\x00\x03\x01a\x00\x50"))
	f.Add([]byte("\x05\x02\x00\x02\x01\x01a\x01b\x05\x01\x00\x01\x01\x02\x03\x04\x00\x50"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		q, err := readSocks(bytes.NewReader(in), &out)
		if err == nil && (q.Host.IsZero() || q.Port == 0) {
			t.Errorf("%+v is no target", q)
		}
		if out.Len() > 4 {
			t.Errorf("answered %d bytes to a handshake", out.Len())
		}
	})
}
