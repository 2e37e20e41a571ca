package auth

import (
	"context"
	"net"
	"net/http"
	"testing"

	"github.com/bulkhead-dev/sandbox"
)

func TestAdmit(t *testing.T) {
	arrivedAt := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 7), Port: 8080}
	tests := []struct {
		name    string
		unix    bool
		host    string
		headers [][2]string
		refused string // the field at fault, or empty
	}{
		{"localhost", false, "localhost:8080", nil, ""},
		{"localhost without a port", false, "LOCALHOST", nil, ""},
		{"loopback address", false, "127.0.0.1:8080", nil, ""},
		{"another loopback address", false, "127.1.2.3:1", nil, ""},
		{"loopback of six", false, "[::1]:8080", nil, ""},
		{"address it came in at", false, "192.0.2.7:8080", nil, ""},
		{"listed name", false, "Sandbox.Example.COM:443", nil, ""},
		{"listed name with a final dot", false, "sandbox.example.com.", nil, ""},
		{"foreign name", false, "evil.example:8080", nil, "Host"},
		{"name that ends like ours", false, "evil.sandbox.example.com", nil, "Host"},
		{"name that begins like ours", false, "localhost.evil.example", nil, "Host"},
		{"another address", false, "192.0.2.8:8080", nil, "Host"},
		{"number for an address", false, "2130706433:8080", nil, "Host"},
		{"short address", false, "127.1:8080", nil, "Host"},
		{"mapped address", false, "[::ffff:127.0.0.1]:8080", nil, "Host"},
		{"unspecified address", false, "0.0.0.0:8080", nil, "Host"},
		{"six without brackets", false, "::1", nil, "Host"},
		{"four in brackets", false, "[127.0.0.1]:8080", nil, "Host"},
		{"port that is none", false, "localhost:80x", nil, "Host"},
		{"user before the host", false, "localhost@evil.example", nil, "Host"},
		{"no host", false, "", nil, "Host"},
		{"own origin", false, "localhost:8080", [][2]string{{"Origin", "http://localhost:8080"}}, ""},
		{"own origin over TLS", false, "sandbox.example.com", [][2]string{{"Origin", "https://sandbox.example.com"}}, ""},
		{"another port of this machine", false, "localhost:8080", [][2]string{{"Origin", "http://localhost:3000"}}, "Origin"},
		{"another site", false, "localhost:8080", [][2]string{{"Origin", "https://evil.example"}}, "Origin"},
		{"no origin's name", false, "localhost:8080", [][2]string{{"Origin", "null"}}, "Origin"},
		{"empty origin", false, "localhost:8080", [][2]string{{"Origin", ""}}, "Origin"},
		{"origin with a user", false, "localhost:8080", [][2]string{{"Origin", "http://evil@localhost:8080"}}, "Origin"},
		{"origin of an extension", false, "localhost:8080", [][2]string{{"Origin", "chrome-extension://localhost:8080"}}, "Origin"},
		{"own origin and another", false, "localhost:8080", [][2]string{{"Origin", "http://localhost:8080"}, {"Origin", "http://evil.example"}}, "Origin"},
		{"rebound page", false, "evil.example:8080", [][2]string{{"Origin", "http://evil.example:8080"}}, "Host"},
		{"image of another site", false, "localhost:8080", [][2]string{{"Sec-Fetch-Site", "cross-site"}}, "Origin"},
		{"page of a site beside us", false, "localhost:8080", [][2]string{{"Sec-Fetch-Site", "same-site"}}, "Origin"},
		{"typed by a person", false, "localhost:8080", [][2]string{{"Sec-Fetch-Site", "none"}}, ""},
		{"any host on a socket", true, "whatever", nil, ""},
		{"origin on a socket", true, "localhost", [][2]string{{"Origin", "http://localhost"}}, "Origin"},
		{"origin of a listed host on a socket", true, "sandbox.example.com", [][2]string{{"Origin", "https://sandbox.example.com"}}, ""},
		{"other origin on a socket", true, "sandbox.example.com", [][2]string{{"Origin", "https://evil.example"}}, "Origin"},
		{"page on a socket", true, "localhost", [][2]string{{"Sec-Fetch-Site", "cross-site"}}, "Origin"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ctx := context.WithValue(t.Context(), http.LocalAddrContextKey, net.Addr(arrivedAt))
			if tt.unix {
				ctx = context.WithValue(t.Context(), peerKey{}, peer{uid: 0, known: true})
			}
			r := (&http.Request{Host: tt.host, Header: http.Header{}}).WithContext(ctx)
			for _, h := range tt.headers {
				r.Header.Add(h[0], h[1])
			}
			err := Admit(r, []string{"sandbox.example.com"})
			if tt.refused == "" {
				if err != nil {
					t.Errorf("refused: %v", err)
				}
				return
			}
			wantCode(t, err, sandbox.CodePermissionDeny, tt.refused)
			if _, ok := Challenge(err); ok {
				t.Error("the refusal asks for a token, which would not help")
			}
		})
	}
}
