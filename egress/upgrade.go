package egress

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"strings"

	"github.com/bulkhead-dev/sandbox/policy/network"
)

// upgrades reports whether the request asks to become a websocket. For other
// protocols the Upgrade field is removed when the request is sent.
func upgrades(req *http.Request) bool {
	if req.Method != http.MethodGet || req.Body != http.NoBody || !strings.EqualFold(req.Header.Get("Upgrade"), "websocket") {
		return false
	}
	for _, field := range req.Header["Connection"] {
		for name := range strings.SplitSeq(field, ",") {
			if strings.EqualFold(strings.TrimSpace(name), "upgrade") {
				return true
			}
		}
	}
	return false
}

// upgrade sends the request on a connection of its own, and copies the bytes
// after it if the host agrees.
func (x *exchange) upgrade(d network.Decision) {
	conn, at, err := x.session.plane.o.Dialer.Dial(x.own, x.host, x.port, x.session.dialJudge(x.host))
	if err != nil {
		x.failed(d, err)
		return
	}
	defer conn.Close()
	stop := context.AfterFunc(x.own, func() { conn.Close() })
	defer stop()
	x.access.event.Addr = at
	if !x.access.decide(d) {
		x.answer(denied(x.access.barred))
		return
	}
	if x.scope.secure {
		over := tls.Client(conn, x.session.outerTLS(x.host.String()))
		conn = over
		ctx, cancel := context.WithTimeout(x.own, headTime)
		defer cancel()
		if err := over.HandshakeContext(ctx); err != nil {
			x.failed(d, err)
			return
		}
	}
	head := &io.LimitedReader{R: conn, N: maxAnswerHead}
	br := bufio.NewReader(head)
	resp, err := x.ask(conn, br)
	head.N = math.MaxInt64
	if err != nil {
		x.failed(d, err)
		return
	}
	if resp.StatusCode != http.StatusSwitchingProtocols {
		x.relay(resp)
		return
	}
	x.switched(conn, br, resp)
}

// ask sends the request and reads the answer's head.
func (x *exchange) ask(conn net.Conn, br *bufio.Reader) (*http.Response, error) {
	out, err := x.outgoing(x.own)
	if err != nil {
		return nil, err
	}
	out.Header.Set("Connection", "Upgrade")
	out.Header.Set("Upgrade", "websocket")
	if err := out.Write(conn); err != nil {
		return nil, err
	}
	for range 5 {
		resp, err := http.ReadResponse(br, out)
		if err != nil || resp.StatusCode >= 200 || resp.StatusCode == http.StatusSwitchingProtocols {
			return resp, err
		}
	}
	return nil, errors.New("the host answers without end")
}

// switched copies both directions once the host has agreed.
func (x *exchange) switched(conn net.Conn, br *bufio.Reader, resp *http.Response) {
	x.keep = false
	dropHops(resp.Header)
	if x.bound {
		x.session.o.Secrets.ScrubHeader(resp.Header)
	}
	resp.Header.Set("Connection", "Upgrade")
	resp.Header.Set("Upgrade", "websocket")
	w := &tally{w: x.line.conn}
	bw := bufio.NewWriter(w)
	fmt.Fprintf(bw, "HTTP/1.1 101 Switching Protocols\r\n")
	resp.Header.Write(bw)
	bw.WriteString("\r\n")
	early, _ := br.Peek(br.Buffered()) // frames received with the response
	bw.Write(early)
	err := bw.Flush()
	x.in = w.n
	if err != nil {
		x.end(resp.StatusCode, err)
		return
	}
	inside, first := x.inside()
	x.still.Stop() // the pump enforces the idle time
	in, out, err := pumpPair{Inside: inside, Outside: conn, First: first, Meter: x.session.meter}.Run(x.ctx)
	x.in += in
	x.access.end(ending{status: resp.StatusCode, in: x.in, out: int64(x.head.Size) + out, err: errText(err)})
}

// inside returns the program's connection and its unused buffered bytes.
func (x *exchange) inside() (net.Conn, []byte) {
	first := x.line.rest()
	x.line.bottom.metered(false)
	x.line.bottom.clear()
	if x.line.conn == net.Conn(x.line.bottom) {
		return x.raw, first
	}
	return x.line.conn, first
}
