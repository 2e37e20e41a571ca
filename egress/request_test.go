package egress

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

func peek(text string) (requestHead, error) {
	return peekRequest(bufio.NewReaderSize(strings.NewReader(text), maxHead))
}

func TestPeek(t *testing.T) {
	tests := []struct{ name, head, want string }{
		{"absolute", "GET http://Web.TEST./a?b=c HTTP/1.1\r\nHost: web.test\r\n\r\n", "GET absolute web.test:80 /a?b=c 1.1 0"},
		{"absolute with port", "POST http://web.test:8080 HTTP/1.1\r\nHost: web.test:8080\r\nContent-Length: 12\r\n\r\n", "POST absolute web.test:8080 / 1.1 12"},
		{"query alone", "GET HTTP://web.test?x HTTP/1.1\r\nHost: web.test\r\n\r\n", "GET absolute web.test:80 /?x 1.1 0"},
		{"odd IPv4", "GET http://0x7f.1/ HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", "GET absolute 127.0.0.1:80 / 1.1 0"},
		{"IPv6", "GET http://[::FFFF:1.2.3.4]:80/ HTTP/1.1\r\nHost: 1.2.3.4\r\n\r\n", "GET absolute 1.2.3.4:80 / 1.1 0"},
		{"IPv6 without port", "GET http://[::1]/ HTTP/1.1\r\nHost: [::1]\r\n\r\n", "GET absolute ::1:80 / 1.1 0"},
		{"old without host", "GET http://web.test/ HTTP/1.0\r\n\r\n", "GET absolute web.test:80 / 1.0 0"},
		{"origin", "PUT /a//b%2f?c HTTP/1.1\r\nhost: web.test\r\ntransfer-encoding: Chunked\r\n\r\n", "PUT origin web.test:0 /a//b%2f?c 1.1 -1"},
		{"origin without host", "GET / HTTP/1.0\r\n\r\n", "GET origin :0 / 1.0 0"},
		{"connect", "CONNECT web.test:443 HTTP/1.1\r\nHost: web.test:443\r\n\r\n", "CONNECT authority web.test:443  1.1 0"},
		{"connect with short host", "CONNECT web.test:443 HTTP/1.1\r\nHost: web.test\r\n\r\n", "CONNECT authority web.test:443  1.1 0"},
		{"connect without host", "CONNECT web.test:443 HTTP/1.1\r\n\r\n", "CONNECT authority web.test:443  1.1 0"},
		{"tabs and empty values", "GET / HTTP/1.1\r\nHost:\tweb.test \r\nX:\r\n\r\n", "GET origin web.test:0 / 1.1 0"},
		{"own method", "PROPFIND / HTTP/1.1\r\nHost: a\r\n\r\n", "PROPFIND origin a:0 / 1.1 0"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			forms := map[requestForm]string{requestOrigin: "origin", requestAbsolute: "absolute", requestAuthority: "authority"}
			for size, r := range map[string]io.Reader{"at once": strings.NewReader(tt.head), "bytewise": iotest.OneByteReader(strings.NewReader(tt.head))} {
				br := bufio.NewReader(r)
				h, err := peekRequest(br)
				if err != nil {
					t.Fatalf("%s: %v", size, err)
				}
				if got := fmt.Sprintf("%s %s %s:%d %s 1.%d %d", h.Method, forms[h.Form], h.Host, h.Port, h.Path, h.Minor, h.Length); got != tt.want || h.Size != len(tt.head) {
					t.Errorf("%s: %q, %d bytes, want %q", size, got, h.Size, tt.want)
				}
				if rest, _ := io.ReadAll(br); string(rest) != tt.head {
					t.Errorf("%s: something was consumed", size)
				}
			}
		})
	}
}

func TestPeekRefuses(t *testing.T) {
	get := func(fields string) string {
		return "GET http://web.test/ HTTP/1.1\r\nHost: web.test\r\n" + fields + "\r\n"
	}
	line := func(line string) string { return line + "\r\nHost: web.test\r\n\r\n" }
	tests := []struct {
		name, head string
		status     int
	}{
		{"bare LF", "GET http://web.test/ HTTP/1.1\nHost: web.test\n\n", 400},
		{"bare LF in a field", get("A: b\nC: d\r\n"), 400},
		{"LF first", "\nGET / HTTP/1.1\r\n\r\n", 400},
		{"empty line first", "\r\nGET http://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n", 400},
		{"bare CR", get("A: b\rC: d\r\n"), 400},
		{"CR CR LF", get("A: b\r\r\n"), 400},
		{"NUL", get("A: b\x00c\r\n"), 400},
		{"control", get("A: b\x01c\r\n"), 400},
		{"folding", get("A: b\r\n c\r\n"), 400},
		{"folding with a tab", get("A: b\r\n\tHost: c\r\n"), 400},
		{"blank before colon", get("A : b\r\n"), 400},
		{"no colon", get("Ab\r\n"), 400},
		{"no name", get(": b\r\n"), 400},
		{"odd name", get("A(b): c\r\n"), 400},
		{"name with UTF-8", get("\u00e4: c\r\n"), 400},
		{"second host", get("Host: web.test\r\n"), 400},
		{"other host", "GET http://web.test/ HTTP/1.1\r\nHost: other.test\r\n\r\n", 400},
		{"host with other port", "GET http://web.test:81/ HTTP/1.1\r\nHost: web.test\r\n\r\n", 400},
		{"no host", "GET http://web.test/ HTTP/1.1\r\n\r\n", 400},
		{"empty host", "GET / HTTP/1.1\r\nHost:\r\n\r\n", 400},
		{"list of hosts", "GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400},
		{"both lengths", get("Content-Length: 3\r\nTransfer-Encoding: chunked\r\n"), 400},
		{"two lengths", get("Content-Length: 3\r\nContent-Length: 3\r\n"), 400},
		{"list of lengths", get("Content-Length: 3, 3\r\n"), 400},
		{"signed length", get("Content-Length: +3\r\n"), 400},
		{"negative length", get("Content-Length: -3\r\n"), 400},
		{"hexadecimal length", get("Content-Length: 0x3\r\n"), 400},
		{"empty length", get("Content-Length:\r\n"), 400},
		{"huge length", get("Content-Length: 9999999999999999999\r\n"), 400},
		{"other coding", get("Transfer-Encoding: gzip, chunked\r\n"), 501},
		{"odd coding", get("Transfer-Encoding: xchunked\r\n"), 501},
		{"coding with a vertical tab", get("Transfer-Encoding: \x0bchunked\r\n"), 400},
		{"coding twice", get("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n"), 501},
		{"coding in 1.0", "POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400},
		{"version 2", line("GET / HTTP/2.0"), 505},
		{"version 1.2", line("GET / HTTP/1.2"), 505},
		{"version of another", line("GET / FTP/1.1"), 400},
		{"no version", line("GET /"), 400},
		{"four words", line("GET / x HTTP/1.1"), 400},
		{"two blanks", line("GET  / HTTP/1.1"), 400},
		{"tab for blank", line("GET\t/ HTTP/1.1"), 400},
		{"odd method", line("GE(T / HTTP/1.1"), 400},
		{"long method", line(strings.Repeat("A", 33) + " / HTTP/1.1"), 400},
		{"https", line("GET https://web.test/ HTTP/1.1"), 400},
		{"ftp", line("GET ftp://web.test/ HTTP/1.1"), 400},
		{"no scheme", line("GET web.test/ HTTP/1.1"), 400},
		{"star", line("OPTIONS * HTTP/1.1"), 400},
		{"authority without connect", line("GET web.test:80 HTTP/1.1"), 400},
		{"user", line("GET http://u:p@web.test/ HTTP/1.1"), 400},
		{"user hides host", line("GET http://web.test@other.test/ HTTP/1.1"), 400},
		{"fragment", line("GET http://web.test/#a HTTP/1.1"), 400},
		{"backslash host", line(`GET http://web.test\@other.test/ HTTP/1.1`), 400},
		{"encoded host", line("GET http://web%2etest/ HTTP/1.1"), 400},
		{"zone", line("GET http://[fe80::1%25eth0]/ HTTP/1.1"), 400},
		{"no closing bracket", line("GET http://[::1/ HTTP/1.1"), 400},
		{"IPv6 without brackets", line("GET http://::1/ HTTP/1.1"), 400},
		{"empty port", line("GET http://web.test:/ HTTP/1.1"), 400},
		{"port 0", line("GET http://web.test:0/ HTTP/1.1"), 400},
		{"large port", line("GET http://web.test:65616/ HTTP/1.1"), 400},
		{"named port", line("GET http://web.test:http/ HTTP/1.1"), 400},
		{"UTF-8 host", line("GET http://b\u00fccher.test/ HTTP/1.1"), 400},
		{"no authority", line("GET http:///x HTTP/1.1"), 400},
		{"connect without port", line("CONNECT web.test HTTP/1.1"), 400},
		{"connect to a URL", line("CONNECT http://web.test/ HTTP/1.1"), 400},
		{"connect with another host", "CONNECT web.test:443 HTTP/1.1\r\nHost: other.test:443\r\n\r\n", 400},
		{"connect with a body", "CONNECT web.test:443 HTTP/1.1\r\nContent-Length: 1\r\n\r\n", 400},
		{"connect to NUL", "CONNECT evil\x00.web.test:443 HTTP/1.1\r\n\r\n", 400},
		{"many fields", get(strings.Repeat("A: b\r\n", maxFields)), 431},
		{"large", get("A: " + strings.Repeat("b", maxHead) + "\r\n"), 431},
		{"large without end", "GET /" + strings.Repeat("b", 2*maxHead), 431},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h, err := peek(tt.head)
			var e *requestError
			if !errors.As(err, &e) || e.Status != tt.status {
				t.Fatalf("%+v %v, want status %d", h, err, tt.status)
			}
			if strings.ContainsAny(e.Reason, "\r\n\x00") || len(e.Reason) > 300 {
				t.Errorf("the reason is not fit to be shown: %q", e.Reason)
			}
		})
	}
}

// TestPeekEarly checks that a head that can only become an error is one at
// once, so that the proxy does not wait for the rest.
func TestPeekEarly(t *testing.T) {
	for _, head := range []string{"GET / HTTP/1.1\nHost", "\n", "GET\x00", "GET / HTTP/1.1\rX"} {
		r, w := io.Pipe()
		go w.Write([]byte(head)) // and never an end
		var e *requestError
		if _, err := peekRequest(bufio.NewReader(r)); !errors.As(err, &e) {
			t.Errorf("%q: %v", head, err)
		}
		r.Close()
	}
}

func TestPeekEnds(t *testing.T) {
	if _, err := peek(""); err != io.EOF {
		t.Errorf("nothing: %v", err)
	}
	if _, err := peek("GET / HT"); err != io.ErrUnexpectedEOF {
		t.Errorf("half: %v", err)
	}
	long := "GET / HTTP/1.1\r\nHost: a\r\nA: " + strings.Repeat("b", 8<<10) + "\r\n\r\n"
	if _, err := peekRequest(bufio.NewReader(strings.NewReader(long))); err != bufio.ErrBufferFull {
		t.Errorf("small buffer: %v", err)
	}
	if h, err := peek(long + "rest"); err != nil || h.Size != len(long) {
		t.Errorf("large buffer: %v, %d bytes", err, h.Size)
	}
}

// FuzzPeek compares accepted heads with net/http: it reads the same.
func FuzzPeek(f *testing.F) {
	for _, head := range []string{
		"GET http://web.test/a?b HTTP/1.1\r\nHost: web.test\r\n\r\n",
		"POST /x HTTP/1.1\r\nHost: [::1]:80\r\nContent-Length: 3\r\n\r\nabc",
		"PUT / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTrailer: X\r\n\r\n0\r\n\r\n",
		"CONNECT 0x7f.1:443 HTTP/1.0\r\n\r\n",
		"GET http://a//b HTTP/1.1\r\nHost: a:80\r\nConnection: close\r\n\r\n",
	} {
		f.Add(head)
	}
	f.Fuzz(func(t *testing.T, text string) {
		br := bufio.NewReaderSize(strings.NewReader(text), maxHead)
		h, err := peekRequest(br)
		if err != nil {
			return
		}
		req, err := http.ReadRequest(br)
		if err != nil {
			return // refused all the same
		}
		if req.Method != h.Method || req.ContentLength != h.Length || req.ProtoMinor != h.Minor || req.ProtoMajor != 1 {
			t.Fatalf("%+v, net/http has %s %d 1.%d", h, req.Method, req.ContentLength, req.ProtoMinor)
		}
		switch h.Form {
		case requestAuthority:
			same(t, h, req.RequestURI, h.Port)
		case requestAbsolute:
			same(t, h, req.URL.Host, 80)
			same(t, h, req.Host, 80)
			fallthrough
		case requestOrigin:
			if got := req.URL.RequestURI(); !strings.EqualFold(clean(got), clean(h.Path)) {
				t.Fatalf("path %q, net/http has %q", h.Path, got)
			}
			if h.Form == requestOrigin && (req.Host != "" || !h.Host.IsZero()) {
				same(t, h, req.Host, 0)
			}
		}
	})
}

// clean reverts the changes of net/http to an accepted path: characters that
// it escapes although they need none.
func clean(path string) string {
	p, q, _ := strings.Cut(path, "?")
	for _, c := range "\"<>[]^`{|}\\%!'()*" {
		p = strings.ReplaceAll(p, fmt.Sprintf("%%%02X", c), string(c))
	}
	return p + "?" + q
}

// same compares a host of net/http with that of the head.
func same(t *testing.T, h requestHead, host string, missing uint16) {
	t.Helper()
	named, port, err := network.ParseTarget(host)
	if err != nil {
		port = missing
		named, err = network.Canonical(host)
	}
	if err != nil || named != h.Host || port != h.Port {
		t.Fatalf("host %s:%d, net/http has %q", h.Host, h.Port, host)
	}
}
