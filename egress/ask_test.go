package egress_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// A clock is moved by the test.
type clock struct {
	mu sync.Mutex
	at time.Time
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.at
}

func (c *clock) forward(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.at = c.at.Add(d)
}

// A person answers questions.
type person struct {
	questions chan egress.Question
	answers   chan egress.Answer
	withdrawn chan struct{}
}

func (p *person) ask(ctx context.Context, q egress.Question) egress.Answer {
	p.questions <- q
	select {
	case a := <-p.answers:
		return a
	case <-ctx.Done():
		p.withdrawn <- struct{}{}
		return egress.Answer{}
	}
}

// openAsking returns a world where a person is asked about hosts below .test.
func openAsking(t *testing.T, port string) (*world, *person, *clock) {
	p := &person{make(chan egress.Question, 100), make(chan egress.Answer, 100), make(chan struct{}, 100)}
	c := &clock{at: time.Unix(1e9, 0)}
	var w *world
	w = open(t, network.Options{Ask: true, Allowed: []string{"127.0.0.1:" + port, "127.0.0.1:443"}}, func(po *egress.Options, o *egress.SessionOptions) {
		o.Ask, po.Now = p.ask, c.now
		o.Permitted = func(q egress.Question) (egress.Answer, bool) { return egress.Answer{Allowed: true}, w.permits(q.Host) }
	})
	return w, p, c
}

func TestAskOnce(t *testing.T) {
	port := serve(t, echo)
	w, p, c := openAsking(t, port)
	caller := w.session.Caller("cmd-1")
	get := "GET http://web.test:" + port + "/ HTTP/1.1\r\nHost: web.test:" + port + "\r\n\r\n"
	var programs sync.WaitGroup
	for range 8 {
		programs.Go(func() {
			conn := w.dial()
			io.WriteString(conn, get)
			if resp, err := http.ReadResponse(newReader(conn), nil); err != nil || resp.StatusCode != 200 {
				t.Errorf("%v %v", resp, err)
			}
		})
	}
	q := <-p.questions
	if q.Host != "web.test" || fmt.Sprint(q.Port) != port || q.Method != "GET" || q.Reason == "" || w.names.count("web.test") != 0 {
		t.Errorf("%+v, %d lookups", q, w.names.count("web.test"))
	}
	for until := time.Now().Add(patience); w.session.Waiting() < 8 && time.Now().Before(until); {
		runtime.Gosched() // nothing signals that a program waits
	}
	p.answers <- egress.Answer{Allowed: true, Rule: "allowed for the session"}
	programs.Wait()
	for _, d := range w.wait(8, decisions) {
		if d.Rule != "allowed for the session" {
			t.Errorf("%+v", d)
		}
	}
	if len(p.questions) != 0 {
		t.Errorf("%d more questions", len(p.questions))
	}
	p.answers <- egress.Answer{Note: "not \x1bthat"}
	for range 3 { // only one of them asks
		resp, b := w.raw(get)
		if resp.StatusCode != 403 || !contains(b, `not \x1bthat`) {
			t.Errorf("%s %q", resp.Status, b)
		}
	}
	if n := len(p.questions); n != 1 || w.plane.Counters().Asked != 2 {
		t.Errorf("%d questions about a host that was refused", n)
	}
	c.forward(time.Minute)
	p.answers <- egress.Answer{Allowed: true}
	if resp, _ := w.raw(get); resp.StatusCode != 200 {
		t.Errorf("a no stands after a minute: %s", resp.Status)
	}
	if len(caller.Refused()) != 0 {
		t.Error("refusals of somebody else are the command's")
	}
}

func TestAskRate(t *testing.T) {
	w, p, c := openAsking(t, "1")
	ask := func(i int) (*http.Response, string) {
		return w.raw(fmt.Sprintf("CONNECT h%d.test:443 HTTP/1.1\r\n\r\n", i))
	}
	for i := range 10 {
		p.answers <- egress.Answer{}
		ask(i)
	}
	if resp, b := ask(10); resp.StatusCode != 403 || !contains(b, "too many questions") || len(p.questions) != 10 {
		t.Errorf("%s %q, %d questions", resp.Status, b, len(p.questions))
	}
	w.permit("h11.test")
	if resp, _ := ask(11); resp.StatusCode != 502 || len(p.questions) != 10 {
		t.Errorf("a host that was permitted before: %s, %d questions", resp.Status, len(p.questions))
	}
	c.forward(time.Minute)
	p.answers <- egress.Answer{}
	if ask(10); len(p.questions) != 11 {
		t.Errorf("%d questions after a minute", len(p.questions))
	}
}

// TestAskHangUp checks that a question is withdrawn when its last waiting
// request ends.
func TestAskHangUp(t *testing.T) {
	port := serve(t, echo)
	w, p, _ := openAsking(t, port)
	for i, in := range []string{"CONNECT web.test:443 HTTP/1.1\r\n\r\n", "GET http://web.test/ HTTP/1.1\r\nHost: web.test\r\n\r\n"} {
		conn := w.dial()
		io.WriteString(conn, in)
		<-p.questions
		conn.Close()
		<-p.withdrawn
		w.wait(i+1, refusals)
	}
	conn := w.dial()
	io.WriteString(conn, "CONNECT web.test:443 HTTP/1.1\r\n\r\n")
	<-p.questions // a question that was withdrawn is asked again
	w.session.Close()
	<-p.withdrawn
}

// TestAskTunnel checks that one question is asked for a tunnel.
func TestAskTunnel(t *testing.T) {
	port := serve(t, echo)
	w, p, _ := openAsking(t, port)
	p.answers <- egress.Answer{Allowed: true}
	conn, br := w.connect("web.test:" + port)
	for range 2 {
		fmt.Fprintf(conn, "GET / HTTP/1.1\r\nHost: web.test:%s\r\n\r\n", port)
		if resp, b := w.answer(br, "GET"); resp.StatusCode != 200 {
			t.Errorf("%s %q", resp.Status, b)
		}
	}
	if len(p.questions) != 1 {
		t.Errorf("%d questions", len(p.questions))
	}
}

func TestNobodyToAsk(t *testing.T) {
	w := open(t, network.Options{Ask: true})
	if resp, b := w.raw("CONNECT web.test:443 HTTP/1.1\r\n\r\n"); resp.StatusCode != 403 || !contains(b, "approvals cannot be asked for") {
		t.Errorf("%s %q", resp.Status, b)
	}
}
