package server_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// TestHeads holds which requests are refused because two readers may disagree
// about where they end, whatever precedes them on their connection, and that
// nothing after them is carried out.
func TestHeads(t *testing.T) {
	h := open(t, plan{})
	const good = "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
	post := func(headers, body string) string {
		return "POST /healthz HTTP/1.1\r\nHost: localhost\r\n" + headers + "\r\n" + body
	}
	chunks := "5\r\nhello\r\n0\r\n\r\n"
	tests := []struct {
		name, sent string
		want       []int
	}{
		{"one", good, []int{200}},
		{"three at once", good + good + good, []int{200, 200, 200}},
		{"a body, and then another", post("Content-Length: 5\r\n", "hello") + "\r\n" + good, []int{401, 200}},
		{"the same length twice", post("Content-Length: 5\r\nContent-length: 5\r\n", "hello") + good, []int{401, 200}},
		{"chunks, which are the last", post("Transfer-Encoding: Chunked\r\n", chunks) + good, []int{401}},
		{"another protocol that is not spoken", "GET /healthz HTTP/1.1\r\nHost: localhost\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n" + good, []int{200}},
		{"length and chunks", post("Content-Length: 5\r\nTransfer-Encoding: chunked\r\n", chunks) + good, []int{400}},
		{"chunks and length, behind another", good + post("transfer-encoding: chunked\r\ncontent-length: 15\r\n", chunks) + good, []int{200, 400}},
		{"length and chunks behind a body", post("Content-Length: 5\r\n", "hello") + post("Content-Length: 0\r\nTransfer-Encoding: chunked\r\n", chunks), []int{401, 400}},
		{"two lengths", post("Content-Length: 5\r\nContent-Length: 6\r\n", "hello!"), []int{400}},
		{"a list of lengths", post("Content-Length: 5, 5\r\n", "hello"), []int{400}},
		{"a length with a sign", post("Content-Length: +5\r\n", "hello"), []int{400}},
		{"a length below nothing", post("Content-Length: -1\r\n", ""), []int{400}},
		{"an endless length", post("Content-Length: 99999999999999999999\r\n", ""), []int{400}},
		{"chunked and identity", post("Transfer-Encoding: chunked, identity\r\n", chunks), []int{400}},
		{"identity", post("Transfer-Encoding: identity\r\n", chunks), []int{400}},
		{"chunked twice", post("Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n", chunks), []int{400}},
		{"hidden by a tab", post("Transfer-Encoding:\tchunked\r\nContent-Length: 5\r\n", chunks), []int{400}},
		{"hidden by a vertical tab", post("Transfer-Encoding: \x0bchunked\r\n", chunks), []int{400}},
		{"a folded header", post("X: a\r\n b\r\n", ""), []int{400}},
		{"a folded encoding", post("X: a\r\n\tTransfer-Encoding: chunked\r\nContent-Length: 5\r\n", "hello"), []int{400}},
		{"a line that ends with LF", "GET /healthz HTTP/1.1\r\nHost: localhost\nX: y\r\n\r\n", []int{400}},
		{"an empty line that ends with LF", "GET /healthz HTTP/1.1\r\nHost: localhost\r\n\n", []int{400}},
		{"LF alone", "GET /healthz HTTP/1.1\nHost: localhost\n\n", []int{400}},
		{"a CR in a line", post("X: a\rContent-Length: 5\r\n", ""), []int{400}},
		{"a space before the colon", post("Content-Length : 5\r\n", "hello"), []int{400}},
		{"a tab before the colon", post("Transfer-Encoding\t: chunked\r\n", chunks), []int{400}},
		{"no colon", post("hello\r\n", ""), []int{400}},
		{"chunks in HTTP/1.0", strings.Replace(post("Transfer-Encoding: chunked\r\n", chunks), "1.1", "1.0", 1), []int{400}},
		{"another version", strings.Replace(good, "1.1", "1.2", 1) + good, []int{400}},
		{"too long a head", post("X: "+strings.Repeat("x", 64<<10)+"\r\n", ""), []int{431}},
	}
	for _, tt := range tests {
		for _, slow := range []bool{false, true} {
			name := tt.name
			if slow {
				name += ", byte by byte"
			}
			if slow && len(tt.sent) > 1<<10 {
				continue
			}
			t.Run(name, func(t *testing.T) {
				c, err := net.Dial("tcp", h.addr)
				must(t, err)
				defer c.Close()
				must(t, c.SetDeadline(time.Now().Add(20*time.Second)))
				go func() {
					step := len(tt.sent)
					if slow {
						step = 1
					}
					for rest := tt.sent; rest != ""; rest = rest[min(step, len(rest)):] {
						if _, err := io.WriteString(c, rest[:min(step, len(rest))]); err != nil {
							return // refused before the end
						}
					}
					_ = c.(*net.TCPConn).CloseWrite()
				}()
				in := bufio.NewReader(c)
				var got []int
				for {
					res, err := http.ReadResponse(in, nil)
					if err != nil {
						break
					}
					body, _ := io.ReadAll(res.Body)
					res.Body.Close()
					got = append(got, res.StatusCode)
					if res.StatusCode == 400 && (!strings.Contains(string(body), "VALIDATION") || !res.Close) {
						t.Errorf("the refusal is %s %s", res.Header, body)
					}
				}
				if len(got) != len(tt.want) {
					t.Fatalf("answered with %v, want %v", got, tt.want)
				}
				for i := range got {
					if got[i] != tt.want[i] {
						t.Errorf("answered with %v, want %v", got, tt.want)
					}
				}
			})
		}
	}
}
