package egress_test

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/internal/testenv"
)

// TestQueue checks that connections beyond limits.connections are queued and
// all served, also if programs keep theirs open.
func TestQueue(t *testing.T) {
	port := serve(t, echo)
	host := "web.test:" + port
	w := open(t, allow(port, host), func(_ *egress.Options, o *egress.SessionOptions) { o.Limits = egress.Limits{Connections: 3} })
	get := "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	var all sync.WaitGroup
	for i := range 300 {
		conn := w.dial()
		if i%3 == 0 { // keeps the connection open for as long as the proxy does
			all.Go(func() {
				io.WriteString(conn, get)
				br := bufio.NewReader(conn)
				if resp, err := http.ReadResponse(br, nil); err != nil || resp.StatusCode != 200 {
					t.Errorf("connection %d, which is kept: %v %v", i, resp, err)
				} else {
					io.Copy(io.Discard, resp.Body)
				}
			})
			continue
		}
		all.Go(func() {
			defer conn.Close()
			io.WriteString(conn, replaced(get, "\r\n\r\n", "\r\nConnection: close\r\n\r\n"))
			if b, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")) {
				t.Errorf("connection %d: %q %v", i, b, err)
			}
		})
		if c := w.plane.Counters(); c.Open > 3 {
			t.Errorf("%d connections are served at once", c.Open)
		}
	}
	all.Wait()
	if c := w.plane.Counters(); c.RefusedConns != 0 || c.Waiting != 0 || c.Connections != 300 {
		t.Errorf("%+v", c)
	}
}

// TestQueueIsFull checks that every connection that finds no place in the
// queue, or is queued for too long, gets a response with a body, in its own
// protocol, and that its credentials identify the command.
func TestQueueIsFull(t *testing.T) {
	port := serve(t, echo)
	host := "web.test:" + port
	w := open(t, allow(port, host), func(_ *egress.Options, o *egress.SessionOptions) {
		o.Sandbox, o.Limits = unqueued, egress.Limits{Connections: 1}
	})
	one, two := w.session.Caller("one"), w.session.Caller("two")
	w.dial() // sends nothing and keeps the only place
	testenv.Until(t, "it is served", func() bool { return w.plane.Counters().Open == 1 })
	proxy, err := url.Parse(two.Env()["http_proxy"])
	if err != nil {
		t.Fatal(err)
	}
	token, _ := proxy.User.Password()
	get := "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host +
		"\r\nProxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("two:"+token)) + "\r\n\r\n"
	var all sync.WaitGroup
	for i := range 400 { // more than are answered at a time
		conn := w.dial()
		all.Go(func() {
			defer conn.Close()
			if i%8 == 0 {
				io.WriteString(conn, "\x05\x01\x00")
				if b, err := io.ReadAll(conn); string(b) != "\x05\xff" || err != nil {
					t.Errorf("by SOCKS: %q %v", b, err)
				}
				return
			}
			io.WriteString(conn, get)
			resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
			if err != nil {
				t.Errorf("connection %d: %v", i, err)
				return
			}
			if b, err := io.ReadAll(resp.Body); resp.StatusCode != 503 || !bytes.Contains(b, []byte("limits.connections")) || err != nil {
				t.Errorf("connection %d: %s %q %v", i, resp.Status, b, err)
			}
		})
	}
	all.Wait()
	if reported := two.Refused(); len(reported) == 0 || reported[0].Rule != "limits.connections" {
		t.Errorf("the command is told of %+v", reported)
	}
	if reported := one.Refused(); len(reported) != 0 {
		t.Errorf("a command that did not ask is told of %+v", reported)
	}
}

// TestQueueEnds checks that a queued connection gets a response when it has
// waited for too long and when a limit of bytes is exceeded, and that none is
// left when the Session is closed.
func TestQueueEnds(t *testing.T) {
	port := serve(t, echo)
	host := "web.test:" + port
	get := "GET http://" + host + "/ HTTP/1.1\r\nHost: " + host + "\r\n\r\n"
	waiting := func(name string, l egress.Limits) (w *world, first, second net.Conn) {
		l.Connections = 1
		w = open(t, allow(port, host), func(_ *egress.Options, o *egress.SessionOptions) { o.Sandbox, o.Limits = name, l })
		first = w.dial()
		testenv.Until(t, "the first is served", func() bool { return w.plane.Counters().Open == 1 })
		second = w.dial()
		io.WriteString(second, get)
		return w, first, second
	}
	answer := func(conn net.Conn) string {
		resp, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return err.Error()
		}
		return resp.Header.Get("X-Sandbox-Rule")
	}
	_, _, late := waiting(impatient, egress.Limits{})
	if got := answer(late); got != "limits.connections" {
		t.Errorf("waited for too long: %s", got)
	}
	w, first, second := waiting("box", egress.Limits{BytesOut: 10})
	testenv.Until(t, "the second waits", func() bool { return w.plane.Counters().Waiting == 1 })
	io.WriteString(first, get)
	if got := answer(second); got != "limits.bytesOut" {
		t.Errorf("beyond a limit: %s", got)
	}
	w, _, second = waiting("box", egress.Limits{})
	testenv.Until(t, "the second waits", func() bool { return w.plane.Counters().Waiting == 1 })
	w.session.Close()
	if b, err := io.ReadAll(second); len(b) != 0 {
		t.Errorf("closed: %q %v", b, err)
	}
	if c := w.plane.Counters(); c.Waiting != 0 || c.Open != 0 {
		t.Errorf("%+v", c)
	}
}

// TestQueueCreditsTheWait checks that the queueing time of connections is
// attributed to their command: by its credentials if there are several
// commands, otherwise to the only one.
func TestQueueCreditsTheWait(t *testing.T) {
	port := serve(t, echo)
	host := "web.test:" + port
	w := open(t, allow(port, host), func(_ *egress.Options, o *egress.SessionOptions) { o.Limits = egress.Limits{Connections: 1} })
	one := w.session.Caller("one")
	const wait = 300 * time.Millisecond
	queued := func(field string) {
		t.Helper()
		first := w.dial() // sends nothing and keeps the only place
		testenv.Until(t, "it is served", func() bool { return w.plane.Counters().Open == 1 })
		conn := w.dial()
		testenv.Until(t, "the other one waits", func() bool { return w.plane.Counters().Waiting == 1 })
		began := time.Now()
		testenv.Until(t, "it has waited", func() bool { return time.Since(began) >= wait })
		first.Close()
		io.WriteString(conn, "GET http://"+host+"/ HTTP/1.1\r\nHost: "+host+field+"\r\nConnection: close\r\n\r\n")
		if b, err := io.ReadAll(conn); err != nil || !bytes.HasPrefix(b, []byte("HTTP/1.1 200 ")) {
			t.Fatalf("%q %v", b, err)
		}
		testenv.Until(t, "it has ended", func() bool { return w.plane.Counters().Open == 0 })
	}
	queued("")
	if got := one.Waited(); got.Connections != 1 || got.Time < wait || got.Time > time.Minute {
		t.Errorf("the only command: %+v", got)
	}
	two := w.session.Caller("two")
	queued("")
	proxy, err := url.Parse(two.Env()["http_proxy"])
	if err != nil {
		t.Fatal(err)
	}
	token, _ := proxy.User.Password()
	queued("\r\nProxy-Authorization: Basic " + base64.StdEncoding.EncodeToString([]byte("two:"+token)))
	if got := one.Waited(); got.Connections != 1 {
		t.Errorf("a command that did not wait: %+v", got)
	}
	if got := two.Waited(); got.Connections != 1 || got.Time < wait {
		t.Errorf("the command of the credentials: %+v", got)
	}
	w.dial() // is served at once, and nothing more is noted
	testenv.Until(t, "it is served", func() bool { return w.plane.Counters().Open == 1 })
	if got := two.Waited(); got.Connections != 1 {
		t.Errorf("one that did not wait counts: %+v", got)
	}
}
