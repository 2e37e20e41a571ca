package attack_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/bulkhead-dev/sandbox/browser/display"
)

// A client is a hostile client of the DevTools protocol with the token. Only
// the container's isolation restricts it, not package page.
type client struct {
	t      testing.TB
	ctx    context.Context
	served display.Served
	conn   *websocket.Conn

	gone chan struct{} // closed with the connection

	mu      sync.Mutex
	last    int
	waiting map[int]chan message
	events  []message
}

// callTime is how long a browser has for an answer. Some targets never give
// one.
const callTime = 30 * time.Second

// A message of the protocol, in either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

type object = map[string]any

// client starts a CDP proxy for the browser of a request, and connects.
func (r *rig) client(t testing.TB, req display.Request) *client {
	t.Helper()
	s, err := r.Serve(patient(t), req)
	must(t, err)
	t.Cleanup(func() { s.Close() })
	ctx, done := context.WithCancel(context.Background()) // each call has its own bound
	t.Cleanup(done)
	c := &client{t: t, ctx: ctx, served: s, waiting: map[int]chan message{}, gone: make(chan struct{})}
	c.conn, _, err = websocket.Dial(c.ctx, s.WebSocketDebuggerURL, nil)
	must(t, err)
	c.conn.SetReadLimit(64 << 20)
	var reading sync.WaitGroup
	reading.Go(c.read)
	t.Cleanup(func() {
		_ = c.conn.CloseNow()
		reading.Wait()
	})
	return c
}

// read passes answers to the waiting calls, and keeps events.
func (c *client) read() {
	defer close(c.gone)
	for {
		_, text, err := c.conn.Read(c.ctx)
		if err != nil {
			return
		}
		var m message
		if json.Unmarshal(text, &m) != nil {
			continue
		}
		c.mu.Lock()
		if m.ID == 0 {
			c.events = append(c.events, m)
		} else if to := c.waiting[m.ID]; to != nil {
			to <- m
			delete(c.waiting, m.ID)
		}
		c.mu.Unlock()
	}
}

// call does one thing and waits for the answer, which it puts into result.
func (c *client) call(session, method string, params object, result any) error {
	return c.callWithin(callTime, session, method, params, result)
}

func (c *client) callWithin(most time.Duration, session, method string, params object, result any) error {
	c.t.Helper()
	if params == nil {
		params = object{}
	}
	raw, err := json.Marshal(params)
	must(c.t, err)
	answer := make(chan message, 1)
	c.mu.Lock()
	c.last++
	m := message{ID: c.last, Session: session, Method: method, Params: raw}
	c.waiting[m.ID] = answer
	c.mu.Unlock()
	text, err := json.Marshal(m)
	must(c.t, err)
	ctx, done := context.WithTimeout(c.ctx, most)
	defer done()
	if err := c.conn.Write(ctx, websocket.MessageText, text); err != nil {
		return err
	}
	late := time.NewTimer(most)
	defer late.Stop()
	select {
	case m = <-answer:
	case <-c.gone:
		return errors.New("the browser has ended")
	case <-late.C:
		return errors.New("the browser does not answer")
	}
	switch {
	case m.Error != nil:
		return errors.New(m.Error.Message)
	case result != nil:
		return json.Unmarshal(m.Result, result)
	}
	return nil
}

// must is call, and fails the test on an error.
func (c *client) must(session, method string, params object, result any) {
	c.t.Helper()
	if err := c.call(session, method, params, result); err != nil {
		c.t.Fatalf("%s: %v", method, err)
	}
}

// page opens a page at an address, and returns its target and session.
func (c *client) page(address string) (target, session string) {
	c.t.Helper()
	var made struct{ TargetID string }
	c.must("", "Target.createTarget", object{"url": address}, &made)
	return made.TargetID, c.attach(made.TargetID)
}

func (c *client) attach(target string) (session string) {
	c.t.Helper()
	var a struct{ SessionID string }
	c.must("", "Target.attachToTarget", object{"targetId": target, "flatten": true}, &a)
	return a.SessionID
}

func (c *client) closePage(target string) {
	c.t.Helper()
	_ = c.call("", "Target.closeTarget", object{"targetId": target}, nil)
}

// eval returns the value of an expression in a page as decoded JSON. ok is
// false if it throws, or if the page is gone.
func (c *client) eval(session, expression string) (value any, ok bool) {
	c.t.Helper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails any
	}
	err := c.call(session, "Runtime.evaluate", object{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &r)
	return r.Result.Value, err == nil && r.ExceptionDetails == nil
}

// text is what eval returns, where that is text.
func (c *client) text(session, expression string) string {
	c.t.Helper()
	v, _ := c.eval(session, expression)
	s, _ := v.(string)
	return s
}

// shows waits until the text is on the page.
func (c *client) shows(session, text string) {
	c.t.Helper()
	await(c.t, "the page shows "+text, func() bool {
		return strings.Contains(c.text(session, "document.documentElement ? document.documentElement.textContent : ''"), text)
	})
}
