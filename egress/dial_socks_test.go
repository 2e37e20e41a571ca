package egress

import (
	"bytes"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
)

// speaks returns a SOCKS proxy that expects and sends the texts of script, in
// turn, and then acts as the host: an echo. The texts are raw bytes.
func speaks(t testing.TB, script ...string) func(net.Conn) {
	return func(c net.Conn) {
		for i := 0; i < len(script); i += 2 {
			got := make([]byte, len(script[i]))
			if _, err := io.ReadFull(c, got); err != nil || !bytes.Equal(got, []byte(script[i])) {
				t.Errorf("%q came, not %q, %v", got, script[i], err)
				return
			}
			_, _ = io.WriteString(c, script[i+1])
		}
		_, _ = io.Copy(c, c)
	}
}

// request asks for the vetted address.
const request = "\x05\x01\x00\x01\xc6\x33\x64\x07\x01\xbb"

func TestThroughSOCKS(t *testing.T) {
	for name, tt := range map[string]struct {
		url    string
		script []string
	}{
		"open":              {"socks5://", []string{"\x05\x01\x00", "\x05\x00", request, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00" + greeting}},
		"by address anyway": {"socks5h://", []string{"\x05\x01\x00", "\x05\x00", request, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00" + greeting}},
		"bound to IPv6":     {"socks5://", []string{"\x05\x01\x00", "\x05\x00", request, "\x05\x00\x00\x04" + strings.Repeat("\x00", 18) + greeting}},
		"bound to a name":   {"socks5://", []string{"\x05\x01\x00", "\x05\x00", request, "\x05\x00\x00\x03\x01a\x00\x00" + greeting}},
		"credentials": {"socks5://user:p%40ss@", []string{
			"\x05\x01\x02", "\x05\x02", "\x01\x04user\x04p@ss", "\x01\x00", request, "\x05\x00\x00\x01\x00\x00\x00\x00\x00\x00" + greeting,
		}},
	} {
		t.Run(name, func(t *testing.T) {
			c, at, err := dialWith(t, t.Context(), "ALL_PROXY="+tt.url+proxied(t, speaks(t, tt.script...)), nil)
			if err != nil || at.String() != vetted {
				t.Fatalf("%v, %v", at, err)
			}
			if _, ok := c.(*net.TCPConn); !ok {
				t.Errorf("the connection is a %T", c)
			}
			echoes(t, c)
		})
	}
}

func TestSOCKSRefuses(t *testing.T) {
	greet := "\x05\x01\x00"
	for name, tt := range map[string]struct {
		url    string
		script []string
		want   string
	}{
		"no method":       {"", []string{greet, "\x05\xff"}, "wants other credentials"},
		"other method":    {"", []string{greet, "\x05\x02"}, "wants a login that was not offered"},
		"other version":   {"", []string{greet, "\x04\x00"}, "does not speak SOCKS5"},
		"HTTP":            {"", []string{greet, "HTTP/1.1 400 Bad Request\r\n\r\n"}, "does not speak SOCKS5"},
		"refused":         {"", []string{greet, "\x05\x00", request, "\x05\x02\x00\x01\x00\x00\x00\x00\x00\x00"}, "refused with reply 2"},
		"odd reply":       {"", []string{greet, "\x05\x00", request, "\x01\x00\x00\x01"}, "does not speak SOCKS5"},
		"odd bound":       {"", []string{greet, "\x05\x00", request, "\x05\x00\x00\x02"}, "does not speak SOCKS5"},
		"login refused":   {"u:s3cret@", []string{"\x05\x01\x02", "\x05\x02", "\x01\x01u\x06s3cret", "\x01\x01"}, "wants other credentials"},
		"login forgotten": {"u:s3cret@", []string{"\x05\x01\x02", "\x05\x00"}, "wants a login that was not offered"},
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := dialWith(t, t.Context(), "ALL_PROXY=socks5://"+tt.url+proxied(t, speaks(t, tt.script...)), nil)
			var unreachable *dialUnreachable
			if !errors.As(err, &unreachable) || !strings.HasSuffix(err.Error(), "the upstream proxy "+tt.want) || strings.Contains(err.Error(), "s3cret") {
				t.Errorf("%v", err)
			}
		})
	}
}
