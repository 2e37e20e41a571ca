package attack

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestFields checks which fields of a request reach the host.
func TestFields(t *testing.T) {
	r := egressNewRig(t, setup{secret: []string{testenv.Echo}})
	at := r.net.At("http", testenv.Echo)
	for name, k := range map[string]*talk{
		"direct": newTalk(r.dial()), "tunnel": r.connect(at), "intercepted": r.intercepted(testenv.Echo),
	} {
		url, host := "", at
		if name == "direct" {
			url = "http://" + at
		} else if name == "intercepted" {
			host = r.net.At("https", testenv.Echo)
		}
		fmt.Fprintf(k, "POST %s/x?y HTTP/1.1\r\nHost: %s\r\nProxy-Authorization: Basic YTpi\r\nPROXY-CONNECTION: keep-alive\r\nKeep-Alive: 5\r\nTE: trailers, chunked\r\n"+
			"Connection: X-Hop, Cookie,  X-Blank \r\nConnection: X-Second\r\nX-Hop: a\r\nX-Blank: a\r\nX-Second: a\r\nCookie: a\r\nUpgrade: h2c\r\nExpect: 100-continue\r\n"+
			"Content-Length: 5\r\nX-Keep: a\r\nX-Keep: b\r\nAuthorization: c\r\n\r\nhello", url, host)
		status, body, _ := k.answer("POST")
		for status == 100 {
			status, body, _ = k.answer("POST")
		}
		for _, gone := range []string{"Proxy-", "Keep-Alive", "Te:", "Connection", "X-Hop", "X-Blank", "X-Second", "Cookie", "Upgrade", "Expect", "Via", "Forwarded", "User-Agent"} {
			if strings.Contains(body, "\r\n"+gone) || strings.Contains(body, "\n"+gone) {
				t.Errorf("%s: the host got %s: %s", name, gone, body)
			}
		}
		for _, kept := range []string{"POST /x?y\n", "Host: " + host + "\n", "X-Keep: a\r\n", "X-Keep: b\r\n", "Authorization: c\r\n", "\nhello"} {
			if status != 200 || !strings.Contains(body, kept) {
				t.Errorf("%s: the host did not get %q: %d %s", name, kept, status, body)
			}
		}
	}
}

// TestAbsoluteInTunnel checks that within a tunnel only the Host field may
// name the host, even the right one.
func TestAbsoluteInTunnel(t *testing.T) {
	r := egressNewRig(t, setup{secret: []string{testenv.Files}})
	for _, c := range carriers() {
		if !c.fixed {
			continue
		}
		k, at := c.open(r), r.net.At(c.scheme, testenv.Files)
		fmt.Fprintf(k, "GET http://%s/greeting.txt HTTP/1.1\r\nHost: %s\r\n\r\n", at, at)
		if status, body, closes := k.answer("GET"); status != 400 || !closes {
			t.Errorf("%s: %d %s", c.name, status, body)
		}
	}
}

// TestUnasked checks that "100 Continue" is not sent for a refused request.
func TestUnasked(t *testing.T) {
	r := egressNewRig(t, setup{})
	at := r.net.At("http", testenv.Other)
	for _, length := range []string{"Content-Length: 1000000", "Transfer-Encoding: chunked"} {
		k := newTalk(r.dial())
		fmt.Fprintf(k, "POST http://%[1]s/ HTTP/1.1\r\nHost: %[1]s\r\nExpect: 100-Continue\r\n%[2]s\r\n\r\n", at, length)
		if status, body, closes := k.answer("POST"); status != 403 || !closes {
			t.Errorf("%d %s", status, body)
		}
		if rest, _ := io.ReadAll(k.br); len(rest) != 0 {
			t.Errorf("%q", rest)
		}
	}
}

// TestSwitchTells has a host that knows the secret from an earlier request
// return it while it accepts a websocket.
func TestSwitchTells(t *testing.T) {
	var known atomic.Value
	r := openSafe(t, func(w http.ResponseWriter, q *http.Request) {
		if q.Header.Get("Upgrade") == "" {
			known.Store(q.Header.Get("X-Token"))
			return
		}
		c, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer c.Close()
		fmt.Fprintf(c, "HTTP/1.1 101 %[1]s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\nX-Token: %[1]s\r\n\r\n", known.Load())
	})
	r.inside(t, "GET / HTTP/1.1")
	k := r.intercepted("bound.test")
	fmt.Fprintf(k, "GET / HTTP/1.1\r\nHost: %s\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n", r.net.At("https", "bound.test"))
	back, _ := io.ReadAll(k.br)
	if text := string(back); !strings.HasPrefix(text, "HTTP/1.1 101 ") || egressLeaks(text) {
		t.Errorf("%q", text)
	}
	if known.Load() != value {
		t.Errorf("the host was sent %q", known.Load())
	}
}

// TestUnsearchable checks that a request with the secret is refused if its
// response could not be searched.
func TestUnsearchable(t *testing.T) {
	r := openSafe(t, func(http.ResponseWriter, *http.Request) { t.Error("the host was asked") })
	for _, head := range []string{"TRACE / HTTP/1.1\r\n", "GET / HTTP/1.1\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n", "GET / HTTP/1.1\r\nConnection: x, UPGRADE\r\nUpgrade: websocket\r\n"} {
		before, k := r.count(), r.intercepted("bound.test")
		fmt.Fprintf(k, "%sHost: %s\r\nX-Token: %s\r\n\r\n", head, r.net.At("https", "bound.test"), r.standIn)
		if status, body, _ := k.answer("GET"); status != 403 {
			t.Errorf("%q: %d %s", head, status, body)
		}
		if e := r.refusals(before, 1)[0]; e.Rule != "secret" {
			t.Errorf("%q: %+v", head, e)
		}
	}
}
