package egress

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A refusal is the proxy's own answer to a request.
type refusal struct {
	status              int
	rule, message, hint string
}

// denied is the answer to what the policy does not let pass.
func denied(d network.Decision) refusal { return refusal{403, d.Rule, d.Message, d.Hint} }

// reason is the reason phrase of the answer.
func (r refusal) reason() string {
	if r.status == 403 {
		return printable("Blocked by sandbox: "+r.rule, 120)
	}
	return printable("Sandbox: "+r.rule, 120)
}

// bytes is the whole answer. Without body it is that to a HEAD.
func (r refusal) bytes(closes, head bool) []byte {
	var body strings.Builder
	fmt.Fprintf(&body, "%s\nrule: %s\n", printable(r.message, 400), printable(r.rule, 200))
	if r.hint != "" {
		fmt.Fprintf(&body, "hint: %s\n", printable(r.hint, 400))
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\nX-Sandbox-Rule: %s\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: %d\r\n",
		r.status, r.reason(), printable(r.rule, 200), body.Len())
	if closes {
		b.WriteString("Connection: close\r\n")
	}
	b.WriteString("\r\n")
	if !head {
		b.WriteString(body.String())
	}
	return []byte(b.String())
}

// printable makes s fit for a header, a log and a terminal: ASCII of one line
// and at most n bytes.
func printable(s string, n int) string {
	q := strconv.QuoteToASCII(s)
	q = q[1 : len(q)-1]
	if strings.ContainsAny(s, `"\`) && plain(s) {
		q = s
	}
	if len(q) > n {
		q = q[:n-3] + "..."
	}
	return q
}

// plain reports whether s is printable ASCII.
func plain(s string) bool {
	for i := range len(s) {
		if c := s[i]; c < ' ' || c > '~' {
			return false
		}
	}
	return true
}

// targetText writes a host and port as policy/network does.
func targetText(host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}
