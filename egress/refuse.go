package egress

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A refusal is the proxy's own response to a request.
type refusal struct {
	status              int
	rule, message, hint string
}

// denied returns the response for a request that the policy denies.
func denied(d network.Decision) refusal { return refusal{403, d.Rule, d.Message, d.Hint} }

// exhausted returns the response for an exceeded limit.
func exhausted(err error) refusal {
	r := refusal{429, "limits", "the sandbox has used up what it may use of the network", "raise the limits of the network in the settings"}
	switch {
	case errors.Is(err, errConnections):
		r = refusal{503, "limits.connections", "the sandbox has as many connections open as it may, and as many wait for their turn as may, or this one did so for too long", "close some first, or raise network.limits.connections in the settings"}
	case errors.Is(err, errTotal):
		r.rule, r.message = "limits.total", "the sandbox's time for the network is over"
	case errors.Is(err, errBytesIn):
		r.rule = "limits.bytesIn"
	case errors.Is(err, errBytesOut):
		r.rule = "limits.bytesOut"
	}
	return r
}

// explain returns the response for a dial error. If the host's addresses were
// refused, it also returns the decision and the address.
func explain(err error) (r refusal, refused *network.Decision, addr netip.AddrPort) {
	var (
		denied      *dialRefused
		unresolved  *dialUnresolved
		unreachable *dialUnreachable
		untrusted   *tls.CertificateVerificationError
	)
	r = refusal{502, "reach", "the host ended the connection before it answered", "try again later"}
	switch {
	case errors.As(err, &denied):
		d := denied.Decision
		return refusal{403, d.Rule, d.Message, d.Hint}, &d, denied.Addr
	case errors.As(err, &unresolved):
		r = refusal{502, "lookup", unresolved.Error(), "check the name of the host"}
		if unresolved.Timeout {
			r.status = 504
		}
	case errors.As(err, &unreachable):
		r.message, addr = unreachable.Error(), unreachable.Addr
		if unreachable.Timeout {
			r.status = 504
		}
	case errors.As(err, &untrusted):
		r = refusal{502, "tls", "the certificate of the host is not trusted, or is one of another host", "see what certificate the host has"}
	case timedOut(err), errors.Is(err, context.DeadlineExceeded):
		r.status, r.message = 504, "the host did not answer in time"
	}
	return r, nil, addr
}

// reason returns the reason phrase of the response.
func (r refusal) reason() string {
	if r.status == 403 {
		return printable("Blocked by sandbox: "+r.rule, 120)
	}
	return printable("Sandbox: "+r.rule, 120)
}

// bytes returns the whole response. For a HEAD request it has no body.
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

// printable returns s in a form fit for a header, a log and a terminal: ASCII
// of one line and at most n bytes.
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

// targetText formats a host and port as policy/network does.
func targetText(host string, port uint16) string {
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return host + ":" + strconv.Itoa(int(port))
}
