package browser

import (
	"bytes"
	"errors"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/sirupsen/logrus"

	"github.com/bulkhead-dev/sandbox"
)

func TestTooManyClients(t *testing.T) {
	b := openProxy(t, newChromium(t), func(o *ProxyOptions) { o.Limits.Clients = 2 })
	ctx := soon(t)
	address, err := b.WebSocket(ctx)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		ws, _, err := websocket.Dial(ctx, address, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ws.CloseNow() }()
	}
	if status, _, _ := proxySay(t, b, "GET /{T}/json/version HTTP/1.1\nHost: {A}\n\n"); status != 503 {
		t.Errorf("status %d, want 503", status)
	}
	if status, _, _ := proxySay(t, b, "GET /json/version HTTP/1.1\nHost: {A}\n\n"); status != 401 {
		t.Errorf("without token: status %d, want 401", status)
	}
}

// TestWrongTokens checks that a client that guesses tokens is refused with
// 429, that the right token is accepted all the same, and that the count is
// reset a minute later.
func TestWrongTokens(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	b := openProxy(t, newChromium(t), func(o *ProxyOptions) {
		o.Limits.WrongTokens = 3
		o.Now = func() time.Time { return now }
	})
	const guess = "GET /AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA/json HTTP/1.1\nHost: {A}\n\n"
	const right = "GET /{T}/json HTTP/1.1\nHost: {A}\n\n"
	for i, step := range []struct {
		request string
		want    int
	}{{guess, 401}, {guess, 401}, {right, 200}, {guess, 401}, {guess, 429}, {right, 200}, {guess, 429}} {
		if status, _, _ := proxySay(t, b, step.request); status != step.want {
			t.Errorf("step %d: status %d, want %d", i, status, step.want)
		}
	}
	now = now.Add(window)
	if status, _, _ := proxySay(t, b, guess); status != 401 {
		t.Errorf("a minute later: status %d, want 401", status)
	}
}

// TestWrongTokensOfMany checks that the table is bounded, and that all
// loopback addresses count as one peer.
func TestWrongTokensOfMany(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	w := &wrong{now: func() time.Time { return now }, max: 2, peers: map[netip.Addr]tally{}}
	for i := range 3 {
		if got := w.tooMany(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)})); got != (i == 2) {
			t.Errorf("loopback address %d: %v", i, got)
		}
	}
	for i := range 2 * maxPeers {
		w.tooMany(netip.AddrFrom4([4]byte{10, 0, byte(i >> 8), byte(i)}))
	}
	if len(w.peers) != maxPeers || !w.tooMany(netip.MustParseAddr("192.0.2.1")) {
		t.Errorf("%d peers are kept, and one more is let try", len(w.peers))
	}
	now = now.Add(window)
	if w.tooMany(netip.MustParseAddr("192.0.2.1")) || len(w.peers) != 1 {
		t.Errorf("a minute later %d peers are kept", len(w.peers))
	}
}

func TestSlowHead(t *testing.T) {
	b := openProxy(t, newChromium(t), func(o *ProxyOptions) { o.Limits.HeaderTimeout = 50 * time.Millisecond })
	c, err := net.Dial("tcp", b.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := io.WriteString(c, "GET /"+b.Token()+"/json HTTP/1.1\r\nHost: "); err != nil {
		t.Fatal(err)
	}
	_ = c.SetReadDeadline(time.Now().Add(proxyWithin))
	if _, err = io.Copy(io.Discard, c); proxyIsLate(err) {
		t.Error("a head that never ends is waited for")
	}
}

func TestTooManyConnections(t *testing.T) {
	b := openProxy(t, newChromium(t), func(o *ProxyOptions) { o.Limits.Conns = 2 })
	var conns []net.Conn
	for range 3 {
		c, err := net.Dial("tcp", b.server.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.Close() }()
		conns = append(conns, c)
	}
	_ = conns[2].SetReadDeadline(time.Now().Add(proxyWithin))
	if _, err := conns[2].Read(make([]byte, 1)); err == nil || proxyIsLate(err) {
		t.Errorf("the third connection is kept: %v", err)
	}
}

// proxyIsLate reports whether err is a timeout.
func proxyIsLate(err error) bool {
	var late net.Error
	return errors.As(err, &late) && late.Timeout()
}

func TestBadToken(t *testing.T) {
	for _, text := range []string{"short", strings.Repeat("a", 31), strings.Repeat("a", 129), strings.Repeat("a", 40) + "/", strings.Repeat("a", 40) + "\n"} {
		if _, err := OpenProxy(ProxyOptions{Token: text}); sandbox.CodeOf(err) != sandbox.CodeValidation || strings.Contains(err.Error(), text) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// TestLogs checks that neither log nor errors contain the token.
func TestLogs(t *testing.T) {
	var text bytes.Buffer
	log := logrus.New()
	log.SetOutput(&text)
	log.SetLevel(logrus.TraceLevel)
	c := newChromium(t)
	b := openProxy(t, c, func(o *ProxyOptions) { o.Log = log })
	c.set(func() { c.fail = errors.New("the engine is away") })
	resp, err := http.Get(b.URL() + "json/version")
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(resp.Body)
	_ = resp.Body.Close()
	_, failure := b.WebSocket(soon(t))
	c.set(func() { c.fail = proxyGone() })
	proxySay(t, b, "GET /{T}/json/version HTTP/1.1\nHost: {A}\n\n")
	waitDone(t, b)
	if !strings.Contains(text.String(), "engine is away") || !strings.Contains(string(body), "engine is away") {
		t.Errorf("log %q and answer %q do not tell what happened", text.String(), body)
	}
	for _, s := range []string{text.String(), string(body), failure.Error()} {
		if strings.Contains(s, b.Token()) {
			t.Errorf("the token is in %q", s)
		}
	}
}
