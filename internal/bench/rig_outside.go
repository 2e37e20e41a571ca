//go:build linux

package main

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/bulkhead-dev/sandbox"
	"github.com/bulkhead-dev/sandbox/egress"
	"github.com/bulkhead-dev/sandbox/policy/network"
)

// An Outside is what sandboxes fetch from, on loopback, and the proxy that
// lets them.
type rigOutside struct {
	Web  string // address of a web server
	Meet string // address of a server that answers when as many as are expected are there

	plane   *egress.Plane
	policy  *network.Policy
	meeting *meeting
}

// OpenOutside starts the servers and the proxy; Close ends them.
func (r *rig) OpenOutside() (*rigOutside, error) {
	if r.outside != nil {
		return r.outside, nil
	}
	web, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	meet, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, web.Close())
	}
	o := &rigOutside{Web: web.Addr().String(), Meet: meet.Addr().String(), meeting: newMeeting()}
	server := &http.Server{Handler: http.HandlerFunc(serve), ReadHeaderTimeout: time.Minute}
	go server.Serve(web)
	go o.meeting.serve(meet)
	r.later(func(context.Context) error { return errors.Join(server.Close(), meet.Close()) })
	// Both a program that asks for a host and one that wants any bytes.
	o.policy, err = network.New(network.Options{Allowed: []string{o.Web, "tcp://" + o.Web, "tcp://" + o.Meet}})
	if err != nil {
		return nil, err
	}
	o.plane = egress.New(egress.Options{Dialer: egress.NewDialer(egress.DialerOptions{})})
	r.later(func(context.Context) error { return o.plane.Close() })
	r.outside = o
	return o, nil
}

// Open opens an egress session for sb and returns the proxy's address inside.
func (o *rigOutside) Open(ctx context.Context, sb sandbox.Sandbox, name string) (addr string, w *egress.Session, err error) {
	listener, ok := sb.(sandbox.Listener)
	if !ok {
		return "", nil, sandbox.Errorf(sandbox.CodeUnsupported, "open a way out", "the sandbox cannot listen")
	}
	l, err := listener.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	w, err = o.plane.Open(l, egress.SessionOptions{Sandbox: name, Policy: o.policy})
	if err != nil {
		return "", nil, errors.Join(err, l.Close())
	}
	return l.Addr().String(), w, nil
}

// Expect makes the server of Meet wait for so many. When the last is there,
// then is called before anybody is answered, unless it is nil.
func (o *rigOutside) Expect(n int, then func()) { o.meeting.expect(n, then) }

// serve answers with two bytes, or with as many zero bytes as are asked for.
func serve(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/zeros" {
		io.WriteString(w, "ok")
		return
	}
	n, err := strconv.ParseInt(r.FormValue("n"), 10, 64)
	if err != nil {
		http.Error(w, "n is a number", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Length", strconv.FormatInt(n, 10))
	for chunk := make([]byte, 256<<10); n > 0; n -= int64(len(chunk)) {
		if _, err := w.Write(chunk[:min(n, int64(len(chunk)))]); err != nil {
			return
		}
	}
}

// A meeting is a number of connections that are answered when all are there.
type meeting struct {
	mu    sync.Mutex
	left  int
	then  func()
	ready chan struct{}
}

func newMeeting() *meeting { return &meeting{ready: make(chan struct{})} }

func (m *meeting) expect(n int, then func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.then, m.ready = n, then, make(chan struct{})
}

// arrive counts one more and returns what is closed when all are there.
func (m *meeting) arrive() <-chan struct{} {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.left--; m.left == 0 {
		if m.then != nil {
			m.then()
		}
		close(m.ready)
	}
	return m.ready
}

func (m *meeting) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go func() {
			defer c.Close()
			hello := make([]byte, 1)
			if _, err := io.ReadFull(c, hello); err != nil {
				return
			}
			all := m.arrive()
			gone := make(chan struct{})
			go func() { defer close(gone); c.Read(make([]byte, 1)) }()
			select {
			case <-all:
				c.Write([]byte("!"))
				<-gone
			case <-gone:
			}
		}()
	}
}
