package operation

import (
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress/proxy"
	"github.com/bulkhead-dev/sandbox/grant"
	"github.com/bulkhead-dev/sandbox/grant/budget"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// most is what an answer of the fuzz test may have.
const fetchMost = 5000

// FuzzAnswer checks what is true of every answer, whatever a host sends.
func FuzzAnswer(f *testing.F) {
	const ok = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n"
	for _, s := range []string{
		ok + "Content-Length: 5\r\n\r\nhello", ok + "Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\nX: y\r\n\r\n", ok + "\r\nuntil the end",
		"HTTP/1.1 103 Early Hints\r\nLink: </a>\r\n\r\n" + ok + "\r\nx", "HTTP/1.1 302 Found\r\nLocation: //other.test/\r\n\r\n", "HTTP/1.1 204 No Content\r\n\r\n",
		ok + "Content-Encoding: gzip\r\n\r\nx", ok + "Link: \xff\u202e\r\n\r\nx", ok + "\r\n" + strings.Repeat("x", fetchMost+1), "HTTP/1.1 101 X\r\n\r\n", "junk",
	} {
		f.Add([]byte(s))
	}
	g := fuzzGuard(f)
	m, _, err := budget.Start(context.Background(), freely{}, budget.One(budget.Calls, 1))
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { m.End() })
	h, err := network.Canonical("files.test")
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, sent []byte) {
		before := m.Used().BytesIn
		x := &exchange{
			fetching: &fetching{call: &Call{Guard: g, Meter: m, Keep: 10}, profile: g.Profile(), caller: noCaller{}},
			v:        grant.Vetted{Operation: grant.Operation{Kind: grant.OpNetHTTP, Method: "GET", URL: "https://files.test/"}, Host: h, Port: 443},
			conn:     answering{bytes.NewReader(sent)},
		}
		resp, err := x.head(&http.Request{Method: "GET"})
		if err != nil {
			err = x.failed(t.Context(), err)
		} else {
			err = x.take(t.Context(), resp)
		}
		known := []sandbox.Code{"", sandbox.CodeCapabilityBlocked, sandbox.CodeUnavailable, sandbox.CodeExecution}
		if !slices.Contains(known, sandbox.CodeOf(err)) {
			t.Errorf("%v", err)
		}
		if n := x.effect.BytesIn; n > fetchMost || n != m.Used().BytesIn-before || n != x.out.Digest.Size || len(x.out.Data) > 10 {
			t.Errorf("%d bytes are told of, %d counted, %d in the digest", n, m.Used().BytesIn-before, x.out.Digest.Size)
		}
		text, jsonErr := json.Marshal(x.out)
		if jsonErr != nil || strings.ContainsAny(string(text), "\x1b\u202e\ufffd") {
			t.Errorf("%q, %v", text, jsonErr)
		}
	})
}

func fuzzGuard(f *testing.F) *grant.Guard {
	now := time.Now()
	all := []grant.Capability{{Kind: grant.NetHTTP, Host: "*.test", Methods: []string{"GET"}}}
	p, err := grant.Build(
		grant.Grant{
			ID: "g", Tenant: "t", Subject: "s", Tool: "t", Call: "c", DecisionKey: "d", Capabilities: all, Budget: budget.NoBound(), Issued: now, Expires: now.Add(time.Hour),
		},
		grant.Manifest{Tool: "t", Version: "1.0.0", Safety: grant.SafetyLow, Capabilities: all},
		grant.Policy{Version: "1", Capabilities: all, Mappings: grant.Mappings{Root: "/w", Tmp: "/t"}, Limits: grant.Limits{MaxBytesIn: fetchMost}, Lists: grant.Lists{MIME: []string{"text/*"}}}, now)
	if err != nil {
		f.Fatal(err)
	}
	g, err := grant.Compile(p)
	if err != nil {
		f.Fatal(err)
	}
	return g
}

// freely is a source that has everything.
type freely struct{}

func (freely) Reserve(context.Context, budget.Amount) (budget.Reservation, error) {
	return freely{}, nil
}
func (freely) Held() budget.Amount { return budget.NoBound() }
func (freely) More(_ context.Context, _, want budget.Amount) (budget.Amount, error) {
	return want, nil
}
func (freely) Settle(context.Context, budget.Amount) error { return nil }

// The type implements a caller to which nothing was refused.
type noCaller struct{}

func (noCaller) Env() map[string]string       { return nil }
func (noCaller) Waited() *sandbox.Waited      { return nil }
func (noCaller) End() []sandbox.Violation     { return nil }
func (noCaller) Refused() []sandbox.Violation { return nil }
func (noCaller) Reached() []proxy.Reached     { return nil }

// answering is a connection from which an answer comes.
type answering struct{ *bytes.Reader }

func (answering) Write(p []byte) (int, error)      { return len(p), nil }
func (answering) Close() error                     { return nil }
func (answering) LocalAddr() net.Addr              { return address{} }
func (answering) RemoteAddr() net.Addr             { return address{} }
func (answering) SetDeadline(time.Time) error      { return nil }
func (answering) SetReadDeadline(time.Time) error  { return nil }
func (answering) SetWriteDeadline(time.Time) error { return nil }
